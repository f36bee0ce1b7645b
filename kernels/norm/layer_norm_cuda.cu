/* layer_norm_cuda.cu: LayerNormalization and RMSNormalization, and their scale and bias alone. A team of threads has a
 * row in registers (row.cuh): one read, one write. Its mean is summed, then what the sum of differences from it says of
 * its rounding is put right, so that float statistics are good to a few units in the last place. */
#include "norm_device.cuh"

struct norm_rows_args {
    void *out, *xhat, *mean, *inv_std;
    const void *inp, *scale, *bias;
    tk_norm_rows s;
    bool packed;
};

/* What y is at `at` of a row, from its stored x-hat. */
template <class S>
__device__ __forceinline__ void emit(const norm_rows_args &c, int64_t row, int64_t at,
                                     const tk_pack<S, tk_pack_size<S>> &xhat) {
    const S *scale = (const S *)c.scale + row * c.s.scale_step, *bias = (const S *)c.bias;
    const tk_pack<S, tk_pack_size<S>> w = tk_row_load(scale, at, c.s.n, c.packed);
    tk_pack<S, tk_pack_size<S>> y, b;
#pragma unroll
    for (int k = 0; k < tk_pack_size<S>; k++)
        b.at[k] = tk_element_of<S>(-(tk_math<S>)0); /* which changes no sum */
    if (bias)
        b = tk_row_load(bias + row * c.s.bias_step, at, c.s.n, c.packed);
#pragma unroll
    for (int k = 0; k < tk_pack_size<S>; k++)
        y.at[k] = tk_norm_element(xhat.at[k], w.at[k], b.at[k]);
    tk_row_store((S *)c.out + row * c.s.n, at, c.s.n, c.packed, y);
}

/* x-hat where it is wanted, and y, of a pack of x. */
template <class S, class T>
__device__ __forceinline__ void normalize(const norm_rows_args &c, int64_t row, int64_t at,
                                          tk_pack<S, tk_pack_size<S>> x, T mean, T inv_std) {
#pragma unroll
    for (int k = 0; k < tk_pack_size<S>; k++)
        x.at[k] = tk_xhat_element(x.at[k], mean, inv_std);
    if (c.xhat)
        tk_row_store((S *)c.xhat + row * c.s.n, at, c.s.n, c.packed, x);
    emit<S>(c, row, at, x);
}

template <class T> __device__ __forceinline__ T inverse_root(T square) { return (T)1 / sqrt(square); }

__device__ __forceinline__ void put_statistics(const norm_rows_args &c, int64_t row, double mean, double inv_std) {
    if (c.mean)
        tk_put_statistic(c.mean, c.s.stat_dtype, row, mean);
    if (c.inv_std)
        tk_put_statistic(c.inv_std, c.s.stat_dtype, row, inv_std);
}

template <class S, int TEAM, int PER> __global__ void __launch_bounds__(TK_ROW_THREADS, 2) norm_rows(norm_rows_args c) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[2 * TK_ROW_THREADS / TK_WARP];
    const int64_t n = c.s.n;
    TK_FOR_EACH_ROW(row, c.s.rows, TEAM) {
        tk_pack<S, N> x[PER];
        T sum = 0, mean = 0, off[2] = {0, 0}; /* sums of x - mean, and of its square */
#pragma unroll
        for (int p = 0; p < PER; p++) {
            x[p] = tk_row_load((const S *)c.inp + row * n, tk_row_at<S, TEAM>(p), n, c.packed);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum += tk_number_of(x[p].at[k]);
        }
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

/* The sum over a row of x - mean, or of its square, in double. */
template <class S>
__device__ __forceinline__ double row_moment(const norm_rows_args &c, const S *inp, double mean, bool squared,
                                             double *parts) {
    double sum = 0;
    for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < c.s.n; at += TK_ROW_THREADS * tk_pack_size<S>) {
        const tk_pack<S, tk_pack_size<S>> x = tk_row_load(inp, at, c.s.n, c.packed);
#pragma unroll
        for (int k = 0; k < tk_pack_size<S>; k++) {
            const double d = at + k < c.s.n ? (double)tk_number_of(x.at[k]) - mean : 0;
            sum += squared ? d * d : d;
        }
    }
    return tk_team_sum<TK_ROW_THREADS>(sum, parts);
}

/* A block for a row that registers cannot hold: the row is read three times. */
template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) norm_long_rows(norm_rows_args c) {
    constexpr int N = tk_pack_size<S>;
    __shared__ double parts[TK_ROW_THREADS / TK_WARP];
    const double n = (double)c.s.n;
    TK_FOR_EACH_ROW(row, c.s.rows, TK_ROW_THREADS) {
        const S *inp = (const S *)c.inp + row * c.s.n;
        const double mean = c.s.centered ? row_moment(c, inp, 0, false, parts) / n : 0;
        const double inv_std = inverse_root(row_moment(c, inp, mean, true, parts) / n + c.s.epsilon);
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < c.s.n; at += TK_ROW_THREADS * N)
            normalize<S>(c, row, at, tk_row_load(inp, at, c.s.n, c.packed), (tk_math<S>)mean, (tk_math<S>)inv_std);
        if (threadIdx.x == 0)
            put_statistics(c, row, mean, inv_std);
    }
}

/* A thread a pack; packs_of_row: whole ones, and a last one that may not be. */
template <class S>
__global__ void __launch_bounds__(TK_ROW_THREADS) scale_rows(norm_rows_args c, int64_t packs_of_row) {
    TK_FOR_EACH(i, c.s.rows * packs_of_row) {
        const int64_t row = i / packs_of_row, at = i % packs_of_row * tk_pack_size<S>;
        emit<S>(c, row, at, tk_row_load((const S *)c.inp + row * c.s.n, at, c.s.n, c.packed));
    }
}

template <class S> static bool is_packed(const norm_rows_args &c) {
    return tk_is_packed(c.out, c.xhat, c.inp, c.scale, c.bias) && c.s.n % tk_pack_size<S> == 0;
}

template <class S> static void norm(tk_queue *q, norm_rows_args c) {
    const int64_t rows = c.s.rows, n = c.s.n;
    c.packed = is_packed<S>(c);
    if (n > tk_row_most<S>)
        TK_LAUNCH(norm_long_rows<S>, tk_row_blocks(rows, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c);
    else
        TK_ROW_TEAMS(S, n, TEAM, PER,
                     TK_LAUNCH((norm_rows<S, TEAM, PER>), tk_row_blocks(rows, TEAM), TK_ROW_THREADS, 0, q, c));
}

template <class S> static void scale_bias(tk_queue *q, norm_rows_args c) {
    const int64_t packs = (c.s.n + tk_pack_size<S> - 1) / tk_pack_size<S>;
    c.packed = is_packed<S>(c);
    if (packs > 0)
        TK_LAUNCH(scale_rows<S>, tk_blocks(q, c.s.rows * packs, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c, packs);
}

void tk_cuda_norm(tk_queue *q, void *out, void *xhat, void *mean, void *inv_std, const void *inp, const void *scale,
                  const void *bias, const tk_norm_rows *s) {
    const norm_rows_args c = {out, xhat, mean, inv_std, inp, scale, bias, *s, false};
    if (s->rows > 0)
        TK_FLOATS(s->dtype, S, norm<S>(q, c))
}

void tk_cuda_scale_bias(tk_queue *q, void *out, const void *xhat, const void *scale, const void *bias,
                        const tk_norm_rows *s) {
    const norm_rows_args c = {out, nullptr, nullptr, nullptr, xhat, scale, bias, *s, false};
    if (s->rows > 0)
        TK_FLOATS(s->dtype, S, scale_bias<S>(q, c))
}
