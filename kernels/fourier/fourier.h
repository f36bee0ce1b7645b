/* fourier.h: discrete Fourier transforms of any length (ONNX DFT, STFT), in O(n log n): by passes over factors of up to
 * TK_DFT_RADIX (T. G. Stockham, "High-speed convolution and correlation", 1966), and where the length has a larger
 * prime factor as a convolution of a power of two (L. I. Bluestein, "A linear filtering approach to the computation of
 * discrete Fourier transform", 1970). All types are computed in double. */
#ifndef TK_FOURIER_H
#define TK_FOURIER_H
#include "../kernel.h"

enum { TK_DFT_RADIX = 13, TK_DFT_FACTORS = 64 };

/* Lanes [outer, inner]. Element j of lane (o, i) is number ((o / frames) across + (o % frames) step + j inner + i) of
 * the operand, result k number (o n_out + k) inner + i; a number has as many elements as parts (1: real, 2: complex).
 */
typedef struct tk_dft_shape {
    int64_t outer, inner, frames, across, step;
    int64_t n, n_inp, n_out; /* the length; numbers read (those after them are 0) and written of a lane, none above n */
    int inp_parts, out_parts;
    bool inverse; /* conjugate roots, over n */
    bool half;    /* the operand is the first half of a sequence that is its own conjugate when reversed */
    /* Passes of a transform of `length`, which is n, or for Bluestein's way a power of two from 2 n - 1 on. */
    int64_t length;
    int n_factors;
    int factors[TK_DFT_FACTORS];
    const double *roots;  /* [length, 2]: e^(-2 pi i t / length) */
    const double *chirp;  /* [n, 2]: e^(-pi i k^2 / n); NULL: length is n */
    const double *filter; /* [length, 2]: the transform of the conjugate chirp, laid from both ends, over length */
} tk_dft_shape;

/* Sets length and factors of a transform of n >= 1. */
void tk_dft_plan(tk_dft_shape *d, int64_t n);
/* The tables of a plan: roots, and where length is not n chirp and filter, which has room for twice its length. */
void tk_dft_tables(const tk_dft_shape *d, double *out_roots, double *out_chirp, double *out_filter);

/* clang-format off */
#define TK_FOURIER_KERNELS(K) \
    /* window: of the operand's type, [n_inp]: factors of its numbers; or NULL. Any float type. workspace: \
     * tk_dft_workspace bytes */ \
    K(dft, (tk_queue *q, void *out, const void *inp, const void *window, const tk_dft_shape *d, tk_dtype dtype, \
      void *workspace), (q, out, inp, window, d, dtype, workspace))
#define TK_FOURIER_WORKSPACES(W) \
    W(dft_workspace, (const tk_dft_shape *d, int slots), (d, slots))
/* clang-format on */

TK_FOURIER_KERNELS(TK_DECLARE_KERNEL)
TK_FOURIER_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
