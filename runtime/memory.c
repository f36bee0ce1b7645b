/* memory.c: where a prepared session's bytes are: the numbers behind tempo-run --memory. */
#include "session.h"
#include <stdlib.h>

static int bigger_first(const void *a, const void *b) {
    const tempo_live *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static tempo_live live_buffer(const tempo_session *s, size_t index) {
    const rt_plan *plan = s->plan;
    uint32_t of = plan->buffer_of[index];
    uint64_t bytes = rt_aligned(plan->buffers[index].bytes);
    if (of < plan->n_storages) {
        const tc_value *value = plan->storages[of].value;
        return (tempo_live){value->name, tc_type_text(plan->binder.arena, value->type), bytes};
    }
    const tc_node *node = plan->launches[UINT32_MAX - of].node;
    return (tempo_live){tc_arena_printf(plan->binder.arena, "workspace of %s", tc_node_label(node)), node->op_type,
                        bytes};
}

static void list_live(tempo_session *s, tempo_memory *out) {
    const rt_plan *plan = s->plan;
    uint32_t peak = plan->packing.peak;
    s->live = TC_NEW_ARRAY(plan->binder.arena, tempo_live, plan->n_buffers + 1);
    for (size_t i = 0; i < plan->n_buffers; i++)
        if (plan->buffers[i].first <= peak && peak <= plan->buffers[i].last && plan->buffers[i].bytes > 0)
            s->live[out->n_live++] = live_buffer(s, i);
    qsort(s->live, out->n_live, sizeof *s->live, bigger_first);
    out->live = s->live;
    out->peak_node = peak < plan->n_launches ? tc_node_label(plan->launches[peak].node) : "";
}

tempo_status tempo_memory_report(tempo_session *s, tempo_memory *out) {
    *out = (tempo_memory){0};
    tempo_status status = tempo_prepare(s);
    if (status != TEMPO_OK)
        return status;
    const rt_plan *plan = s->plan;
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        const rt_storage *storage = &plan->storages[i];
        if (storage->root == i && storage->home != RT_ARENA)
            *(storage->home == RT_INPUT ? &out->inputs : &out->parameters) += rt_aligned(storage->bytes);
    }
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        out->outputs += rt_aligned(rt_plan_bytes(plan, plan->graph->outputs[i]));
    out->arena = plan->packing.bytes;
    out->lower_bound = plan->packing.lower_bound;
    list_live(s, out);
    return TEMPO_OK;
}
