/* conv_case.h: convolutions for the checks: windows, and running one with cuDNN and without it. */
#ifndef CONV_CASE_H
#define CONV_CASE_H
#include "kernels/cuda/cuda_queue.h"
#include "cuda_case.h"

/* Of all dims of a rank alike, each of which is one larger than the one before; at the end one less is padded. */
static inline tk_window window(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad, int rank) {
    tk_window w;
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        bool used = d >= TK_WINDOW_RANK - rank;
        w.inp[d] = used ? size + d : 1;
        w.kernel[d] = used ? kernel : 1;
        w.stride[d] = used ? stride : 1;
        w.dilation[d] = used ? dilation : 1;
        w.pad_begin[d] = used ? pad : 0;
        w.pad_end[d] = used && pad > 0 ? pad - 1 : 0;
        w.out[d] = (w.inp[d] + w.pad_begin[d] + w.pad_end[d] - (w.kernel[d] - 1) * w.dilation[d] - 1) / w.stride[d] + 1;
    }
    return w;
}

/* The same on both sides, which is what cuDNN has. */
static inline tk_window even_window(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad,
                                    int rank) {
    tk_window w = window(size, kernel, stride, dilation, pad, rank);
    for (int d = TK_WINDOW_RANK - rank; d < TK_WINDOW_RANK; d++) {
        w.pad_end[d] = w.pad_begin[d];
        w.out[d] = (w.inp[d] + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
    }
    return w;
}

/* The convolution that gives the gradient of c's filters, as the passes write it: pads at the end are what the windows
 * reach beyond wide. */
static inline tk_conv gradient_of(const tk_conv *c) {
    tk_conv g = {c->channels / c->groups, c->batch * c->groups, c->filters, c->groups, c->window};
    tk_window *w = &g.window;
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        w->kernel[d] = c->window.out[d];
        w->stride[d] = c->window.dilation[d];
        w->dilation[d] = c->window.stride[d];
        const int64_t tail = (c->window.out[d] - 1) * c->window.stride[d] +
                             (c->window.kernel[d] - 1) * c->window.dilation[d] + 1 - c->window.pad_begin[d] -
                             c->window.inp[d];
        w->pad_end[d] = tail > 0 ? tail : 0;
        w->out[d] =
            (w->inp[d] + w->pad_begin[d] + w->pad_end[d] - (w->kernel[d] - 1) * w->dilation[d] - 1) / w->stride[d] + 1;
    }
    return g;
}

/* Sums of floats or doubles; of 16 bits each side is rounded once, which near the middle of two numbers is a place. */
static inline bounds of(tk_dtype dtype) {
    return tk_is_half(dtype) ? (bounds){.ulps = 1, .absolute = 3e-5}
           : dtype == TK_F64 ? (bounds){.absolute = 1e-13}
                             : (bounds){.absolute = 3e-5};
}

static inline void allow_cudnn(bool allowed) { tk_queue_cuda(queues[DEVICE])->no_cudnn = !allowed; }

/* With cuDNN and without it. */
static inline void forward_within(bounds b, const tk_conv *c, tk_dtype dtype, bool biased, const char *what) {
    const int64_t wides = c->batch * c->channels * tk_volume(c->window.inp),
                  narrows = c->batch * c->filters * tk_volume(c->window.out),
                  weights = c->filters * c->channels / c->groups * tk_volume(c->window.kernel);
    pair inp = pair_random(dtype, wides, -2, 2), weight = pair_random(dtype, weights, -2, 2),
         bias = pair_random(dtype, c->filters, -2, 2);
    for (int by_cudnn = 1; by_cudnn >= 0; by_cudnn--) {
        pair out = pair_result(dtype, narrows);
        allow_cudnn(by_cudnn);
        ON_BOTH(conv_run, AT(out), AT(inp), AT(weight), biased ? AT(bias) : NULL, c, dtype,
                workspace(OF_TABLE(conv_workspace)(c, dtype, 1)));
        pair_compare(out, b, "conv, %s, %lld groups, %lld images, cuDNN %d", what, (long long)c->groups,
                     (long long)c->batch, by_cudnn);
    }
    allow_cudnn(true);
}

static inline void forward(const tk_conv *c, tk_dtype dtype, bool biased, const char *what) {
    forward_within(of(dtype), c, dtype, biased, what);
}

static inline void transposed(const tk_conv *c, tk_dtype dtype, bool biased, const char *what) {
    const int64_t wides = c->batch * c->channels * tk_volume(c->window.inp),
                  narrows = c->batch * c->filters * tk_volume(c->window.out),
                  weights = c->filters * c->channels / c->groups * tk_volume(c->window.kernel);
    pair narrow = pair_random(dtype, narrows, -2, 2), weight = pair_random(dtype, weights, -2, 2),
         bias = pair_random(dtype, c->channels, -2, 2);
    for (int by_cudnn = 1; by_cudnn >= 0; by_cudnn--) {
        pair wide = pair_result(dtype, wides);
        allow_cudnn(by_cudnn);
        ON_BOTH(conv_transpose_run, AT(wide), AT(narrow), AT(weight), biased ? AT(bias) : NULL, c, dtype,
                workspace(OF_TABLE(conv_transpose_workspace)(c, dtype, 1)));
        pair_compare(wide, of(dtype), "transposed, %s, %lld groups, %lld images, cuDNN %d", what, (long long)c->groups,
                     (long long)c->batch, by_cudnn);
    }
    allow_cudnn(true);
}

static inline void both_ways(const tk_conv *c, tk_dtype dtype, bool biased, const char *what) {
    forward(c, dtype, biased, what);
    transposed(c, dtype, biased, what);
}
#endif
