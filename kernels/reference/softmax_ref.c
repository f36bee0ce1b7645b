/* softmax_ref.c: Softmax, LogSoftmax and their gradients by their definitions. */
#include "../softmax/softmax.h"
#include <math.h>

void tk_softmax_ref(double *out, const double *inp, tk_softmax_shape shape, bool logarithm) {
    for (int64_t o = 0; o < shape.outer; o++)
        for (int64_t j = 0; j < shape.inner; j++) {
            int64_t base = o * shape.n * shape.inner + j;
            double largest = -INFINITY, sum = 0;
            for (int64_t i = 0; i < shape.n; i++)
                largest = fmax(largest, inp[base + i * shape.inner]);
            for (int64_t i = 0; i < shape.n; i++)
                sum += exp(inp[base + i * shape.inner] - largest);
            for (int64_t i = 0; i < shape.n; i++) {
                double y = inp[base + i * shape.inner] - largest - log(sum);
                out[base + i * shape.inner] = logarithm ? y : exp(y);
            }
        }
}

void tk_softmax_grad_ref(double *dinp, const double *dout, const double *out, tk_softmax_shape shape, bool logarithm) {
    for (int64_t o = 0; o < shape.outer; o++)
        for (int64_t j = 0; j < shape.inner; j++) {
            int64_t base = o * shape.n * shape.inner + j;
            double sum = 0;
            for (int64_t i = 0; i < shape.n; i++)
                sum += dout[base + i * shape.inner] * (logarithm ? 1 : out[base + i * shape.inner]);
            for (int64_t i = 0; i < shape.n; i++) {
                int64_t at = base + i * shape.inner;
                dinp[at] = logarithm ? dout[at] - exp(out[at]) * sum : (dout[at] - sum) * out[at];
            }
        }
}
