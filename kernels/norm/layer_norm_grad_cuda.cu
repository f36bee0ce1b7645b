/* layer_norm_grad_cuda.cu: the gradient of LayerNormalization and RMSNormalization. */
#include "norm_grad_rows.cuh"

namespace {

/* --- rows that registers cannot hold ------------------------------------------------------------- */

/* A block for a row, read twice. */
template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) grad_long_rows(norm_grad_args c) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ double parts[2 * TK_ROW_THREADS / TK_WARP];
    const int64_t n = c.s.n;
    TK_FOR_EACH_ROW(row, c.s.rows, TK_ROW_THREADS) {
        const row_statistics<T> of_row = statistics_of<T>(c, row);
        const S *dout = (const S *)c.dout + row * n;
        double means[2] = {0, 0};
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < n; at += TK_ROW_THREADS * N) {
            const tk_pack<S, N> dy = tk_row_load(dout, at, n, c.packed), x = load_xhat<S>(c, row, at, of_row),
                                w = tk_row_load((const S *)c.scale, at, n, c.packed);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const T g = tk_number_of(dy.at[k]) * tk_number_of(w.at[k]);
                means[0] += (double)g;
                means[1] += (double)(g * tk_number_of(x.at[k]));
            }
        }
        tk_team_sums<TK_ROW_THREADS>(means, parts);
        const T first = c.s.centered ? (T)(means[0] / (double)n) : 0, second = (T)(means[1] / (double)n);
        for (int64_t at = tk_row_at<S, TK_ROW_THREADS>(0); at < n; at += TK_ROW_THREADS * N) {
            tk_pack<S, N> dy = tk_row_load(dout, at, n, c.packed);
            const tk_pack<S, N> x = load_xhat<S>(c, row, at, of_row),
                                w = tk_row_load((const S *)c.scale, at, n, c.packed);
            tk_row_store((S *)c.dinp + row * n, at, n, c.packed, grad_of(dy, w, x, of_row.inv_std, first, second));
        }
    }
}

/* A thread for a pack of columns, blockIdx.y for a range of rows: before dinp is written, which may lie over dout. */
template <class S> __global__ void __launch_bounds__(TK_ROW_THREADS) sum_long_columns(norm_grad_args c) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    const int64_t n = c.s.n, at = ((int64_t)blockIdx.x * TK_ROW_THREADS + threadIdx.x) * N,
                  end = c.s.rows * (blockIdx.y + 1) / gridDim.y;
    T dscale[N] = {}, dbias[N] = {};
    for (int64_t row = c.s.rows * blockIdx.y / gridDim.y; row < end; row++) {
        const tk_pack<S, N> dy = tk_row_load((const S *)c.dout + row * n, at, n, c.packed),
                            x = load_xhat<S>(c, row, at, statistics_of<T>(c, row));
#pragma unroll
        for (int k = 0; k < N; k++) {
            dscale[k] = fma(tk_number_of(dy.at[k]), tk_number_of(x.at[k]), dscale[k]);
            dbias[k] += tk_number_of(dy.at[k]);
        }
    }
    T *part = (T *)c.parts + (int64_t)blockIdx.y * 2 * n;
#pragma unroll
    for (int k = 0; k < N; k++)
        if (at + k < n)
            part[at + k] = dscale[k], part[n + at + k] = dbias[k];
}

/* --- launches ------------------------------------------------------------------------------------ */

template <class S> static void grad_of_rows(tk_queue *q, const norm_grad_args &c) {
    const int64_t n = c.s.n, packs = (n + tk_pack_size<S> - 1) / tk_pack_size<S>;
    const dim3 columns((unsigned)((packs + TK_ROW_THREADS - 1) / TK_ROW_THREADS), (unsigned)c.blocks);
    if (n <= tk_row_most<S>) {
        launch_grad_rows<S>(q, c, tk_no_links{}, tk_no_links{});
        return;
    }
    if (c.parts)
        TK_LAUNCH(sum_long_columns<S>, columns, TK_ROW_THREADS, 0, q, c);
    if (c.dinp && c.s.rows > 0)
        TK_LAUNCH(grad_long_rows<S>, tk_row_blocks(c.s.rows, TK_ROW_THREADS), TK_ROW_THREADS, 0, q, c);
}

template <class S> static void grad(tk_queue *q, norm_grad_args c) {
    c.packed = is_packed<S>(c);
    c.blocks = (int)blocks_of<S>(&c.s);
    if (c.s.n == 0)
        return;
    grad_of_rows<S>(q, c);
    launch_add_parts<S>(q, c);
}

} // namespace

size_t tk_cuda_norm_grad_workspace(const tk_norm_rows *s) {
    size_t bytes = 0;
    TK_FLOATS(s->dtype, S, bytes = bytes_of<S>(s))
    return bytes;
}

void tk_cuda_norm_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *inp,
                       const void *scale, const void *mean, const void *inv_std, const tk_norm_rows *s,
                       void *workspace) {
    const norm_grad_args c = {dinp,  dscale, dbias,   dout, inp,
                              scale, mean,   inv_std, *s,   dscale || dbias ? workspace : nullptr,
                              0,     false,  false};
    TK_FLOATS(s->dtype, S, grad<S>(q, c))
}

void tk_cuda_norm_xhat_grad(tk_queue *q, void *dinp, void *dscale, void *dbias, const void *dout, const void *xhat,
                            const void *scale, const void *inv_std, const tk_norm_rows *s, void *workspace) {
    const norm_grad_args c = {dinp,  dscale,  dbias,   dout, xhat,
                              scale, nullptr, inv_std, *s,   dscale || dbias ? workspace : nullptr,
                              0,     true,    false};
    TK_FLOATS(s->dtype, S, grad<S>(q, c))
}
