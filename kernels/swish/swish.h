/* swish.h: Swish (ONNX), SiLU where alpha is 1: x sigmoid(alpha x), and its gradient. The slope is right to a few ulp
 * of its larger term everywhere, the left tail included. Any float type. */
#ifndef TK_SWISH_H
#define TK_SWISH_H
#include "../kernel.h"

void tk_swish(tk_queue *q, void *out, const void *inp, int64_t n, double alpha,
              tk_dtype dtype); /* [n] each; out may be inp */
void tk_swish_grad(tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t n, double alpha,
                   tk_dtype dtype); /* dinp may be dout or inp */

double tk_swish_ref(double x, double alpha);
double tk_swish_slope_ref(double x, double alpha);
#endif
