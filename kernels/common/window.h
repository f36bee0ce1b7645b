/* window.h: a window that slides over up to three spatial dims: convolutions and pools share it. With fewer dims the
 * first are 1. */
#ifndef TK_WINDOW_H
#define TK_WINDOW_H
#include <stdint.h>

#define TK_WINDOW_RANK 3

typedef struct tk_window {
    int64_t inp[TK_WINDOW_RANK], out[TK_WINDOW_RANK], kernel[TK_WINDOW_RANK], stride[TK_WINDOW_RANK],
        dilation[TK_WINDOW_RANK];
    int64_t pad_begin[TK_WINDOW_RANK], pad_end[TK_WINDOW_RANK];
} tk_window;

static inline int64_t tk_volume(const int64_t *dims) { return dims[0] * dims[1] * dims[2]; }
#endif
