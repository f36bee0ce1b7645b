/* walk.cuh: where the operands of element i lie: an index taken apart along dims, and put together with each operand's
 * strides. Divisions by dims are products with numbers that the host prepares, of 32 bits for up to 2^31 items. */
#ifndef TK_WALK_CUH
#define TK_WALK_CUH
#include "device.cuh"
extern "C" {
#include "../common/broadcast.h"
}

/* n / by = (n factor / 2^32 + n) >> shift for 0 <= n < 2^31, by < 2^31, and likewise with 64 bits for n < 2^63:
 * T. Granlund, P. L. Montgomery, "Division by invariant integers using multiplication", 1994. */
__extension__ typedef unsigned __int128 tk_uint128;
typedef struct tk_divisor {
    int64_t by;
    uint64_t wide_factor;
    uint32_t factor, shift;
} tk_divisor;

static inline tk_divisor tk_divisor_of(int64_t by) {
    tk_divisor d = {by > 0 ? by : 1, 0, 0, 0}; /* by 0 nothing is divided */
    while ((uint64_t)1 << d.shift < (uint64_t)d.by)
        d.shift++;
    const tk_uint128 rest = ((uint64_t)1 << d.shift) - (uint64_t)d.by;
    d.wide_factor = (uint64_t)((rest << 64) / (tk_uint128)d.by + 1);
    d.factor = (uint32_t)((rest << 32) / (tk_uint128)d.by + 1);
    return d;
}

/* `quick`: n and the divisor are less than 2^31. */
static __device__ __forceinline__ int64_t tk_divide(int64_t n, const tk_divisor &d, bool quick) {
    if (quick)
        return (int64_t)(((uint32_t)((uint64_t)(uint32_t)n * d.factor >> 32) + (uint32_t)n) >> d.shift);
    return (int64_t)(((uint64_t)((tk_uint128)(uint64_t)n * d.wide_factor >> 64) + (uint64_t)n) >> d.shift);
}
static __device__ __forceinline__ int64_t tk_divide(int64_t n, const tk_divisor &d) {
    return tk_divide(n, d, (uint64_t)(n | d.by) <= INT32_MAX);
}

/* The remainder; n becomes the quotient. */
static __device__ __forceinline__ int64_t tk_split(int64_t &n, const tk_divisor &d) {
    const int64_t quotient = tk_divide(n, d), rest = n - quotient * d.by;
    n = quotient;
    return rest;
}

/* Items of a box of `rank` dims, the last one innermost, and K operands' strides in elements. A kernel gets it by
 * value. */
template <int K, int RANK = TK_MAX_RANK> struct tk_walk {
    int64_t items;
    bool quick;
    int rank;
    tk_divisor dims[RANK];
    int64_t strides[K][RANK];
};
template <int K> struct tk_spots { int64_t at[K]; };

template <int K, int RANK>
static __device__ __forceinline__ tk_spots<K> tk_spots_of(const tk_walk<K, RANK> &walk, int64_t item) {
    tk_spots<K> spots = {};
#pragma unroll 1 /* one or two, mostly */
    for (int d = walk.rank - 1; d > 0; d--) {
        const int64_t next = tk_divide(item, walk.dims[d], walk.quick), at = item - next * walk.dims[d].by;
        item = next;
#pragma unroll
        for (int k = 0; k < K; k++)
            spots.at[k] += at * walk.strides[k][d];
    }
#pragma unroll
    for (int k = 0; k < K; k++)
        spots.at[k] += item * walk.strides[k][0];
    return spots;
}

/* Over packs of N elements of the last dim. Its size, and strides but 0 of all other dims, are multiples of N; or it is
 * the only dim, and count % N elements remain. */
template <int K, int RANK = TK_MAX_RANK>
static inline tk_walk<K, RANK> tk_walk_of(int rank, const int64_t *dims, const int64_t *const strides[K], int N = 1) {
    tk_walk<K, RANK> walk = {};
    walk.rank = rank;
    walk.items = 1;
    for (int d = 0; d < rank; d++) {
        const int64_t each = d == rank - 1 ? N : 1;
        walk.dims[d] = tk_divisor_of(dims[d] / each);
        walk.items *= dims[d] / each;
        for (int k = 0; k < K; k++)
            walk.strides[k][d] = strides[k][d] * each;
    }
    walk.quick = walk.items <= INT32_MAX;
    return walk;
}

/* Of broadcast operands. */
template <int K, int RANK = TK_MAX_RANK> static inline tk_walk<K, RANK> tk_walk_of(const tk_bcast *bc, int N = 1) {
    const int64_t *strides[K];
    for (int k = 0; k < K; k++)
        strides[k] = bc->strides[k];
    return tk_walk_of<K, RANK>(bc->rank, bc->dims, strides, N);
}
/* Whether rows of the result, and so those of operands that are not repeated along them, are made of whole packs of N
 * elements; a single row may have some left. Bases are the caller's concern. */
static inline bool tk_is_packed_walk(const tk_bcast *bc, int N) {
    return bc->rank == 1 || bc->dims[bc->rank - 1] % N == 0;
}

/* N elements from `at` on, or that one N times. */
template <int N, class S> static __device__ __forceinline__ tk_pack<S, N> tk_load_spread(const S *at, bool repeated) {
    if (!repeated)
        return tk_load_pack<N>(at);
    tk_pack<S, N> pack;
    const S one = *at;
#pragma unroll
    for (int k = 0; k < N; k++)
        pack.at[k] = one;
    return pack;
}
#endif
