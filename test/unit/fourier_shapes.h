/* fourier_shapes.h: transforms of length n that both the CPU's kernels and CUDA's are tried on. */
#ifndef TEST_FOURIER_SHAPES_H
#define TEST_FOURIER_SHAPES_H
#include "kernels/fourier/fourier.h"

/* Of [2, n, 3] complex numbers. */
static inline tk_dft_shape complex_lanes(int64_t n) {
    return (tk_dft_shape){
        .outer = 2, .inner = 3, .frames = 1, .across = 3 * n, .n_inp = n, .n_out = n, .inp_parts = 2, .out_parts = 2};
}

/* The inverse, to real numbers, of [2, n / 2 + 1, 3] complex ones. */
static inline tk_dft_shape half_lanes(int64_t n) {
    tk_dft_shape d = complex_lanes(n);
    d.n_inp = n / 2 + 1;
    d.across = 3 * d.n_inp;
    d.out_parts = 1;
    d.half = d.inverse = true;
    return d;
}

/* Of two real signals of n + 4, three frames each, 2 apart, with a window; half of what they become. */
static inline tk_dft_shape real_frames(int64_t n) {
    return (tk_dft_shape){.outer = 6,
                          .inner = 1,
                          .frames = 3,
                          .across = n + 4,
                          .step = 2,
                          .n_inp = n,
                          .n_out = n / 2 + 1,
                          .inp_parts = 1,
                          .out_parts = 2};
}
#endif
