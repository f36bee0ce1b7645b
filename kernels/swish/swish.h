/* swish.h: Swish (ONNX), SiLU where alpha is 1: x sigmoid(alpha x), and its gradient. The slope is right to a few ulp
 * of its larger term everywhere, the left tail included. Any float type. */
#ifndef TK_SWISH_H
#define TK_SWISH_H
#include "../kernel.h"

double tk_swish_ref(double x, double alpha);
double tk_swish_slope_ref(double x, double alpha);

/* clang-format off */
#define TK_SWISH_KERNELS(K) \
    /* [n] each; out may be inp */ \
    K(swish, (tk_queue *q, void *out, const void *inp, int64_t n, double alpha, tk_dtype dtype), \
      (q, out, inp, n, alpha, dtype)) \
    /* dinp may be dout or inp */ \
    K(swish_grad, (tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t n, double alpha, \
      tk_dtype dtype), (q, dinp, dout, inp, n, alpha, dtype))
/* clang-format on */

TK_SWISH_KERNELS(TK_DECLARE_KERNEL)
#endif
