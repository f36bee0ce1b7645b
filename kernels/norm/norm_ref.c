/* norm_ref.c: LayerNormalization and its gradient by their definitions. */
#include "norm.h"
#include <math.h>

void tk_layer_norm_ref(double *out, double *mean, double *inv_std, const double *inp, const double *scale,
                       const double *bias, int64_t rows, int64_t n, double epsilon) {
    for (int64_t r = 0; r < rows; r++) {
        const double *x = inp + r * n;
        double m = 0, v = 0;
        for (int64_t i = 0; i < n; i++)
            m += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            v += (x[i] - m) * (x[i] - m) / (double)n;
        double s = 1 / sqrt(v + epsilon);
        for (int64_t i = 0; i < n; i++)
            out[r * n + i] = (x[i] - m) * s * scale[i] + (bias ? bias[i] : 0);
        if (mean)
            mean[r] = m;
        if (inv_std)
            inv_std[r] = s;
    }
}

/* By the chain rule from x to y through every mean and variance: d y_j / d x_i summed over j, without the usual
 * shortening. */
void tk_layer_norm_grad_ref(double *dinp, double *dscale, double *dbias, const double *dout, const double *inp,
                            const double *scale, int64_t rows, int64_t n, double epsilon) {
    for (int64_t i = 0; i < n; i++)
        dscale[i] = dbias[i] = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *x = inp + r * n, *dy = dout + r * n;
        double m = 0, v = 0;
        for (int64_t i = 0; i < n; i++)
            m += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            v += (x[i] - m) * (x[i] - m) / (double)n;
        double s = 1 / sqrt(v + epsilon), dv = 0, dm = 0;
        for (int64_t j = 0; j < n; j++) {
            dscale[j] += dy[j] * (x[j] - m) * s;
            dbias[j] += dy[j];
            dv += dy[j] * scale[j] * (x[j] - m) * -0.5 * s * s * s;
            dm += dy[j] * scale[j] * -s;
        }
        for (int64_t i = 0; i < n; i++)
            dinp[r * n + i] = dy[i] * scale[i] * s + dv * 2 * (x[i] - m) / (double)n + dm / (double)n;
    }
}
