/* random_below.h: random numbers for tests and benchmarks, the same on every machine. */
#ifndef RANDOM_BELOW_H
#define RANDOM_BELOW_H
#include <stdint.h>

/* From 0 to below - 1; 0 for 0. Numerical Recipes' linear congruential generator, of which the upper 24 bits count. */
static inline uint32_t random_below(uint32_t *state, uint32_t below) {
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*state >> 8) * below) >> 24);
}
#endif
