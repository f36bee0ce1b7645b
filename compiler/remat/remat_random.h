/* remat_random.h: random numbers, exp and log that are the same on every machine: sums, products and quotients of
 * doubles alone, none of them contracted. */
#ifndef TC_REMAT_RANDOM_H
#define TC_REMAT_RANDOM_H
#include <stdint.h>

#define TC_REMAT_WAITS 4096

typedef struct tc_remat_random {
    uint64_t state;
    float waits[TC_REMAT_WAITS]; /* quantiles of the exponential distribution, of mean 1 */
} tc_remat_random;

void tc_remat_random_init(tc_remat_random *random, uint64_t seed);

/* xorshift64*, Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016. */
static inline uint32_t tc_remat_next(tc_remat_random *r) {
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return (uint32_t)((r->state * UINT64_C(0x2545F4914F6CDD1D)) >> 32);
}

/* From 0 to below - 1; 0 for 0. */
static inline uint32_t tc_remat_below(tc_remat_random *r, uint32_t below) {
    return (uint32_t)(((uint64_t)tc_remat_next(r) * below) >> 32);
}

/* Exponentially distributed: a change for the worse by d is accepted at temperature h if d <= h * wait. */
static inline double tc_remat_wait(tc_remat_random *r) { return (double)r->waits[tc_remat_next(r) % TC_REMAT_WAITS]; }

double tc_remat_exp(double x);
/* Of x > 0. */
double tc_remat_log(double x);
#endif
