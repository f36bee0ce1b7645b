/* plan_random.h: random numbers for packings, the same on every machine: xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
 * Of plan_pack.c and plan_exact.c. */
#ifndef TC_PLAN_RANDOM_H
#define TC_PLAN_RANDOM_H
#include <stdint.h>

/* The next one; its upper bits are the better ones. `state` is not 0. */
static inline uint64_t tc_plan_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
#endif
