/* pow_math.h: Pow of integers, the only place that computes it. */
#ifndef TK_POW_MATH_H
#define TK_POW_MATH_H
#include "../common/vector.h"
#include <stdint.h>

/* Modulo 2^64; 1 / base^-exponent cut to a whole number where the exponent is negative. */
TK_INLINE uint64_t tk_int_power(int64_t base, int64_t exponent) {
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? UINT64_MAX : 1) : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (; exponent > 0; exponent /= 2, square *= square)
        if (exponent % 2)
            result *= square;
    return result;
}

/* A float to an integer type as conversions of ONNX do where the value fits; 0 where it does not. */
TK_INLINE int64_t tk_int_of_power(double x) { return x >= -9.2e18 && x <= 9.2e18 ? (int64_t)x : 0; }
#endif
