/* philox.h: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four random words
 * from a counter and a key. The one source of randomness here: element i of node `node` at `step` under `seed` draws
 * lane i mod 4 of the block with counter {i / 4 low word, i / 4 high word ^ step high word, node, step low word} and
 * key {seed low word, seed high word}, whatever the thread, device or order. The high word of i / 4 is 0 in a tensor of
 * less than 2^34 elements, so that no two of its draws share a counter. */
#ifndef TK_PHILOX_H
#define TK_PHILOX_H
#include <stdint.h>

static inline void tk_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

typedef struct tk_draw {
    uint64_t seed;
    uint32_t node;
    uint64_t step;
} tk_draw;

/* The same, read from an operand: int64[2], seed and step. */
typedef struct tk_seed {
    const int64_t *pair; /* NULL: nothing is drawn */
    uint32_t node;
} tk_seed;
static inline tk_draw tk_draw_of(tk_seed s) { return (tk_draw){(uint64_t)s.pair[0], s.node, (uint64_t)s.pair[1]}; }

/* Words of elements 4 block .. 4 block + 3. */
static inline void tk_draw_block(const tk_draw *d, uint64_t block, uint32_t out[4]) {
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32) ^ (uint32_t)(d->step >> 32), d->node,
                                 (uint32_t)d->step};
    const uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    tk_philox(counter, key, out);
}

/* A word to a float in [0, 1): its upper 24 bits. */
static inline float tk_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
#endif
