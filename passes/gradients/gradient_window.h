/* gradient_window.h: gradients of ops that slide a window over an input: convolutions, transposed convolutions,
 * pools. */
#ifndef TC_GRADIENT_WINDOW_H
#define TC_GRADIENT_WINDOW_H
#include "gradients.h"

enum { TC_WINDOW_RANK = 8 };

/* A window over the spatial dims of `wide` [N, G C, wide...], one place for each element of `narrow` [N, G M,
 * narrow...]: x and y of Conv, y and x of ConvTranspose. */
typedef struct tc_window {
    int n;          /* spatial dims */
    int64_t groups; /* G */
    int64_t kernel[TC_WINDOW_RANK], stride[TC_WINDOW_RANK], dilation[TC_WINDOW_RANK];
    int64_t begin[TC_WINDOW_RANK]; /* padding of wide at the start */
    int64_t tail[TC_WINDOW_RANK];  /* how far the windows reach beyond wide; negative: elements of wide that they do not
                                      reach */
    int64_t wide[TC_WINDOW_RANK], narrow[TC_WINDOW_RANK]; /* -1: not known */
} tc_window;

/* Refuses the node if dims that matter are not known. The kernel's dims come from `weight` [.., .., kernel...], or
 * from kernel_shape if that is NULL. */
tc_window tc_window_read(tc_build *g, tc_value *wide, tc_value *narrow, tc_value *weight);
/* narrow -> wide with weight [G M, C, kernel...]: each element's share goes back to the positions that its window
 * read. */
tc_value *tc_window_spread(tc_build *g, const tc_window *w, tc_value *narrow, tc_value *weight);
/* wide -> narrow with the same weight: Conv. */
tc_value *tc_window_collect(tc_build *g, const tc_window *w, tc_value *wide, tc_value *weight);
/* The weight's gradient [G M, C, kernel...] from both operands. */
tc_value *tc_window_weight(tc_build *g, const tc_window *w, tc_value *wide, tc_value *narrow);
#endif
