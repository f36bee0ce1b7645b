/* weights.c: a file of weights -> tensors, in one of three formats, recognized by its first bytes. */
#include "weight_files.h"
#include "compiler/onnx/checkpoint.h"
#include <string.h>

static bool is_zip(const tc_file *file) { return file->size >= 2 && memcmp(file->data, "PK", 2) == 0; }

/* After the header's length, whose upper four bytes are 0 in every file. */
static bool is_safetensors(const tc_file *file) {
    return file->size > 8 && memcmp((const char *)file->data + 4, "\0\0\0\0{", 5) == 0;
}

static bool all(const void *user, const char *name) { return (void)user, (void)name, true; }

static void take_arrays(tc_ctx *ctx, rt_weights *w, const rt_array *arrays, size_t n) {
    tc_tensor *tensors = TC_NEW_ARRAY(ctx->arena, tc_tensor, n + 1);
    for (size_t i = 0; i < n; i++) {
        const tempo_tensor *t = &arrays[i].tensor;
        tensors[i] = (tc_tensor){.name = arrays[i].name,
                                 .dtype = (tc_dtype)t->dtype,
                                 .rank = t->rank,
                                 .dims = t->dims,
                                 .count = t->bytes / tempo_dtype_size(t->dtype),
                                 .data = t->data,
                                 .bytes = t->bytes};
    }
    w->tensors = tensors;
    w->n = n;
}

static tc_status read_weights(tc_ctx *ctx, rt_weights *w) {
    tc_tensor *tensors;
    if (is_zip(&w->file)) {
        TC_TRY(rt_npz_read(ctx, w->path, all, NULL, &w->npz));
        take_arrays(ctx, w, w->npz.arrays, w->npz.n);
        return TC_OK;
    }
    if (is_safetensors(&w->file)) {
        TC_TRY(rt_safetensors_read(ctx, w->file.data, w->file.size, &w->safetensors));
        take_arrays(ctx, w, w->safetensors.arrays, w->safetensors.n);
        return TC_OK;
    }
    if (!tc_is_checkpoint(w->file.data, w->file.size) && !tc_is_adapter(w->file.data, w->file.size)) {
        tc_error(ctx, TC_BAD_INPUT, NULL, "this is no file of weights");
        tc_hint(
            ctx,
            "expected a checkpoint of ONNX Runtime's training tools, which has \"ODTC\" at byte 4, its adapter, with "
            "\"TORT\" there, an archive by numpy.savez, or a safetensors file");
        return TC_BAD_INPUT;
    }
    TC_TRY(tc_checkpoint_read(ctx, w->file.data, w->file.size, &tensors, &w->n));
    w->tensors = tensors;
    return TC_OK;
}

tc_status rt_weights_open(tc_ctx *ctx, const char *path, rt_weights *out_weights) {
    const char *before = ctx->file;
    *out_weights = (rt_weights){.path = path};
    ctx->file = path;
    tc_status status = tc_file_open(ctx, path, &out_weights->file);
    if (status != TC_OK) {
        *out_weights = (rt_weights){0};
        return status;
    }
    tc_file_hold(&out_weights->file, &out_weights->held);
    status = read_weights(ctx, out_weights);
    if (status == TC_OK) {
        ctx->file = before;
        return TC_OK;
    }
    rt_weights_close(out_weights);
    *out_weights = (rt_weights){0};
    return status;
}

void rt_weights_close(rt_weights *weights) {
    if (weights->npz.arena)
        rt_npz_free(&weights->npz);
    if (weights->safetensors.arena)
        rt_safetensors_close(&weights->safetensors);
    tc_let_go(&weights->held);
    tc_file_close(&weights->file);
}
