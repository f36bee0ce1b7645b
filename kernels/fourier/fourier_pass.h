/* fourier_pass.h: the steps of a transform, for the CPU and for CUDA: numbers are pairs of doubles. */
#ifndef TK_FOURIER_PASS_H
#define TK_FOURIER_PASS_H
#include "fourier.h"

typedef struct tk_complex {
    double re, im;
} tk_complex;

TK_INLINE tk_complex tk_complex_mul(tk_complex a, tk_complex b) {
    tk_complex y = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    return y;
}

/* Butterfly `item` of a pass over transforms of `n`, `stride` of them interleaved, by the factor p:
 *   y[q + stride (p j + k)] = w_n^(j k) sum over r of x[q + stride (j + n/p r)] w_p^(r k)
 * for item = q + stride j. n stride is the length; there are length / p items. */
TK_INLINE void tk_butterfly(tk_complex *y, const tk_complex *x, const tk_complex *roots, int64_t length, int64_t stride,
                            int p, int64_t item) {
    int64_t j = item / stride, q = item % stride, apart = length / p, turn = length / p;
    tk_complex in[TK_DFT_RADIX];
    for (int r = 0; r < p; r++)
        in[r] = x[item + apart * r];
    y += q + stride * p * j;
    for (int k = 0; k < p; k++) {
        tk_complex sum = in[0];
        for (int r = 1, at = k; r < p; r++, at = (at + k) % p) {
            tk_complex term = tk_complex_mul(in[r], roots[turn * at]);
            sum.re += term.re;
            sum.im += term.im;
        }
        y[stride * k] = k == 0 || j == 0 ? sum : tk_complex_mul(sum, roots[stride * j * k]);
    }
}

/* Which of the operand's numbers is number j of a lane, and whether as its conjugate; -1: it is 0. */
TK_INLINE int64_t tk_dft_source(const tk_dft_shape *d, int64_t j, bool *out_conjugate) {
    *out_conjugate = d->half && j > d->n / 2;
    j = *out_conjugate ? d->n - j : j;
    return j < d->n_inp ? j : -1;
}

/* Where the lane's numbers begin in the operand and in the result. */
TK_INLINE int64_t tk_dft_inp_at(const tk_dft_shape *d, int64_t lane) {
    int64_t o = lane / d->inner;
    return o / d->frames * d->across + o % d->frames * d->step + lane % d->inner;
}
TK_INLINE int64_t tk_dft_out_at(const tk_dft_shape *d, int64_t lane) {
    return lane / d->inner * d->n_out * d->inner + lane % d->inner;
}
#endif
