/* functions.h: functions of one number or two for tables of expressions, under one name for both types of computation:
 * tk_name_f32, of math.h or the C library, and tk_name_f64, of the C library. */
#ifndef TK_FUNCTIONS_H
#define TK_FUNCTIONS_H
#include "math.h"

/* Lists of names: those of the C library in both types, those that are math.h's in float, and the others below; K(name)
 * takes one operand. */
/* clang-format off */
#define TK_LIBRARY_FUNCTIONS(K) \
    K(fabs) K(sqrt) K(floor) K(ceil) K(rint) K(sin) K(cos) K(tan) K(asin) K(acos) K(atan) K(sinh) K(cosh) K(asinh) \
    K(acosh) K(atanh)
#define TK_OWN_FUNCTIONS(K) K(exp) K(log) K(erf) K(tanh)
#define TK_FUNCTIONS(K) TK_LIBRARY_FUNCTIONS(K) TK_OWN_FUNCTIONS(K) K(sigmoid) K(softplus) K(clamp01)
/* clang-format on */

#define TK_IN_BOTH(name)                                                                                               \
    TK_INLINE float tk_##name##_f32(float x) { return name##f(x); }                                                    \
    TK_INLINE double tk_##name##_f64(double x) { return name(x); }
TK_LIBRARY_FUNCTIONS(TK_IN_BOTH)
#undef TK_IN_BOTH

#define TK_OWN_IN_FLOAT(name)                                                                                          \
    TK_INLINE float tk_##name##_f32(float x) { return tk_##name##f(x); }                                               \
    TK_INLINE double tk_##name##_f64(double x) { return name(x); }
TK_OWN_FUNCTIONS(TK_OWN_IN_FLOAT)
#undef TK_OWN_IN_FLOAT

TK_INLINE float tk_sigmoid_f32(float x) { return tk_sigmoidf(x); }
TK_INLINE double tk_sigmoid_f64(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
TK_INLINE float tk_softplus_f32(float x) { return (x > 0 ? x : 0) + tk_log1p_posf(tk_expf(-fabsf(x))); }
TK_INLINE double tk_softplus_f64(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
TK_INLINE float tk_clamp01_f32(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
TK_INLINE double tk_clamp01_f64(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* Of two numbers: C's remainder, which has the sign of a, and ONNX's Mod, which has that of b. */
TK_INLINE float tk_fmod_f32(float a, float b) { return fmodf(a, b); }
TK_INLINE double tk_fmod_f64(double a, double b) { return fmod(a, b); }
TK_INLINE float tk_floor_mod_f32(float a, float b) {
    float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TK_INLINE double tk_floor_mod_f64(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
#endif
