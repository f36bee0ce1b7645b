/* grid_sample_cuda.cu: GridSample on a CUDA device: a thread has a place of some channels, so that what is read there
 * is worked out once for all of them, and sums up in the order of the CPU's. */
#include "../common/walk.cuh"
extern "C" {
#include "grid_taps.h"
TK_GRID_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256, CHANNELS = 4 };
typedef tk_walk<1, 3> place_walk; /* [batch, groups of channels, places] */

/* The taps of the axes; an axis that the input lacks has one, at 0, and stands in front. */
template <class S>
__device__ __forceinline__ void axes_of(tk_grid_taps *axes, const S *coordinates, const tk_grid_sample &s) {
#pragma unroll
    for (int d = 0; d < TK_GRID_AXES; d++) {
        const int axis = d - (TK_GRID_AXES - s.n_axes);
        axes[d] = tk_grid_taps{1, {0}, {1}};
        if (axis >= 0)
            axes[d] = tk_grid_taps_of(&s, s.dims[axis], (double)tk_number_of(coordinates[s.n_axes - 1 - axis]));
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

template <class S>
__global__ void __launch_bounds__(THREADS)
    sample(S *out, const S *inp, const S *grid, const __grid_constant__ tk_grid_sample s,
           const __grid_constant__ place_walk walk) {
    int64_t sizes[TK_GRID_AXES], volume = 1;
#pragma unroll
    for (int d = 0; d < TK_GRID_AXES; d++) {
        sizes[d] = d < TK_GRID_AXES - s.n_axes ? 1 : s.dims[d - (TK_GRID_AXES - s.n_axes)];
        volume *= sizes[d];
    }
    TK_FOR_EACH(i, walk.items) {
        int64_t item = i;
        const int64_t place = tk_split(item, walk.dims[2]), first = tk_split(item, walk.dims[1]) * CHANNELS,
                      channels = s.channels - first;
        tk_grid_taps axes[TK_GRID_AXES];
        axes_of(axes, grid + (item * s.places + place) * s.n_axes, s);
        const S *const x = inp + (item * s.channels + first) * volume;
        tk_math<S> sums[CHANNELS] = {};
        for (int j = 0; j < axes[0].n; j++)
            for (int k = 0; k < axes[1].n; k++)
                for (int l = 0; l < axes[2].n; l++) {
                    const double weight = axes[0].weights[j] * axes[1].weights[k] * axes[2].weights[l];
                    const int64_t at = (axes[0].at[j] * sizes[1] + axes[1].at[k]) * sizes[2] + axes[2].at[l];
                    if (weight != 0)
                        add(sums, weight, x + at, volume, channels);
                }
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            if (c < channels)
                out[(item * s.channels + first + c) * s.places + place] = tk_element_of<S>(sums[c]);
    }
}

} // namespace

void tk_cuda_grid_sample_run(tk_queue *q, void *out, const void *inp, const void *grid, const tk_grid_sample *s,
                             tk_dtype dtype) {
    const int64_t dims[] = {s->batch, (s->channels + CHANNELS - 1) / CHANNELS, s->places}, none[] = {0, 0, 0};
    const int64_t *const strides[] = {none};
    const place_walk walk = tk_walk_of<1, 3>(3, dims, strides);
    if (walk.items > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH((sample<S>), tk_blocks(q, walk.items, THREADS), THREADS, 0, q, (S *)out, (const S *)inp,
                            (const S *)grid, *s, walk))
}
