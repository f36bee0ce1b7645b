/* conv_cudnn.h: convolutions by cuDNN, for queues of a CUDA device, in builds that have its header (else cudnn_none.c).
 * The library is no part of the program and need not be there: it is loaded when the first convolution runs, and
 * without it convolutions are products of patches (conv_cuda.cu). The queue asks it for an algorithm once for each
 * problem and keeps that: so two runs give the same bits, and a recording (cuda_queue.h) asks nothing.
 * docs/decisions/011-products-cuda.md */
#ifndef TK_CONV_CUDNN_H
#define TK_CONV_CUDNN_H
#include "../cuda/cuda_queue.h"
#include "conv.h"

/* The kind of convolution that cuDNN runs. */
typedef enum tk_cudnn_way {
    TK_CUDNN_NONE,
    TK_CUDNN_FORWARD,
    TK_CUDNN_DATA,    /* the gradient of data: the transposed convolution */
    TK_CUDNN_FILTERS, /* the gradient of filters: a convolution whose kernel is larger than its result */
} tk_cudnn_way;

/* Which dims a way uses: in the gradient of filters batch and channels, strides and dilations, kernel and result have
 * changed places. */
tk_conv tk_cudnn_words(const tk_conv *conv, tk_cudnn_way way);
/* The way of a convolution, or, `transposed`, of a transposed one. By shapes alone; NONE where cuDNN has none: it pads
 * both sides alike. */
tk_cudnn_way tk_cudnn_way_of(const tk_conv *conv, bool transposed, bool biased);

/* out is the result: narrow, wide, or, of the gradient of filters, [filters, channels / groups, kernel...] in its own
 * words. All of it begins at multiples of 16 bytes, the workspace at one of 256. */
typedef struct tk_cudnn_call {
    const tk_conv *conv;
    tk_cudnn_way way;
    tk_dtype dtype;
    bool added; /* the result is added to out */
    void *out;
    const void *inp, *weight; /* as conv_run and conv_transpose_run have them */
    void *workspace;
    size_t workspace_bytes; /* by shapes alone */
} tk_cudnn_call;

/* Whether cuDNN takes the call. Errors are the queue's (tk_cuda_note). */
bool tk_cudnn_takes(tk_cuda *cuda, const tk_cudnn_call *call);
/* Queues a call that it takes. False: it took it back, and nothing was queued. */
bool tk_cudnn_run(tk_cuda *cuda, const tk_cudnn_call *call);

/* Frees the state of the queue's convolutions, if there is any. Call it when all of the queue's work has run. */
void tk_cudnn_close(tk_cuda *cuda);
/* The version of cuDNN, and the convolutions met so far, a line each: as snprintf returns it, cut to `bytes`. Nothing
 * before the first convolution. */
size_t tk_cudnn_describe(const tk_cuda *cuda, char *text, size_t bytes);
#endif
