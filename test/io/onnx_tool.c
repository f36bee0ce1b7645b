/* onnx_tool: the reader and writer alone, for the tests of this folder. Prints diagnostics; the exit code is the
 * status. onnx_tool read FILE                     reads and verifies onnx_tool ops FILE                      also
 * checks counts and attributes of ops, as after upgrade onnx_tool trip IN OUT [IN OUT ...]      reads, verifies and
 * writes each onnx_tool map FILE                      reads and maps every external initializer onnx_tool tensor FILE
 * reads one TensorProto */
#include "compiler/onnx/onnx.h"
#include "compiler/base/base.h"
#include "compiler/ir/verify.h"
#include <string.h>

static tc_status read_model(tc_ctx *ctx, const char *path, tc_model **out_model) {
    tc_file file;
    ctx->file = path;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_status status = tc_read_onnx(ctx, file.data, file.size, path, out_model);
    if (status != TC_OK) {
        tc_file_close(&file);
        return status;
    }
    tc_model_keep_file(*out_model, &file);
    return tc_verify(ctx, *out_model);
}

static tc_status map_all(tc_ctx *ctx, tc_model *model) {
    for (uint32_t i = 0; i < model->graph->n_initializers; i++) {
        const tc_tensor *tensor = model->graph->initializers[i]->init;
        const void *data = NULL;
        TC_TRY(tc_tensor_map(ctx, model, tensor, &data));
        unsigned sum = 0;
        for (size_t k = 0; k < tensor->bytes; k++)
            sum += ((const unsigned char *)data)[k];
        printf("%s %u\n", tensor->name, sum);
    }
    return TC_OK;
}

static tc_status run(tc_ctx *ctx, const char *mode, char **args) {
    tc_model *model = NULL;
    tc_status status = TC_OK;
    if (strcmp(mode, "tensor") == 0) {
        tc_tensor *tensor = NULL;
        model = tc_model_create();
        status = tc_read_tensor_file(ctx, model, args[0], &tensor);
        if (status == TC_OK)
            printf("%s %d %zu\n", tc_dtype_name(tensor->dtype), tensor->rank, tensor->bytes);
    } else {
        status = read_model(ctx, args[0], &model);
    }
    if (status == TC_OK && strcmp(mode, "ops") == 0)
        status = tc_verify_ops(ctx, model->graph);
    if (status == TC_OK && strcmp(mode, "map") == 0)
        status = map_all(ctx, model);
    if (status == TC_OK && strcmp(mode, "trip") == 0)
        status = tc_write_onnx(ctx, model, args[1]);
    tc_model_destroy(model);
    return status;
}

int main(int argc, char **argv) {
    tc_ctx ctx;
    tc_ctx_init(&ctx, "onnx_tool");
    int step = argc > 1 && strcmp(argv[1], "trip") == 0 ? 2 : 1;
    tc_status status = argc > 2 && (argc - 2) % step == 0 ? TC_OK : TC_USAGE;
    for (int i = 2; status == TC_OK && i < argc; i += step)
        status = run(&ctx, argv[1], argv + i);
    tc_diags_print(&ctx, stderr);
    tc_ctx_fini(&ctx);
    return (int)status;
}
