/* strided_cuda.cu: the strided copy on a CUDA device: rows of whole packs by 16 bytes; where one side is transposed,
 * square tiles through shared memory, so that both sides are walked in order; anything else by elements. */
#include "../common/walk.cuh"
extern "C" {
#include "movement.h"
TK_MOVEMENT_KERNELS(TK_DECLARE_CUDA)
}

namespace {

enum { THREADS = 256, TILE = 32, ROWS = THREADS / TILE };
typedef tk_walk<2, TK_STRIDED_RANK> box_walk; /* of out and inp */

/* `rest`: elements of a single row behind its packs. */
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
    int64_t rows, cols, out_row, inp_col;
    int64_t down, across; /* tiles */
} tile_dims;

template <class S>
__global__ void __launch_bounds__(THREADS)
    transpose_box(S *out, const S *inp, const __grid_constant__ box_walk walk, tile_dims d) {
    __shared__ S tile[TILE][TILE + 1];
    const int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
    for (int64_t i = blockIdx.x; i < walk.items * d.down * d.across; i += gridDim.x) {
        const tk_spots<2> spots = tk_spots_of(walk, i / (d.down * d.across));
        const int64_t row = i / d.across % d.down * TILE, col = i % d.across * TILE;
        for (int k = y; k < TILE; k += ROWS)
            if (row + x < d.rows && col + k < d.cols)
                tile[k][x] = inp[spots.at[1] + row + x + (col + k) * d.inp_col];
        __syncthreads();
        for (int k = y; k < TILE; k += ROWS)
            if (row + k < d.rows && col + x < d.cols)
                out[spots.at[0] + (row + k) * d.out_row + col + x] = tile[x][k];
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

template <class S> static void run_transposed(tk_queue *q, S *out, const S *inp, const tk_strided *box, int dense) {
    const int last = box->rank - 1;
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
    tile_dims d = {box->dims[dense], box->dims[last], box->out_strides[dense], box->inp_strides[last], 0, 0};
    d.down = (d.rows + TILE - 1) / TILE;
    d.across = (d.cols + TILE - 1) / TILE;
    const int64_t tiles = walk.items * d.down * d.across;
    TK_LAUNCH((transpose_box<S>), tk_blocks(q, tiles, 1), THREADS, 0, q, out, inp, walk, d);
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
