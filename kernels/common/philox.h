/* philox.h: Philox4x32 with 7 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four
 * random words from a counter and a key. The source of randomness here, whatever the thread, device or order: block
 * b of node `node` at `step` under `seed` has counter {b low word, b high word ^ step high word, node, step low word}
 * and key {seed low word, seed high word}. The high word of b is 0 in a tensor of less than 2^34 elements, so that no
 * two of its draws share a counter.
 *   words         element i is word i mod 4 of block i / 4: numbers of RandomUniform and RandomNormal
 *   halves        element i has 16 bits of block i / 8, of its word (i mod 8) / 2: the low half where i is even, the
 *                 high half where it is odd: Dropout compares them with its threshold (dropout/dropout_math.h)
 * Masks alone may use another runtime's draw instead: that of minstd.h. Also C++, for devices. */
#ifndef TK_PHILOX_H
#define TK_PHILOX_H
#include "minstd.h"
#include "vector.h"
#include <stdbool.h>
#include <stdint.h>

enum { TK_PHILOX_ROUNDS = 7, TK_WORDS = 4, TK_HALVES = 8 }; /* the latter two: of a block */

/* The type that holds a word: 64 bits where loops over blocks become vector code, so that products stay in their lanes;
 * devices have a product of 32 bits by 32. The words are the same. */
#ifdef __CUDACC__
typedef uint32_t tk_philox_word;
#else
typedef uint64_t tk_philox_word;
#endif

/* Without this a device's compiler adds the 0 of an upper half to each of these. */
TK_INLINE uint64_t tk_philox_product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
    uint64_t product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
#else
    return (uint64_t)a * b;
#endif
}

TK_INLINE void tk_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    tk_philox_word c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < TK_PHILOX_ROUNDS; round++) {
        uint64_t p0 = tk_philox_product(0xD2511F53u, (uint32_t)c0), p1 = tk_philox_product(0xCD9E8D57u, (uint32_t)c2);
        c0 = (tk_philox_word)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (tk_philox_word)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = (uint32_t)c0, out[1] = (uint32_t)c1, out[2] = (uint32_t)c2, out[3] = (uint32_t)c3;
}

typedef struct tk_draw {
    uint64_t seed;
    uint32_t node;
    uint64_t step;
    uint32_t minstd; /* 0: Philox; else the state before the first element's, and the three above are not used */
} tk_draw;

/* The same, read from an operand: int64[2], seed and step. */
typedef struct tk_seed {
    const int64_t *pair; /* NULL: nothing is drawn */
    uint32_t node;
    bool is_minstd; /* run `step` draws from the generator seeded with own + step */
    int64_t own;
} tk_seed;
TK_INLINE tk_draw tk_draw_of(tk_seed s) {
    tk_draw d = {(uint64_t)s.pair[0], s.node, (uint64_t)s.pair[1], 0};
    if (s.is_minstd)
        d.minstd = tk_minstd_seeded((uint64_t)s.own + (uint64_t)s.pair[1]);
    return d;
}

TK_INLINE void tk_draw_block(const tk_draw *d, uint64_t block, uint32_t out[4]) {
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32) ^ (uint32_t)(d->step >> 32), d->node,
                                 (uint32_t)d->step};
    const uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    tk_philox(counter, key, out);
}

/* Half i of a block, 0 <= i < TK_HALVES. */
TK_INLINE uint32_t tk_draw_half(const uint32_t words[4], int i) { return words[i / 2] >> 16 * (i % 2) & 0xffffu; }

/* A word to a float in [0, 1): its upper 24 bits. */
TK_INLINE float tk_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
#endif
