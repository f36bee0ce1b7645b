/* remat_random.c: numbers that decide. Errors below 1e-13 of exp and log do not matter here; results must be the same
 * on every machine. */
#include "remat_random.h"
#include <math.h>

#define LN2 0.6931471805599453

/* e^x = 2^k e^r with |r| <= ln(2) / 2; ldexp is exact. */
double tc_remat_exp(double x) {
    if (x < -700)
        return 0;
    if (x > 700)
        x = 700;
    int k = (int)(x / LN2 + (x < 0 ? -0.5 : 0.5));
    double r = x - k * LN2, sum = 1;
    for (int i = 18; i > 0; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, k);
}

/* x = 2^k m with m in [1/2, 1): ln m = 2 artanh((m - 1) / (m + 1)); frexp is exact. */
double tc_remat_log(double x) {
    int k;
    double m = frexp(x, &k), z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int i = 31; i > 0; i -= 2)
        sum = sum * square + 1.0 / i;
    return k * LN2 + 2 * z * sum;
}

void tc_remat_random_init(tc_remat_random *r, uint64_t seed) {
    /* splitmix64, so that neighbouring seeds have nothing in common. */
    uint64_t z = seed + UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    r->state = z != 0 ? z : 1;
    for (int i = 0; i < TC_REMAT_WAITS; i++)
        r->waits[i] = (float)-tc_remat_log((i + 0.5) / TC_REMAT_WAITS);
}
