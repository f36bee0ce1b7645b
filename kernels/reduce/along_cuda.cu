/* along_cuda.cu: ArgMax, ArgMin and CumSum. A warp has a row of ArgMax where the axis is the last one; else, and for
 * sums of floats, which are added in the order of the CPU's, a thread walks along the axis. Integers have the same sum
 * in any order: they are summed over all lanes, and each lane subtracts the sum before it. */
#include "../cuda/any_type.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "../cuda/cub.h"
#include "reduce.h"
TK_REDUCE_KERNELS(TK_DECLARE_CUDA)
TK_REDUCE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 256 };

/* --- ArgMax, ArgMin ------------------------------------------------------------------------------- */

/* The better one of two elements, the first of which stands earlier; NaN is never better. */
template <class T> __device__ __forceinline__ bool is_better(T a, T b, bool largest, bool last) {
    return (largest ? b > a : b < a) || (last && a == b);
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    arg_column(int64_t *out, const S *inp, int64_t n, tk_divisor inner, int64_t lanes, bool largest, bool last) {
    TK_FOR_EACH(i, lanes) {
        int64_t o = i, best = 0;
        const int64_t j = tk_split(o, inner);
        const S *x = inp + o * n * inner.by + j;
        tk_math<S> most = tk_number_of(x[0]);
        for (int64_t k = 1; k < n; k++) {
            const tk_math<S> y = tk_number_of(x[k * inner.by]);
            if (is_better(most, y, largest, last)) {
                most = y;
                best = k;
            }
        }
        out[i] = best;
    }
}

/* An element and where it is; -1: none. */
template <class T> struct candidate {
    T x;
    int64_t at;
};

template <class T>
__device__ __forceinline__ candidate<T> better(candidate<T> a, candidate<T> b, bool largest, bool last) {
    const candidate<T> first = a.at < b.at ? a : b, second = a.at < b.at ? b : a;
    return first.at < 0 || is_better(first.x, second.x, largest, last) ? second : first;
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    arg_row(int64_t *out, const S *inp, int64_t n, int64_t rows, bool largest, bool last) {
    const int lane = (int)threadIdx.x % TK_WARP;
    for (int64_t row = (int64_t)blockIdx.x * (THREADS / TK_WARP) + threadIdx.x / TK_WARP; row < rows;
         row += (int64_t)gridDim.x * (THREADS / TK_WARP)) {
        const S *x = inp + row * n;
        candidate<tk_math<S>> best = {0, -1};
        for (int64_t k = lane; k < n; k += TK_WARP) {
            const candidate<tk_math<S>> here = {tk_number_of(x[k]), k};
            if (here.x == here.x)
                best = better(best, here, largest, last);
        }
        for (int d = TK_WARP / 2; d > 0; d /= 2) {
            const candidate<tk_math<S>> other = {(tk_math<S>)__shfl_xor_sync(TK_ALL_LANES, best.x, d),
                                                 __shfl_xor_sync(TK_ALL_LANES, best.at, d)};
            best = better(best, other, largest, last);
        }
        /* Nothing is better than a first element that is NaN. */
        if (lane == 0)
            out[row] = best.at < 0 || tk_number_of(x[0]) != tk_number_of(x[0]) ? 0 : best.at;
    }
}

template <class S>
void run_arg(tk_queue *q, int64_t *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool largest,
             bool last) {
    if (inner == 1)
        TK_LAUNCH((arg_row<S>), tk_blocks(q, outer, THREADS / TK_WARP), THREADS, 0, q, out, (const S *)inp, n, outer,
                  largest, last);
    else
        TK_LAUNCH((arg_column<S>), tk_blocks(q, outer * inner, THREADS), THREADS, 0, q, out, (const S *)inp, n,
                  tk_divisor_of(inner), outer * inner, largest, last);
}

/* --- CumSum --------------------------------------------------------------------------------------- */

/* Integers wrap. */
template <class S> struct sum_of { typedef uint64_t type; };
template <> struct sum_of<float> { typedef float type; };
template <> struct sum_of<double> { typedef double type; };
template <> struct sum_of<tk_half> { typedef float type; };
template <> struct sum_of<tk_bfloat> { typedef float type; };

/* `step`: from one element to the next, in the order of the sum; `from`: of the first. */
template <class S>
__global__ void __launch_bounds__(THREADS) cumsum(S *out, const S *inp, int64_t n, tk_divisor inner, int64_t lanes,
                                                  int64_t from, int64_t step, bool exclusive) {
    typedef typename sum_of<S>::type T;
    TK_FOR_EACH(i, lanes) {
        int64_t o = i;
        const int64_t j = tk_split(o, inner);
        int64_t at = o * n * inner.by + j + from;
        T sum = 0;
        for (int64_t k = 0; k < n; k++, at += step) {
            const T before = sum, x = (T)tk_number_of(inp[at]);
            sum = k == 0 ? x : before + x;
            out[at] = tk_element_of<S>((tk_math<S>)(exclusive ? before : sum));
        }
    }
}

/* Where a thread has a lane each, and many lanes or short ones, there is nothing to gain. */
bool sums_over_all(int64_t lanes, int64_t n, tk_dtype dtype) {
    return !tk_is_float(dtype) && n >= TK_WARP && lanes < 65536;
}

/* Lanes one after the other, each in the order of its sum. */
typedef struct summed {
    const void *inp;
    tk_dtype dtype;
    int64_t items, from, step; /* of the first element of a lane, and to the next one */
    tk_divisor n, inner;
} summed;

/* Where item i lies; `lane` becomes the first item of its lane. */
__device__ __forceinline__ int64_t place_of(const summed &of, int64_t i, int64_t *lane) {
    int64_t o = i;
    const int64_t k = tk_split(o, of.n), j = tk_split(o, of.inner);
    *lane = i - k;
    return o * of.n.by * of.inner.by + j + of.from + k * of.step;
}

__global__ void __launch_bounds__(THREADS) take_numbers(uint64_t *numbers, const __grid_constant__ summed of) {
    TK_FOR_EACH(i, of.items) {
        int64_t lane;
        numbers[i] = (uint64_t)tk_any_integer(of.inp, of.dtype, place_of(of, i, &lane));
    }
}

/* before: the sums of all items before each. */
__global__ void __launch_bounds__(THREADS)
    put_sums(void *out, const uint64_t *before, const __grid_constant__ summed of, size_t element, bool exclusive) {
    TK_FOR_EACH(i, of.items) {
        int64_t lane;
        const int64_t at = place_of(of, i, &lane);
        uint64_t sum = before[i] - before[lane];
        if (!exclusive)
            sum += (uint64_t)tk_any_integer(of.inp, of.dtype, at);
        TK_SIZES(element, S, ((S *)out)[at] = (S)sum)
    }
}

void sum_over_all(tk_queue *q, void *out, const summed &of, bool exclusive, uint64_t *numbers) {
    const unsigned blocks = tk_blocks(q, of.items, THREADS);
    TK_LAUNCH(take_numbers, blocks, THREADS, 0, q, numbers, of);
    tk_sums_before(tk_queue_cuda(q), numbers, of.items, numbers + of.items);
    TK_LAUNCH(put_sums, blocks, THREADS, 0, q, out, numbers, of, tk_size(of.dtype), exclusive);
}

} // namespace

void tk_cuda_arg(tk_queue *q, int64_t *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool largest,
                 bool last, tk_dtype dtype) {
    if (outer * inner > 0)
        TK_NUMBERS(dtype, S, run_arg<S>(q, out, inp, outer, n, inner, largest, last))
}

size_t tk_cuda_cumsum_workspace(int64_t lanes, int64_t n, tk_dtype dtype) {
    const int64_t items = lanes * n;
    return sums_over_all(lanes, n, dtype) ? (size_t)items * sizeof(uint64_t) + tk_sums_workspace(items) : 0;
}

void tk_cuda_cumsum(tk_queue *q, void *out, const void *inp, int64_t outer, int64_t n, int64_t inner, bool exclusive,
                    bool reverse, tk_dtype dtype, void *workspace) {
    const int64_t lanes = outer * inner, from = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
    if (lanes == 0 || n == 0)
        return;
    if (sums_over_all(lanes, n, dtype))
        sum_over_all(q, out, summed{inp, dtype, lanes * n, from, step, tk_divisor_of(n), tk_divisor_of(inner)},
                     exclusive, (uint64_t *)workspace);
    else
        TK_NUMBERS(dtype, S,
                   TK_LAUNCH((cumsum<S>), tk_blocks(q, lanes, THREADS), THREADS, 0, q, (S *)out, (const S *)inp, n,
                             tk_divisor_of(inner), lanes, from, step, exclusive))
}
