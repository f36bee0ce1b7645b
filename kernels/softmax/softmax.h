/* softmax.h: Softmax, LogSoftmax and Hardmax along one axis, and the gradients of the first two (ONNX). Arrays are
 * [outer, n, inner], the axis in the middle; float and double. The largest element is taken off first, so nothing
 * overflows; a row of -infinity alone gives not-a-number, as ONNX's function body does. */
#ifndef TK_SOFTMAX_H
#define TK_SOFTMAX_H
#include "../kernel.h"

typedef struct tk_softmax_shape {
    int64_t outer, n, inner;
} tk_softmax_shape;

void tk_softmax(void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype);
void tk_log_softmax(void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype);
void tk_hardmax(void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype);

/* dinp = (dout - sum(dout out)) out, and dinp = dout - exp(out) sum(dout). dinp may be dout. */
void tk_softmax_grad(void *dinp, const void *dout, const void *out, tk_softmax_shape shape, tk_dtype dtype);
void tk_log_softmax_grad(void *dinp, const void *dout, const void *out, tk_softmax_shape shape, tk_dtype dtype);

/* Each row's largest element and the logarithm of its sum of exp(x - largest): LogSoftmax is x - largest - log_sum.
 * [outer, inner] each. */
void tk_softmax_statistics(void *largest, void *log_sum, const void *inp, tk_softmax_shape shape, tk_dtype dtype);

/* The definitions in double precision; all [outer, n, inner]. */
void tk_softmax_ref(double *out, const double *inp, tk_softmax_shape shape, bool logarithm);
void tk_softmax_grad_ref(double *dinp, const double *dout, const double *out, tk_softmax_shape shape, bool logarithm);
#endif
