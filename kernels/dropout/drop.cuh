/* drop.cuh: dropout in CUDA kernels: its ratio and seed, and the kept elements of one block of the draw, by
 * dropout_math.h and philox.h like the CPU's. */
#ifndef TK_DROP_CUH
#define TK_DROP_CUH
#include "../cuda/device.cuh"
extern "C" {
#include "dropout_math.h"
}

/* T: the type of computation. */
template <class T> struct tk_drop {
    uint32_t threshold;
    T keep, share; /* the divisor of kept elements; 1 / that */
    tk_draw draw;
};

/* The ratio and its threshold; TK_BAD_VALUE and an undefined threshold where it is no ratio. */
template <class T> __device__ __forceinline__ tk_drop<T> tk_drop_ratio(tk_number number, tk_fault_place fault) {
    const double ratio = tk_device_number(number);
    if (!(ratio >= 0 && ratio < 1))
        tk_fault_set(fault, TK_BAD_VALUE);
    const T keep = (T)(1 - ratio);
    return tk_drop<T>{tk_drop_threshold(ratio), keep, 1 / keep, tk_draw{}};
}
template <class T>
__device__ __forceinline__ tk_drop<T> tk_drop_of(tk_number ratio, tk_seed seed, tk_fault_place fault) {
    tk_drop<T> drop = tk_drop_ratio<T>(ratio, fault);
    drop.draw = tk_draw_of(seed);
    return drop;
}

/* Whether element i of the block with these words is kept: the high half is compared in place. */
template <class T>
__device__ __forceinline__ bool tk_is_drawn(const tk_drop<T> &drop, const uint32_t words[TK_WORDS], int i) {
    return i % 2 ? words[i / 2] >= drop.threshold << 16 : (words[i / 2] & 0xffff) >= drop.threshold;
}

/* The same of the two elements of a word: bit 15 of each half is set where the element is kept; the other bits are
 * anything. With a bit put before them, the lower 15 bits of both halves are compared by one difference; it decides
 * where the upper bits are equal. */
template <class T> __device__ __forceinline__ uint32_t tk_drawn_bits(const tk_drop<T> &drop, uint32_t word) {
    const uint32_t threshold = drop.threshold * 0x10001u;
    const uint32_t reaches = (word | 0x80008000u) - (threshold & 0x7fff7fffu);
    return (word & ~threshold) | (~(word ^ threshold) & reaches);
}

/* A dropped number: of 16 bits times the share, which is within an ulp of float of the quotient. */
template <class S>
__device__ __forceinline__ tk_math<S> tk_dropped_number(tk_math<S> x, tk_drop<tk_math<S>> drop, int kept) {
    return kept ? tk_is_16_bit<S> ? x * drop.share : x / drop.keep : 0;
}

__device__ __forceinline__ float tk_flagged(float x, int kept) { return tk_flagged_f32(x, kept); }
__device__ __forceinline__ double tk_flagged(double x, int kept) { return tk_flagged_f64(x, kept); }
__device__ __forceinline__ tk_half tk_flagged(tk_half x, int kept) { return {tk_flagged_f16(x.bits, kept)}; }
__device__ __forceinline__ tk_bfloat tk_flagged(tk_bfloat x, int kept) { return {tk_flagged_bf16(x.bits, kept)}; }
__device__ __forceinline__ int tk_is_kept(float x) { return tk_is_kept_f32(x); }
__device__ __forceinline__ int tk_is_kept(double x) { return tk_is_kept_f64(x); }
__device__ __forceinline__ int tk_is_kept(tk_half x) { return tk_is_kept_f16(x.bits); }
__device__ __forceinline__ int tk_is_kept(tk_bfloat x) { return tk_is_kept_bf16(x.bits); }
#endif
