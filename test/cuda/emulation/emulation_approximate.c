/* emulation_approximate.c: PTX's approximations: the nearest number, moved by the bound that PTX states for the
 * instruction when a test asks for its errors (of rsqrt the wider one of two editions, 2^-22.4). */
#include "emulation_state.h"
#include <math.h>
#include <string.h>

emu_error emu_ex2_error;

/* Of numbers that are subnormal a sign is left. */
static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

/* +1, -1 or 0 times a bound. */
static double direction(float y) {
    uint32_t bits;
    memcpy(&bits, &y, sizeof bits);
    return emu_ex2_error == EMU_EXACT   ? 0
           : emu_ex2_error == EMU_ABOVE ? 1
           : emu_ex2_error == EMU_BELOW ? -1
                                        : (bits * UINT32_C(0x9e3779b9) >> 31 ? 1 : -1);
}

/* y, off by so many parts of itself, or by so much where absolute is more. */
static float approximate(double y, double relative, double absolute) {
    if (!isfinite(y) || y == 0)
        return (float)y;
    return (float)(y + direction((float)y) * fmax(fabs(y) * relative, absolute));
}

float emu_ex2(float x) { return flushed(approximate(exp2((double)flushed(x)), 0x1p-22, 0)); }
float emu_rcp(float x) { return flushed(approximate(1 / (double)flushed(x), 0x1p-23, 0)); }
float emu_rsqrt(float x) { return flushed(approximate(1 / sqrt((double)flushed(x)), 0x1.84p-23, 0)); }
float emu_tanh(float x) { return approximate(tanh((double)x), 0x1p-11, 0); }
float emu_lg2(float x) {
    const double y = log2((double)flushed(x));
    const bool near = x > 0.5f && x < 2;
    return flushed(approximate(y, near ? 0 : 0x1p-22, near ? 0x1p-22 : 0));
}
