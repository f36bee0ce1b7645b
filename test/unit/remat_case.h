/* remat_case.h: problems of recomputation for tests, made by hand or at random, and checks that hold for every one. */
#ifndef REMAT_CASE_H
#define REMAT_CASE_H
#include "compiler/plan/remat_problem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

static inline tc_remat_live case_live(const tc_remat_problem *p, const uint32_t *steps, uint32_t n_steps) {
    tc_remat_live live;
    const char *wrong = tc_remat_check_steps(p, steps, n_steps);
    if (wrong)
        fail_msg("%s", wrong);
    assert_int_equal(tc_remat_simulate(p, steps, n_steps, NULL, &live), TC_REMAT_OK);
    return live;
}
#endif
