/* pool_cuda.cu: pools on a CUDA device: a thread has a result, and walks over its window in the order of the CPU's. */
#include "../cuda/gather.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "pool.h"
TK_POOL_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* The part of a window that lies in the input, and how many of its elements lie in the input and in the padded input.
 */
typedef struct box {
    int64_t from[TK_WINDOW_RANK], to[TK_WINDOW_RANK], inside, padded;
} box;

__device__ __forceinline__ box window_at(const tk_window &w, const int64_t *at) {
    box b = {{0, 0, 0}, {0, 0, 0}, 1, 1};
#pragma unroll
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        const int64_t first = at[d] * w.stride[d] - w.pad_begin[d], step = w.dilation[d],
                      end = first + (w.kernel[d] - 1) * step + 1, most = w.inp[d] + w.pad_end[d];
        b.from[d] = first >= 0 ? first : first + (-first + step - 1) / step * step;
        b.to[d] = end < w.inp[d] ? end : w.inp[d];
        b.inside *= b.to[d] > b.from[d] ? (b.to[d] - b.from[d] - 1) / step + 1 : 0;
        const int64_t last = end < most ? end : most;
        b.padded *= last > first ? (last - first - 1) / step + 1 : 0;
    }
    return b;
}

/* for (i, j, k of the window) */
#define FOR_EACH_IN(b, w, i, j, k)                                                                                     \
    for (int64_t i = (b).from[0]; i < (b).to[0]; i += (w).dilation[0])                                                 \
        for (int64_t j = (b).from[1]; j < (b).to[1]; j += (w).dilation[1])                                             \
            for (int64_t k = (b).from[2]; k < (b).to[2]; k += (w).dilation[2])

/* The smallest number of a type. */
template <class S> __device__ __forceinline__ tk_math<S> lowest() { return -INFINITY; }
template <> __device__ __forceinline__ int8_t lowest<int8_t>() { return INT8_MIN; }
template <> __device__ __forceinline__ uint8_t lowest<uint8_t>() { return 0; }

/* NaN is a maximum. indices: NULL, or where each maximum is in the whole input. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    max_pool(S *out, int64_t *indices, const S *inp, const __grid_constant__ tk_pool pool,
             const __grid_constant__ tk_walk<1> walk) {
    const tk_window &w = pool.window;
    const int64_t volume = w.inp[0] * w.inp[1] * w.inp[2];
    TK_FOR_EACH(i, walk.items) {
        int64_t plane = i, at[TK_WINDOW_RANK];
        for (int d = TK_WINDOW_RANK - 1; d >= 0; d--)
            at[d] = tk_split(plane, walk.dims[d + 1]);
        const box b = window_at(w, at);
        const S *x = inp + plane * volume;
        tk_math<S> best = lowest<S>();
        int64_t place = -1;
        FOR_EACH_IN(b, w, i0, i1, i2) {
            const tk_math<S> v = tk_number_of(x[(i0 * w.inp[1] + i1) * w.inp[2] + i2]);
            if (place < 0 || v > best || v != v) {
                best = v;
                place = pool.column_major ? (i2 * w.inp[1] + i1) * w.inp[0] + i0 : (i0 * w.inp[1] + i1) * w.inp[2] + i2;
            }
        }
        out[i] = tk_element_of<S>(best);
        if (indices)
            indices[i] = place < 0 ? -1 : plane * volume + place;
    }
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    mean_pool(S *out, const S *inp, const __grid_constant__ tk_pool pool, const __grid_constant__ tk_walk<1> walk) {
    const tk_window &w = pool.window;
    const bool mean = pool.op == TK_POOL_AVERAGE;
    const double p = (double)pool.p;
    TK_FOR_EACH(i, walk.items) {
        int64_t plane = i, at[TK_WINDOW_RANK];
        for (int d = TK_WINDOW_RANK - 1; d >= 0; d--)
            at[d] = tk_split(plane, walk.dims[d + 1]);
        const box b = window_at(w, at);
        const S *x = inp + plane * w.inp[0] * w.inp[1] * w.inp[2];
        double sum = 0;
        FOR_EACH_IN(b, w, i0, i1, i2) {
            const double v = (double)tk_number_of(x[(i0 * w.inp[1] + i1) * w.inp[2] + i2]);
            sum += mean ? v : pow(fabs(v), p);
        }
        const double y = mean ? sum / (double)(pool.count_pads ? b.padded : b.inside) : pow(sum, 1 / p);
        out[i] = tk_element_of<S>((tk_math<S>)y);
    }
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    fold_windows(S *out, const S *inp, const __grid_constant__ tk_window w, const __grid_constant__ tk_walk<1> walk) {
    const int64_t outs = w.out[0] * w.out[1] * w.out[2], taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    TK_FOR_EACH(i, walk.items) {
        int64_t plane = i, at[TK_WINDOW_RANK];
        for (int d = TK_WINDOW_RANK - 1; d >= 0; d--)
            at[d] = tk_split(plane, walk.dims[d + 1]);
        const S *x = inp + plane * taps * outs;
        out[i] = tk_element_of<S>(tk_gathered(tk_math<S>(0), x, w, at));
    }
}

} // namespace

void tk_cuda_fold(tk_queue *q, void *out, const void *inp, int64_t planes, const tk_window *window, tk_dtype dtype) {
    const int64_t dims[] = {planes, window->inp[0], window->inp[1], window->inp[2]}, none[] = {0, 0, 0, 0};
    const int64_t *const strides[] = {none};
    const tk_walk<1> walk = tk_walk_of<1>(4, dims, strides);
    if (walk.items > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH((fold_windows<S>), tk_blocks(q, walk.items, THREADS), THREADS, 0, q, (S *)out,
                            (const S *)inp, *window, walk))
}

void tk_cuda_pool_run(tk_queue *q, void *out, int64_t *indices, const void *inp, const tk_pool *pool, tk_dtype dtype) {
    const int64_t *sizes = pool->window.out;
    const int64_t dims[] = {pool->planes, sizes[0], sizes[1], sizes[2]}, none[] = {0, 0, 0, 0};
    const int64_t *const strides[] = {none};
    const tk_walk<1> walk = tk_walk_of<1>(4, dims, strides);
    const unsigned blocks = tk_blocks(q, walk.items, THREADS);
    if (walk.items == 0)
        return;
    if (pool->op != TK_POOL_MAX)
        TK_FLOATS(dtype, S, TK_LAUNCH((mean_pool<S>), blocks, THREADS, 0, q, (S *)out, (const S *)inp, *pool, walk))
    else
        switch ((int)dtype) {
#define MAX(S) TK_LAUNCH((max_pool<S>), blocks, THREADS, 0, q, (S *)out, indices, (const S *)inp, *pool, walk)
            TK_FLOAT_CASES(S, MAX(S))
            TK_CASE(TK_I8, int8_t, S, MAX(S))
            TK_CASE(TK_U8, uint8_t, S, MAX(S))
#undef MAX
        }
}
