/* memory.c: where a prepared session's bytes are: the numbers of tempo-run --memory. */
#include "session.h"
#include "compiler/memory/memory.h"
#include <stdlib.h>

static int bigger_first(const void *a, const void *b) {
    const tempo_live *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

typedef struct life {
    uint32_t first, last;
} life;

/* Where the roots' lives begin and end: with those of all that lie in them. */
static life *find_lives(const rt_plan *plan, tc_arena *arena) {
    life *lives = TC_NEW_ARRAY(arena, life, (size_t)plan->n_storages + 1);
    for (uint32_t i = 0; i < plan->n_storages; i++)
        lives[i].first = UINT32_MAX;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        life *l = &lives[rt_storage_root(plan, &plan->storages[i])->root];
        const tc_plan_buffer *b = &plan->problem.buffers[i];
        l->first = b->first < l->first ? b->first : l->first;
        l->last = b->last > l->last ? b->last : l->last;
    }
    return lives;
}

static void list_live(tempo_session *s, tempo_memory *out) {
    const rt_plan *plan = rt_current_plan(s);
    const tc_plan_problem *problem = &plan->problem;
    uint32_t peak = plan->packing.chosen.peak;
    life *lives = find_lives(plan, s->ctx.arena);
    for (uint32_t i = 0; i < problem->n_choices; i++) /* a buffer under a result is counted with it */
        if (problem->choices[i].taken && problem->choices[i].op == peak)
            lives[rt_storage_root(plan, &plan->storages[problem->choices[i].operand])->root].last = 0;
    tempo_live *rows = TC_NEW_ARRAY(s->ctx.arena, tempo_live, (size_t)plan->n_storages + 1);
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *storage = &plan->storages[i];
        if (storage->home != RT_ARENA || storage->root != i || storage->bytes == 0 || lives[i].first > peak ||
            lives[i].last < peak)
            continue;
        rows[out->n_live++] = (tempo_live){storage->value->name, tc_type_text(s->ctx.arena, storage->value->type),
                                           rt_aligned(storage->bytes)};
    }
    const tc_node *node = peak < plan->n_launches ? plan->launches[peak].node : NULL;
    if (node && problem->ops[peak].workspace > 0)
        rows[out->n_live++] = (tempo_live){tc_arena_printf(s->ctx.arena, "workspace of %s", tc_node_label(node)),
                                           node->op_type, rt_aligned(problem->ops[peak].workspace)};
    qsort(rows, out->n_live, sizeof *rows, bigger_first);
    out->live = rows;
    out->peak_node = node ? tc_node_label(node) : "";
}

/* --- between the passes ----------------------------------------------------------------------- */

/* The last launch of the forward pass. */
static uint32_t last_forward(const rt_plan *plan, const bool *forward) {
    uint32_t last = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        if (forward[plan->launches[i].node->id])
            last = i;
    return last;
}

typedef struct counting {
    const rt_plan *plan;
    const tc_storages *storages;
    const bool *forward; /* by node id */
    uint32_t turn;       /* the last launch of the forward pass */
    bool *counted;       /* by storage of the plan */
    uint64_t bytes;
} counting;

static void count_read(void *user, const tc_value *storage) {
    counting *c = user;
    if (tc_storage_is_given(c->storages, storage) || !c->forward[storage->producer->id])
        return;
    const rt_storage *s = rt_plan_storage(c->plan, storage);
    size_t index = (size_t)(s - c->plan->storages);
    if (s->home == RT_INPUT || c->counted[index])
        return;
    c->counted[index] = true;
    c->bytes += s->bytes;
}

/* Bytes that nodes of the forward pass made and that a later launch reads: each storage once, also where its elements
 * are known already and are a constant of the plan. Copies of parameters hold no activations and don't count. Shapes
 * for the backward pass may be read early, and a result of the backward pass may lie where a copy of a parameter was:
 * neither is of the forward pass. */
static uint64_t count_saved(const rt_plan *plan, tc_arena *scratch, const tc_value *loss) {
    uint32_t size;
    tc_storages storages;
    const bool *forward = tc_forward_nodes(scratch, plan->graph, loss, &size);
    counting c = {.plan = plan, .storages = &storages, .forward = forward, .turn = last_forward(plan, forward)};
    tc_storages_make(scratch, plan->graph, &storages);
    c.counted = TC_NEW_ARRAY(scratch, bool, (size_t)plan->n_storages + 1);
    for (uint32_t i = c.turn + 1; i < plan->n_launches; i++)
        tc_storage_reads(&storages, plan->launches[i].node, count_read, &c);
    return c.bytes;
}

static uint64_t saved_bytes(const rt_plan *plan) {
    const tc_value *loss = tc_find_loss(plan->graph);
    tc_arena *scratch = tc_arena_create();
    uint64_t bytes = loss ? count_saved(plan, scratch, loss) : 0;
    tc_arena_destroy(scratch);
    return bytes;
}

static tc_status report(tempo_session *s, tempo_memory *out) {
    TC_TRY(rt_prepare(s));
    const rt_plan *plan = rt_current_plan(s);
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *storage = &plan->storages[i];
        uint64_t *const of_home[] = {
            [RT_INPUT] = &out->inputs, [RT_PARAMETER] = &out->parameters, [RT_STATE] = &out->state};
        if (storage->root == i && storage->home != RT_ARENA)
            *of_home[storage->home] += rt_aligned(storage->bytes);
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        out->outputs += rt_aligned(rt_plan_bytes(plan, plan->graph->outputs[i]));
    out->arena = plan->packing.bytes;
    out->lower_bound = plan->packing.live.peak_bytes;
    out->saved = saved_bytes(plan);
    list_live(s, out);
    return TC_OK;
}

tempo_status tempo_memory_report(tempo_session *s, tempo_memory *out) {
    *out = (tempo_memory){0};
    RT_CALL(s, report(s, out));
}
