/* window.h: a window that slides over up to three spatial dims: what convolutions and pools share. Fewer dims are led
 * by dims of 1. */
#ifndef TK_WINDOW_H
#define TK_WINDOW_H
#include "vector.h"
#include <stdint.h>

#define TK_WINDOW_RANK 3

typedef struct tk_window {
    int64_t inp[TK_WINDOW_RANK], out[TK_WINDOW_RANK], kernel[TK_WINDOW_RANK], stride[TK_WINDOW_RANK],
        dilation[TK_WINDOW_RANK];
    int64_t pad_begin[TK_WINDOW_RANK], pad_end[TK_WINDOW_RANK];
} tk_window;

static inline int64_t tk_volume(const int64_t *dims) { return dims[0] * dims[1] * dims[2]; }

/* The place along dim d at which the window's tap k reads element i; -1: none does. */
TK_INLINE int64_t tk_window_place(const tk_window *w, int d, int64_t i, int64_t k) {
    const int64_t at = i + w->pad_begin[d] - k * w->dilation[d];
    return at >= 0 && at % w->stride[d] == 0 && at / w->stride[d] < w->out[d] ? at / w->stride[d] : -1;
}
#endif
