/* device_sort.cuh: pairs of a key and a value sorted by the key, equals in the order they had: a radix sort of 8 bits a
 * pass, from the lowest. Each pass counts digits by tile, adds the counts up, and puts each pair where they say
 * (Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore GPUs", 2009). What results are made
 * in and how many passes there are depends on sizes only. */
#ifndef TK_DEVICE_SORT_CUH
#define TK_DEVICE_SORT_CUH
#include "device.cuh"

enum {
    TK_SORT_THREADS = 256,
    TK_SORT_BITS = 8,
    TK_SORT_DIGITS = 1 << TK_SORT_BITS,
    TK_SORT_WARPS = TK_SORT_THREADS / TK_WARP,
    TK_SORT_EACH = 8, /* pairs of a thread */
    TK_SORT_TILE = TK_SORT_THREADS * TK_SORT_EACH,
};

typedef struct tk_pairs {
    uint64_t *keys, *values; /* [n] */
} tk_pairs;

static inline int64_t tk_sort_tiles(int64_t n) { return (n + TK_SORT_TILE - 1) / TK_SORT_TILE; }

/* Bytes of workspace for n pairs, those themselves among them. */
static inline size_t tk_sort_workspace(int64_t n) {
    return (size_t)(4 * n + TK_SORT_DIGITS * (tk_sort_tiles(n) + 1)) * sizeof(uint64_t);
}

/* Where a workspace has the pairs: to be filled before tk_sort. */
static inline tk_pairs tk_sort_pairs(void *workspace, int64_t n) {
    uint64_t *at = (uint64_t *)workspace;
    return tk_pairs{at, at + n};
}

/* The digits of a warp's pairs, one of each lane in each of TK_SORT_EACH rounds; and how many pairs of the warp with
 * the same digit stand before each. counts: the warp's, of shared memory, [TK_SORT_DIGITS], zero. */
__device__ __forceinline__ void tk_sort_rank(int *rank, int *digit, const uint64_t *keys, int64_t first, int64_t n,
                                             int shift, unsigned *counts) {
    const unsigned lane = threadIdx.x % TK_WARP;
    for (int k = 0; k < TK_SORT_EACH; k++) {
        const int64_t i = first + k * TK_WARP + lane;
        const int d = i < n ? (int)(keys[i] >> shift & (TK_SORT_DIGITS - 1)) : TK_SORT_DIGITS;
        unsigned same = __ballot_sync(TK_ALL_LANES, i < n);
        for (int bit = 0; bit < TK_SORT_BITS; bit++) {
            const unsigned ones = __ballot_sync(TK_ALL_LANES, d >> bit & 1);
            same &= d >> bit & 1 ? ones : ~ones;
        }
        const unsigned before = same & ((1u << lane) - 1);
        const unsigned seen = i < n ? counts[d] : 0;
        __syncwarp();
        if (i < n && before == 0)
            counts[d] = seen + (unsigned)__popc(same);
        __syncwarp();
        digit[k] = d;
        rank[k] = (int)seen + __popc(before);
    }
}

/* Tiles' digits: counts [TK_SORT_DIGITS, tiles]. */
static __global__ void __launch_bounds__(TK_SORT_THREADS)
    tk_sort_count(uint64_t *counts, const uint64_t *keys, int64_t n, int64_t tiles, int shift) {
    __shared__ unsigned of_digit[TK_SORT_DIGITS];
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        of_digit[threadIdx.x] = 0;
        __syncthreads();
        for (int k = 0; k < TK_SORT_EACH; k++) {
            const int64_t i = tile * TK_SORT_TILE + k * TK_SORT_THREADS + threadIdx.x;
            if (i < n)
                atomicAdd(&of_digit[keys[i] >> shift & (TK_SORT_DIGITS - 1)], 1u);
        }
        __syncthreads();
        counts[(int64_t)threadIdx.x * tiles + tile] = of_digit[threadIdx.x];
        __syncthreads();
    }
}

/* The sum of x over the lanes up to this one. */
__device__ __forceinline__ uint64_t tk_sort_up_to(uint64_t x) {
    for (int d = 1; d < TK_WARP; d *= 2) {
        const uint64_t other = __shfl_up_sync(TK_ALL_LANES, x, (unsigned)d);
        x += (int)threadIdx.x % TK_WARP >= d ? other : 0;
    }
    return x;
}

/* A warp a digit: each tile's count becomes the sum of those of tiles before it; totals [TK_SORT_DIGITS]. */
static __global__ void __launch_bounds__(TK_SORT_THREADS)
    tk_sort_scan(uint64_t *counts, uint64_t *totals, int64_t tiles) {
    const int digit = (int)(blockIdx.x * TK_SORT_WARPS + threadIdx.x / TK_WARP), lane = (int)threadIdx.x % TK_WARP;
    uint64_t *row = counts + digit * tiles, sum = 0;
    for (int64_t first = 0; first < tiles; first += TK_WARP) {
        const int64_t i = first + lane;
        const uint64_t count = i < tiles ? row[i] : 0, up_to = tk_sort_up_to(count);
        if (i < tiles)
            row[i] = sum + up_to - count;
        sum += __shfl_sync(TK_ALL_LANES, up_to, TK_WARP - 1);
    }
    if (lane == 0)
        totals[digit] = sum;
}

/* The pairs of smaller digits than a thread's number. parts: of shared memory, [TK_SORT_WARPS]. */
__device__ __forceinline__ uint64_t tk_sort_smaller(const uint64_t *totals, uint64_t *parts) {
    const uint64_t total = totals[threadIdx.x], up_to = tk_sort_up_to(total);
    uint64_t before = up_to - total;
    if (threadIdx.x % TK_WARP == TK_WARP - 1)
        parts[threadIdx.x / TK_WARP] = up_to;
    __syncthreads();
    for (int w = 0; w < (int)threadIdx.x / TK_WARP; w++)
        before += parts[w];
    return before;
}

static __global__ void __launch_bounds__(TK_SORT_THREADS)
    tk_sort_put(tk_pairs out, tk_pairs inp, const uint64_t *counts, const uint64_t *totals, int64_t n, int64_t tiles,
                int shift) {
    __shared__ unsigned of_warp[TK_SORT_WARPS][TK_SORT_DIGITS];
    __shared__ uint64_t start[TK_SORT_DIGITS], parts[TK_SORT_WARPS];
    const int warp = (int)threadIdx.x / TK_WARP, lane = (int)threadIdx.x % TK_WARP, mine = (int)threadIdx.x;
    const uint64_t smaller = tk_sort_smaller(totals, parts);
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t first = tile * TK_SORT_TILE + warp * (TK_SORT_TILE / TK_SORT_WARPS);
        int rank[TK_SORT_EACH], digit[TK_SORT_EACH];
        for (int w = 0; w < TK_SORT_WARPS; w++)
            of_warp[w][mine] = 0;
        __syncthreads();
        tk_sort_rank(rank, digit, inp.keys, first, n, shift, of_warp[warp]);
        __syncthreads();
        start[mine] = smaller + counts[(int64_t)mine * tiles + tile];
        for (int w = 0, before = 0; w < TK_SORT_WARPS; w++) {
            const unsigned count = of_warp[w][mine];
            of_warp[w][mine] = (unsigned)before;
            before += (int)count;
        }
        __syncthreads();
        for (int k = 0; k < TK_SORT_EACH; k++) {
            const int64_t i = first + k * TK_WARP + lane;
            if (i < n) {
                const uint64_t to = start[digit[k]] + of_warp[warp][digit[k]] + (uint64_t)rank[k];
                out.keys[to] = inp.keys[i];
                out.values[to] = inp.values[i];
            }
        }
        __syncthreads();
    }
}

/* Sorts the n pairs of a workspace by their keys, which are below 2^bits; where they lie then. */
static inline tk_pairs tk_sort(tk_queue *q, void *workspace, int64_t n, int bits) {
    tk_pairs from = tk_sort_pairs(workspace, n), to = {from.keys + 2 * n, from.values + 2 * n};
    uint64_t *totals = from.keys + 4 * n, *counts = totals + TK_SORT_DIGITS;
    const int64_t tiles = tk_sort_tiles(n);
    const unsigned blocks = tk_blocks(q, tiles, 1);
    for (int shift = 0; shift < bits && n > 0; shift += TK_SORT_BITS) {
        TK_LAUNCH(tk_sort_count, blocks, TK_SORT_THREADS, 0, q, counts, from.keys, n, tiles, shift);
        TK_LAUNCH(tk_sort_scan, TK_SORT_DIGITS / TK_SORT_WARPS, TK_SORT_THREADS, 0, q, counts, totals, tiles);
        TK_LAUNCH(tk_sort_put, blocks, TK_SORT_THREADS, 0, q, to, from, counts, totals, n, tiles, shift);
        const tk_pairs other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Bits of the numbers 0 .. most. */
static inline int tk_bits_of(int64_t most) {
    int bits = 0;
    while (bits < 63 && most >> bits > 0)
        bits++;
    return bits;
}
#endif
