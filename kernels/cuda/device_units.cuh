/* device_units.cuh: bytes that move as one, by the widest unit that sizes and addresses allow. */
#ifndef TK_DEVICE_UNITS_CUH
#define TK_DEVICE_UNITS_CUH
#include "device.cuh"

struct alignas(16) tk_unit16 {
    uint64_t halves[2];
};
#define TK_UNITS(bytes, U, ...)                                                                                        \
    switch ((int)(bytes)) {                                                                                            \
        TK_CASE(1, uint8_t, U, __VA_ARGS__)                                                                            \
        TK_CASE(2, uint16_t, U, __VA_ARGS__)                                                                           \
        TK_CASE(4, uint32_t, U, __VA_ARGS__)                                                                           \
        TK_CASE(8, uint64_t, U, __VA_ARGS__)                                                                           \
        TK_CASE(16, tk_unit16, U, __VA_ARGS__)                                                                         \
    }

/* The largest unit, a power of two up to 16, for rows of `inner` elements of so many bytes. */
static inline int tk_unit_of(const void *out, const void *inp, int64_t inner, size_t element) {
    const uint64_t all = (uint64_t)inner * element | (uint64_t)(uintptr_t)out | (uint64_t)(uintptr_t)inp;
    const uint64_t unit = all & (~all + 1);
    return unit == 0 || unit > 16 ? 16 : (int)unit;
}
#endif
