/* gelu.h: GELU (arXiv 1606.08415; ONNX Gelu) and its derivative: x Phi(x) with the normal distribution Phi, or Phi's
 * tanh form x / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3). Phi has a small relative error also in the left
 * tail. float and double. */
#ifndef TK_GELU_H
#define TK_GELU_H
#include "../kernel.h"

void tk_gelu(void *out, const void *inp, int64_t n, bool tanh_form, tk_dtype dtype); /* [n] each */
void tk_gelu_grad(void *dinp, const void *dout, const void *inp, int64_t n, bool tanh_form,
                  tk_dtype dtype); /* dinp may be dout or inp */

double tk_gelu_ref(double x, bool tanh_form);
double tk_gelu_slope_ref(double x, bool tanh_form);
#endif
