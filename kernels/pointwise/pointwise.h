/* pointwise.h: the ops of pointwise.def over arrays of any float type: y = f(x; alpha) and dX = dY f'(x; alpha). Errors
 * are relative, also in tails that fall by 40 orders of magnitude. */
#ifndef TK_POINTWISE_H
#define TK_POINTWISE_H
#include "../kernel.h"

/* The rows of pointwise.def. */
typedef enum tk_pointwise_row {
#define POINTWISE(name, ...) TK_POINTWISE_##name,
#define POINTWISE_FORM POINTWISE
#include "pointwise.def"
#undef POINTWISE
#undef POINTWISE_FORM
    TK_POINTWISE_COUNT
} tk_pointwise_row;

/* TK_POINTWISE_COUNT: there is no such form of the op (form: "" for ops with only one), or no such op. */
tk_pointwise_row tk_pointwise_find(const char *op, const char *form);
/* The default of the op's attribute alpha; NaN: the op has none. */
double tk_pointwise_alpha(tk_pointwise_row row);

/* clang-format off */
#define TK_POINTWISE_KERNELS(K) \
    /* [n] each; out may be inp */ \
    K(pointwise, (tk_queue *q, tk_pointwise_row row, void *out, const void *inp, int64_t n, double alpha, \
      tk_dtype dtype), (q, row, out, inp, n, alpha, dtype)) \
    /* dinp may be dout or inp */ \
    K(pointwise_grad, (tk_queue *q, tk_pointwise_row row, void *dinp, const void *dout, const void *inp, int64_t n, \
      double alpha, tk_dtype dtype), (q, row, dinp, dout, inp, n, alpha, dtype))
#define TK_POINTWISE_BOTH_KERNELS(K) \
    /* The two above in one walk, with their bits, for devices that have it (runtime/fuse/fuse_pointwise.c): dinp and
     * out \ may lie over dout and inp, each over another. */ \
    K(pointwise_both, (tk_queue *q, tk_pointwise_row row, void *dinp, void *out, const void *dout, const void *inp, \
      int64_t n, double alpha, tk_dtype dtype), (q, row, dinp, out, dout, inp, n, alpha, dtype))
/* clang-format on */

TK_POINTWISE_KERNELS(TK_DECLARE_KERNEL)
#endif
