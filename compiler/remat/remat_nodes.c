/* remat_nodes.c: nodes with the same results, and the nodes that make a value. */
#include "remat_nodes.h"
#include <stdlib.h>

bool tc_remat_same_outputs(const tc_remat_node *a, const tc_remat_node *b) {
    if (a->n_outputs != b->n_outputs)
        return false;
    for (uint32_t i = 0; i < a->n_outputs; i++) {
        bool found = false;
        for (uint32_t k = 0; k < b->n_outputs && !found; k++)
            found = a->outputs[i] == b->outputs[k];
        if (!found)
            return false;
    }
    return true;
}

bool tc_remat_makers_make(tc_remat_makers *m, const tc_remat_problem *p) {
    size_t n_outputs = 0;
    for (uint32_t n = 0; n < p->n_nodes; n++)
        n_outputs += p->nodes[n].n_outputs;
    m->first = calloc(p->n_values + (size_t)2, sizeof *m->first);
    m->makers = malloc((n_outputs + 1) * sizeof *m->makers);
    if (!m->first || !m->makers) {
        tc_remat_makers_free(m);
        return false;
    }
    for (uint32_t n = 0; n < p->n_nodes; n++)
        for (uint32_t i = 0; i < p->nodes[n].n_outputs; i++)
            m->first[p->nodes[n].outputs[i] + 2]++;
    for (uint32_t v = 0; v < p->n_values; v++)
        m->first[v + 2] += m->first[v + 1];
    /* Value v begins in first[v + 1] now; listing its makers moves that to where the next one begins. */
    for (uint32_t n = 0; n < p->n_nodes; n++)
        for (uint32_t i = 0; i < p->nodes[n].n_outputs; i++)
            m->makers[m->first[p->nodes[n].outputs[i] + 1]++] = n;
    return true;
}

void tc_remat_makers_free(tc_remat_makers *m) {
    free(m->first);
    free(m->makers);
    *m = (tc_remat_makers){0};
}
