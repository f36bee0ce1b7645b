/* fuzz_text.c: any bytes -> parser of ONNX text -> verifier -> printer -> parser. Nothing may crash, leak or hang; what
 * was parsed must verify, and what was printed must be parsed to the same model and printed the same. A text that
 * starts with 'F' is parsed as one function, and 'I' inlines all calls first. */
#include "test/text/same.h"
#include "compiler/text/text.h"
#include "compiler/ir/verify.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good, tc_ctx *ctx, const char *what) {
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    tc_diags_print(ctx, stderr);
    abort();
}

typedef struct text {
    char *data;
    size_t size;
} text;

static text print(tc_ctx *ctx, const tc_model *model) {
    text out = {NULL, 0};
    FILE *stream = open_memstream(&out.data, &out.size);
    tc_status status = tc_print_model(ctx, model, stream);
    fclose(stream);
    must(status == TC_OK && ctx->n_diags == 0, ctx, "can't print what was parsed");
    return out;
}

static void check_again(tc_ctx *ctx, const tc_model *model) {
    text first = print(ctx, model);
    tc_model *again = NULL;
    tc_status status = tc_parse_text(ctx, first.data, first.size, "printed", &again);
    must(status == TC_OK, ctx, "can't parse what was printed");
    const char *difference = same_models(ctx->arena, model, again);
    must(!difference, ctx, difference);
    text second = print(ctx, again);
    must(first.size == second.size && memcmp(first.data, second.data, first.size) == 0, ctx,
         "printed twice, differently");
    free(second.data);
    tc_model_destroy(again);
    free(first.data);
}

static void parse_function(tc_ctx *ctx, const char *words) {
    tc_model *model = tc_model_create();
    tc_function *function = NULL;
    if (tc_parse_function(ctx, model, words, "fuzz", &function) == TC_OK && *function->domain)
        tc_model_add_function(model, function);
    tc_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tc_ctx ctx;
    tc_model *model = NULL;
    tc_ctx_init(&ctx, "fuzz_text");
    char *words = malloc(size + 1); /* a copy of exact size: reading behind the end shows */
    memcpy(words, data, size);
    words[size] = '\0';
    char mode = size ? words[0] : '\0';
    if (mode == 'F') {
        parse_function(&ctx, words + 1);
    } else {
        size_t skip = mode == 'I';
        tc_status status = tc_parse_text(&ctx, words + skip, size - skip, "fuzz", &model);
        must((status == TC_OK) == (model != NULL), &ctx, "status and model disagree");
        must(status == TC_OK || ctx.n_diags == 1, &ctx, "refused without exactly one diagnostic");
        if (model) {
            must(tc_verify(&ctx, model) == TC_OK, &ctx, "parsed, but does not verify");
            if (mode != 'I') {
                check_again(&ctx, model);
            } else if (tc_inline_all(&ctx, model->graph, NULL, NULL, NULL) == TC_OK) {
                must(tc_verify(&ctx, model) == TC_OK, &ctx, "inlined, but does not verify");
            }
        }
    }
    free(words);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
    return 0;
}
