/* cast_math.h: floats as integers, the only place that converts them: cut towards zero; numbers out of range become the
 * nearest in range, NaN 0. The limits are powers of two, which doubles hold exactly: comparing before converting keeps
 * the conversion defined. */
#ifndef TK_CAST_MATH_H
#define TK_CAST_MATH_H
#include "../common/vector.h"
#include <stdint.h>

/* From low to past - 1. */
TK_INLINE int64_t tk_clamp_signed(double x, double low, double past) {
    if (x != x)
        return 0;
    return x < low ? (int64_t)low : x < past ? (int64_t)x : past >= 0x1p63 ? INT64_MAX : (int64_t)past - 1;
}
TK_INLINE uint64_t tk_clamp_unsigned(double x, double past) {
    return x != x || x <= 0 ? 0 : x >= past ? (past >= 0x1p64 ? UINT64_MAX : (uint64_t)past - 1) : (uint64_t)x;
}
#endif
