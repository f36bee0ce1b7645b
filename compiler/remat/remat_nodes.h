/* remat_nodes.h: the values that nodes of a problem read and make. For the parts of the search that ask. */
#ifndef TC_REMAT_NODES_H
#define TC_REMAT_NODES_H
#include "remat_problem.h"

static inline bool tc_remat_reads(const tc_remat_node *n, uint32_t value) {
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (n->inputs[i] == value)
            return true;
    return false;
}

/* In any order. remat_nodes.c */
bool tc_remat_same_outputs(const tc_remat_node *a, const tc_remat_node *b);

/* Nodes by their results: of value v those from makers[first[v]] to before makers[first[v + 1]], in ascending order. */
typedef struct tc_remat_makers {
    uint32_t *first, *makers; /* [n_values + 1] and more, [outputs of all nodes]: malloc, tc_remat_makers_free */
} tc_remat_makers;

/* False: out of memory, nothing is left to free. remat_nodes.c */
bool tc_remat_makers_make(tc_remat_makers *makers, const tc_remat_problem *problem);
void tc_remat_makers_free(tc_remat_makers *makers);
/* How many make it. */
static inline uint32_t tc_remat_count_makers(const tc_remat_makers *m, uint32_t value) {
    return m->first[value + 1] - m->first[value];
}
#endif
