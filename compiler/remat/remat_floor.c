/* remat_floor.c: a lower bound for the bytes of any schedule: the working set of one node, for the nodes that every
 * schedule runs, and for values that several nodes can make, the smallest among these. */
#include "remat_nodes.h"
#include <stdlib.h>

typedef struct floor_search {
    const tc_remat_problem *p;
    tc_remat_makers makers;
    uint32_t *queue; /* [values] those that have to be made, as they are found */
    uint32_t *count; /* [values] how many makers of one value read this one; zeros */
    uint64_t *left;  /* [values] of one node: bytes of results that may lie over operands */
    bool *needed;    /* [values] is in the queue */
    uint32_t n_queue;
} floor_search;

/* At most as many bytes of the node's results lie over operands: no more of a result than it has. */
static uint64_t may_lie_over(floor_search *s, const tc_remat_node *n) {
    uint64_t taken = 0;
    for (uint32_t i = 0; i < n->n_overs; i++)
        s->left[n->overs[i].result] = s->p->values[n->overs[i].result].bytes;
    for (uint32_t i = 0; i < n->n_overs; i++) {
        uint64_t *left = &s->left[n->overs[i].result], bytes = n->overs[i].bytes;
        bytes = bytes < *left ? bytes : *left;
        *left -= bytes;
        taken += bytes;
    }
    return taken;
}

static uint64_t working_set(floor_search *s, const tc_remat_node *n) {
    uint64_t in = 0, out = 0;
    for (uint32_t i = 0; i < n->n_inputs; i++)
        in += s->p->values[n->inputs[i]].bytes;
    for (uint32_t i = 0; i < n->n_outputs; i++)
        out += s->p->values[n->outputs[i]].bytes;
    return in + out + n->workspace - may_lie_over(s, n);
}

static void need(floor_search *s, uint32_t value) {
    if (!s->needed[value]) {
        s->needed[value] = true;
        s->queue[s->n_queue++] = value;
    }
}

/* All values that each of the makers reads have to be made, too. Returns the least working set of a maker. */
static uint64_t least_maker(floor_search *s, uint32_t value, uint32_t *out_node) {
    const tc_remat_problem *p = s->p;
    const uint32_t *makers = s->makers.makers + s->makers.first[value];
    uint32_t n_makers = tc_remat_count_makers(&s->makers, value);
    uint64_t least = UINT64_MAX;
    for (uint32_t k = n_makers; k-- > 0;) {
        const tc_remat_node *n = &p->nodes[makers[k]];
        uint64_t bytes = working_set(s, n);
        if (bytes < least) {
            least = bytes;
            *out_node = makers[k];
        }
        for (uint32_t i = 0; i < n->n_inputs; i++)
            if (++s->count[n->inputs[i]] == n_makers)
                need(s, n->inputs[i]);
    }
    for (uint32_t k = 0; k < n_makers; k++) {
        const tc_remat_node *n = &p->nodes[makers[k]];
        for (uint32_t i = 0; i < n->n_inputs; i++)
            s->count[n->inputs[i]] = 0;
    }
    return n_makers > 0 ? least : 0;
}

static uint64_t find_floor(floor_search *s, uint32_t *out_node) {
    const tc_remat_problem *p = s->p;
    uint64_t most = 0;
    *out_node = TC_REMAT_NONE;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->values[v].is_output) {
            most += p->values[v].bytes;
            need(s, v);
        }
    for (uint32_t n = 0; n < p->n_nodes; n++) {
        const tc_remat_node *node = &p->nodes[n];
        uint64_t bytes = node->pinned ? working_set(s, node) : 0;
        if (bytes > most) {
            most = bytes;
            *out_node = n;
        }
        for (uint32_t i = 0; node->pinned && i < node->n_inputs; i++)
            need(s, node->inputs[i]);
    }
    for (uint32_t i = 0; i < s->n_queue; i++) {
        uint32_t node = TC_REMAT_NONE;
        uint64_t bytes = least_maker(s, s->queue[i], &node);
        if (bytes > most) {
            most = bytes;
            *out_node = node;
        }
    }
    return most;
}

uint64_t tc_remat_floor(const tc_remat_problem *p, uint32_t *out_node) {
    size_t n_values = p->n_values + (size_t)1;
    floor_search s = {p,
                      {0},
                      malloc(n_values * sizeof *s.queue),
                      calloc(n_values, sizeof *s.count),
                      malloc(n_values * sizeof *s.left),
                      calloc(n_values, sizeof *s.needed),
                      0};
    uint64_t bytes = 0;
    *out_node = TC_REMAT_NONE;
    if (s.queue && s.count && s.left && s.needed && tc_remat_makers_make(&s.makers, p))
        bytes = find_floor(&s, out_node);
    tc_remat_makers_free(&s.makers);
    free(s.queue);
    free(s.count);
    free(s.left);
    free(s.needed);
    return bytes;
}
