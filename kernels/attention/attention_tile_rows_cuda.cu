/* attention_tile_rows_cuda.cu: statistics of rows as the gradient's kernels read them, from those that the attention
 * kept: the sum of p dp over a row's keys is that of y dout over its elements. Eight lanes have a row. */
#include "../cuda/row.cuh"
#include "attention_tile.cuh"

enum { LANES = 8, BLOCK_ROWS = TK_ROW_THREADS / LANES };

template <class S>
__global__ void __launch_bounds__(TK_ROW_THREADS) take_rows(const tile_args t, const tk_attention_after after) {
    constexpr int N = tk_pack_size<S>;
    const S *y = nullptr, *dout = nullptr;
    const float *kept = (const float *)after.statistics;
    const int64_t row = (int64_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / LANES, e = t.a.e;
    const bool in = row < t.a.items * t.a.s;
    if (in) {
        y = row_of<const S>((void *)after.y, t.a.y, row / t.a.s, row % t.a.s);
        dout = row_of<const S>((void *)after.dout, t.a.dout, row / t.a.s, row % t.a.s);
    }
    const bool packed = e % N == 0 && (((uintptr_t)y | (uintptr_t)dout) & 15) == 0;
    float dot = 0;
    for (int64_t at = (int)threadIdx.x % LANES * N; in && at < e; at += LANES * N) {
        const tk_pack<S, N> a = tk_row_load(y, at, e, packed), b = tk_row_load(dout, at, e, packed);
#pragma unroll
        for (int k = 0; k < N; k++)
            dot = fmaf(tk_number_of(a.at[k]), tk_number_of(b.at[k]), dot);
    }
#pragma unroll
    for (int lane = 1; lane < LANES; lane *= 2)
        dot += __shfl_xor_sync(TK_ALL_LANES, dot, lane);
    if (in && threadIdx.x % LANES == 0) {
        const float most = kept[2 * row];
        put_statistics(t, row, t.natural ? most : most * TK_LOG2_E, kept[2 * row + 1], dot);
    }
}

void tk_cuda_tile_take(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, tk_attention_after after,
                       const tk_tile_statistics *out) {
    const unsigned blocks = (unsigned)((a->items * a->s + BLOCK_ROWS - 1) / BLOCK_ROWS);
    tile_args t = tile_args_of(q, a, operands);
    t.rows = *out;
    if (blocks == 0)
        return;
    if (a->dtype == TK_F16)
        TK_LAUNCH(take_rows<tk_half>, blocks, TK_ROW_THREADS, 0, q, t, after);
    else
        TK_LAUNCH(take_rows<tk_bfloat>, blocks, TK_ROW_THREADS, 0, q, t, after);
}
