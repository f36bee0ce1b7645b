/* math.h: the functions that float kernels share, as branch-free expressions that a compiler turns into vector code: the vector body and
 * the tail of a loop, and every kernel that uses one of them, give the same bits. Each was fitted as a minimax polynomial on the
 * interval named; test/unit/test_math.c sweeps them against double precision (errors in ulp are stated there and checked).
 * Not a number in, not a number out; infinities as in the C library. */
#ifndef TK_MATH_H
#define TK_MATH_H
#include "vector.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

TK_INLINE float tk_float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
TK_INLINE uint32_t tk_bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* exp(hi + lo) for |lo| < 0.2: 2^n exp(r) with |r| <= ln 2 / 2 + |lo|. The power of two is applied in two halves so that
 * subnormal results are right. */
TK_INLINE float tk_exp_sum(float hi, float lo) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float x = hi < 89.0f ? hi : 89.0f;
    x = x > -104.0f ? x : -104.0f;
    float t = x * 1.44269502f + shift;
    float n = t - shift;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f + lo;
    float p = 1.395169995e-03f;
    p = p * r + 8.369592018e-03f;
    p = p * r + 4.166618735e-02f;
    p = p * r + 1.666651368e-01f;
    p = p * r + 5.000000000e-01f;
    p = 1.0f + (r + (r * r) * p);
    int32_t e = (int32_t)n, half = e / 2;
    float a = tk_float_of_bits((uint32_t)(half + 127) << 23), b = tk_float_of_bits((uint32_t)(e - half + 127) << 23);
    p = p * a * b;
    return hi != hi ? hi : p;
}
TK_INLINE float tk_expf(float x) { return tk_exp_sum(x, 0.0f); }

/* log(x): mantissa in [sqrt(1/2), sqrt(2)), log(1 + f) = f - f^2/2 + f^3 P(f). */
TK_INLINE float tk_logf(float x) {
    float positive = x > 0.0f ? x : 1.0f;
    int tiny = positive < 1.17549435e-38f;
    float scaled = tiny ? positive * 8388608.0f : positive;
    int32_t bits = (int32_t)tk_bits_of_float(scaled);
    int32_t e = ((bits - 0x3f3504f3) >> 23);
    float m = tk_float_of_bits((uint32_t)(bits - (int32_t)((uint32_t)e << 23)));
    float n = (float)(tiny ? e - 23 : e);
    float f = m - 1.0f, z = f * f;
    float p = 6.915515661e-02f;
    p = p * f + -1.178876981e-01f;
    p = p * f + 1.187232211e-01f;
    p = p * f + -1.238450035e-01f;
    p = p * f + 1.421877891e-01f;
    p = p * f + -1.666924506e-01f;
    p = p * f + 2.000221908e-01f;
    p = p * f + -2.499998659e-01f;
    p = p * f + 3.333331048e-01f;
    float y = (f * z) * p + n * -2.12194440e-4f;
    y = y - 0.5f * z;
    y = (f + y) + n * 0.693359375f;
    y = x == 0.0f ? -INFINITY : y;
    y = x == INFINITY ? x : y;
    return x >= 0.0f ? y : NAN;
}

/* log(1 + e) for e >= 0, accurate near 0: the rounding error of 1 + e is put back. */
TK_INLINE float tk_log1p_posf(float e) {
    float u = 1.0f + e;
    float y = tk_logf(u) + (e - (u - 1.0f)) / u;
    return e == INFINITY ? e : y;
}

TK_INLINE float tk_tanhf(float x) {
    float a = fabsf(x), z = x * x;
    float p = 1.903673285e-03f;
    p = p * z + -7.895037532e-03f;
    p = p * z + 2.157748118e-02f;
    p = p * z + -5.392256379e-02f;
    p = p * z + 1.333300173e-01f;
    p = p * z + -3.333332539e-01f;
    p = x + (x * z) * p;
    float big = 1.0f - 2.0f / (tk_expf(2.0f * a) + 1.0f);
    return copysignf(a < 0.625f ? p : big, x);
}

TK_INLINE float tk_sigmoidf(float x) {
    float e = tk_expf(-fabsf(x));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

/* exp(t^2) erfc(t) for 0 <= t <= 10.2: a polynomial in (t - 2) / (t + 2), near 1, over 1 + 2t. */
TK_INLINE float tk_erfcx_posf(float t) {
    float q = (t - 2.0f) / (t + 2.0f);
    float p = -3.994523431e-04f;
    p = p * q + -1.228005625e-03f;
    p = p * q + 1.313312561e-03f;
    p = p * q + 8.630100638e-03f;
    p = p * q + -8.060144261e-03f;
    p = p * q + -5.420388654e-02f;
    p = p * q + 1.640554219e-01f;
    p = p * q + -1.660314649e-01f;
    p = p * q + -9.276398271e-02f;
    p = p * q + 1.276978374e+00f;
    return p / (1.0f + 2.0f * t);
}

/* exp(-scale x^2) for scale 1 or 1/2 and scale x^2 <= 104; the upper half of x has an exact square. */
TK_INLINE float tk_exp_minus_squaref(float x, float scale) {
    float head = tk_float_of_bits(tk_bits_of_float(x) & 0xfffff000u);
    return tk_exp_sum(-scale * (head * head), -scale * ((x - head) * (x + head)));
}

/* erfc(t) for t >= 0, with a small relative error also in the tail. */
TK_INLINE float tk_erfc_posf(float t) {
    t = t > 10.2f ? 10.2f : t;
    return tk_erfcx_posf(t) * tk_exp_minus_squaref(t, 1.0f);
}

TK_INLINE float tk_erff(float x) {
    float a = fabsf(x), z = x * x;
    float p = 8.794416499e-05f;
    p = p * z + -8.236264111e-04f;
    p = p * z + 5.208733492e-03f;
    p = p * z + -2.686230466e-02f;
    p = p * z + 1.128374487e-01f;
    p = p * z + -3.761263788e-01f;
    p = p * z + 1.283791661e-01f;
    p = x + x * p;
    float big = copysignf(1.0f - tk_erfc_posf(a), x);
    float y = a < 0.84375f ? p : big;
    return x != x ? x : y;
}
#endif
