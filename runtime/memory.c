/* memory.c: where a prepared session's bytes are: the numbers behind tempo-run --memory. */
#include "session.h"
#include "../compiler/memory/ledger.h"
#include <stdlib.h>

static int bigger_first(const void *a, const void *b) {
    const tempo_live *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static tempo_live live_buffer(tc_arena *arena, const rt_plan *plan, size_t index) {
    uint32_t of = plan->buffer_of[index];
    uint64_t bytes = rt_aligned(plan->buffers[index].bytes);
    if (of < plan->n_storages) {
        const tc_value *value = plan->storages[of].value;
        return (tempo_live){value->name, tc_type_text(arena, value->type), bytes};
    }
    const tc_node *node = plan->launches[UINT32_MAX - of].node;
    return (tempo_live){tc_arena_printf(arena, "workspace of %s", tc_node_label(node)), node->op_type, bytes};
}

static void list_live(tempo_session *s, tempo_memory *out) {
    const rt_plan *plan = rt_current_plan(s);
    uint32_t peak = plan->packing.peak;
    tempo_live *live = TC_NEW_ARRAY(s->ctx.arena, tempo_live, plan->n_buffers + 1);
    for (size_t i = 0; i < plan->n_buffers; i++)
        if (plan->buffers[i].first <= peak && peak <= plan->buffers[i].last && plan->buffers[i].bytes > 0)
            live[out->n_live++] = live_buffer(s->ctx.arena, plan, i);
    qsort(live, out->n_live, sizeof *live, bigger_first);
    out->live = live;
    out->peak_node = peak < plan->n_launches ? tc_node_label(plan->launches[peak].node) : "";
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
    const rt_storage *root = rt_plan_root(c->plan, storage);
    if (root->home != RT_ARENA || root->first > c->turn || c->counted[root->root])
        return;
    c->counted[root->root] = true;
    c->bytes += root->bytes;
}

/* What nodes of the forward pass made, the arena holds when that has ended, and a later launch reads: each storage
 * once, but for copies of parameters, which hold no activations. Shapes for the backward pass may be read off early,
 * and a result of the backward pass may lie where such a copy was: neither is of the forward pass. */
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
        if (storage->root == i && storage->home != RT_ARENA)
            *(storage->home == RT_INPUT ? &out->inputs : &out->parameters) += rt_aligned(storage->bytes);
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        out->outputs += rt_aligned(rt_plan_bytes(plan, plan->graph->outputs[i]));
    out->arena = plan->packing.bytes;
    out->lower_bound = plan->packing.lower_bound;
    out->saved = saved_bytes(plan);
    list_live(s, out);
    return TC_OK;
}

tempo_status tempo_memory_report(tempo_session *s, tempo_memory *out) {
    *out = (tempo_memory){0};
    RT_CALL(s, report(s, out));
}
