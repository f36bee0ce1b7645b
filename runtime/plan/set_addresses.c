/* set_addresses.c: from offsets to addresses: memory for the arena, and where each operand, result and workspace is. */
#include "plan.h"
#include "runtime/tempo.h"

static void *storage_data(const rt_plan *plan, const rt_storage *s) {
    return s->home == RT_ARENA ? plan->shared->memory + plan->problem.buffers[s - plan->storages].offset
                               : (unsigned char *)rt_storage_root(plan, s)->data + s->at;
}

/* Places in inputs and states, which may change before each run, or all others. */
static void list_places(rt_plan *plan, rt_arg *args, const tc_node *node, bool results, bool in_inputs) {
    for (uint32_t k = 0; k < (results ? node->n_outputs : node->n_inputs); k++) {
        const tc_value *value = results ? node->outputs[k] : tc_input(node, k);
        const rt_storage *s = args[k].present ? rt_plan_storage(plan, value) : NULL;
        if (s && (s->home == RT_INPUT || s->home == RT_STATE) == in_inputs)
            plan->places[plan->n_places++] = (rt_place){&args[k], s};
    }
}

void rt_find_addresses(rt_plan *plan) {
    size_t most = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++)
        most += (size_t)plan->launches[i].n_in + plan->launches[i].n_out;
    plan->places = TC_NEW_ARRAY(plan->launcher.arena, rt_place, most + 1);
    for (int others = 0; others < 2; others++) {
        for (uint32_t i = 0; i < plan->n_launches; i++) {
            rt_launch *launch = &plan->launches[i];
            list_places(plan, launch->in, launch->node, false, !others);
            list_places(plan, launch->out, launch->node, true, !others);
        }
        if (!others)
            plan->n_input_places = plan->n_places;
    }
}

static void set_addresses(rt_plan *plan) {
    bool moved = plan->memory != plan->shared->memory;
    for (size_t i = 0; i < (moved ? plan->n_places : plan->n_input_places); i++)
        plan->places[i].arg->data = storage_data(plan, plan->places[i].storage);
    for (uint32_t i = 0; moved && i < plan->n_launches; i++)
        if (plan->launches[i].workspace_bytes > 0)
            plan->launches[i].workspace = plan->shared->memory + plan->problem.ops[i].offset;
    plan->memory = plan->shared->memory;
}

static const tc_value *largest_result(const rt_plan *plan) {
    const rt_storage *largest = NULL;
    for (uint32_t i = 0; i < plan->n_storages; i++)
        if (plan->storages[i].home == RT_ARENA && (!largest || plan->storages[i].bytes > largest->bytes))
            largest = &plan->storages[i];
    return largest ? largest->value : NULL;
}

/* Zero-sized buffers point at the end. */
static size_t bytes_of(const rt_plan *plan) { return plan->packing.bytes + RT_ALIGN; }

bool rt_plan_fits(const rt_plan *plan) { return plan->shared->memory && bytes_of(plan) <= plan->shared->bytes; }

/* The old arena is freed first: nothing of an earlier run is read again. */
static tc_status take_memory(tc_ctx *ctx, rt_plan *plan) {
    rt_shared *shared = plan->shared;
    size_t bytes = bytes_of(plan);
    if (rt_plan_fits(plan))
        return TC_OK;
    shared->device->free(shared->queue, shared->memory);
    shared->memory = NULL;
    TC_TRY(rt_make_ready(ctx, shared));
    tc_status status = rt_check_room(ctx, shared, "the arena of this graph", bytes);
    const tc_value *largest = status == TC_OK ? NULL : largest_result(plan);
    if (largest)
        tc_hint(ctx, "its largest tensor is %s '%s' of %s \"%s\"", tc_type_text(ctx->arena, largest->type),
                tc_quote(ctx, largest->name), tc_quote(ctx, largest->producer->op_type),
                tc_quote(ctx, tc_node_label(largest->producer)));
    TC_TRY(status);
    shared->bytes = rt_aligned(bytes);
    shared->memory = shared->device->alloc(shared->queue, shared->bytes);
    if (!shared->memory)
        return tc_error(ctx, TC_LIMIT, NULL, "not enough memory: the arena of this graph takes %zu bytes", bytes);
    return TC_OK;
}

tc_status rt_plan_ready(tc_ctx *ctx, rt_plan *plan, const void *const *inputs) {
    uint32_t at = 0;
    for (uint32_t i = 0; at < plan->n_bound; i++)
        if (plan->graph->inputs[i] == plan->storages[at].value)
            rt_set_host(plan, &plan->storages[at++], inputs[i]);
    TC_TRY(take_memory(ctx, plan));
    TC_TRY(rt_upload_plan(ctx, plan));
    TC_TRY(rt_ready_states(ctx, plan));
    set_addresses(plan);
    return TC_OK;
}

void *rt_plan_address(const rt_plan *plan, const tc_value *value) {
    return storage_data(plan, rt_plan_storage(plan, value));
}

size_t rt_plan_bytes(const rt_plan *plan, const tc_value *value) { return rt_plan_storage(plan, value)->bytes; }

void rt_plan_tensor(const rt_plan *plan, const tc_value *value, tempo_tensor *out_tensor) {
    const rt_storage *s = rt_plan_storage(plan, value);
    *out_tensor = (tempo_tensor){(tempo_dtype)value->type->dtype, value->type->rank, s->dims,
                                 rt_download(plan, s, storage_data(plan, s)), s->bytes};
}
