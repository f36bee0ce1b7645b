/* delay_updates.c: places nodes that wait for other ranks. An optimizer stands right after the gradient that it takes:
 * without ranks, that is the least memory. Among ranks it would wait there for a mean that has only just been begun,
 * and the backward pass with it. So nodes that depend on means are moved back by one bucket of them (average.c): while
 * a bucket is reduced, the backward pass makes the next one. Therefore two buckets of gradients live at a time. */
#include "plan.h"

/* A bucket closes after a node: nodes that depend on no bucket later than the one before it may follow then. */
typedef struct delay {
    tc_map *averaged;
    uint32_t *level; /* by value id: 1 + the last bucket that the value depends on; 0: on none */
    tc_node **order; /* [n] the nodes in their new order */
    size_t n;
    tc_node **waiting; /* [n_waiting] nodes that depend on buckets, in the order of the graph */
    size_t n_waiting;
    uint32_t bucket; /* that is open */
    size_t bytes;    /* in it */
} delay;

static size_t bytes_of(const tc_value *value) {
    const tc_type *type = value->type;
    return tc_type_is_static(type) ? tc_tensor_bytes(type->dtype, tc_type_elements(type)) : 0;
}

static uint32_t level_of(const delay *d, const tc_node *node) {
    uint32_t level = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        if (value && d->level[value->id] > level)
            level = d->level[value->id];
    }
    return level;
}

/* Places the nodes that wait for no bucket from `level` on. Their operands are placed as well: these wait for no
 * more. */
static void release(delay *d, uint32_t level) {
    size_t left = 0;
    for (size_t i = 0; i < d->n_waiting; i++) {
        if (level_of(d, d->waiting[i]) <= level)
            d->order[d->n++] = d->waiting[i];
        else
            d->waiting[left++] = d->waiting[i];
    }
    d->n_waiting = left;
}

static void set_levels(delay *d, const tc_node *node, uint32_t level) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_value *value = node->outputs[i];
        if (!value)
            continue;
        d->level[value->id] = level;
        if (level > 0 || !tc_map_get_ptr(d->averaged, value))
            continue;
        d->level[value->id] = 1 + d->bucket;
        d->bytes += bytes_of(value);
    }
}

static void place(delay *d, tc_node *node) {
    const uint32_t level = level_of(d, node);
    set_levels(d, node, level);
    if (level > 0) {
        d->waiting[d->n_waiting++] = node;
        return;
    }
    d->order[d->n++] = node;
    if (d->bytes < rt_bucket_bytes)
        return;
    release(d, d->bucket++);
    d->bytes = 0;
}

void rt_delay_updates(rt_plan *plan) {
    const tc_graph *graph = plan->graph;
    if (plan->n_averaged == 0 || plan->shared->ranks < 2)
        return;
    tc_arena *arena = plan->launcher.arena;
    delay d = {.averaged = rt_averaged_values(plan),
               .level = TC_NEW_ARRAY(arena, uint32_t, (size_t)plan->model->next_id + 1),
               .order = TC_NEW_ARRAY(arena, tc_node *, (size_t)graph->n_nodes + 1),
               .waiting = TC_NEW_ARRAY(arena, tc_node *, (size_t)graph->n_nodes + 1)};
    TC_FOR_NODES(node, graph)
        place(&d, node);
    for (uint32_t level = 1; d.n_waiting > 0; level++)
        release(&d, level);
    for (size_t i = d.n; i-- > 1;)
        tc_node_move_before(d.order[i - 1], d.order[i]);
}
