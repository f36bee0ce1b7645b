/* chain_case.h: chains of elementwise ops over pairs, for checks of kernels that take them. */
#ifndef CHAIN_CASE_H
#define CHAIN_CASE_H
#include "cuda_case.h"

/* A link, and its operands and results on both sides. */
typedef struct made_link {
    tk_link link;
    pair operand, ratio, seed, store, mask; /* n 0: there is none */
} made_link;

/* The chain on the side that ON_BOTH calls; of `n` elements. */
static inline tk_chain chain_at(pair first, int64_t n, const made_link *links, int n_links) {
    tk_chain c = {.first = AT(first), .n = n, .n_links = n_links, .dtype = first.dtype};
    for (int i = 0; i < n_links; i++) {
        const made_link *from = &links[i];
        c.links[i] = from->link;
        c.links[i].operand = from->operand.n > 0 ? AT(from->operand) : NULL;
        c.links[i].ratio = from->ratio.n > 0 ? (tk_number){.data = AT(from->ratio), .dtype = from->ratio.dtype}
                                             : (tk_number){.otherwise = 0.25};
        c.links[i].seed.pair = from->seed.n > 0 ? AT(from->seed) : NULL;
        c.links[i].store = from->store.n > 0 ? AT(from->store) : NULL;
        c.links[i].mask = from->mask.n > 0 ? AT(from->mask) : NULL;
    }
    return c;
}

/* Of the side; for arguments of ON_BOTH. */
#define CHAIN_OF(first, n, links, n_links) (&(tk_chain[1]){chain_at(first, n, links, n_links)}[0])
#endif
