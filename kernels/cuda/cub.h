/* cub.h: sorts and sums over all of a CUDA device, by CUB, between kernels of ours. CUB is templates for nvcc:
 * cub_cuda.cu alone sees them, and the emulated device has a double of these functions
 * (test/cuda/doubles/cub_double.c). Both are stable or exact, so that two runs give the same bits; both ask nothing of
 * the host, so that they may be recorded.
 *
 * CUB reports its scratch memory only on a machine with a GPU, but plans are made without one, too. So these are bounds
 * by sizes alone, and each call compares them with CUB's report. A call with a bound that is too small is an error of
 * the queue (tk_cuda_note), and queues nothing. */
#ifndef TK_CUB_H
#define TK_CUB_H
#include "cuda_queue.h"
#include <stdint.h>

/* A key of 64 bits to sort by, and a value that goes with it. */
typedef struct tk_pairs {
    uint64_t *keys, *values; /* [n] */
} tk_pairs;

/* Besides the pairs, twice: for each of at most 8 passes of 8 bits 256 counts of 8 bytes for every 2^28 pairs, and 256
 * of 4 bytes for every tile: a tile has 2816 to 4608 pairs, by this bound at least 1024. */
static inline size_t tk_sort_room(int64_t n) { return (size_t)(n + n / 4096) / 64 * 64 + 32768; }
static inline size_t tk_sort_workspace(int64_t n) { return (size_t)n * 4 * sizeof(uint64_t) + tk_sort_room(n); }

/* Where a workspace has pairs to be sorted. */
static inline tk_pairs tk_sort_pairs(void *workspace, int64_t n) {
    uint64_t *at = (uint64_t *)workspace;
    tk_pairs pairs = {at, at + n};
    return pairs;
}
/* The other of the workspace's two places for pairs; the scratch follows both. */
static inline tk_pairs tk_sort_other(void *workspace, int64_t n, tk_pairs pairs) {
    uint64_t *at = (uint64_t *)workspace + (pairs.keys == (uint64_t *)workspace ? 2 * n : 0);
    tk_pairs other = {at, at + n};
    return other;
}

/* Sorts n pairs, which lie in one of the workspace's two places, by their keys, which are below 2^bits: the lowest
 * first, equals in the order they have. Returns the place of the result; the other place holds no data. */
tk_pairs tk_sort(tk_cuda *cuda, void *workspace, tk_pairs pairs, int64_t n, int bits);

/* 16 bytes for every tile, which has 768 numbers or more; at least 512 by this bound. */
static inline size_t tk_sums_workspace(int64_t n) { return (size_t)n / 32 + 4096; }

/* Each of n numbers becomes the sum of all before it, which wraps: the first is 0. */
void tk_sums_before(tk_cuda *cuda, uint64_t *numbers, int64_t n, void *workspace);

/* Bits of the numbers 0 .. most. */
static inline int tk_bits_of(int64_t most) {
    int bits = 0;
    while (bits < 63 && most >> bits > 0)
        bits++;
    return bits;
}
#endif
