/* attention_ref.c: attention by its definition, row by row. */
#include "attention.h"
#include <math.h>

static double score(const double *q, const double *kt, const double *bias, const uint8_t *mask, const tk_attention *a,
                    int64_t item, int64_t i, int64_t j) {
    double s = 0;
    for (int64_t k = 0; k < a->d; k++)
        s += a->scale * q[tk_place(&a->q.at, item) + i * a->d + k] * kt[tk_place(&a->kt.at, item) + k * a->t + j];
    if (a->softcap != 0)
        s = a->softcap * tanh(s / a->softcap);
    const bool masked = mask && !mask[tk_place(&a->mask_at, item) + i * a->mask_row + j * a->mask_column];
    const double added = bias ? bias[tk_place(&a->bias_at, item) + i * a->bias_row + j * a->bias_column] : 0;
    if (masked)
        return a->bias_first || !bias ? a->fill : a->fill + added;
    return bias ? s + added : s;
}

void tk_attention_ref(double *y, double *p, double *statistics, const double *q, const double *kt, const double *v,
                      const double *bias, const uint8_t *mask, const uint8_t *kept, double ratio,
                      const tk_attention *a) {
    for (int64_t item = 0; item < a->items; item++)
        for (int64_t i = 0; i < a->s; i++) {
            double *row = p + (item * a->s + i) * a->t, *out = y + (item * a->s + i) * a->e, largest = -INFINITY,
                   sum = 0;
            for (int64_t j = 0; j < a->t; j++)
                largest = fmax(largest, row[j] = score(q, kt, bias, mask, a, item, i, j));
            for (int64_t j = 0; j < a->t; j++)
                sum += row[j] = exp(row[j] - largest);
            if (statistics)
                statistics[2 * (item * a->s + i)] = largest, statistics[2 * (item * a->s + i) + 1] = sum;
            for (int64_t j = 0; j < a->t; j++)
                row[j] = isnan(sum) && a->guard ? 0 : row[j] / sum;
            for (int64_t k = 0; k < a->e; k++) {
                out[k] = 0;
                for (int64_t j = 0; j < a->t; j++) {
                    double left = kept ? (kept[(item * a->s + i) * a->t + j] ? row[j] / (1 - ratio) : 0) : row[j];
                    out[k] += left * v[tk_place(&a->v.at, item) + j * a->e + k];
                }
            }
        }
}
