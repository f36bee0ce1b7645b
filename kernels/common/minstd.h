/* minstd.h: the generator that ONNX Runtime's CPU kernels drop by, std::default_random_engine of libstdc++: minimal
 * standard numbers (Lewis, Goodman and Miller 1969; Park and Miller, CACM 31, 1988), x <- 16807 x mod (2^31 - 1). The
 * state after n steps is a product by 16807^n, so that a thread finds the number of any element without those before
 * it: element i of a mask has the state i + 1 steps after the seed's. Also C++, for devices. */
#ifndef TK_MINSTD_H
#define TK_MINSTD_H
#include "vector.h"
#include <stdint.h>

#define TK_MINSTD_FACTOR UINT32_C(16807)
#define TK_MINSTD_MODULUS UINT32_C(0x7fffffff)

/* a b mod 2^31 - 1, of two numbers from 1 to 2^31 - 2: 2^31 is 1 there, so that the product's halves add up. */
TK_INLINE uint32_t tk_minstd_product(uint32_t a, uint32_t b) {
    const uint64_t product = (uint64_t)a * b;
    const uint32_t sum = ((uint32_t)product & TK_MINSTD_MODULUS) + (uint32_t)(product >> 31);
    return sum - (sum >= TK_MINSTD_MODULUS ? TK_MINSTD_MODULUS : 0);
}

/* x after n steps. */
TK_INLINE uint32_t tk_minstd_skip(uint32_t x, uint64_t n) {
    for (uint32_t power = TK_MINSTD_FACTOR; n > 0; n >>= 1, power = tk_minstd_product(power, power))
        if (n & 1)
            x = tk_minstd_product(x, power);
    return x;
}

/* The state that a seed gives: never 0. */
TK_INLINE uint32_t tk_minstd_seeded(uint64_t seed) {
    const uint32_t x = (uint32_t)(seed % TK_MINSTD_MODULUS);
    return x > 0 ? x : 1;
}
#endif
