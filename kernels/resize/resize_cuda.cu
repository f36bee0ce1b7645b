/* resize_cuda.cu: Resize and its gradient on a CUDA device: a thread has an element of the result, and sums up the
 * elements that the tables name. The gradient reads dY the same way, so nothing is added by atomics. */
#include "../cuda/walk.cuh"
extern "C" {
#include "resize.h"
TK_RESIZE_KERNELS(TK_DECLARE_CUDA)
TK_RESIZE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 256, RANK = TK_RESIZE_AXES + 2 };
typedef tk_walk<1, RANK> result_walk; /* [outer, axes..., inner] of the result */

/* The taps of element `i` of the result along each axis, and where its part of the operand begins. */
template <int N> struct reading {
    tk_tap taps[N];
    int64_t outer, inner;
    bool outside;
};

template <int N>
__device__ __forceinline__ reading<N> reading_of(int64_t i, const tk_resize &r, const result_walk &walk) {
    reading<N> at;
    at.outside = false;
    at.inner = tk_split(i, walk.dims[r.n_axes + 1]);
#pragma unroll
    for (int d = N - 1; d >= 0; d--)
        if (d < r.n_axes) {
            at.taps[d] = r.axes[d].taps[tk_split(i, walk.dims[d + 1])];
            at.outside |= at.taps[d].count == 0;
        }
    at.outer = i;
    return at;
}

/* The place of the taps `k`, in elements of the operand. */
template <int N>
__device__ __forceinline__ int64_t place_of(const reading<N> &at, const int32_t *k, const tk_resize &r) {
    int64_t place = at.outer;
#pragma unroll
    for (int d = 0; d < N; d++)
        if (d < r.n_axes)
            place = place * r.axes[d].inp + at.taps[d].first + k[d];
    return place * r.inner + at.inner;
}

template <class S, int N>
__global__ void __launch_bounds__(THREADS)
    sum_taps(S *out, const S *inp, const __grid_constant__ tk_resize r, const __grid_constant__ result_walk walk) {
    typedef tk_math<S> T;
    TK_FOR_EACH(i, walk.items) {
        const reading<N> at = reading_of<N>(i, r, walk);
        int32_t k[N] = {};
        T sum = 0;
        for (bool more = !at.outside; more;) {
            T weight = 1;
#pragma unroll
            for (int d = 0; d < N; d++)
                if (d < r.n_axes)
                    weight *= ((const T *)r.axes[d].weights)[at.taps[d].weights + k[d]];
            sum += weight * tk_number_of(inp[place_of<N>(at, k, r)]);
            more = false;
#pragma unroll
            for (int d = N - 1; d >= 0; d--)
                if (d < r.n_axes && !more) {
                    more = ++k[d] < at.taps[d].count;
                    k[d] = more ? k[d] : 0;
                }
        }
        out[i] = at.outside ? *(const S *)&r.outside : tk_element_of<S>(sum);
    }
}

template <class S, int N>
__global__ void __launch_bounds__(THREADS)
    pick(S *out, const S *inp, const __grid_constant__ tk_resize r, const __grid_constant__ result_walk walk) {
    TK_FOR_EACH(i, walk.items) {
        const reading<N> at = reading_of<N>(i, r, walk);
        const int32_t none[N] = {};
        out[i] = at.outside ? *(const S *)&r.outside : inp[place_of<N>(at, none, r)];
    }
}

template <class S, int N>
void run(tk_queue *q, void *out, const void *inp, const tk_resize *r, const result_walk &walk) {
    const unsigned blocks = tk_blocks(q, walk.items, THREADS);
    TK_LAUNCH((sum_taps<S, N>), blocks, THREADS, 0, q, (S *)out, (const S *)inp, *r, walk);
}

template <class S, int N>
void run_pick(tk_queue *q, void *out, const void *inp, const tk_resize *r, const result_walk &walk) {
    const unsigned blocks = tk_blocks(q, walk.items, THREADS);
    TK_LAUNCH((pick<S, N>), blocks, THREADS, 0, q, (S *)out, (const S *)inp, *r, walk);
}

} // namespace

size_t tk_cuda_resize_workspace(const tk_resize *, tk_dtype, int) { return 0; }

void tk_cuda_resize_run(tk_queue *q, void *out, const void *inp, const tk_resize *resize, tk_dtype dtype, void *) {
    int64_t dims[RANK] = {resize->outer};
    const int64_t none[RANK] = {};
    const int64_t *const strides[] = {none};
    for (int d = 0; d < resize->n_axes; d++)
        dims[d + 1] = resize->axes[d].out;
    dims[resize->n_axes + 1] = resize->inner;
    const result_walk walk = tk_walk_of<1, RANK>(resize->n_axes + 2, dims, strides);
    const bool few = resize->n_axes <= 2;
    if (walk.items == 0)
        return;
    if (resize->picks && few)
        TK_SIZES(tk_size(dtype), S, (run_pick<S, 2>(q, out, inp, resize, walk)))
    else if (resize->picks)
        TK_SIZES(tk_size(dtype), S, (run_pick<S, TK_RESIZE_AXES>(q, out, inp, resize, walk)))
    else if (few)
        TK_FLOATS(dtype, S, (run<S, 2>(q, out, inp, resize, walk)))
    else
        TK_FLOATS(dtype, S, (run<S, TK_RESIZE_AXES>(q, out, inp, resize, walk)))
}
