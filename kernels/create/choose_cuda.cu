/* choose_cuda.cu: NonZero and Compress on a CUDA device. Blocks count the chosen elements of their tiles, the counts
 * are summed up, and blocks go through the tiles again with the position of each tile's first chosen element. */
#include "../cuda/device_units.cuh"
#include "../cuda/walk.cuh"
extern "C" {
#include "../cuda/cub.h"
#include "create.h"
TK_CREATE_KERNELS(TK_DECLARE_CUDA)
TK_CREATE_WORKSPACES(TK_DECLARE_CUDA_WORKSPACE)
}

namespace {

enum { THREADS = 256, WARPS = THREADS / TK_WARP, ROUNDS = 8, TILE = THREADS * ROUNDS };

/* --- counting in order ----------------------------------------------------------------------------- */

/* How many threads before this one, in the order of their numbers, have chosen; *total: of all. Every thread of the
 * block calls it; counts: [WARPS] of shared memory. */
__device__ __forceinline__ int chosen_before(bool chosen, int *counts, int *total) {
    const unsigned mine = __ballot_sync(TK_ALL_LANES, chosen);
    const int lane = (int)threadIdx.x % TK_WARP, warp = (int)threadIdx.x / TK_WARP;
    __syncthreads(); /* counts may be read still, from the call before */
    if (lane == 0)
        counts[warp] = __popc(mine);
    __syncthreads();
    int before = __popc(mine & ((1u << lane) - 1));
    *total = 0;
    for (int w = 0; w < WARPS; w++) {
        before += w < warp ? counts[w] : 0;
        *total += counts[w];
    }
    return before;
}

/* Elements with a bit of the mask are chosen: it leaves out the sign of floats. */
template <class S> struct choice {
    const S *data;
    int64_t n, tiles;
    S mask;
    __device__ __forceinline__ bool has(int64_t i) const { return i < n && (data[i] & mask) != 0; }
};

int64_t tiles_of(int64_t n) { return (n + TILE - 1) / TILE; }

/* counts: [tiles + 1], the last 0, so that sums of those before it end with the sum of all. */
template <class S> __global__ void __launch_bounds__(THREADS) count_chosen(uint64_t *counts, choice<S> of) {
    __shared__ int of_warp[WARPS];
    for (int64_t tile = blockIdx.x; tile <= of.tiles; tile += gridDim.x) {
        int mine = 0, total;
        for (int k = 0; k < ROUNDS; k++)
            mine += of.has(tile * TILE + k * THREADS + threadIdx.x);
        mine = tk_warp_sum(mine);
        __syncthreads();
        if (threadIdx.x % TK_WARP == 0)
            of_warp[threadIdx.x / TK_WARP] = mine;
        __syncthreads();
        total = 0;
        for (int w = 0; w < WARPS; w++)
            total += of_warp[w];
        if (threadIdx.x == 0)
            counts[tile] = (uint64_t)total;
    }
}

/* The positions of the first n chosen in the walk, which has no strides, to out: [walk.rank, n]. sums: running sums of
 * count_chosen's counts. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    put_positions(int64_t *out, int64_t n, const uint64_t *sums, choice<S> of, const __grid_constant__ tk_walk<1> walk,
                  tk_fault_place fault) {
    __shared__ int of_warp[WARPS];
    for (int64_t tile = blockIdx.x; tile < of.tiles; tile += gridDim.x) {
        int64_t found = (int64_t)sums[tile];
        for (int k = 0; k < ROUNDS; k++) {
            const int64_t i = tile * TILE + k * THREADS + threadIdx.x;
            const bool chosen = of.has(i);
            int total;
            const int64_t place = found + chosen_before(chosen, of_warp, &total);
            if (chosen && place < n) {
                int64_t rest = i;
                for (int d = walk.rank - 1; d >= 0; d--)
                    out[d * n + place] = tk_split(rest, walk.dims[d]);
            }
            found += total;
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 && sums[of.tiles] != (uint64_t)n)
        tk_fault_set(fault, TK_BAD_VALUE);
}

/* The same from the host; returns the end of the sums, where the device stores the number of chosen elements. */
const uint64_t *choose(tk_queue *q, int64_t *out, int64_t n, const void *inp, tk_dtype dtype, int rank,
                       const int64_t *dims, void *workspace) {
    static const int64_t none[TK_MAX_RANK] = {0};
    const int64_t *const strides[] = {none};
    const tk_walk<1> walk = tk_walk_of<1>(rank, dims, strides);
    const int64_t tiles = tiles_of(walk.items);
    uint64_t *sums = (uint64_t *)workspace;
    const unsigned blocks = tk_blocks(q, tiles, 1);
    const size_t element = tk_size(dtype);
    const uint64_t mask = tk_is_float(dtype) ? ((uint64_t)1 << (8 * element - 1)) - 1 : UINT64_MAX;
    TK_SIZES(element, S,
             TK_LAUNCH((count_chosen<S>), blocks, THREADS, 0, q, sums,
                       (choice<S>{(const S *)inp, walk.items, tiles, (S)mask})))
    tk_sums_before(tk_queue_cuda(q), sums, tiles + 1, sums + tiles + 1);
    TK_SIZES(element, S,
             TK_LAUNCH((put_positions<S>), blocks, THREADS, 0, q, out, n, sums,
                       (choice<S>{(const S *)inp, walk.items, tiles, (S)mask}), walk, tk_fault_of(q)))
    return sums + tiles;
}

size_t choice_workspace(int64_t items) {
    const int64_t sums = tiles_of(items) + 1;
    return (size_t)sums * sizeof(uint64_t) + tk_sums_workspace(sums);
}

/* --- Compress --------------------------------------------------------------------------------------- */

/* out: [outer, n, units]; inp: [outer, axis, units]; of the entries that are to be kept there may be fewer than n. */
template <class U>
__global__ void __launch_bounds__(THREADS) keep(U *out, const U *inp, const int64_t *kept, const uint64_t *found,
                                                int64_t outer, int64_t axis, tk_divisor n, tk_divisor units) {
    const int64_t there = (int64_t)*found;
    TK_FOR_EACH(i, outer * n.by * units.by) {
        int64_t o = i;
        const int64_t unit = tk_split(o, units), k = tk_split(o, n);
        if (k < there)
            out[i] = inp[(o * axis + kept[k]) * units.by + unit];
    }
}

} // namespace

size_t tk_cuda_nonzero_workspace(int64_t items) { return choice_workspace(items); }

void tk_cuda_nonzero(tk_queue *q, int64_t *out, int64_t n, const void *inp, tk_dtype dtype, int rank,
                     const int64_t *dims, void *workspace) {
    choose(q, out, n, inp, dtype, rank, dims, workspace);
}

size_t tk_cuda_compress_workspace(int64_t n_condition, int64_t n) {
    return (size_t)n * sizeof(int64_t) + choice_workspace(n_condition);
}

void tk_cuda_compress(tk_queue *q, void *out, const void *inp, const uint8_t *condition, int64_t n_condition,
                      int64_t outer, int64_t axis, int64_t inner, int64_t n, size_t element, void *workspace) {
    const int64_t conditions = n_condition < axis ? n_condition : axis;
    int64_t *kept = (int64_t *)workspace;
    const uint64_t *found = choose(q, kept, n, condition, TK_BOOL, 1, &conditions, kept + n);
    const int unit = tk_unit_of(out, inp, inner, element);
    const int64_t units = inner * (int64_t)element / unit;
    if (outer * n * units > 0)
        TK_UNITS(unit, U,
                 TK_LAUNCH((keep<U>), tk_blocks(q, outer * n * units, THREADS), THREADS, 0, q, (U *)out, (const U *)inp,
                           kept, found, outer, axis, tk_divisor_of(n), tk_divisor_of(units)))
}
