/* weight_files.h: files of weights by name, as --checkpoint takes them: checkpoints of ONNX Runtime's training tools
 * and its adapters (compiler/onnx/checkpoint.h), numpy's .npz archives, and safetensors files. */
#ifndef RT_WEIGHT_FILES_H
#define RT_WEIGHT_FILES_H
#include "compiler/ir/ir.h"
#include "compiler/base/base.h"
#include "npz.h"
#include "safetensors.h"

typedef struct rt_weights {
    const char *path;
    const tc_tensor *tensors; /* [n] with names; elements lie at any address */
    size_t n;
    tc_file file; /* these four own the bytes that tensors borrow */
    rt_npz npz;
    rt_safetensors safetensors;
    tc_held held;
} rt_weights;

/* Tensors are in the context's arena. On failure there is nothing to close, and path is NULL. TC_BAD_INPUT where the
 * file is none of these. */
tc_status rt_weights_open(tc_ctx *ctx, const char *path, rt_weights *out_weights);
void rt_weights_close(rt_weights *weights);
#endif
