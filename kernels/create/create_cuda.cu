/* create_cuda.cu: Range, EyeLike, OneHot and random numbers on a CUDA device: an element a thread, of random numbers a
 * block of Philox. */
#include "../cuda/any_type.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "create.h"
TK_CREATE_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256 };

/* --- Range: in double, or modulo 2^64 ------------------------------------------------------------ */

template <class S> __device__ __forceinline__ S rounded(double x) { return (S)x; }
template <> __device__ __forceinline__ tk_half rounded(double x) { return {tk_f16_of_double(x)}; }
template <> __device__ __forceinline__ tk_bfloat rounded(double x) { return {tk_bf16_of_double(x)}; }

template <class S>
__global__ void __launch_bounds__(THREADS) range_of_floats(S *out, const S *start, const S *delta, int64_t n) {
    const double first = (double)tk_number_of(*start), step = (double)tk_number_of(*delta);
    TK_FOR_EACH(i, n) { out[i] = rounded<S>(first + (double)i * step); }
}
template <class S>
__global__ void __launch_bounds__(THREADS) range_of_integers(S *out, const S *start, const S *delta, int64_t n) {
    const uint64_t first = *start, step = *delta;
    TK_FOR_EACH(i, n) { out[i] = (S)(first + (uint64_t)i * step); }
}

template <class S> void run_floats(tk_queue *q, void *out, const void *start, const void *delta, int64_t n) {
    TK_LAUNCH((range_of_floats<S>), tk_blocks(q, n, THREADS), THREADS, 0, q, (S *)out, (const S *)start,
              (const S *)delta, n);
}
template <class S> void run_integers(tk_queue *q, void *out, const void *start, const void *delta, int64_t n) {
    TK_LAUNCH((range_of_integers<S>), tk_blocks(q, n, THREADS), THREADS, 0, q, (S *)out, (const S *)start,
              (const S *)delta, n);
}

/* --- EyeLike and OneHot --------------------------------------------------------------------------- */

template <class S>
__global__ void __launch_bounds__(THREADS) eye(S *out, S one, int64_t n, tk_divisor cols, int64_t k) {
    TK_FOR_EACH(i, n) {
        const int64_t row = tk_divide(i, cols, n <= INT32_MAX);
        out[i] = i - row * cols.by - row == k ? one : S(0);
    }
}

template <class S> void run_eye(tk_queue *q, void *out, const void *one, int64_t n, int64_t cols, int64_t k) {
    S element;
    memcpy(&element, one, sizeof element);
    TK_LAUNCH((eye<S>), tk_blocks(q, n, THREADS), THREADS, 0, q, (S *)out, element, n, tk_divisor_of(cols), k);
}

/* The class of an index; a number outside [0, depth) if there is none. */
__device__ __forceinline__ int64_t class_of(const void *indices, tk_dtype dtype, int64_t i, int64_t depth) {
    if (dtype != TK_I64) {
        const double at = tk_any_number(indices, dtype, i);
        if (!(at >= -0x1p62 && at < 0x1p62))
            return -1;
    }
    const int64_t c = tk_any_integer(indices, dtype, i);
    return c < 0 ? c + depth : c;
}

template <class S>
__global__ void __launch_bounds__(THREADS) one_hot(S *out, const S *values, const void *indices, tk_dtype index_type,
                                                   int64_t n, tk_divisor depth, tk_divisor inner) {
    const S off = values[0], on = values[1];
    const bool quick = n <= INT32_MAX;
    TK_FOR_EACH(i, n) {
        const int64_t line = tk_divide(i, inner, quick), outer = tk_divide(line, depth, quick);
        const int64_t at = outer * inner.by + i - line * inner.by;
        out[i] = class_of(indices, index_type, at, depth.by) == line - outer * depth.by ? on : off;
    }
}

/* --- random numbers ------------------------------------------------------------------------------- */

template <class S> __device__ __forceinline__ S placed(double shift, double width, double drawn) {
    return tk_element_of<S>((float)shift + (float)width * (float)drawn);
}
template <> __device__ __forceinline__ double placed(double shift, double width, double drawn) {
    return shift + width * drawn;
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    random_uniform(S *out, int64_t n, double shift, double width, tk_seed seed, tk_dtype dtype) {
    const tk_draw draw = tk_draw_of(seed);
    TK_FOR_EACH(b, (n + TK_WORDS - 1) / TK_WORDS) {
        uint32_t words[TK_WORDS];
        tk_draw_block(&draw, (uint64_t)b, words);
#pragma unroll
        for (int k = 0; k < TK_WORDS; k++)
            if (b * TK_WORDS + k < n)
                out[b * TK_WORDS + k] = placed<S>(shift, width, tk_uniform_bits(words[k], dtype));
    }
}

/* Two words for an element. */
template <class S>
__global__ void __launch_bounds__(THREADS) random_normal(S *out, int64_t n, double shift, double width, tk_seed seed) {
    const tk_draw draw = tk_draw_of(seed);
    TK_FOR_EACH(b, (n + 1) / 2) {
        uint32_t words[TK_WORDS];
        tk_draw_block(&draw, (uint64_t)b, words);
        out[2 * b] = placed<S>(shift, width, tk_normal(words[0], words[1]));
        if (2 * b + 1 < n)
            out[2 * b + 1] = placed<S>(shift, width, tk_normal(words[2], words[3]));
    }
}

} // namespace

void tk_cuda_range(tk_queue *q, void *out, const void *start, const void *delta, int64_t n, tk_dtype dtype) {
    if (n == 0)
        return;
    if (tk_is_float(dtype))
        TK_FLOATS(dtype, S, run_floats<S>(q, out, start, delta, n))
    else
        TK_SIZES(tk_size(dtype), S, run_integers<S>(q, out, start, delta, n))
}

void tk_cuda_eye(tk_queue *q, void *out, const void *one, int64_t rows, int64_t cols, int64_t k, size_t element) {
    if (rows * cols > 0)
        TK_SIZES(element, S, run_eye<S>(q, out, one, rows * cols, cols, k))
}

void tk_cuda_one_hot(tk_queue *q, void *out, const void *values, const void *indices, tk_dtype index_type,
                     int64_t outer, int64_t depth, int64_t inner, size_t element) {
    const int64_t n = outer * depth * inner;
    if (n > 0)
        TK_SIZES(element, S,
                 TK_LAUNCH((one_hot<S>), tk_blocks(q, n, THREADS), THREADS, 0, q, (S *)out, (const S *)values, indices,
                           index_type, n, tk_divisor_of(depth), tk_divisor_of(inner)))
}

void tk_cuda_random_uniform(tk_queue *q, void *out, int64_t n, float low, float high, tk_seed seed, tk_dtype dtype) {
    const double width = dtype == TK_F64 ? (double)high - low : (double)(high - low);
    if (n > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH((random_uniform<S>), tk_blocks(q, n, THREADS, TK_WORDS), THREADS, 0, q, (S *)out, n,
                            (double)low, width, seed, dtype))
}

void tk_cuda_random_normal(tk_queue *q, void *out, int64_t n, float mean, float scale, tk_seed seed, tk_dtype dtype) {
    if (n > 0)
        TK_FLOATS(dtype, S,
                  TK_LAUNCH((random_normal<S>), tk_blocks(q, n, THREADS, 2), THREADS, 0, q, (S *)out, n, (double)mean,
                            (double)scale, seed))
}
