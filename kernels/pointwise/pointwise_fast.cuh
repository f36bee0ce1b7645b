/* pointwise_fast.cuh: the functions of pointwise_math.h for results of 16 bits, by cuda/fast_math.cuh: relative errors
 * are below 2^-17 for float16's numbers and 2^-15 for bfloat16's, whose tails go further out; where a slope is the
 * difference of two terms, 2^-21 of them. Only this file computes them, as only pointwise_math.h computes the exact
 * ones. */
#ifndef TK_POINTWISE_FAST_CUH
#define TK_POINTWISE_FAST_CUH
#include "../cuda/fast_math.cuh"
extern "C" {
#include "pointwise_math.h"
}

/* Phi(-|x|) and exp(-x^2 / 2). The square of a number of 16 bits is exact. */
typedef struct tk_tail_fast {
    float tail, bell;
} tk_tail_fast;
static __device__ __forceinline__ tk_tail_fast tk_tail_of_fast(float x) {
    const float bell = tk_exp2_fast(x * x * (-0.5f * TK_LOG2_E));
    return {tk_mills_fast(fabsf(x)) * bell, bell};
}

static __device__ __forceinline__ float tk_gelu_fast(float x) {
    const tk_tail_fast t = tk_tail_of_fast(x);
    return x * (x < 0.0f ? t.tail : 1.0f - t.tail);
}
static __device__ __forceinline__ float tk_gelu_slope_fast(float x) {
    const tk_tail_fast t = tk_tail_of_fast(x);
    const float a = fminf(fabsf(x), 16.0f); /* beyond, the bell is 0; NaN stays in the tail */
    const float rest = fmaf(-(float)TK_NORMAL_PEAK * a, t.bell, t.tail);
    return x < 0.0f ? rest : 1.0f - rest;
}

/* 2u of pointwise_math.h, whose sigmoid the tanh form is. */
static __device__ __forceinline__ float tk_gelu_tanh_fast(float x) {
    return x * tk_sigmoid_fast(x * fmaf((float)(2 * TK_GELU_K1), x * x, (float)(2 * TK_GELU_K0)));
}
static __device__ __forceinline__ float tk_gelu_tanh_slope_fast(float x) {
    const float a = fabsf(x) > 16.0f ? copysignf(16.0f, x) : x, z = a * a; /* beyond, the slope is 0 or 1 */
    const tk_gate_fast g = tk_gate_of_fast(a * fmaf((float)(2 * TK_GELU_K1), z, (float)(2 * TK_GELU_K0)));
    return fmaf(a * (g.open * g.rest), fmaf((float)(6 * TK_GELU_K1), z, (float)(2 * TK_GELU_K0)), g.open);
}

static __device__ __forceinline__ float tk_swish_fast(float x, float alpha) { return x * tk_sigmoid_fast(alpha * x); }
static __device__ __forceinline__ float tk_swish_slope_fast(float x, float alpha) {
    const float z = alpha * x, a = fabsf(z) > 120.0f ? copysignf(120.0f, z) : z; /* beyond, the slope is 0 or 1 */
    const tk_gate_fast g = tk_gate_of_fast(a);
    return fmaf(a, g.open * g.rest, g.open);
}
#endif
