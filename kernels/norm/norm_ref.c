/* norm_ref.c: LayerNormalization and RMSNormalization with their gradients by their definitions. */
#include "norm.h"
#include <math.h>

static void statistics(double *mean, double *inv_std, const double *x, const tk_norm_rows *s) {
    double m = 0, v = 0;
    for (int64_t i = 0; i < s->n && s->centered; i++)
        m += x[i] / (double)s->n;
    for (int64_t i = 0; i < s->n; i++)
        v += (x[i] - m) * (x[i] - m) / (double)s->n;
    *mean = m;
    *inv_std = 1 / sqrt(v + s->epsilon);
}

void tk_norm_ref(double *out, double *mean, double *inv_std, const double *inp, const double *scale, const double *bias,
                 const tk_norm_rows *s) {
    for (int64_t r = 0; r < s->rows; r++) {
        double m, inv;
        statistics(&m, &inv, inp + r * s->n, s);
        for (int64_t i = 0; i < s->n; i++)
            out[r * s->n + i] = (inp[r * s->n + i] - m) * inv * scale[i] + (bias ? bias[i] : 0);
        if (mean)
            mean[r] = m;
        if (inv_std)
            inv_std[r] = inv;
    }
}

/* By the chain rule from x to y through every mean and variance: d y_j / d x_i summed over j, without the usual
 * shortening. */
void tk_norm_grad_ref(double *dinp, double *dscale, double *dbias, const double *dout, const double *inp,
                      const double *scale, const tk_norm_rows *s) {
    for (int64_t i = 0; i < s->n; i++)
        dscale[i] = dbias[i] = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const double *x = inp + r * s->n, *dy = dout + r * s->n;
        double m, inv, dv = 0, dm = 0;
        statistics(&m, &inv, x, s);
        for (int64_t j = 0; j < s->n; j++) {
            dscale[j] += dy[j] * (x[j] - m) * inv;
            dbias[j] += dy[j];
            dv += dy[j] * scale[j] * (x[j] - m) * -0.5 * inv * inv * inv;
            dm += s->centered ? dy[j] * scale[j] * -inv : 0;
        }
        for (int64_t i = 0; i < s->n; i++)
            dinp[r * s->n + i] = dy[i] * scale[i] * inv + dv * 2 * (x[i] - m) / (double)s->n + dm / (double)s->n;
    }
}
