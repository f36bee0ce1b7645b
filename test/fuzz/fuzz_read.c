/* fuzz_read.c: any bytes -> reader -> verifier -> writer. Nothing may crash, leak or hang; what was read must verify;
 * what was written must read again (unless it became so much smaller that its structures pass the memory limit) and be
 * written the same. */
#include "compiler/onnx/onnx.h"
#include "compiler/ir/verify.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct text {
    char *data;
    size_t size;
} text;

static void must(bool good, tc_ctx *ctx, const char *what) {
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    tc_diags_print(ctx, stderr);
    abort();
}

static text write_model(tc_ctx *ctx, const tc_model *model) {
    text out = {NULL, 0};
    FILE *stream = open_memstream(&out.data, &out.size);
    tc_status status = tc_write_onnx_stream(ctx, model, stream);
    fclose(stream);
    must(status == TC_OK, ctx, "can't write what was read");
    return out;
}

static void check_again(tc_ctx *ctx, const tc_model *model) {
    text first = write_model(ctx, model);
    tc_model *again = NULL;
    tc_status status = tc_read_onnx(ctx, first.data, first.size, NULL, &again);
    must(status == TC_OK || status == TC_LIMIT, ctx, "can't read what was written");
    if (again) {
        text second = write_model(ctx, again);
        must(first.size == second.size && memcmp(first.data, second.data, first.size) == 0, ctx,
             "written twice, differently");
        free(second.data);
    }
    tc_model_destroy(again);
    free(first.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tc_ctx ctx;
    tc_model *model = NULL;
    tc_ctx_init(&ctx, "fuzz_read");
    tc_status status = tc_read_onnx(&ctx, data, size, NULL, &model);
    must((status == TC_OK) == (model != NULL), &ctx, "status and model disagree");
    must(status == TC_OK || ctx.n_diags == 1, &ctx, "refused without exactly one diagnostic");
    if (model) {
        must(tc_verify(&ctx, model) == TC_OK, &ctx, "read, but does not verify");
        (void)tc_verify_ops(&ctx, model->graph);
        check_again(&ctx, model);
    }
    tc_model_destroy(model);
    tc_ctx_fini(&ctx);
    return 0;
}
