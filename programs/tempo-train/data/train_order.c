/* train_order.c: shuffling as a Feistel network on mixed radices (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002: the generalized Feistel cipher, with cycle walking). A number x < rows x columns is a pair
 * (x / columns, x mod columns); each round adds to one half, modulo its size, a number that the other half and the
 * round's key decide. Every round can be undone, so the whole permutes. A result of n or more is sent through again
 * until it is below n, which permutes 0 to n - 1. rows x columns < n + rows, so that is rare.
 *
 * Keys are words of Philox, the source of all randomness here; a round mixes its key and a half by the finalizer of
 * SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). So many rounds: with
 * half of them the orders of five samples are not equally frequent (test/unit/programs/test_train_order.c). */
#include "train_order.h"
#include "kernels/common/philox.h"

/* Dropout draws from the same seed, with the number of its node here: these are numbers that no node has. */
#define ORDER_STREAM UINT32_C(0xF0000000)

static uint64_t square_root(uint64_t n) {
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= n)
            root |= bit;
    return root;
}

static uint64_t at_least_2(uint64_t n) { return n < 2 ? 2 : n; }

train_order train_order_of(uint64_t n, uint64_t seed, uint64_t epoch, uint32_t stream) {
    train_order order = {.n = n};
    order.rows = at_least_2(square_root(n));
    order.columns = at_least_2(n / order.rows + (n % order.rows != 0));
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (uint32_t round = 0; round < TRAIN_ORDER_ROUNDS; round += 2) {
        const uint32_t counter[4] = {round, (uint32_t)(epoch >> 32), ORDER_STREAM | stream, (uint32_t)epoch};
        uint32_t words[4];
        tk_philox(counter, key, words);
        order.keys[round] = (uint64_t)words[0] << 32 | words[1];
        order.keys[round + 1] = (uint64_t)words[2] << 32 | words[3];
    }
    return order;
}

/* A number below `size`, of 32 bits at most, that looks random. */
static uint64_t mix(uint64_t key, uint64_t half, uint64_t size) {
    uint64_t x = key ^ half * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return ((x ^ x >> 31) >> 32) * size >> 32;
}

static uint64_t add(uint64_t a, uint64_t b, uint64_t size) { return a + b < size ? a + b : a + b - size; }

static uint64_t permute(const train_order *o, uint64_t x) {
    uint64_t row = x / o->columns, column = x % o->columns;
    for (int round = 0; round < TRAIN_ORDER_ROUNDS; round += 2) {
        row = add(row, mix(o->keys[round], column, o->rows), o->rows);
        column = add(column, mix(o->keys[round + 1], row, o->columns), o->columns);
    }
    return row * o->columns + column;
}

uint64_t train_order_at(const train_order *order, uint64_t i) {
    do
        i = permute(order, i);
    while (i >= order->n);
    return i;
}
