/* softmax_device.cuh: shared by kernels with a softmax inside on the device: exponentials by element type, and a row in
 * the registers of a team of threads (row.cuh) with its largest element. */
#ifndef TK_SOFTMAX_DEVICE_CUH
#define TK_SOFTMAX_DEVICE_CUH
#include "../cuda/column.cuh"
#include "../cuda/fast_math.cuh"
#include "../cuda/row.cuh"
extern "C" {
#include "softmax.h"
TK_SOFTMAX_KERNELS(TK_DECLARE_CUDA)

/* LogSoftmax, the statistics of rows, and single elements of LogSoftmax, in one pass: each result may be NULL. picked
 * [outer, inner], of the type of computation: element labels[i] of column i, which is not rounded to 16 bits; not
 * written where there is no such element. */
typedef struct tk_log_softmax_results {
    void *out, *largest, *log_sum, *picked;
} tk_log_softmax_results;
void tk_cuda_log_softmax_parts(tk_queue *q, tk_log_softmax_results out, const void *inp, const void *labels,
                               tk_dtype label_dtype, tk_softmax_shape shape, tk_dtype dtype);
}

/* Exponentials of elements S: those of 16 bits by the fast function. */
template <class S> struct tk_softmax_exp {
    static __device__ __forceinline__ float of(float x) { return tk_exp_fast(x); }
};
template <> struct tk_softmax_exp<float> {
    static __device__ __forceinline__ float of(float x) { return tk_expf(x); }
};
template <> struct tk_softmax_exp<double> {
    static __device__ __forceinline__ double of(double x) { return exp(x); }
};

__device__ __forceinline__ float tk_log_of(float x) { return tk_logf(x); }
__device__ __forceinline__ double tk_log_of(double x) { return log(x); }

/* A row's numbers, -infinity after its end; returns the largest of the thread's own. */
template <class S, int TEAM, int PER>
__device__ __forceinline__ tk_math<S> tk_softmax_load(tk_math<S> (&v)[PER][tk_pack_size<S>], const S *row, int64_t n,
                                                      bool packed) {
    typedef tk_math<S> T;
    T most = -(T)INFINITY;
#pragma unroll
    for (int p = 0; p < PER; p++) {
        const int64_t at = tk_row_at<S, TEAM>(p);
        const int left = n - at < tk_pack_size<S> ? (int)(n - at) : tk_pack_size<S>;
        const tk_pack<S, tk_pack_size<S>> x = tk_row_load(row, at, n, packed);
#pragma unroll
        for (int k = 0; k < tk_pack_size<S>; k++) {
            v[p][k] = k < left ? tk_number_of(x.at[k]) : -(T)INFINITY;
            most = tk_larger_of(most, v[p][k]);
        }
    }
    return most;
}

/* The largest number of a long row and the sum of exponentials, in one pass: each thread's sum is relative to the
 * largest that it has seen so far. */
template <class T> struct tk_softmax_sums { T largest, sum; };
template <class S>
__device__ __forceinline__ tk_softmax_sums<tk_math<S>> tk_softmax_long_sums(const S *row, int64_t n, bool packed,
                                                                            tk_math<S> *parts) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    T most = -(T)INFINITY, sum = 0;
    for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < n; at += TK_ROW_THREADS * N) {
        const tk_pack<S, N> x = tk_row_load(row, at, n, packed);
        const int left = n - at < N ? (int)(n - at) : N;
        T v[N], most_here = most, sum_here = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            v[k] = k < left ? tk_number_of(x.at[k]) : -(T)INFINITY;
            most_here = tk_larger_of(most_here, v[k]);
        }
        /* Only -infinity so far: relative to 0, since the difference would be NaN. */
        const T to = most_here == -(T)INFINITY ? 0 : most_here;
#pragma unroll
        for (int k = 0; k < N; k++)
            sum_here += tk_softmax_exp<S>::of(v[k] - to);
        sum = (most_here > most ? sum * tk_softmax_exp<S>::of(most - to) : sum) + sum_here;
        most = most_here;
    }
    const T largest = tk_team_max<TK_ROW_THREADS>(most, parts);
    return {largest, tk_team_sum<TK_ROW_THREADS>(sum * tk_softmax_exp<S>::of(most - largest), parts)};
}

/* The same of a column, elements `stride` apart, by the threads of the column. */
template <class S>
__device__ __forceinline__ tk_softmax_sums<tk_math<S>> tk_softmax_column_sums(const S *x, int64_t n, int64_t stride,
                                                                              bool is_one, tk_math<S> *room) {
    typedef tk_math<S> T;
    T most = -(T)INFINITY, sum = 0;
    for (int64_t i = threadIdx.y; is_one && i < n; i += blockDim.y)
        most = tk_larger_of(most, tk_number_of(x[i * stride]));
    const T largest = tk_column_reduce(most, room, tk_larger());
    for (int64_t i = threadIdx.y; is_one && i < n; i += blockDim.y)
        sum += tk_softmax_exp<S>::of(tk_number_of(x[i * stride]) - largest);
    return {largest, tk_column_reduce(sum, room, tk_plus())};
}
#endif
