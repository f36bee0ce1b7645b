/* reference_transforms.c: Fourier transforms by their sums, determinants by elimination, and cofactors by their minors.
 */
#include "reference.h"
#include <math.h>

/* --- Fourier transforms ----------------------------------------------------------------------- */

/* Number j of a lane, by its definition; *out_im is 0 for a real operand. */
static double dft_number(const void *inp, const void *window, const tk_dft_shape *d, tk_dtype dtype, int64_t lane,
                         int64_t j, double *out_im) {
    int64_t o = lane / d->inner, from = d->half && j > d->n / 2 ? d->n - j : j;
    *out_im = 0;
    if (from >= d->n_inp)
        return 0;
    int64_t at =
        (o / d->frames * d->across + o % d->frames * d->step + from * d->inner + lane % d->inner) * d->inp_parts;
    double scale = window ? tk_get(window, dtype, from) : 1;
    if (d->inp_parts == 2)
        *out_im = scale * tk_get(inp, dtype, at + 1) * (from == j ? 1 : -1);
    return scale * tk_get(inp, dtype, at);
}

void tk_reference_dft(tk_queue *q, void *out, const void *inp, const void *window, const tk_dft_shape *d,
                      tk_dtype dtype, void *workspace) {
    (void)q, (void)workspace;
    for (int64_t i = 0; i < d->outer * d->n_out * d->inner; i++) {
        int64_t k = i / d->inner % d->n_out, lane = i / d->inner / d->n_out * d->inner + i % d->inner;
        double re = 0, im = 0, scale = d->inverse ? 1 / (double)d->n : 1;
        for (int64_t j = 0; j < d->n; j++) {
            double x_im, x_re = dft_number(inp, window, d, dtype, lane, j, &x_im);
            double angle = (d->inverse ? 2 : -2) * acos(-1) * (double)(j * k % d->n) / (double)d->n;
            re += x_re * cos(angle) - x_im * sin(angle);
            im += x_re * sin(angle) + x_im * cos(angle);
        }
        tk_put(out, dtype, i * d->out_parts, scale * re);
        if (d->out_parts == 2)
            tk_put(out, dtype, i * 2 + 1, scale * im);
    }
}

/* --- determinants ----------------------------------------------------------------------------- */

/* Of a matrix of n rows by elimination with the largest element of each column as pivot; without row
 * and column `skip` (none: -1). scratch: [n, n] */
static double determinant(const double *a, int64_t n, int64_t skip_row, int64_t skip_col, double *scratch) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (i != skip_row && j != skip_col)
                scratch[m++] = a[i * n + j];
    double product = 1;
    m = n - (skip_row >= 0);
    for (int64_t k = 0; k < m; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < m; i++)
            pivot = fabs(scratch[i * m + k]) > fabs(scratch[pivot * m + k]) ? i : pivot;
        for (int64_t j = 0; pivot != k && j < m; j++) {
            double kept = scratch[k * m + j];
            scratch[k * m + j] = scratch[pivot * m + j];
            scratch[pivot * m + j] = kept;
        }
        product *= pivot != k ? -scratch[k * m + k] : scratch[k * m + k];
        for (int64_t i = k + 1; i < m && product != 0; i++)
            for (int64_t j = m - 1; j >= k; j--)
                scratch[i * m + j] -= scratch[i * m + k] / scratch[k * m + k] * scratch[k * m + j];
    }
    return product;
}

void tk_reference_determinant(tk_queue *q, void *out, const void *inp, int64_t batch, int64_t n, tk_dtype dtype,
                              void *workspace) {
    double *a = tk_reference_numbers(q, inp, batch * n * n, dtype), *scratch = tk_reference_room(q, n * n);
    (void)workspace;
    for (int64_t b = 0; a && scratch && b < batch; b++)
        tk_put(out, dtype, b, determinant(a + b * n * n, n, -1, -1, scratch));
    free(a), free(scratch);
}

/* Each cofactor by its minor. */
void tk_reference_determinant_grad(tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t batch, int64_t n,
                                   tk_dtype dtype, void *workspace) {
    double *a = tk_reference_numbers(q, inp, batch * n * n, dtype), *scratch = tk_reference_room(q, n * n);
    (void)workspace;
    for (int64_t i = 0; a && scratch && i < batch * n * n; i++) {
        int64_t b = i / n / n, row = i / n % n, col = i % n;
        double minor = determinant(a + b * n * n, n, row, col, scratch);
        tk_put(dinp, dtype, i, tk_get(dout, dtype, b) * ((row + col) % 2 ? -minor : minor));
    }
    free(a), free(scratch);
}
