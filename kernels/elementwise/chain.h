/* chain.h: a chain of elementwise ops in one walk over memory. Each link takes the result of the one before it, and its
 * operand; its result is rounded to the element type, as the op's own kernel rounds it, so that the bits are those of
 * the ops one by one. A device whose table has no chain_run gets the ops one by one (runtime/fuse/fuse_chains.c). */
#ifndef TK_CHAIN_H
#define TK_CHAIN_H
#include "../common/philox.h"
#include "../common/types.h"
#include "../pointwise/pointwise.h"

/* The result of a link from x, the result so far, and o, its operand. */
typedef enum tk_link_op {
    TK_LINK_ADD,            /* x + o */
    TK_LINK_SUB,            /* x - o; other way round: o - x */
    TK_LINK_MUL,            /* x o */
    TK_LINK_DIV,            /* x / o; other way round: o / x */
    TK_LINK_NEG,            /* -x */
    TK_LINK_RELU,           /* max(x, 0) */
    TK_LINK_TANH,           /* tanh(x) */
    TK_LINK_SIGMOID,        /* 1 / (1 + exp(-x)) */
    TK_LINK_POINTWISE,      /* y = f(x) of a row of pointwise.def */
    TK_LINK_POINTWISE_GRAD, /* x f'(o); other way round: o f'(x) */
    TK_LINK_DROPOUT,        /* x / (1 - ratio) where kept, by a draw, else 0 */
    TK_LINK_DROPOUT_GRAD,   /* the same, o being the mask */
} tk_link_op;
#define TK_LINK_OPS (TK_LINK_DROPOUT_GRAD + 1)

/* Element i meets o[i / inner % period]: all of it (1, n), a row of the last dims (1, its length), a number (1, 1), or
 * one number for each row (its length, rows). */
typedef struct tk_link {
    tk_link_op op;
    bool swapped;        /* the other way round */
    const void *operand; /* of the element type; a mask: bytes of 0 and 1; NULL: the op has none */
    int64_t inner, period;
    tk_pointwise_row row;
    double alpha;    /* of the row */
    tk_number ratio; /* of dropout */
    tk_seed seed;
    uint8_t *mask; /* of dropout: where the drawn mask is stored, or NULL */
    void *store;   /* where the link's result is stored; NULL: only the next link reads it */
} tk_link;

#define TK_CHAIN_LINKS 8

/* first [n]; results of links [n] each, which may lie over operands of their size, also first, that no later link
 * reads: an element is read before one at its place is written. Any float type. TK_BAD_VALUE for a ratio outside of [0,
 * 1). */
typedef struct tk_chain {
    const void *first;
    int64_t n;
    int n_links;
    tk_dtype dtype;
    tk_link links[TK_CHAIN_LINKS];
} tk_chain;

/* clang-format off */
#define TK_CHAIN_KERNELS(K) \
    K(chain_run, (tk_queue *q, const tk_chain *chain), (q, chain))
/* clang-format on */
#endif
