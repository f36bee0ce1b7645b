/* place_buffers.c: from launches and storages to a problem of compiler/plan, and from its solution to offsets in the
 * arena. Lives follow the order of the launches: what the compiler decided about memory is what happens. */
#include "../compiler/memory/storage.h"
#include "plan.h"
#include <stdlib.h>

static uint32_t index_of(const rt_plan *plan, const rt_storage *s) { return (uint32_t)(s - plan->storages); }

static void add_buffers(rt_plan *plan) {
    tc_plan_problem *p = &plan->problem;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *s = &plan->storages[i];
        bool ours = s->home == RT_ARENA;
        p->buffers[i] = (tc_plan_buffer){.bytes = ours ? s->bytes : 0,
                                         .align = RT_ALIGN,
                                         .first = ours ? s->launch : 0,
                                         .last = ours ? s->launch : 0,
                                         .root = ours && s->root != i ? s->root : TC_PLAN_NONE,
                                         .at = s->at};
    }
    for (uint32_t i = 0; i < plan->n_launches; i++)
        p->ops[i].workspace = plan->launches[i].workspace_bytes;
}

static void find_lives(rt_plan *plan) {
    tc_plan_buffer *buffers = plan->problem.buffers;
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const tc_node *node = plan->launches[i].node;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            tc_read read = tc_operand_read(node, k);
            bool touches = read == TC_READ_ELEMENTS || read == TC_READ_VIEW; /* views may be copied after all */
            const rt_storage *s = touches ? rt_plan_storage(plan, tc_input(node, k)) : NULL;
            if (s && s->home == RT_ARENA)
                buffers[index_of(plan, s)].last = i;
        }
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++) {
        const rt_storage *s = rt_plan_storage(plan, plan->graph->outputs[i]);
        if (s->home == RT_ARENA)
            buffers[index_of(plan, s)].last = plan->n_launches;
    }
}

/* --- results over operands -------------------------------------------------------------------- */

/* Whether nothing but the marked operands reads the bytes of operand k. Whether it dies there, the packer sees. */
static bool is_read_alone(const rt_plan *plan, const rt_launch *launch, uint64_t marked, uint32_t k) {
    const rt_storage *root = rt_plan_root(plan, tc_input(launch->node, k));
    return root->home == RT_ARENA && rt_only_marked_read(plan, launch, marked, root);
}

static void offer(rt_plan *plan, uint32_t at, uint32_t result, size_t *cap) {
    const rt_launch *launch = &plan->launches[at];
    tc_plan_problem *p = &plan->problem;
    uint64_t marked = launch->inplace[result];
    uint32_t to = index_of(plan, rt_plan_storage(plan, launch->node->outputs[result]));
    for (uint32_t k = 0; k < launch->n_in && k < 64; k++) {
        if ((marked >> k & 1) == 0 || !rt_in(launch, k) || !is_read_alone(plan, launch, marked, k))
            continue;
        uint32_t from = index_of(plan, rt_plan_storage(plan, tc_input(launch->node, k)));
        p->choices = tc_arena_grow(plan->launcher.arena, p->choices, sizeof *p->choices, cap, (size_t)p->n_choices + 1);
        p->choices[p->n_choices++] = (tc_plan_choice){at, to, from, false};
    }
}

static void offer_all(rt_plan *plan) {
    size_t cap = 0;
    for (uint32_t at = 0; at < plan->n_launches; at++) {
        const rt_launch *launch = &plan->launches[at];
        for (uint32_t result = 0; result < RT_INPLACE && launch->view_of < 0; result++)
            if (launch->inplace[result] != 0 && rt_out(launch, result) &&
                rt_plan_storage(plan, launch->node->outputs[result])->home == RT_ARENA)
                offer(plan, at, result, &cap);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

tc_status rt_place_buffers(tc_ctx *ctx, rt_plan *plan) {
    tc_arena *arena = plan->launcher.arena;
    plan->problem = (tc_plan_problem){
        .ops = TC_NEW_ARRAY(arena, tc_plan_op, (size_t)plan->n_launches + 1),
        .n_ops = plan->n_launches,
        .buffers = TC_NEW_ARRAY(arena, tc_plan_buffer, (size_t)plan->n_storages + 1),
        .n_buffers = plan->n_storages,
        .align = RT_ALIGN,
    };
    add_buffers(plan);
    find_lives(plan);
    offer_all(plan);
    switch (tc_plan_pack(&plan->problem, 0, &plan->packing)) {
    case TC_PLAN_OK: return TC_OK;
    case TC_PLAN_MEMORY: return tc_error(ctx, TC_LIMIT, NULL, "not enough memory to plan this graph");
    case TC_PLAN_TOO_BIG:
        return tc_error(ctx, TC_LIMIT, NULL, "the buffers of this graph need more bytes than can be addressed");
    case TC_PLAN_INVALID: break;
    }
    return tc_error(ctx, TC_BUG, NULL, "the lives of this graph's buffers make no sense");
}
