/* grid_sample_cuda.cu: GridSample on a CUDA device: a thread has a place of some channels, so that the elements to read
 * are found once for all of them, and sums up in the order of the CPU's. */
#include "../cuda/walk.cuh"
extern "C" {
#include "grid_taps.h"
TK_GRID_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256, CHANNELS = 4 };
typedef tk_walk<1, 3> place_walk; /* [batch, groups of channels, places] */

/* The taps of the axes. With fewer axes the first ones have size 1 and one tap. */
template <tk_resize_mode MODE, class S>
__device__ __forceinline__ void axes_of(tk_grid_taps *axes, const S *coordinates, const tk_grid_sample &s) {
    tk_grid_sample of = s;
    of.mode = MODE;
#pragma unroll
    for (int d = 0; d < TK_GRID_AXES; d++) {
        axes[d] = tk_grid_taps{1, {0}, {1}};
        if (d >= TK_GRID_AXES - s.n_axes)
            axes[d] = tk_grid_taps_of(&of, s.dims[d], (double)tk_number_of(coordinates[TK_GRID_AXES - 1 - d]));
    }
}

/* Adds the element `at` of so many channels. */
template <class S>
__device__ __forceinline__ void add(tk_math<S> *sums, double weight, const S *x, int64_t volume, int64_t channels) {
#pragma unroll
    for (int c = 0; c < CHANNELS; c++)
        if (c < channels)
            sums[c] += (tk_math<S>)weight * tk_number_of(x[c * volume]);
}

template <tk_resize_mode MODE> constexpr int taps_of = MODE == TK_RESIZE_NEAREST ? 1 : 2;
template <tk_resize_mode MODE> constexpr int unrolled_of = MODE == TK_RESIZE_CUBIC ? 1 : taps_of<MODE>;

/* Taps of nearest and linear stay in registers, with weight 0 for unused ones. Unrolling all taps of a cubic would be
 * too much code: its loops look them up by number. */
template <class S, tk_resize_mode MODE>
__global__ void __launch_bounds__(THREADS)
    sample(S *out, const S *inp, const S *grid, const __grid_constant__ tk_grid_sample s,
           const __grid_constant__ place_walk walk) {
    constexpr bool is_cubic = MODE == TK_RESIZE_CUBIC;
    const int64_t volume = s.dims[0] * s.dims[1] * s.dims[2];
    TK_FOR_EACH(i, walk.items) {
        int64_t item = i;
        const int64_t place = tk_split(item, walk.dims[2]), first = tk_split(item, walk.dims[1]) * CHANNELS,
                      channels = s.channels - first;
        tk_grid_taps axes[TK_GRID_AXES];
        axes_of<MODE>(axes, grid + (item * s.places + place) * s.n_axes, s);
        const S *const x = inp + (item * s.channels + first) * volume;
        tk_math<S> sums[CHANNELS] = {};
#pragma unroll(unrolled_of <MODE>)
        for (int j = 0; j < (is_cubic ? axes[0].n : taps_of<MODE>); j++)
#pragma unroll(unrolled_of <MODE>)
            for (int k = 0; k < (is_cubic ? axes[1].n : taps_of<MODE>); k++)
#pragma unroll(unrolled_of <MODE>)
                for (int l = 0; l < (is_cubic ? axes[2].n : taps_of<MODE>); l++) {
                    const double weight = axes[0].weights[j] * axes[1].weights[k] * axes[2].weights[l];
                    const int64_t at = (axes[0].at[j] * s.dims[1] + axes[1].at[k]) * s.dims[2] + axes[2].at[l];
                    if (weight != 0)
                        add(sums, weight, x + at, volume, channels);
                }
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            if (c < channels)
                out[(item * s.channels + first + c) * s.places + place] = tk_element_of<S>(sums[c]);
    }
}

template <class S>
void run(tk_queue *q, void *out, const void *inp, const void *grid, const tk_grid_sample &s, const place_walk &walk) {
    const unsigned blocks = tk_blocks(q, walk.items, THREADS);
    switch (s.mode) {
#define SAMPLE(MODE)                                                                                                   \
    case MODE:                                                                                                         \
        TK_LAUNCH((sample<S, MODE>), blocks, THREADS, 0, q, (S *)out, (const S *)inp, (const S *)grid, s, walk);       \
        break;
        SAMPLE(TK_RESIZE_NEAREST)
        SAMPLE(TK_RESIZE_LINEAR)
        SAMPLE(TK_RESIZE_CUBIC)
#undef SAMPLE
    }
}

} // namespace

void tk_cuda_grid_sample_run(tk_queue *q, void *out, const void *inp, const void *grid, const tk_grid_sample *sample,
                             tk_dtype dtype) {
    tk_grid_sample s = *sample;
    const int64_t dims[] = {s.batch, (s.channels + CHANNELS - 1) / CHANNELS, s.places}, none[] = {0, 0, 0};
    const int64_t *const strides[] = {none};
    const place_walk walk = tk_walk_of<1, 3>(3, dims, strides);
    for (int d = 0; d < TK_GRID_AXES; d++)
        s.dims[d] = d < TK_GRID_AXES - s.n_axes ? 1 : sample->dims[d - (TK_GRID_AXES - s.n_axes)];
    if (walk.items > 0)
        TK_FLOATS(dtype, S, run<S>(q, out, inp, grid, s, walk))
}
