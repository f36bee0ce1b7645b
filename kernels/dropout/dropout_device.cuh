/* dropout_device.cuh: on the device, which elements of a pack are kept, and their results: for the kernels of dropout,
 * and for other kernels with a dropout inside. */
#ifndef TK_DROPOUT_DEVICE_CUH
#define TK_DROPOUT_DEVICE_CUH
#include "../cuda/fast_math.cuh"
extern "C" {
#include "dropout_math.h"
}

/* Divides kept elements: those of 16 bits by a product with the quotient's bits, others as dropout_math.h does.
 */
template <class S> struct tk_keeping {
    float keep, inverse;
    __device__ __forceinline__ explicit tk_keeping(double divisor) : keep((float)divisor), inverse(1.0f / keep) {}
    __device__ __forceinline__ S of(S x, bool kept) const {
        const float quotient = tk_quotient_fast(tk_number_of(x), keep, inverse);
        return tk_element_of<S>(kept ? quotient : 0.0f);
    }
};
template <> struct tk_keeping<float> {
    float keep;
    __device__ __forceinline__ explicit tk_keeping(double divisor) : keep((float)divisor) {}
    __device__ __forceinline__ float of(float x, bool kept) const { return tk_dropped_f32(x, keep, kept); }
};
template <> struct tk_keeping<double> {
    double keep;
    __device__ __forceinline__ explicit tk_keeping(double divisor) : keep(divisor) {}
    __device__ __forceinline__ double of(double x, bool kept) const { return tk_dropped_f64(x, keep, kept); }
};

/* Bit k: element k of a pack is kept. By the draw of N elements from i on, a multiple of N, which divides TK_HALVES. */
template <int N> __device__ __forceinline__ uint32_t tk_kept_drawn(const tk_draw &draw, int64_t i, uint32_t threshold) {
    const int first = (int)(i % TK_HALVES);
    uint32_t words[TK_WORDS], kept = 0;
    tk_draw_block(&draw, (uint64_t)i / TK_HALVES, words);
    if (N == TK_HALVES / 2 && first > 0)
        words[0] = words[2], words[1] = words[3];
#pragma unroll
    for (int k = 0; k < (N < TK_HALVES / 2 ? TK_HALVES : N); k++)
        kept |= (uint32_t)(tk_draw_half(words, k) >= threshold) << k;
    return N < TK_HALVES / 2 ? kept >> first : kept;
}
/* By N bytes of a mask, each 0 or 1, and to such bytes; at a multiple of N. Four are one product, which puts bits side
 * by side, or apart. */
template <int N> __device__ __forceinline__ uint32_t tk_load_kept(const uint8_t *mask) {
    if constexpr (N < 4) {
        const tk_pack<uint8_t, 2> two = tk_load_pack<2>(mask);
        return two.at[0] | (uint32_t)two.at[1] << 1;
    } else {
        const tk_pack<uint32_t, N / 4> fours = tk_load_pack<N / 4>(reinterpret_cast<const uint32_t *>(mask));
        uint32_t kept = 0;
#pragma unroll
        for (int k = 0; k < N; k += 4)
            kept |= (fours.at[k / 4] * 0x01020408u >> 24 & 15u) << k;
        return kept;
    }
}
template <int N> __device__ __forceinline__ void tk_store_kept(uint8_t *mask, uint32_t kept) {
    if constexpr (N < 4) {
        tk_store_pack(mask, tk_pack<uint8_t, 2>{{(uint8_t)(kept & 1), (uint8_t)(kept >> 1 & 1)}});
    } else {
        tk_pack<uint32_t, N / 4> fours;
#pragma unroll
        for (int k = 0; k < N; k += 4)
            fours.at[k / 4] = (kept >> k & 15u) * 0x00204081u & 0x01010101u;
        tk_store_pack(reinterpret_cast<uint32_t *>(mask), fours);
    }
}

template <class S, int N>
__device__ __forceinline__ void tk_drop(tk_pack<S, N> &x, uint32_t kept, const tk_keeping<S> &divided) {
#pragma unroll
    for (int k = 0; k < N; k++)
        x.at[k] = divided.of(x.at[k], kept >> k & 1);
}
#endif
