/* fast_math.cuh: functions of one number for results of 16 bits: by the special function unit and fused multiply-adds,
 * a quarter of the instructions of math.h's. Each is good to the relative error named, which is far below half a unit
 * of bfloat16 (2^-9) and float16 (2^-12); numbers below 2^-126 in between are 0. NaN gives NaN, infinities behave as in
 * math.h. test/cuda/checks/check_pointwise.c sweeps all numbers of both types.
 *
 * Functions for tables of expressions, by their type of computation: tk_f32_functions and tk_f64_functions, those of
 * functions.h, and tk_fast_functions. A table is a template of such a type F, with F::T and F::NAME(x). */
#ifndef TK_FAST_MATH_CUH
#define TK_FAST_MATH_CUH
#include "device.cuh"
extern "C" {
#include "../common/functions.h"
}
#include <float.h>

#define TK_LOG2_E 1.44269504f

/* 2^x, 1 / x, log2(x) to 2^-22, 2^-23, and 2^-22 of log2(x) or of 1; subnormal operands and results are 0. */
#ifdef __CUDACC__
#define TK_APPROXIMATION(name, instruction, emulated)                                                                  \
    static __device__ __forceinline__ float name(float x) {                                                            \
        float y;                                                                                                       \
        asm(instruction " %0, %1;" : "=f"(y) : "f"(x));                                                                \
        return y;                                                                                                      \
    }
#else
#define TK_APPROXIMATION(name, instruction, emulated)                                                                  \
    static __device__ __forceinline__ float name(float x) { return emulated(x); }
#endif
TK_APPROXIMATION(tk_exp2_fast, "ex2.approx.ftz.f32", emu_ex2)
TK_APPROXIMATION(tk_rcp_fast, "rcp.approx.ftz.f32", emu_rcp)

/* x / by, where inverse is 1 / by, rounded: a division's bits where |x| is at least 2^-100 (P. Markstein, "Computation
 * of elementary functions on the IBM RISC System/6000 processor", 1990), of smaller ones to 2^-22. */
static __device__ __forceinline__ float tk_quotient_fast(float x, float by, float inverse) {
    const float y = x * inverse;
    return fabsf(y) <= FLT_MAX ? fmaf(fmaf(-y, by, x), inverse, y) : y;
}

/* exp(x) to 2^-22 + |x| 2^-24. */
static __device__ __forceinline__ float tk_exp_fast(float x) { return tk_exp2_fast(x * TK_LOG2_E); }

/* 1 / (1 + exp(-x)) and 1 minus it, both to 2^-21 + |x| 2^-24. */
typedef struct tk_gate_fast {
    float open, rest;
} tk_gate_fast;
static __device__ __forceinline__ tk_gate_fast tk_gate_of_fast(float x) {
    const float e = tk_exp_fast(-fabsf(x)), near = tk_rcp_fast(1.0f + e), far = e * near;
    return x < 0.0f ? tk_gate_fast{far, near} : tk_gate_fast{near, far};
}
static __device__ __forceinline__ float tk_sigmoid_fast(float x) { return tk_gate_of_fast(x).open; }

/* To 2^-20: x times a polynomial in x^2 near 0, where a difference would lose digits. */
static __device__ __forceinline__ float tk_tanh_fast(float x) {
    const float a = fabsf(x), z = x * x, e = tk_exp2_fast(a * (-2.0f * TK_LOG2_E));
    const float far = fmaf(-2.0f * e, tk_rcp_fast(1.0f + e), 1.0f); /* 1 where e is 0 */
    const float p = fmaf(fmaf(-17.0f / 315.0f, z, 2.0f / 15.0f), z, -1.0f / 3.0f);
    return a < 0.25f ? fmaf(x * z, p, x) : copysignf(far, x);
}

/* log(1 + e) for 0 <= e <= 1, to 2^-21: the area tangent of e / (2 + e), twice. */
static __device__ __forceinline__ float tk_log1p_fast(float e) {
    const float q = e * tk_rcp_fast(2.0f + e), z = q * q;
    float p = fmaf(z, 1.0f / 11.0f, 1.0f / 9.0f);
    p = fmaf(p, z, 1.0f / 7.0f);
    p = fmaf(p, z, 1.0f / 5.0f);
    p = fmaf(p, z, 1.0f / 3.0f);
    return 2.0f * fmaf(q * z, p, q);
}
/* To 2^-20 + |x| 2^-24. */
static __device__ __forceinline__ float tk_softplus_fast(float x) {
    return (x > 0.0f ? x : 0.0f) + tk_log1p_fast(tk_exp_fast(-fabsf(x)));
}

/* Phi(-a) exp(a^2 / 2) for a >= 0 and the normal distribution Phi, to 2^-21: a polynomial in s = 1 / (1 + 0.305 a)
 * times s, fitted for the least relative error on [0, 14.6]. */
static __device__ __forceinline__ float tk_mills_fast(float a) {
    const float s = tk_rcp_fast(fmaf(0.305f, a, 1.0f));
    float p = 0.0365957568f;
    p = fmaf(p, s, -0.152573022f);
    p = fmaf(p, s, 0.185027764f);
    p = fmaf(p, s, -0.0373663824f);
    p = fmaf(p, s, 0.120711072f);
    p = fmaf(p, s, 0.103511333f);
    p = fmaf(p, s, 0.122452895f);
    p = fmaf(p, s, 0.121640604f);
    return p * s;
}

/* To 2^-19: near 0 by the series, elsewhere from the tail. */
static __device__ __forceinline__ float tk_erf_fast(float x) {
    const float a = fabsf(x), z = x * x;
    const float far = fmaf(-2.0f * tk_mills_fast(1.41421356f * a), tk_exp2_fast(z * -TK_LOG2_E), 1.0f);
    float p = 1.0f / 216.0f;
    p = fmaf(p, z, -1.0f / 42.0f);
    p = fmaf(p, z, 1.0f / 10.0f);
    p = fmaf(p, z, -1.0f / 3.0f);
    return a < 0.5f ? 1.12837917f * fmaf(x * z, p, x) : copysignf(far, x);
}

#define TK_FUNCTION_F32(name)                                                                                          \
    static __device__ __forceinline__ float name(float x) { return tk_##name##_f32(x); }
#define TK_FUNCTION_F64(name)                                                                                          \
    static __device__ __forceinline__ double name(double x) { return tk_##name##_f64(x); }
#define TK_FUNCTION_FAST(name)                                                                                         \
    static __device__ __forceinline__ float name(float x) { return tk_##name##_fast(x); }
struct tk_f32_functions {
    typedef float T;
    static constexpr T largest = FLT_MAX;
    TK_FUNCTIONS(TK_FUNCTION_F32)
};
struct tk_f64_functions {
    typedef double T;
    static constexpr T largest = DBL_MAX;
    TK_FUNCTIONS(TK_FUNCTION_F64)
};
struct tk_fast_functions : tk_f32_functions {
    TK_FUNCTION_FAST(exp)
    TK_FUNCTION_FAST(erf)
    TK_FUNCTION_FAST(tanh)
    TK_FUNCTION_FAST(sigmoid)
    TK_FUNCTION_FAST(softplus)
};

/* The functions for results of an element type: exact ones in the type of computation, or fast ones for results of 16
 * bits. */
template <class S> struct tk_exact_functions_of { typedef tk_f32_functions type; };
template <> struct tk_exact_functions_of<double> { typedef tk_f64_functions type; };
template <class S> struct tk_functions_of { typedef tk_fast_functions type; };
template <> struct tk_functions_of<float> { typedef tk_f32_functions type; };
template <> struct tk_functions_of<double> { typedef tk_f64_functions type; };
#endif
