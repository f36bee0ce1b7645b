/* chain_device.cuh: links of a chain on packs of elements in registers: for the kernel of chains, and for kernels with
 * a chain before or after their own work (norm/row_links.cuh). Formulas are those of the ops' own kernels, and results
 * are rounded where theirs are. */
#ifndef TK_CHAIN_DEVICE_CUH
#define TK_CHAIN_DEVICE_CUH
#include "../dropout/dropout_device.cuh"
extern "C" {
#include "chain.h"
}

/* a + b, element by element; of 16 bits two at a time, rounded once: the same as rounding to float and then to 16 bits,
 * since float has twice their digits and two more (S. Figueroa, "When is double rounding innocuous?", 1995). */
template <class S> __device__ __forceinline__ void tk_add_two(S *sum, const S *a, const S *b) {
    sum[0] = tk_element_of<S>(tk_number_of(a[0]) + tk_number_of(b[0]));
    sum[1] = tk_element_of<S>(tk_number_of(a[1]) + tk_number_of(b[1]));
}
#ifdef __CUDACC__
#define TK_ADD_TWO(S, type)                                                                                            \
    template <> __device__ __forceinline__ void tk_add_two<S>(S * sum, const S *a, const S *b) {                       \
        type x, y;                                                                                                     \
        memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);                                                              \
        x = __hadd2_rn(x, y);                                                                                          \
        memcpy(sum, &x, sizeof x);                                                                                     \
    }
TK_ADD_TWO(tk_bfloat, __nv_bfloat162)
TK_ADD_TWO(tk_half, __half2)
#undef TK_ADD_TWO
#endif
template <class S, int N>
__device__ __forceinline__ tk_pack<S, N> tk_sum_of(const tk_pack<S, N> &a, const tk_pack<S, N> &b) {
    tk_pack<S, N> sum;
#pragma unroll
    for (int k = 0; k < N; k += 2)
        tk_add_two(&sum.at[k], &a.at[k], &b.at[k]);
    return sum;
}

/* The settings of a dropout link, the same for all elements. */
template <class S> struct tk_dropping {
    bool good;    /* the ratio is one */
    tk_draw draw; /* of a link that draws */
    uint32_t threshold;
    tk_keeping<S> divided;
};
template <class S> __device__ __forceinline__ tk_dropping<S> tk_dropping_of(const tk_link &link, tk_fault_place fault) {
    const double ratio = tk_device_number(link.ratio);
    const bool good = ratio >= 0 && ratio < 1;
    if (!good)
        tk_fault_set(fault, TK_BAD_VALUE);
    const tk_draw draw = link.op == TK_LINK_DROPOUT ? tk_draw_of(link.seed) : tk_draw{};
    return {good, draw, tk_drop_threshold(ratio), tk_keeping<S>(1 - ratio)};
}

/* Elements from i on, of which `left` exist, by a draw or a mask. packed: all N are there, and masks may be read and
 * written N bytes at a time. */
template <class S, int N>
__device__ __forceinline__ void tk_link_drop(tk_pack<S, N> &x, const tk_link &link, const tk_dropping<S> &dropping,
                                             int64_t i, int left, bool packed) {
    const uint8_t *mask = (const uint8_t *)link.operand;
    uint32_t kept = 0;
    if (link.op == TK_LINK_DROPOUT) {
        kept = tk_kept_drawn<N>(dropping.draw, i, dropping.threshold);
        if (link.mask && packed)
            tk_store_kept<N>(link.mask + i, kept);
    } else if (packed) {
        kept = tk_load_kept<N>(mask + i);
    }
    if (!packed)
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k < left && link.op == TK_LINK_DROPOUT_GRAD)
                kept |= (uint32_t)(mask[i + k] != 0) << k;
            if (k < left && link.op == TK_LINK_DROPOUT && link.mask)
                link.mask[i + k] = kept >> k & 1;
        }
    tk_drop(x, kept, dropping.divided);
}

/* Whether a link's operand, and masks, may be read in packs of N elements that begin at multiples of N, the chain
 * having n. */
static inline bool tk_is_packed_link(const tk_link *link, int64_t n, int N) {
    if (link->op == TK_LINK_DROPOUT)
        return (uintptr_t)link->mask % (uintptr_t)N == 0;
    if (link->op == TK_LINK_DROPOUT_GRAD)
        return (uintptr_t)link->operand % (uintptr_t)N == 0;
    return tk_is_packed(link->operand) && link->inner == 1 && (link->period % N == 0 || link->period == n);
}
#endif
