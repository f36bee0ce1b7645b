/* half.h: float16 and bfloat16 as numbers. Conversions from wider types round once, to nearest with ties to even; NaN
 * stays NaN. */
#ifndef TK_HALF_H
#define TK_HALF_H
#include <stdint.h>
#include <string.h>

static inline uint32_t tk_float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float tk_bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float tk_from_bf16(uint16_t h) { return tk_bits_float((uint32_t)h << 16); }

static inline float tk_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 31)
        return tk_bits_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent != 0)
        return tk_bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float f = (float)mantissa * 0x1p-24f;
    return sign ? -f : f;
}

/* A double with `lost` mantissa bits fewer and exponents from `least` on, as bits of a 16-bit format of `width`
 * mantissa bits. */
static inline uint16_t tk_round16(double d, int width, int bias, int limit) {
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
    int exponent = (int)(u >> 52 & 0x7ff) - 1023 + bias;
    uint64_t mantissa = u & 0xfffffffffffff;
    if ((u >> 52 & 0x7ff) == 0x7ff)
        return (uint16_t)(sign | limit << width | (mantissa ? 1 << (width - 1) : 0));
    if ((u >> 52 & 0x7ff) == 0)
        return sign; /* below every 16-bit denormal */
    mantissa |= (uint64_t)1 << 52;
    int drop = 52 - width;
    if (exponent <= 0) { /* denormal: fewer bits are kept */
        drop += 1 - exponent;
        exponent = 0;
        if (drop > 54)
            return sign;
    } else {
        mantissa &= 0xfffffffffffff;
    }
    uint64_t kept = mantissa >> drop, rest = mantissa & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    uint64_t bits = ((uint64_t)exponent << width) + kept; /* a carry moves into the exponent, as it should */
    if (bits >= (uint64_t)limit << width)
        bits = (uint64_t)limit << width;
    return (uint16_t)(sign | (uint16_t)bits);
}

static inline uint16_t tk_to_f16(double d) { return tk_round16(d, 10, 15, 31); }
static inline uint16_t tk_to_bf16(double d) { return tk_round16(d, 7, 127, 255); }
#endif
