/* dropout_math.h: the dropped element, the only place where it is computed, and the sign bit as the flag of what was
 * dropped: P of an attention is not negative, so the bit is free. */
#ifndef TK_DROPOUT_MATH_H
#define TK_DROPOUT_MATH_H
#include "../common/vector.h"
#include <stdint.h>
#include <string.h>

TK_INLINE float tk_dropped_f32(float x, float keep, int kept) {
    return kept ? x / keep : 0.0f;
}
TK_INLINE double tk_dropped_f64(double x, double keep, int kept) {
    return kept ? x / keep : 0.0;
}

/* |x| with the sign bit set where not kept; also of 0 and of not a number. */
TK_INLINE float tk_flagged_f32(float x, int kept) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & UINT32_C(0x7fffffff)) | (uint32_t)!kept << 31;
    memcpy(&x, &bits, sizeof bits);
    return x;
}
TK_INLINE double tk_flagged_f64(double x, int kept) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits & UINT64_C(0x7fffffffffffffff)) | (uint64_t)!kept << 63;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

TK_INLINE int tk_is_kept_f32(float flagged) {
    uint32_t bits;
    memcpy(&bits, &flagged, sizeof bits);
    return !(bits >> 31);
}
TK_INLINE int tk_is_kept_f64(double flagged) {
    uint64_t bits;
    memcpy(&bits, &flagged, sizeof bits);
    return !(bits >> 63);
}
#endif
