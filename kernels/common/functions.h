/* functions.h: functions of one number for tables of expressions, under one name for both types that are computed in:
 * tk_name_f32, of math.h or the C library, and tk_name_f64, of the C library. */
#ifndef TK_FUNCTIONS_H
#define TK_FUNCTIONS_H
#include "math.h"

#define TK_IN_BOTH(name)                                                                                               \
    TK_INLINE float tk_##name##_f32(float x) { return name##f(x); }                                                    \
    TK_INLINE double tk_##name##_f64(double x) { return name(x); }
TK_IN_BOTH(fabs)
TK_IN_BOTH(sqrt)
TK_IN_BOTH(floor)
TK_IN_BOTH(ceil)
TK_IN_BOTH(rint)
TK_IN_BOTH(sin)
TK_IN_BOTH(cos)
TK_IN_BOTH(tan)
TK_IN_BOTH(asin)
TK_IN_BOTH(acos)
TK_IN_BOTH(atan)
TK_IN_BOTH(sinh)
TK_IN_BOTH(cosh)
TK_IN_BOTH(asinh)
TK_IN_BOTH(acosh)
TK_IN_BOTH(atanh)
#undef TK_IN_BOTH

#define TK_OWN_IN_FLOAT(name)                                                                                          \
    TK_INLINE float tk_##name##_f32(float x) { return tk_##name##f(x); }                                               \
    TK_INLINE double tk_##name##_f64(double x) { return name(x); }
TK_OWN_IN_FLOAT(exp)
TK_OWN_IN_FLOAT(log)
TK_OWN_IN_FLOAT(erf)
TK_OWN_IN_FLOAT(tanh)
#undef TK_OWN_IN_FLOAT

TK_INLINE float tk_sigmoid_f32(float x) { return tk_sigmoidf(x); }
TK_INLINE double tk_sigmoid_f64(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
TK_INLINE float tk_softplus_f32(float x) { return (x > 0 ? x : 0) + tk_log1p_posf(tk_expf(-fabsf(x))); }
TK_INLINE double tk_softplus_f64(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }
TK_INLINE float tk_clamp01_f32(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
TK_INLINE double tk_clamp01_f64(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
#endif
