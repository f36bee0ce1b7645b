/* remat_case.h: problems of recomputation for tests, made by hand or at random, and checks that hold for every one. */
#ifndef REMAT_CASE_H
#define REMAT_CASE_H
#include "cases.h"
#include "compiler/remat/remat.h"
#include "random_below.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE_MOST 400 /* nodes, values, steps */
#define CASE_EDGES 4000

/* A problem with room for what is added to it; its given schedule runs nodes as they are added. */
typedef struct remat_case {
    tc_remat_problem problem;
    tc_remat_node nodes[CASE_MOST];
    tc_remat_value values[CASE_MOST];
    uint32_t steps[CASE_MOST], edges[CASE_EDGES], n_edges;
    tc_remat_over overs[CASE_MOST];
    uint32_t n_overs;
} remat_case;

#define LIST(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define NOTHING NULL, 0

static inline void case_begin(remat_case *c) {
    memset(c, 0, sizeof *c);
    c->problem = (tc_remat_problem){c->nodes, c->values, 0, 0, c->steps, 0};
}

static inline uint32_t case_value(remat_case *c, uint64_t bytes) {
    assert_true(c->problem.n_values < CASE_MOST);
    c->values[c->problem.n_values] = (tc_remat_value){bytes, false};
    return c->problem.n_values++;
}

static inline const uint32_t *case_list(remat_case *c, const uint32_t *values, size_t n) {
    uint32_t *list = c->edges + c->n_edges;
    assert_true(c->n_edges + n <= CASE_EDGES);
    for (size_t i = 0; i < n; i++)
        list[i] = values[i];
    c->n_edges += (uint32_t)n;
    return list;
}

static inline uint32_t case_node(remat_case *c, uint64_t cost, const uint32_t *in, size_t n_in, const uint32_t *out,
                                 size_t n_out) {
    uint32_t n = c->problem.n_nodes;
    assert_true(n < CASE_MOST && c->problem.n_steps < CASE_MOST);
    c->nodes[n] = (tc_remat_node){.cost = cost, .n_inputs = (uint32_t)n_in, .n_outputs = (uint32_t)n_out};
    c->nodes[n].inputs = case_list(c, in, n_in);
    c->nodes[n].outputs = case_list(c, out, n_out);
    c->steps[c->problem.n_steps++] = n;
    return c->problem.n_nodes++;
}

/* One more for the node that was added last. */
static inline void case_over(remat_case *c, uint32_t operand, uint32_t result, uint64_t bytes) {
    tc_remat_node *n = &c->nodes[c->problem.n_nodes - 1];
    assert_true(c->n_overs < CASE_MOST);
    if (n->n_overs == 0)
        n->overs = c->overs + c->n_overs;
    c->overs[c->n_overs++] = (tc_remat_over){operand, result, bytes};
    n->n_overs++;
}

/* Up to two operands, mostly of late; results over them, workspaces, second results, forms and pinned nodes where
 * `kinds` says so; what nobody reads is an output. */
enum { CASE_OVERS = 1, CASE_WORKSPACES = 2, CASE_SECOND = 4, CASE_FORMS = 8, CASE_PINNED = 16, CASE_ALL = 31 };
static inline void case_generate(remat_case *c, uint32_t seed, uint32_t n_nodes, uint32_t kinds) {
    uint32_t state = seed, in[3], out[2];
    case_begin(c);
    while (c->problem.n_nodes < n_nodes) {
        uint32_t before = c->problem.n_values, n_in = 0, n_out = 0, cost = random_below(&state, 100);
        for (uint32_t i = 0; before > 0 && i < 1 + random_below(&state, 2); i++) {
            uint32_t back = random_below(&state, 4) == 0 ? before : before < 4 ? before : 4;
            uint32_t v = before - 1 - random_below(&state, back);
            if (n_in == 0 || in[0] != v)
                in[n_in++] = v;
        }
        out[n_out++] = case_value(c, 1 + random_below(&state, 50));
        if ((kinds & CASE_SECOND) && random_below(&state, 5) == 0)
            out[n_out++] = case_value(c, 1 + random_below(&state, 50));
        uint32_t n = case_node(c, cost, in, n_in, out, n_out);
        c->nodes[n].workspace =
            (kinds & CASE_WORKSPACES) && random_below(&state, 4) == 0 ? random_below(&state, 40) : 0;
        c->nodes[n].pinned = (kinds & CASE_PINNED) && random_below(&state, 8) == 0;
        for (uint32_t i = 0; (kinds & CASE_OVERS) && i < n_in; i++) {
            uint64_t a = c->values[in[i]].bytes, b = c->values[out[0]].bytes;
            if (random_below(&state, 2) == 0)
                case_over(c, in[i], out[0], a < b ? a : b);
        }
        if ((kinds & CASE_FORMS) && n_in == 2 && random_below(&state, 3) == 0) {
            in[1] = random_below(&state, before);
            case_node(c, cost + random_below(&state, 20), in, in[0] == in[1] ? 1 : 2, out, n_out);
            c->problem.n_steps--;
        }
    }
    for (uint32_t v = 0; v < c->problem.n_values; v++)
        c->values[v].is_output = true;
    for (uint32_t e = 0; e < c->problem.n_nodes; e++)
        for (uint32_t i = 0; i < c->nodes[e].n_inputs; i++)
            c->values[c->nodes[e].inputs[i]].is_output = false;
}

static inline tc_remat_live case_live(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps) {
    tc_remat_live live;
    const char *wrong = tc_remat_check_steps(p, steps, n_steps);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(tc_remat_simulate(p, steps, n_steps, NULL, &live), TC_REMAT_OK);
    return live;
}
#endif
