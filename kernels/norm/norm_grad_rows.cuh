/* norm_grad_rows.cuh: dy, xhat [rows, n] -> dx [rows, n]; blocks -> parts [blocks, 2, n] -> dscale, dbias [n].
 * The kernel of the gradient of LayerNormalization and RMSNormalization, from x or from x-hat: x becomes the x-hat that
 * was stored as soon as it is read, so that both give the same bits. A team of threads has a row of x-hat and one of
 * dout in registers and walks over rows; each thread has the same columns of all its rows, and sums their dscale and
 * dbias in registers, so that no operand is read twice. Each block leaves its sums in the workspace, [blocks, 2, n],
 * and a second kernel adds these in order: the number of blocks depends on the shape only. */
#ifndef TK_NORM_GRAD_ROWS_CUH
#define TK_NORM_GRAD_ROWS_CUH
#include "norm_device.cuh"
#include "row_links.cuh"

namespace {

struct norm_grad_args {
    void *dinp, *dscale, *dbias;
    const void *dout, *inp, *scale, *mean, *inv_std;
    tk_norm_rows s;
    void *parts; /* NULL: neither dscale nor dbias is wanted */
    int blocks;  /* of parts */
    bool from_xhat, packed;
};

template <class T> struct row_statistics { T mean, inv_std; };
template <class T> __device__ __forceinline__ row_statistics<T> statistics_of(const norm_grad_args &c, int64_t row) {
    return {c.mean ? tk_get_statistic<T>(c.mean, c.s.stat_dtype, row) : (T)0,
            tk_get_statistic<T>(c.inv_std, c.s.stat_dtype, row)};
}

/* A pack of x-hat. */
template <class S>
__device__ __forceinline__ tk_pack<S, tk_pack_size<S>> load_xhat(const norm_grad_args &c, int64_t row, int64_t at,
                                                                 row_statistics<tk_math<S>> of_row) {
    const tk_pack<S, tk_pack_size<S>> x = tk_row_load((const S *)c.inp + row * c.s.n, at, c.s.n, c.packed);
    return c.from_xhat ? x : tk_xhat_of(x, of_row.mean, of_row.inv_std);
}

/* A pack of dinp: first and second are the means of dout scale, and of dout scale xhat. */
template <class S, int N, class T>
__device__ __forceinline__ tk_pack<S, N> grad_of(const tk_pack<S, N> &dout, const tk_pack<S, N> &scale,
                                                 const tk_pack<S, N> &xhat, T inv_std, T first, T second) {
    tk_pack<S, N> dinp;
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        T both[2];
#pragma unroll
        for (int h = 0; h < 2; h++)
            both[h] = inv_std * ((tk_number_of(dout.at[k + h]) * tk_number_of(scale.at[k + h]) - first) -
                                 tk_number_of(xhat.at[k + h]) * second);
        tk_put_two(&dinp.at[k], both[0], both[1]);
    }
    return dinp;
}

template <class S, int TEAM, int PER> struct column_sums {
    tk_math<S> dscale[PER][tk_pack_size<S>], dbias[PER][tk_pack_size<S>];
};

/* A block's sums to its part: those of one team as they are, those of eight warps added up first. */
template <class S, int TEAM, int PER>
__device__ __forceinline__ void put_sums(const norm_grad_args &c, const column_sums<S, TEAM, PER> &sums) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>, WARPS = TK_ROW_THREADS / TK_WARP;
    constexpr int STEP = TK_WARP + TK_WARP / N; /* N neighbours of 32 / N lanes are in 32 banks */
    __shared__ T of_warps[TEAM == TK_WARP ? 2 * WARPS * STEP * N : 1];
    const int64_t n = c.s.n;
    const int thread = (int)threadIdx.x;
    T *part = (T *)c.parts + (int64_t)blockIdx.x * 2 * n;
#pragma unroll
    for (int p = 0; p < PER; p++) {
        if (TEAM == TK_ROW_THREADS) {
#pragma unroll
            for (int k = 0; k < N; k++) {
                const int64_t at = tk_row_at<S, TEAM>(p) + k;
                if (at < n)
                    part[at] = sums.dscale[p][k], part[n + at] = sums.dbias[p][k];
            }
            continue;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < N; k++) { /* [warp, dscale or dbias, k, lane] */
            const int at = (thread / TK_WARP * 2 * N + k) * STEP + thread % TK_WARP;
            of_warps[at] = sums.dscale[p][k], of_warps[at + N * STEP] = sums.dbias[p][k];
        }
        __syncthreads();
        for (int i = thread; i < 2 * N * TK_WARP; i += TK_ROW_THREADS) {
            const int which = i / (N * TK_WARP), column = i % (N * TK_WARP);
            const int64_t at = (int64_t)p * TK_WARP * N + column;
            const T *of_warp = of_warps + (which * N + column % N) * STEP + column / N;
            T sum = *of_warp;
#pragma unroll
            for (int w = 1; w < WARPS; w++)
                sum += of_warp[w * 2 * N * STEP];
            if (at < n)
                part[which * n + at] = sum;
        }
    }
}

/* before, after: links on a row of dout before the gradient, and on a row of dinp after it (row_links.cuh). */
template <class S, int TEAM, int PER, class BEFORE, class AFTER>
__global__ void __launch_bounds__(TK_ROW_THREADS, sizeof(S) == 2 && PER < 4 ? 2 : 1)
    grad_rows(norm_grad_args c, const __grid_constant__ BEFORE before, const __grid_constant__ AFTER after) {
    typedef tk_math<S> T;
    constexpr int N = tk_pack_size<S>;
    __shared__ T parts[2 * TK_ROW_THREADS / TK_WARP];
    const int64_t n = c.s.n;
    c.packed |= BEFORE::packed;
    column_sums<S, TEAM, PER> sums = {};
    TK_FOR_EACH_ROW(row, c.s.rows, TEAM) {
        const row_statistics<T> of_row = statistics_of<T>(c, row);
        tk_pack<S, N> dout[PER], xhat[PER];
        T means[2] = {0, 0}; /* of dout scale, and of dout scale xhat */
#pragma unroll
        for (int p = 0; p < PER; p++) {
            dout[p] = tk_row_load((const S *)c.dout + row * n, tk_row_at<S, TEAM>(p), n, c.packed);
            xhat[p] = load_xhat<S>(c, row, tk_row_at<S, TEAM>(p), of_row);
        }
        before.template run<S, TEAM, PER>(dout, row, n);
#pragma unroll
        for (int p = 0; p < PER; p++) {
            const tk_pack<S, N> scale = tk_row_load((const S *)c.scale, tk_row_at<S, TEAM>(p), n, c.packed);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const T dy = tk_number_of(dout[p].at[k]), x = tk_number_of(xhat[p].at[k]),
                        g = dy * tk_number_of(scale.at[k]);
                means[0] += g;
                means[1] = fma(g, x, means[1]);
                sums.dscale[p][k] = fma(dy, x, sums.dscale[p][k]);
                sums.dbias[p][k] += dy;
            }
        }
        if (!c.dinp && !AFTER::packed)
            continue;
        tk_team_sums<TEAM>(means, parts);
        const T first = c.s.centered ? means[0] / (T)n : 0, second = means[1] / (T)n;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            const tk_pack<S, N> scale = tk_row_load((const S *)c.scale, tk_row_at<S, TEAM>(p), n, c.packed);
            tk_row_hold(dout[p]);
            tk_row_hold(xhat[p]);
            dout[p] = grad_of(dout[p], scale, xhat[p], of_row.inv_std, first, second);
            if (!AFTER::packed || c.dinp)
                tk_row_store((S *)c.dinp + row * n, tk_row_at<S, TEAM>(p), n, c.packed, dout[p]);
        }
        after.template run<S, TEAM, PER>(dout, row, n);
    }
    if (c.parts)
        put_sums<S, TEAM, PER>(c, sums);
}

/* --- the sums of all blocks ---------------------------------------------------------------------- */

enum { ADD_ROWS = 16 };

/* A block for 32 columns of one of the two: 16 of the parts at a time, then over the 16. */
template <class S> __global__ void __launch_bounds__(TK_WARP *ADD_ROWS) add_parts(norm_grad_args c) {
    typedef tk_math<S> T;
    __shared__ T sums[ADD_ROWS][TK_WARP + 1];
    const int64_t n = c.s.n, column = (int64_t)blockIdx.x * TK_WARP + threadIdx.x;
    const T *part = (const T *)c.parts + blockIdx.y * n + column;
    T sum = 0;
    if (column < n)
#pragma unroll 4
        for (int b = (int)threadIdx.y; b < c.blocks; b += ADD_ROWS)
            sum += part[(int64_t)b * 2 * n];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    S *out = (S *)(blockIdx.y == 0 ? c.dscale : c.dbias);
    if (threadIdx.y > 0 || column >= n || !out)
        return;
#pragma unroll
    for (int k = 1; k < ADD_ROWS; k++)
        sum += sums[k][threadIdx.x];
    out[column] = tk_element_of<S>(sum);
}

/* --- launches ------------------------------------------------------------------------------------ */

static const int64_t MOST_BLOCKS = 264; /* two for each multiprocessor of the largest device that this was made for */
static const int64_t LONG_PARTS = (int64_t)1 << 21;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Parts of the sums over rows, one where there are none. Long rows keep the device busy by their columns: a few parts
 * of them are enough. */
template <class S> static int64_t blocks_of(const tk_norm_rows *s) {
    const bool is_long = s->n > tk_row_most<S>;
    const int64_t teams = is_long ? 1 : TK_ROW_THREADS / tk_row_team<S>(s->n);
    const int64_t most = is_long ? 1 + LONG_PARTS / s->n : MOST_BLOCKS;
    return s->rows > 0 ? least((s->rows + teams - 1) / teams, most) : 1;
}

template <class S> static size_t bytes_of(const tk_norm_rows *s) {
    return (size_t)(blocks_of<S>(s) * 2 * s->n) * sizeof(tk_math<S>);
}

template <class S> static bool is_packed(const norm_grad_args &c) {
    return tk_is_packed(c.dinp, c.dout, c.inp, c.scale) && c.s.n % tk_pack_size<S> == 0;
}

/* Of rows that registers hold. */
template <class S, class BEFORE, class AFTER>
static void launch_grad_rows(tk_queue *q, const norm_grad_args &c, const BEFORE &before, const AFTER &after) {
    TK_ROW_TEAMS(S, c.s.n, TEAM, PER,
                 TK_LAUNCH((grad_rows<S, TEAM, PER, BEFORE, AFTER>), (unsigned)c.blocks, TK_ROW_THREADS, 0, q, c,
                           before, after));
}
template <class S> static void launch_add_parts(tk_queue *q, const norm_grad_args &c) {
    const dim3 columns((unsigned)((c.s.n + TK_WARP - 1) / TK_WARP), 2);
    if (c.parts)
        TK_LAUNCH(add_parts<S>, columns, dim3(TK_WARP, ADD_ROWS), 0, q, c);
}

} // namespace
#endif
