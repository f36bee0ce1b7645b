/* norm_rows.cuh: x [rows, n] -> mean, inv_std [rows] -> xhat [rows, n] -> y [rows, n].
 * The kernel of LayerNormalization and RMSNormalization. A team of threads has a row in registers (row.cuh): one read,
 * one write. Its mean is summed, then corrected by the sum of differences from it, so that float statistics are good to
 * a few units in the last place. */
#ifndef TK_NORM_ROWS_CUH
#define TK_NORM_ROWS_CUH
#include "norm_device.cuh"
#include "row_links.cuh"

namespace {

struct norm_rows_args {
    void *out, *xhat, *mean, *inv_std;
    const void *inp, *scale, *bias;
    tk_norm_rows s;
    bool packed;
};

/* y at `at` of a row, from its stored x-hat. */
template <class S>
__device__ __forceinline__ void emit(const norm_rows_args &c, int64_t row, int64_t at,
                                     const tk_pack<S, tk_pack_size<S>> &xhat) {
    const S *scale = (const S *)c.scale + row * c.s.scale_step, *bias = (const S *)c.bias;
    const tk_pack<S, tk_pack_size<S>> w = tk_row_load(scale, at, c.s.n, c.packed);
    tk_pack<S, tk_pack_size<S>> zeros;
#pragma unroll
    for (int k = 0; k < tk_pack_size<S>; k++)
        zeros.at[k] = tk_element_of<S>(-(tk_math<S>)0); /* which change no sum */
    tk_row_words b = tk_row_words_of(zeros);
    if (bias)
        b = tk_row_load_words(bias + row * c.s.bias_step, at, c.s.n, c.packed);
    tk_row_store((S *)c.out + row * c.s.n, at, c.s.n, c.packed, tk_norm_of(xhat, w, tk_row_pack_of<S>(b)));
}

/* x-hat where it is wanted, and y, of a pack of x. */
template <class S, class T>
__device__ __forceinline__ void normalize(const norm_rows_args &c, int64_t row, int64_t at,
                                          const tk_pack<S, tk_pack_size<S>> &x, T mean, T inv_std) {
    const tk_pack<S, tk_pack_size<S>> xhat = tk_xhat_of(x, mean, inv_std);
    if (c.xhat)
        tk_row_store((S *)c.xhat + row * c.s.n, at, c.s.n, c.packed, xhat);
    emit<S>(c, row, at, xhat);
}

template <class T> __device__ __forceinline__ T inverse_root(T square) { return (T)1 / sqrt(square); }

__device__ __forceinline__ void put_statistics(const norm_rows_args &c, int64_t row, double mean, double inv_std) {
    if (c.mean)
        tk_put_statistic(c.mean, c.s.stat_dtype, row, mean);
    if (c.inv_std)
        tk_put_statistic(c.inv_std, c.s.stat_dtype, row, inv_std);
}

/* before: links on a row before it is normalized (row_links.cuh). */
template <class S, int TEAM, int PER, class LINKS>
__global__ void __launch_bounds__(TK_ROW_THREADS, 2) norm_rows(norm_rows_args c, const __grid_constant__ LINKS before) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[2 * TK_ROW_THREADS / TK_WARP];
    const int64_t n = c.s.n;
    c.packed |= LINKS::packed;
    TK_FOR_EACH_ROW(row, c.s.rows, TEAM) {
        tk_pack<S, N> x[PER];
        T sum = 0, mean = 0, off[2] = {0, 0}; /* sums of x - mean, and of its square */
#pragma unroll
        for (int p = 0; p < PER; p++)
            x[p] = tk_row_load((const S *)c.inp + row * n, tk_row_at<S, TEAM>(p), n, c.packed);
        before.template run<S, TEAM, PER>(x, row, n);
#pragma unroll
        for (int p = 0; p < PER; p++)
#pragma unroll
            for (int k = 0; k < N; k++)
                sum += tk_number_of(x[p].at[k]);
        if (c.s.centered)
            mean = tk_team_sum<TEAM>(sum, parts) / (T)n;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            const int left = p < tk_row_filled<S, TEAM, PER> ? N : tk_row_left<S, TEAM>(p, n);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const T d = k < left ? tk_number_of(x[p].at[k]) - mean : 0;
                off[0] += d;
                off[1] = fma(d, d, off[1]);
            }
        }
        tk_team_sums<TEAM>(off, parts);
        const T more = c.s.centered ? off[0] / (T)n : 0;
        mean += more;
        const T inv_std = inverse_root((off[1] / (T)n - more * more) + (T)c.s.epsilon);
#pragma unroll
        for (int p = 0; p < PER; p++)
            normalize<S>(c, row, tk_row_at<S, TEAM>(p), x[p], mean, inv_std);
        if (threadIdx.x % TEAM == 0)
            put_statistics(c, row, (double)mean, (double)inv_std);
    }
}

template <class S> static bool is_packed(const norm_rows_args &c) {
    return tk_is_packed(c.out, c.xhat, c.inp, c.scale, c.bias) && c.s.n % tk_pack_size<S> == 0;
}

template <class S, class LINKS>
static void launch_norm_rows(tk_queue *q, const norm_rows_args &c, const LINKS &before) {
    TK_ROW_TEAMS(
        S, c.s.n, TEAM, PER,
        TK_LAUNCH((norm_rows<S, TEAM, PER, LINKS>), tk_row_blocks(c.s.rows, TEAM), TK_ROW_THREADS, 0, q, c, before));
}

} // namespace
#endif
