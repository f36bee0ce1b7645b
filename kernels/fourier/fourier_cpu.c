/* fourier_cpu.c: transforms, a lane at a time in each thread. */
#include "../common/element.h"
#include "../common/parallel.h"
#include "fourier_pass.h"
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* --- plans ------------------------------------------------------------------------------------ */

/* Factors of n up to the radix, 4 before 2; returns the rest of n. */
static int64_t take_factors(tk_dft_shape *d, int64_t n) {
    static const int primes[] = {4, 2, 3, 5, 7, 11, 13};
    d->n_factors = 0;
    for (size_t i = 0; i < sizeof primes / sizeof *primes; i++)
        for (; n % primes[i] == 0; n /= primes[i])
            d->factors[d->n_factors++] = primes[i];
    return n;
}

void tk_dft_plan(tk_dft_shape *d, int64_t n) {
    d->n = d->length = n;
    if (take_factors(d, n) == 1)
        return;
    for (d->length = 1; d->length < 2 * n - 1;)
        d->length *= 2;
    take_factors(d, d->length);
}

/* e^(-2 pi i t / n) */
static tk_complex root(int64_t t, int64_t n) {
    double angle = -2 * PI * (double)t / (double)n;
    return (tk_complex){cos(angle), sin(angle)};
}

/* From a to b and back; the last one written. */
static tk_complex *transform(const tk_dft_shape *d, tk_complex *a, tk_complex *b, const tk_complex *roots) {
    int64_t stride = 1;
    for (int i = 0; i < d->n_factors; i++) {
        for (int64_t item = 0; item < d->length / d->factors[i]; item++)
            tk_butterfly(b, a, roots, d->length, stride, d->factors[i], item);
        stride *= d->factors[i];
        tk_complex *written = b;
        b = a;
        a = written;
    }
    return a;
}

void tk_dft_tables(const tk_dft_shape *d, double *out_roots, double *out_chirp, double *out_filter) {
    tk_complex *roots = (tk_complex *)out_roots, *chirp = (tk_complex *)out_chirp, *filter = (tk_complex *)out_filter;
    for (int64_t t = 0; t < d->length; t++)
        roots[t] = root(t, d->length);
    if (d->length == d->n)
        return;
    for (int64_t k = 0, square = 0; k < d->n; square = (square + 2 * k + 1) % (2 * d->n), k++) /* k^2 mod 2 n */
        chirp[k] = root(square, 2 * d->n);
    memset(filter, 0, 2 * (size_t)d->length * sizeof *filter);
    for (int64_t k = 0; k < d->n; k++) {
        tk_complex c = {chirp[k].re / (double)d->length, -chirp[k].im / (double)d->length};
        filter[k] = c;
        filter[(d->length - k) % d->length] = c;
    }
    if (transform(d, filter, filter + d->length, roots) != filter)
        memcpy(filter, filter + d->length, (size_t)d->length * sizeof *filter);
}

/* --- lanes ------------------------------------------------------------------------------------ */

typedef struct dft_ctx {
    void *out, *workspace;
    const void *inp, *window;
    const tk_dft_shape *d;
    void (*load)(const struct dft_ctx *c, int64_t lane, tk_complex *x);
    void (*store)(const struct dft_ctx *c, int64_t lane, const tk_complex *x);
} dft_ctx;

#define TEMPLATE "../fourier/fourier_tmpl.h"
#include "../common/each_float.h"

/* x_j chirp_j, convolved with the filter, times chirp_k. */
static tk_complex *convolve(const tk_dft_shape *d, tk_complex *a, tk_complex *b) {
    const tk_complex *roots = (const tk_complex *)d->roots, *chirp = (const tk_complex *)d->chirp,
                     *filter = (const tk_complex *)d->filter;
    for (int64_t j = 0; j < d->n; j++)
        a[j] = tk_complex_mul(a[j], chirp[j]);
    memset(a + d->n, 0, (size_t)(d->length - d->n) * sizeof *a);
    tk_complex *y = transform(d, a, b, roots);
    for (int64_t t = 0; t < d->length; t++) {
        y[t] = tk_complex_mul(y[t], filter[t]);
        y[t].im = -y[t].im; /* of a conjugate the transform is the conjugate of the inverse */
    }
    y = transform(d, y, y == a ? b : a, roots);
    for (int64_t k = 0; k < d->n; k++)
        y[k] = tk_complex_mul((tk_complex){y[k].re, -y[k].im}, chirp[k]);
    return y;
}

static void dft_range(void *ctx, tk_share share) {
    const dft_ctx *c = ctx;
    const tk_dft_shape *d = c->d;
    tk_complex *a = (tk_complex *)c->workspace + 2 * d->length * share.thread, *b = a + d->length;
    for (int64_t lane = share.begin; lane < share.end; lane++) {
        c->load(c, lane, a);
        c->store(c, lane, d->chirp ? convolve(d, a, b) : transform(d, a, b, (const tk_complex *)d->roots));
    }
}

size_t tk_dft_workspace(const tk_dft_shape *d, int slots) {
    return 2 * (size_t)d->length * (size_t)slots * sizeof(tk_complex);
}

void tk_dft(tk_queue *q, void *out, const void *inp, const void *window, const tk_dft_shape *d, tk_dtype dtype,
            void *workspace) {
    dft_ctx c = {out, workspace, inp, window, d, TK_OF_FLOAT(dtype, load), TK_OF_FLOAT(dtype, store)};
    tk_parallel_slots(q, d->outer * d->inner, dft_range, &c);
}
