/* gelu_math.h: GELU and its slope at one point, the only place where they are computed: every kernel that emits GELU,
 * also a second time in the backward pass, gives the same bits. */
#ifndef TK_GELU_MATH_H
#define TK_GELU_MATH_H
#include "../common/math.h"

#define TK_SQRT_HALF 0.70710678118654752440
#define TK_NORMAL_PEAK 0.39894228040143267794 /* 1 / sqrt(2 pi) */
#define TK_GELU_K0 0.79788456080286535588     /* sqrt(2 / pi) */
#define TK_GELU_K1 0.03567740813630012        /* 0.044715 sqrt(2 / pi) */

typedef struct tk_normal_f32 { float cdf, bell; } tk_normal_f32; /* Phi(x), exp(-x^2 / 2) */

TK_INLINE tk_normal_f32 tk_normalf(float x) {
    float a = fabsf(x);
    a = a > 14.4f ? 14.4f : a; /* beyond, Phi is 0 or 1 in float */
    float bell = tk_exp_minus_squaref(a, 0.5f);
    float tail = 0.5f * tk_erfcx_posf(a * (float)TK_SQRT_HALF) * bell;
    return (tk_normal_f32){x < 0.0f ? tail : 1.0f - tail, bell};
}

TK_INLINE float tk_gelu_f32(float x) { return x * tk_normalf(x).cdf; }
TK_INLINE float tk_gelu_slope_f32(float x) {
    tk_normal_f32 n = tk_normalf(x);
    float a = x < -14.4f ? -14.4f : x > 14.4f ? 14.4f : x;
    return n.cdf + a * ((float)TK_NORMAL_PEAK * n.bell);
}
TK_INLINE float tk_gelu_tanh_f32(float x) {
    float u = x * ((float)TK_GELU_K0 + (float)TK_GELU_K1 * (x * x));
    return x * tk_sigmoidf(2.0f * u);
}
TK_INLINE float tk_gelu_tanh_slope_f32(float x) {
    float a = x < -30.0f ? -30.0f : x > 30.0f ? 30.0f : x, z = a * a; /* beyond, the slope is 0 or 1 in float */
    float u = a * ((float)TK_GELU_K0 + (float)TK_GELU_K1 * z);
    float s = tk_sigmoidf(2.0f * u), rest = tk_sigmoidf(-2.0f * u);
    return s + 2.0f * a * (s * rest) * ((float)TK_GELU_K0 + (float)(3 * TK_GELU_K1) * z);
}

TK_INLINE double tk_gelu_f64(double x) { return x * (0.5 * erfc(-x * TK_SQRT_HALF)); }
TK_INLINE double tk_gelu_slope_f64(double x) {
    return 0.5 * erfc(-x * TK_SQRT_HALF) + x * (TK_NORMAL_PEAK * exp(-0.5 * (x * x)));
}
TK_INLINE double tk_gelu_tanh_f64(double x) { return x / (1 + exp(-2 * (x * (TK_GELU_K0 + TK_GELU_K1 * (x * x))))); }
TK_INLINE double tk_gelu_tanh_slope_f64(double x) {
    double a = x < -60 ? -60 : x > 60 ? 60 : x, z = a * a, u = a * (TK_GELU_K0 + TK_GELU_K1 * z);
    double s = 1 / (1 + exp(-2 * u)), rest = 1 / (1 + exp(2 * u));
    return s + 2 * a * (s * rest) * (TK_GELU_K0 + 3 * TK_GELU_K1 * z);
}
#endif
