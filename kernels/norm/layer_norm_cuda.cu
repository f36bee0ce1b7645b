/* layer_norm_cuda.cu: LayerNormalization and RMSNormalization, and their scale and bias alone. */
#include "norm_rows.cuh"

namespace {

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
template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS, 4) norm_long_rows(norm_rows_args c) {
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

template <class S> static void norm(tk_queue *q, norm_rows_args c) {
    const int64_t rows = c.s.rows, n = c.s.n;
    c.packed = is_packed<S>(c);
    if (n > tk_row_most<S>)
        TK_LAUNCH(norm_long_rows<S>, tk_row_blocks(rows, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c);
    else
        launch_norm_rows<S>(q, c, tk_no_links{});
}

template <class S> static void scale_bias(tk_queue *q, norm_rows_args c) {
    const int64_t packs = (c.s.n + tk_pack_size<S> - 1) / tk_pack_size<S>;
    c.packed = is_packed<S>(c);
    if (packs > 0)
        TK_LAUNCH(scale_rows<S>, tk_blocks(q, c.s.rows * packs, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c, packs);
}

} // namespace

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
