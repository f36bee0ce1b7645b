/* strided_cuda.cu: the strided copy on a CUDA device: rows of whole packs by 16 bytes; where one side is transposed,
 * square tiles through shared memory, so that both sides are walked in order, elements of 16 bits two at a time;
 * anything else by elements. */
#include "../cuda/walk.cuh"
extern "C" {
#include "movement.h"
TK_MOVEMENT_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256, TILE = 32, ROWS = THREADS / TILE, PAIRS = 32, PAIR_TILE = 2 * PAIRS };
typedef tk_walk<2, TK_STRIDED_RANK> box_walk; /* of out and inp */

/* `rest`: elements of a single row after its packs. */
template <class S, int N>
__global__ void __launch_bounds__(THREADS)
    copy_box(S *out, const S *inp, const __grid_constant__ box_walk walk, int64_t rest) {
    const int64_t last = walk.strides[1][walk.rank - 1];
    TK_FOR_EACH(i, walk.items) {
        const tk_spots<2> spots = tk_spots_of(walk, i);
        tk_store_pack(out + spots.at[0], tk_load_spread<N>(inp + spots.at[1], last == 0));
    }
    TK_FOR_EACH(i, rest) { out[walk.items * N + i] = inp[last ? walk.items * N + i : 0]; }
}

/* The two dims that a tile has: rows are dense in inp, columns in out; `walk` is over all other dims. */
typedef struct tile_dims {
    int64_t rows, cols, out_row, inp_col, tiles;
    tk_divisor down, across; /* tiles of a transpose */
} tile_dims;

/* Where a tile begins, and where that is in out and inp. */
typedef struct tile_at {
    int64_t row, col, out, inp;
} tile_at;
__device__ __forceinline__ tile_at tile_of(int64_t tile, int side, const box_walk &walk, const tile_dims &d) {
    const int64_t col = tk_split(tile, d.across) * side, row = tk_split(tile, d.down) * side;
    const tk_spots<2> spots = tk_spots_of(walk, tile);
    return {row, col, spots.at[0] + row * d.out_row + col, spots.at[1] + row + col * d.inp_col};
}

template <class S>
__global__ void __launch_bounds__(THREADS)
    transpose_box(S *out, const S *inp, const __grid_constant__ box_walk walk, tile_dims d) {
    __shared__ S tile[TILE][TILE + 1];
    const int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
    for (int64_t i = blockIdx.x; i < d.tiles; i += gridDim.x) {
        const tile_at at = tile_of(i, TILE, walk, d);
#pragma unroll
        for (int k = y; k < TILE; k += ROWS)
            if (at.row + x < d.rows && at.col + k < d.cols)
                tile[k][x] = inp[at.inp + x + k * d.inp_col];
        __syncthreads();
#pragma unroll
        for (int k = y; k < TILE; k += ROWS)
            if (at.row + k < d.rows && at.col + x < d.cols)
                out[at.out + k * d.out_row + x] = tile[x][k];
        __syncthreads();
    }
}

/* Sizes and strides are even. A thread reads a pair of rows of two columns, and has then a pair of columns of two rows.
 */
__global__ void __launch_bounds__(THREADS)
    transpose_pairs(uint16_t *out, const uint16_t *inp, const __grid_constant__ box_walk walk, tile_dims d) {
    __shared__ uint32_t tile[PAIR_TILE][PAIRS + 1];
    const int x = (int)threadIdx.x % PAIRS, y = (int)threadIdx.x / PAIRS;
    const int odd = x / (PAIRS / 2); /* lanes that write their second row first, which is in another bank */
    for (int64_t i = blockIdx.x; i < d.tiles; i += gridDim.x) {
        const tile_at at = tile_of(i, PAIR_TILE, walk, d);
        const uint16_t *from = inp + at.inp + 2 * x;
        uint16_t *to = out + at.out + 2 * x;
        uint32_t pairs[PAIRS / ROWS][2] = {};
#pragma unroll
        for (int k = 0; k < PAIRS / ROWS; k++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (at.row + 2 * x < d.rows && at.col + 2 * (y + k * ROWS) < d.cols)
                    pairs[k][j] = *(const uint32_t *)(from + (2 * (y + k * ROWS) + j) * d.inp_col);
#pragma unroll
        for (int k = 0; k < PAIRS / ROWS; k++) {
            const uint32_t low = (pairs[k][0] & 0xffff) | pairs[k][1] << 16,
                           high = pairs[k][0] >> 16 | (pairs[k][1] & 0xffff0000);
            tile[2 * x + odd][y + k * ROWS] = odd ? high : low;
            tile[2 * x + 1 - odd][y + k * ROWS] = odd ? low : high;
        }
        __syncthreads();
#pragma unroll
        for (int k = y; k < PAIR_TILE; k += ROWS)
            if (at.row + k < d.rows && at.col + 2 * x < d.cols)
                *(uint32_t *)(to + k * d.out_row) = tile[k][x];
        __syncthreads();
    }
}

/* The dim, other than the last, in which inp is dense, where the last is so in out; -1: none, or too small a one. */
static int transposed_dim(const tk_strided *box) {
    const int last = box->rank - 1;
    if (box->out_strides[last] != 1 || box->inp_strides[last] == 1 || box->dims[last] < TILE / 2)
        return -1;
    for (int d = last - 1; d >= 0; d--)
        if (box->inp_strides[d] == 1 && box->dims[d] >= TILE / 2)
            return d;
    return -1;
}

/* Whether pairs of elements are whole on both sides. */
static bool is_paired(const void *out, const void *inp, const tk_strided *box, int dense) {
    const int last = box->rank - 1;
    uint64_t all = ((uint64_t)(uintptr_t)out | (uint64_t)(uintptr_t)inp) / sizeof(uint16_t);
    all |= (uint64_t)box->dims[dense] | (uint64_t)box->dims[last];
    for (int d = 0; d <= last; d++)
        all |= (d != last ? (uint64_t)box->out_strides[d] : 0) | (d != dense ? (uint64_t)box->inp_strides[d] : 0);
    return all % 2 == 0;
}

template <class S> static void run_transposed(tk_queue *q, S *out, const S *inp, const tk_strided *box, int dense) {
    const int last = box->rank - 1;
    const bool paired = sizeof(S) == sizeof(uint16_t) && is_paired(out, inp, box, dense);
    int64_t dims[TK_STRIDED_RANK], to[TK_STRIDED_RANK], from[TK_STRIDED_RANK];
    int rank = 0;
    dims[0] = 1, to[0] = from[0] = 0;
    for (int d = 0; d < last; d++) {
        if (d == dense)
            continue;
        dims[rank] = box->dims[d];
        to[rank] = box->out_strides[d];
        from[rank++] = box->inp_strides[d];
    }
    const int64_t *const strides[] = {to, from};
    const box_walk walk = tk_walk_of<2, TK_STRIDED_RANK>(rank > 0 ? rank : 1, dims, strides);
    const int64_t side = paired ? PAIR_TILE : TILE, rows = box->dims[dense], cols = box->dims[last],
                  down = (rows + side - 1) / side, across = (cols + side - 1) / side;
    const tile_dims d = {rows,
                         cols,
                         box->out_strides[dense],
                         box->inp_strides[last],
                         walk.items * down * across,
                         tk_divisor_of(down),
                         tk_divisor_of(across)};
    if (paired)
        TK_LAUNCH(transpose_pairs, tk_blocks(q, d.tiles, 1), THREADS, 0, q, (uint16_t *)out, (const uint16_t *)inp,
                  walk, d);
    else
        TK_LAUNCH((transpose_box<S>), tk_blocks(q, d.tiles, 1), THREADS, 0, q, out, inp, walk, d);
}

template <class S, int N> static void run_rows(tk_queue *q, S *out, const S *inp, const tk_strided *box) {
    const int64_t *const strides[] = {box->out_strides, box->inp_strides};
    const box_walk walk = tk_walk_of<2, TK_STRIDED_RANK>(box->rank, box->dims, strides, N);
    TK_LAUNCH((copy_box<S, N>), tk_blocks(q, walk.items * N, THREADS, N), THREADS, 0, q, out, inp, walk,
              box->count - walk.items * N);
}

/* Whether rows are made of whole packs on both sides, or repeat one element of inp; a single row may have some left. */
static bool is_packed_box(const tk_strided *box, int N) {
    const int last = box->rank - 1;
    const bool repeated = box->inp_strides[last] == 0;
    bool packed = box->out_strides[last] == 1 && (repeated || box->inp_strides[last] == 1) &&
                  (last == 0 || box->dims[last] % N == 0);
    for (int d = 0; d < last; d++)
        packed = packed && box->out_strides[d] % N == 0 && (repeated || box->inp_strides[d] % N == 0);
    return packed;
}

template <class S> static void run(tk_queue *q, S *out, const S *inp, const tk_strided *box) {
    const int dense = transposed_dim(box), N = tk_pack_size<S>;
    if (dense >= 0)
        run_transposed(q, out, inp, box, dense);
    else if (is_packed_box(box, N) && tk_is_packed(out, box->inp_strides[box->rank - 1] ? inp : nullptr))
        run_rows<S, tk_pack_size<S>>(q, out, inp, box);
    else
        run_rows<S, 1>(q, out, inp, box);
}

} // namespace

void tk_cuda_copy_strided(tk_queue *q, void *out, const void *inp, const tk_strided *box, size_t element) {
    if (box->count > 0)
        TK_SIZES(element, S, run(q, (S *)out + box->out_offset, (const S *)inp + box->inp_offset, box))
}
