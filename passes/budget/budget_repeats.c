/* budget_repeats.c: from two schedules of one problem, given and planned, to the report: live bytes step by step,
 * and the reason for each recomputed node. */
#include "compiler/ir/ops.h"
#include "budget_rounds.h"
#include <string.h>

typedef struct teller {
    tc_arena *arena, *keep; /* scratch; for the report */
    const tc_budget *b;
} teller;

static tc_status tell_course(const teller *t, tc_ctx *ctx, const uint32_t *steps, uint32_t n_steps, tc_plan_step *out,
                             tc_remat_live *out_live) {
    const tc_remat_problem *p = &t->b->problem;
    uint64_t *live = TC_NEW_ARRAY(t->arena, uint64_t, (size_t)n_steps + 1);
    tc_remat_status status = tc_remat_simulate(p, steps, n_steps, live, out_live);
    if (status != TC_REMAT_OK)
        return tc_error(ctx, status == TC_REMAT_MEMORY ? TC_LIMIT : TC_BUG, NULL, "the plan cannot be reported");
    for (uint32_t i = 0; i < n_steps; i++)
        out[i] = (tc_plan_step){live[i], p->nodes[steps[i]].cost, NULL};
    return TC_OK;
}

static uint32_t find_turn(const teller *t, const uint32_t *steps, uint32_t n_steps) {
    const tc_units *u = &t->b->units;
    uint32_t unit = u->turn == TC_REMAT_NONE ? TC_REMAT_NONE : u->unit_of[u->turn];
    for (uint32_t i = 0; i < n_steps; i++)
        if (t->b->nodes[steps[i]].unit == unit)
            return i;
    return n_steps;
}

/* Marks values that are live at step `at`: made up to it and read from it on before they are recomputed. */
static bool *live_at(const teller *t, const uint32_t *steps, uint32_t n_steps, uint32_t at) {
    const tc_remat_problem *p = &t->b->problem;
    bool *live = TC_NEW_ARRAY(t->arena, bool, (size_t)p->n_values + 1);
    for (uint32_t v = 0; v < p->n_values; v++)
        live[v] = p->values[v].is_output;
    for (uint32_t i = n_steps; i-- > at + 1;) {
        const tc_remat_node *n = &p->nodes[steps[i]];
        for (uint32_t k = 0; k < n->n_outputs; k++)
            live[n->outputs[k]] = false;
        for (uint32_t k = 0; k < n->n_inputs; k++)
            live[n->inputs[k]] = true;
    }
    const tc_remat_node *n = &p->nodes[steps[at]];
    for (uint32_t k = 0; k < n->n_outputs; k++)
        live[n->outputs[k]] = true;
    for (uint32_t k = 0; k < n->n_inputs; k++)
        live[n->inputs[k]] = true;
    return live;
}

/* The step of the plan that corresponds to the run of a node at step `at` of the given schedule. */
static uint32_t same_run(const uint32_t *given, uint32_t at, const uint32_t *steps, uint32_t n_steps) {
    uint32_t before = 0, found = 0;
    for (uint32_t i = 0; i < at; i++)
        before += given[i] == given[at];
    for (uint32_t i = 0; i < n_steps; i++) {
        if (steps[i] != given[at])
            continue;
        found = i;
        if (before-- == 0)
            break;
    }
    return found;
}

/* Which values of the problem are live at the peak of the given schedule, and which no longer are. */
static bool *freed_values(const teller *t, const tc_plan *plan, uint32_t given_peak, uint32_t *out_at) {
    const tc_remat_problem *p = &t->b->problem;
    *out_at = same_run(p->steps, given_peak, plan->steps, plan->n_steps);
    bool *freed = live_at(t, p->steps, p->n_steps, given_peak);
    const bool *live = live_at(t, plan->steps, plan->n_steps, *out_at);
    for (uint32_t v = 0; v < p->n_values; v++)
        freed[v] &= !live[v];
    return freed;
}

static tc_plan_repeat tell_repeat(const teller *t, const tc_node *node, const tc_remat_node *n) {
    tc_plan_repeat r = {
        .node = tc_arena_strdup(t->keep, tc_node_label(node)), .result = "", .type = "", .cost = n->cost};
    r.op = tc_arena_strdup(t->keep, node->op ? node->op->name : node->op_type);
    const tc_value *result = tc_output(node, 0);
    if (result) {
        r.result = tc_arena_strdup(t->keep, result->name);
        r.type = tc_type_text(t->keep, result->type);
    }
    for (uint32_t i = 0; i < n->n_outputs; i++)
        r.bytes += t->b->problem.values[n->outputs[i]].bytes;
    return r;
}

/* The first step that reads a result of step `at`; n_steps: none does. */
static uint32_t first_reader(const teller *t, const tc_plan *plan, uint32_t at) {
    const tc_remat_problem *p = &t->b->problem;
    const tc_remat_node *made = &p->nodes[plan->steps[at]];
    for (uint32_t i = at + 1; i < plan->n_steps; i++) {
        const tc_remat_node *n = &p->nodes[plan->steps[i]];
        for (uint32_t k = 0; k < n->n_inputs; k++)
            for (uint32_t o = 0; o < made->n_outputs; o++)
                if (n->inputs[k] == made->outputs[o])
                    return i;
    }
    return plan->n_steps;
}

/* Bytes that this run makes live again, of those that the plan freed: only the first run after the peak does. */
static uint64_t brought_back(const teller *t, const tc_remat_node *node, bool *freed) {
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < node->n_outputs; k++) {
        bytes += freed[node->outputs[k]] ? t->b->problem.values[node->outputs[k]].bytes : 0;
        freed[node->outputs[k]] = false;
    }
    return bytes;
}

static void tell_repeats(const teller *t, const tc_plan *plan, const tc_node *const *ran, uint32_t given_peak,
                         tc_plan_step *steps, tc_plan_summary *s) {
    bool *seen = TC_NEW_ARRAY(t->arena, bool, (size_t)t->b->units.n_units + 1);
    uint32_t at, n = 0;
    bool *freed = freed_values(t, plan, given_peak, &at);
    tc_plan_repeat *repeats = TC_NEW_ARRAY(t->keep, tc_plan_repeat, (size_t)s->clones + 1);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const tc_remat_node *node = &t->b->problem.nodes[plan->steps[i]];
        bool *again = &seen[tc_unit_root(&t->b->units, t->b->nodes[plan->steps[i]].unit)];
        uint64_t bytes = i > at ? brought_back(t, node, freed) : 0;
        if (*again && n < s->clones) {
            repeats[n] = tell_repeat(t, ran[i], node);
            repeats[n].freed = bytes;
            steps[i].repeat = &repeats[n++];
        }
        *again = true;
    }
    for (uint32_t i = 0, r = 0; r < n; i++) {
        uint32_t reader = steps[i].repeat ? first_reader(t, plan, i) : plan->n_steps;
        if (reader < plan->n_steps) {
            repeats[r].reader = tc_arena_strdup(t->keep, tc_node_label(ran[reader]));
            repeats[r].reader_is_repeat = steps[reader].repeat != NULL;
        }
        r += steps[i].repeat != NULL;
    }
    s->repeats = repeats;
}

tc_status tc_budget_tell(tc_pass_env *env, tc_arena *arena, const tc_budget *budget, const tc_plan *plan,
                         const tc_node *const *ran, tc_plan_summary *s) {
    teller t = {arena, env->ctx->arena, budget};
    const tc_remat_problem *p = &budget->problem;
    tc_plan_step *before = TC_NEW_ARRAY(t.keep, tc_plan_step, (size_t)p->n_steps + 1);
    tc_plan_step *after = TC_NEW_ARRAY(t.keep, tc_plan_step, (size_t)plan->n_steps + 1);
    tc_remat_live given, planned;
    TC_TRY(tell_course(&t, env->ctx, p->steps, p->n_steps, before, &given));
    TC_TRY(tell_course(&t, env->ctx, plan->steps, plan->n_steps, after, &planned));
    tell_repeats(&t, plan, ran, given.peak, after, s);
    s->before = (tc_plan_course){before, p->n_steps, find_turn(&t, p->steps, p->n_steps)};
    s->after = (tc_plan_course){after, plan->n_steps, find_turn(&t, plan->steps, plan->n_steps)};
    return TC_OK;
}
