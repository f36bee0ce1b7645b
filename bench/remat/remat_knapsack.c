/* remat_knapsack.c: which values a layer of a transformer keeps, by trying all 2^22 sets of nodes that run again. */
#include "remat_knapsack.h"
#include "compiler/remat/remat.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYER 23 /* nodes of a layer's forward pass; the last makes the next layer's operand, which is always kept */
#define SETS (1u << (LAYER - 1))
#define MOST_HULL 4096

typedef struct plan {
    uint64_t bytes, cost;
    uint32_t again; /* bits of the nodes that run again */
} plan;

/* Of the second layer: values are bits in the order in which its nodes make them. */
typedef struct block {
    uint64_t value_bytes[32];
    uint64_t made[LAYER], read[LAYER]; /* bits of values */
    uint64_t cost[LAYER];
    uint64_t needed; /* by the backward pass */
    uint32_t first_value, n_values;
} block;

static uint64_t bits_of(const block *b, const uint32_t *list, uint32_t n) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < n; i++)
        if (list[i] >= b->first_value && list[i] < b->first_value + b->n_values)
            bits |= UINT64_C(1) << (list[i] - b->first_value);
    return bits;
}

static void find_block(const remat_graph *g, block *b) {
    const tc_remat_node *first = &g->nodes[1 + LAYER], *last = &g->nodes[2 * LAYER];
    *b = (block){.first_value = first->outputs[0]};
    b->n_values = last->outputs[0] - first->outputs[0]; /* without the next operand */
    for (uint32_t v = 0; v < b->n_values; v++)
        b->value_bytes[v] = g->values[b->first_value + v].bytes;
    for (uint32_t n = 0; n < LAYER; n++) {
        b->made[n] = bits_of(b, first[n].outputs, first[n].n_outputs);
        b->read[n] = bits_of(b, first[n].inputs, first[n].n_inputs);
        b->cost[n] = first[n].cost;
    }
    for (uint32_t n = g->turn; n < g->n_nodes; n++)
        b->needed |= bits_of(b, g->nodes[n].inputs, g->nodes[n].n_inputs);
}

/* False: a node runs again for nothing. */
static bool make_plan(const block *b, uint32_t again, plan *p) {
    *p = (plan){0, 0, again};
    uint64_t needed = b->needed, made = 0;
    for (uint32_t n = LAYER - 1; n-- > 0;) {
        if (!(again >> n & 1))
            continue;
        if (!(b->made[n] & needed))
            return false;
        needed |= b->read[n];
        made |= b->made[n];
        p->cost += b->cost[n];
    }
    for (uint64_t kept = needed & ~made; kept; kept &= kept - 1)
        p->bytes += b->value_bytes[__builtin_ctzll(kept)];
    return true;
}

static int by_bytes(const void *a, const void *b) {
    const plan *p = a, *q = b;
    if (p->bytes != q->bytes)
        return p->bytes > q->bytes ? -1 : 1;
    return p->cost < q->cost ? -1 : p->cost > q->cost;
}

/* Whether b, between a and c in bytes, costs no less than a mixture of both. */
static bool is_beaten(const plan *a, const plan *b, const plan *c) {
    return ((double)b->cost - (double)a->cost) * (double)(b->bytes - c->bytes) >=
           ((double)c->cost - (double)b->cost) * (double)(a->bytes - b->bytes);
}

/* Of all plans those that no other and no mixture of others beats, by falling bytes. Returns how many. */
static uint32_t find_hull(const block *b, plan *hull) {
    plan *all = malloc(SETS * sizeof *all);
    uint32_t n_all = 0, n = 0;
    for (uint32_t again = 0; all && again < SETS; again++)
        n_all += make_plan(b, again, &all[n_all]);
    if (all)
        qsort(all, n_all, sizeof *all, by_bytes);
    for (uint32_t i = 0; i < n_all; i++) {
        if (n > 0 && hull[n - 1].bytes == all[i].bytes)
            continue;
        while (n > 1 && is_beaten(&hull[n - 2], &hull[n - 1], &all[i]))
            n--;
        if (n < MOST_HULL)
            hull[n++] = all[i];
    }
    free(all);
    return n;
}

typedef struct mixer {
    const remat_graph *g;
    uint32_t layers;
    tc_remat_turn turn;
    uint32_t *steps, *slots;
    uint64_t *price;
} mixer;

static void keep_of_layer(mixer *m, uint32_t layer, const plan *p) {
    for (uint32_t n = 0; n < LAYER; n++) {
        const tc_remat_node *node = &m->g->nodes[1 + layer * LAYER + n];
        for (uint32_t i = 0; i < node->n_outputs; i++)
            m->turn.kept[node->outputs[i]] = n == LAYER - 1 || !(p->again >> n & 1);
    }
}

/* The first `k` layers have plan b, or the last ones. */
static tc_remat_live mix(mixer *m, const plan *a, const plan *b, uint32_t k, bool last) {
    tc_remat_live live = {UINT64_MAX, 0, UINT64_MAX};
    m->turn.kept[0] = 1;
    for (uint32_t l = 0; l < m->layers; l++)
        keep_of_layer(m, l, (last ? l >= m->layers - k : l < k) ? b : a);
    uint32_t n = tc_remat_turn_build(&m->turn, m->steps, m->slots, 4 * m->g->n_nodes);
    if (n > 0)
        tc_remat_simulate(&m->g->problem, m->steps, n, NULL, &live);
    return live;
}

/* The least cost of a mixture of two plans that fits, or UINT64_MAX. */
static uint64_t mix_to_fit(mixer *m, const plan *a, const plan *b, bool last, uint64_t budget) {
    uint32_t low = 0, high = m->layers;
    tc_remat_live live = mix(m, a, b, high, last);
    if (live.peak_bytes > budget)
        return UINT64_MAX;
    while (low < high) {
        uint32_t k = (low + high) / 2;
        tc_remat_live here = mix(m, a, b, k, last);
        if (here.peak_bytes <= budget) {
            high = k;
            live = here;
        } else
            low = k + 1;
    }
    return live.cost;
}

uint64_t knapsack_cost(const remat_graph *g, const transformer *shape, uint64_t budget) {
    block b;
    size_t most = 4 * (size_t)g->n_nodes;
    mixer m = {g,
               shape->layers,
               {0},
               malloc(most * sizeof *m.steps),
               malloc(most * sizeof *m.slots),
               calloc(g->n_nodes + (size_t)1, sizeof *m.price)};
    plan *hull = malloc(MOST_HULL * sizeof *hull);
    uint64_t best = UINT64_MAX;
    find_block(g, &b);
    bool made = tc_remat_turn_make(&m.turn, &g->problem, g->steps, g->problem.n_steps, g->turn);
    if (m.steps && m.slots && m.price && hull && made) {
        uint32_t n = find_hull(&b, hull);
        m.turn.price = m.price;
        for (uint32_t i = 0; i + 1 < n; i++)
            for (int last = 0; last < 2; last++) {
                uint64_t cost = mix_to_fit(&m, &hull[i], &hull[i + 1], last, budget);
                best = cost < best ? cost : best;
            }
    }
    tc_remat_turn_free(&m.turn);
    free(m.steps);
    free(m.slots);
    free(m.price);
    free(hull);
    return best;
}
