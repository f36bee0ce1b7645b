/* text_check.c: reads models (ONNX or text) and checks that parse(print(m)) = m and print(parse(print(m))) = print(m).
 * Further words in pairs: --text OUT and --onnx OUT write what was read, --like FILE compares with another model.
 *
 *     text_check model.onnx --text model.onnxt --like other.onnxt */
#include "compiler/onnx/onnx.h"
#include "compiler/base/base.h"
#include "compiler/text/text.h"
#include "same.h"
#include <stdlib.h>
#include <string.h>

static tc_status fail(const char *file, const char *what) {
    fprintf(stderr, "%s: %s\n", file, what);
    return TC_MISMATCH;
}

static tc_status print(tc_ctx *ctx, const tc_model *model, char **out_text, size_t *out_size) {
    FILE *out = open_memstream(out_text, out_size);
    tc_status status = tc_print_model(ctx, model, out);
    fclose(out);
    return status;
}

/* Frees what it makes. */
static tc_status check_round_trip(tc_ctx *ctx, const char *file, const tc_model *model) {
    char *text = NULL, *again = NULL;
    size_t size = 0, size_again = 0;
    tc_model *parsed = NULL;
    tc_status status = print(ctx, model, &text, &size);
    if (status == TC_OK)
        status = tc_parse_text(ctx, text, size, "printed", &parsed);
    if (status == TC_OK)
        status = print(ctx, parsed, &again, &size_again);
    const char *difference = status == TC_OK ? same_models(ctx->arena, model, parsed) : NULL;
    if (difference)
        status = fail(file, tc_arena_printf(ctx->arena, "parse(print(m)) differs at %s", difference));
    else if (status == TC_OK && (size != size_again || memcmp(text, again, size) != 0))
        status = fail(file, "printing twice gives two texts");
    tc_model_destroy(parsed);
    free(text);
    free(again);
    return status;
}

static tc_status compare(tc_ctx *ctx, const char *file, const tc_model *model, const char *other_file) {
    tc_model *other = NULL;
    TC_TRY(tc_read_file(ctx, other_file, &other));
    const char *difference = same_models(ctx->arena, model, other);
    tc_model_destroy(other);
    return difference ? fail(file, tc_arena_printf(ctx->arena, "differs from %s at %s", other_file, difference))
                      : TC_OK;
}

static tc_status write_text(tc_ctx *ctx, const tc_model *model, const char *path) {
    tc_out_file *out = NULL;
    TC_TRY(tc_out_open(ctx, path, &out));
    TC_TRY(tc_print_model(ctx, model, tc_out_stream(out)));
    return tc_out_commit(ctx, out);
}

static tc_status run(tc_ctx *ctx, int argc, char **argv, tc_model **out_model) {
    TC_TRY(tc_read_file(ctx, argv[1], out_model));
    TC_TRY(check_round_trip(ctx, argv[1], *out_model));
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--text") == 0)
            TC_TRY(write_text(ctx, *out_model, argv[i + 1]));
        else if (strcmp(argv[i], "--onnx") == 0)
            TC_TRY(tc_write_onnx(ctx, *out_model, argv[i + 1]));
        else if (strcmp(argv[i], "--like") == 0)
            TC_TRY(compare(ctx, argv[1], *out_model, argv[i + 1]));
        else
            return tc_error(ctx, TC_USAGE, NULL, "unknown word '%s'", argv[i]);
    }
    return TC_OK;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc % 2)
        return TC_USAGE;
    tc_ctx ctx;
    tc_model *model = NULL;
    tc_ctx_init(&ctx, "text_check");
    tc_status status = run(&ctx, argc, argv, &model);
    tc_diags_print(&ctx, stderr);
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
    return status;
}
