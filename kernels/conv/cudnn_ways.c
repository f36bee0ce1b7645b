/* cudnn_ways.c: which of cuDNN's three convolutions computes a convolution. It depends on shapes alone, on every
 * machine alike, since the size of a plan's workspace depends on it. */
#include "conv_cudnn.h"
#include <string.h>

/* The gradient's rules (passes/gradients) write the gradient of filters as a convolution: that of x with dy, batch and
 * channels in each other's place. Turned back, its result is cuDNN's filter, its weight dy. */
static tk_conv turned(const tk_conv *c) {
    tk_conv t = *c;
    t.batch = c->channels / c->groups;
    t.channels = c->batch * c->groups;
    memcpy(t.window.out, c->window.kernel, sizeof t.window.out);
    memcpy(t.window.kernel, c->window.out, sizeof t.window.kernel);
    memcpy(t.window.stride, c->window.dilation, sizeof t.window.stride);
    memcpy(t.window.dilation, c->window.stride, sizeof t.window.dilation);
    return t;
}

tk_conv tk_cudnn_words(const tk_conv *conv, tk_cudnn_way way) { return way == TK_CUDNN_FILTERS ? turned(conv) : *conv; }

/* cuDNN's tensors have fewer than 2^31 elements. */
static bool is_small(int64_t a, int64_t b, const int64_t *dims) {
    int64_t n = 1;
    const int64_t all[] = {a, b, dims[0], dims[1], dims[2]};
    for (int i = 0; i < 5; i++)
        if (all[i] < 1 || all[i] > INT32_MAX || (n *= all[i]) > INT32_MAX)
            return false;
    return true;
}

/* If the number of places equals that with the front pads on both sides, the windows are the same ones: no window
 * reaches the difference at the end. */
static bool fits(const tk_conv *c) {
    const tk_window *w = &c->window;
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        const int64_t room = w->inp[d] + 2 * w->pad_begin[d] - (w->kernel[d] - 1) * w->dilation[d] - 1;
        if (w->pad_begin[d] < 0 || w->pad_begin[d] > INT32_MAX || w->stride[d] < 1 || w->stride[d] > INT32_MAX ||
            w->dilation[d] < 1 || w->dilation[d] > INT32_MAX || room < 0 || room / w->stride[d] + 1 != w->out[d])
            return false;
    }
    return is_small(c->batch, c->channels, w->inp) && is_small(c->batch, c->filters, w->out) &&
           is_small(c->filters, c->channels / c->groups, w->kernel);
}

/* Whether a window steps by less than its size: those of a gradient do. */
static bool overlaps(const tk_window *w) {
    for (int d = 0; d < TK_WINDOW_RANK; d++)
        if (w->stride[d] < w->kernel[d])
            return true;
    return false;
}

/* Of several groups the gradient's channels lie group by group only where each has one. If both ways can compute it, it
 * counts as a gradient where it sums over more places than it has. */
tk_cudnn_way tk_cudnn_way_of(const tk_conv *c, bool transposed, bool biased) {
    if (c->groups < 1)
        return TK_CUDNN_NONE;
    const tk_conv back = turned(c);
    const bool forward = fits(c), filters = !biased && (c->groups == 1 || c->batch == 1) && fits(&back);
    if (transposed)
        return forward ? TK_CUDNN_DATA : TK_CUDNN_NONE;
    if (forward && filters)
        return tk_volume(c->window.kernel) > tk_volume(c->window.out) && overlaps(&c->window) ? TK_CUDNN_FILTERS
                                                                                              : TK_CUDNN_FORWARD;
    return forward ? TK_CUDNN_FORWARD : filters ? TK_CUDNN_FILTERS : TK_CUDNN_NONE;
}
