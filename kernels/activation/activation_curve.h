/* activation_curve.h: an activation's curve, in float and in double: activation_point.h. */
#ifndef TK_ACTIVATION_CURVE_H
#define TK_ACTIVATION_CURVE_H
#include "../common/functions.h"
#include "activation.h"

/* Loops of few turns, so that the loop around them becomes vector code. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define TK_UNROLL _Pragma("GCC unroll 16")
#else
#define TK_UNROLL
#endif

#define T float
#define SUFFIX f32
#include "activation_point.h"
#define T double
#define SUFFIX f64
#include "activation_point.h"
#endif
