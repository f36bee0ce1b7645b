/* train_order.h: the order of an epoch's samples: a permutation as a function, without memory, and with time only for
 * the places asked for. */
#ifndef TRAIN_ORDER_H
#define TRAIN_ORDER_H
#include <stdint.h>

enum { TRAIN_ORDER_ROUNDS = 24 };

/* A permutation of 0 to n - 1. */
typedef struct train_order {
    uint64_t n, rows, columns; /* rows x columns >= n */
    uint64_t keys[TRAIN_ORDER_ROUNDS];
} train_order;

/* The one of this seed and epoch, of n < 2^62; another `stream` below 2^16 gives an independent one. */
train_order train_order_of(uint64_t n, uint64_t seed, uint64_t epoch, uint32_t stream);
/* The sample at place i < n. */
uint64_t train_order_at(const train_order *order, uint64_t i);
#endif
