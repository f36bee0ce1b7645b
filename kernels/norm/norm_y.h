/* norm_y.h: LayerNormalization and RMSNormalization that keep their result for the gradient, which takes x-hat from it:
 * (y - bias) / scale. Tempo's in-place LayerNorm (arXiv 2210.10246), with the guard that it lacks. y is rounded by half
 * a unit u of its last digit, so that the recomputed x-hat has an error of u |y / scale|, at most u (|xhat| + |bias /
 * scale|), beside the u |xhat| of an x-hat that is stored: a small scale alone loses nothing. Channels that would lose
 * more than is allowed, or whose scale is 0 or so small that y has no full digits, are side channels: their x-hat is
 * kept beside y. */
#ifndef TK_NORM_Y_H
#define TK_NORM_Y_H
#include "norm.h"
#include <math.h>

/* Side channels have |scale| < least or |bias| > limit |scale|; there is room for `capacity` of them. */
typedef struct tk_norm_sides {
    int64_t capacity;
    double least, limit;
} tk_norm_sides;

/* A channel whose scale is NaN is no side channel: y and every quotient are NaN as well. */
static inline bool tk_norm_is_side(double scale, double bias, const tk_norm_sides *sides) {
    return fabs(scale) < sides->least || fabs(bias) > sides->limit * fabs(scale);
}

/* clang-format off */
#define TK_NORM_Y_KERNELS(K) \
    /* The bits of tk_norm's out and inv_std. channels [capacity]: the side channels, in order, then -1; kept [rows, \
     * capacity]: their x-hat, 0 after them. inp, out [rows, n]; scale, bias [n]; inv_std [rows]; bias, inv_std and \
     * kept may be NULL; out may be inp. More side channels than `capacity`: the fault TK_MANY_SIDES, no results. */ \
    K(norm_from_y, (tk_queue *q, void *out, void *inv_std, int32_t *channels, void *kept, const void *inp, \
      const void *scale, const void *bias, const tk_norm_sides *sides, const tk_norm_rows *s), \
      (q, out, inv_std, channels, kept, inp, scale, bias, sides, s)) \
    /* tk_norm_grad from the results of norm_from_y, with the same operands scale and bias. dinp may be dout or out. \
     * workspace: tk_norm_from_y_grad_workspace bytes. */ \
    K(norm_from_y_grad, (tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *out, \
      const void *scale, const void *bias, const void *inv_std, const int32_t *channels, const void *kept, \
      int64_t capacity, const tk_norm_rows *s, void *workspace), \
      (q, dinp, dscale, dbias, dout, out, scale, bias, inv_std, channels, kept, capacity, s, workspace))
#define TK_NORM_Y_WORKSPACES(W) \
    W(norm_from_y_grad_workspace, (const tk_norm_rows *s), (s))
/* clang-format on */

TK_NORM_Y_KERNELS(TK_DECLARE_KERNEL)
TK_NORM_Y_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
