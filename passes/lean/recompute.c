/* recompute.c: recomputes saved values in the backward pass if cheap nodes make them from available values: GELU from
 * its operand, y of LayerNormalization from x-hat, dropout by drawing again. If a saved value can be recomputed from
 * fewer bytes, those are kept instead: half precision before a Cast, keys before they are repeated for several heads,
 * parts before they are concatenated. keep.h finds the fewest bytes for the whole graph. One walk over the forward
 * pass, in order, classifies each value: it is available (free, or saved and kept), it can be recomputed at some cost,
 * or neither. One walk over the backward pass then copies nodes, each right before the first node that reads its
 * result; an earlier copy would live as long as the value. Copies have the attributes of their originals, and the same
 * kernels compute them, so they are equal bit for bit. No pass after this one may merge equal nodes. */
#include "compiler/memory/memory.h"
#include "passes/rules/rules.h"
#include "keep.h"
#include "lean.h"
#include <string.h>

enum {
    LIMIT = 16, /* the most that recomputing one value may cost, in units of cheap.def: passes over the value */
    PASS = 256, /* cost of one pass, so that a smaller table costs less */
    STEPS = 64, /* nodes that recompute one value, at most; bounds recursion */
    ROUNDS = 8, /* rounds of choosing which values to keep */
};
#define MOST_BYTES ((uint64_t)1 << 40) /* marks for that count of one value, and for an unknown size */

enum {
    READ = 1,   /* a late node reads it */
    PINNED = 2, /* always kept: a graph output, or a nested graph reads it */
    CHOSEN = 4, /* kept instead of values that cheap nodes compute from it */
    DEAR = 8,   /* read, and kept because recomputing it would cost more than LIMIT */
    PAID = 16,  /* its bytes reduce the savings of the values that it replaces */
};

typedef struct recomputation {
    tc_pass_env *env;
    tc_arena *arena;
    tc_graph *graph;
    const tc_node *end;
    tc_storages storages; /* before anything is copied */
    uint8_t *flags;       /* by value id, of storages */
    uint8_t *cost;        /* by value id: 0 available, 1 recomputed where it is read, TC_NEVER neither */
    tc_map *copies;       /* value -> its recomputed copy */
} recomputation;

static bool is_late(const recomputation *rc, const tc_node *node) { return tc_node_before(rc->end, node); }

/* --- readers ---------------------------------------------------------------------------------- */

static void mark(const recomputation *rc, const tc_value *value, uint8_t flag) {
    const tc_value *storage = tc_storage_of(&rc->storages, value);
    if (storage->graph == rc->graph)
        rc->flags[storage->id] |= flag;
}

/* The value itself, or the values whose readers read its view. */
static bool reads_elements(const tc_node *node, uint32_t index) {
    tc_read read = tc_operand_read(node, index);
    return read == TC_READ_ELEMENTS || read == TC_READ_VIEW;
}

static void mark_readers(const recomputation *rc) {
    for (const tc_node *node = rc->end->next; node; node = node->next)
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (reads_elements(node, i))
                mark(rc, tc_input(node, i), READ);
    TC_FOR_NODES(node, rc->graph)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                TC_FOR_USES(use, node->outputs[i])
                    if (use->user->graph != rc->graph)
                        mark(rc, node->outputs[i], PINNED);
    for (uint32_t i = 0; i < rc->graph->n_outputs; i++)
        mark(rc, rc->graph->outputs[i], PINNED);
}

/* --- costs ------------------------------------------------------------------------------------ */

/* LayerNormalizationXhat and similar ops give y again by ScaleBias. */
static bool has_xhat(const tc_node *node) {
    const char *op = node->op && strcmp(node->domain, TC_TEMPO_DOMAIN) == 0 ? node->op->name : "";
    return strcmp(op, "LayerNormalizationXhat") == 0 || strcmp(op, "RMSNormalizationXhat") == 0;
}

/* Operand `index` of the node that recomputes result 0 of `node`. */
static tc_value *recompute_operand(const tc_node *node, uint32_t index) {
    return index == 0 && has_xhat(node) ? tc_output(node, 1) : tc_input(node, index);
}

static uint8_t cost_of(const recomputation *rc, const tc_value *value) {
    return value->producer ? rc->cost[value->id] : 0;
}

/* Nodes that recompute one value, each once. */
typedef struct bill {
    const tc_node *nodes[STEPS];
    unsigned n;
    uint64_t value_bytes; /* a pass over these costs PASS */
    uint64_t sum;
} bill;

static bool is_too_much(const bill *b) { return b->sum > (uint64_t)LIMIT * PASS || b->n == STEPS; }

static uint64_t sampled_bytes(const recomputation *rc, const tc_value *value) {
    tc_dim_pool *pool = rc->graph->model->dims;
    tc_dim bytes = tc_value_bytes(pool, value);
    uint64_t sample = tc_sample_bytes(pool, bytes);
    return tc_dim_is_unknown(bytes) || sample > MOST_BYTES ? MOST_BYTES : sample;
}

static void add_to_bill(const recomputation *rc, bill *b, const tc_node *node) {
    for (unsigned i = 0; i < b->n; i++)
        if (b->nodes[i] == node)
            return;
    b->sum += tc_cheap_cost(node) * (sampled_bytes(rc, node->outputs[0]) * PASS / b->value_bytes);
    if (is_too_much(b))
        return;
    b->nodes[b->n++] = node;
    for (uint32_t i = 0; !is_too_much(b) && i < node->n_inputs; i++) {
        const tc_value *operand = recompute_operand(node, i);
        if (operand && cost_of(rc, operand) != 0)
            add_to_bill(rc, b, tc_storage_of(&rc->storages, operand)->producer);
    }
}

/* Whether cheap nodes make result 0 of the node from available values. */
static bool can_make(const recomputation *rc, const tc_node *node) {
    bool can = tc_cheap_cost(node) != TC_NEVER && !(has_xhat(node) && !tc_output(node, 1));
    for (uint32_t i = 0; can && i < node->n_inputs; i++)
        can = !recompute_operand(node, i) || cost_of(rc, recompute_operand(node, i)) != TC_NEVER;
    return can;
}

/* Whether they cost more than LIMIT in all. */
static bool costs_too_much(const recomputation *rc, const tc_node *node) {
    bill b = {.value_bytes = sampled_bytes(rc, node->outputs[0])};
    b.value_bytes += b.value_bytes == 0;
    add_to_bill(rc, &b, node);
    return is_too_much(&b);
}

/* Integers of rank 1 are shapes and positions, a few bytes. With more dims they are indices, as a rule repeated for
 * each head. */
static bool is_worth_it(const tc_value *value) {
    tc_dtype dtype = tc_value_dtype(value);
    bool one = true;
    for (int i = 0; i < tc_value_rank(value); i++)
        one = one && tc_dim_equal(value->type->dims[i], tc_dim_const(1));
    return (tc_dtype_is_float(dtype) || dtype == TC_BOOL || tc_value_rank(value) > 1) && !one;
}

/* The reason why a saved value of a cheap node stays. */
static void explain(const recomputation *rc, const char *row, const tc_value *value) {
    const tc_node *node = value->producer;
    const char *why = "recomputing it would cost too much";
    if (!tc_is_explained(rc->env->options, row))
        return;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (recompute_operand(node, i) && cost_of(rc, recompute_operand(node, i)) == TC_NEVER)
            why = tc_arena_printf(rc->arena, "recomputing it would need '%s' to be kept",
                                  recompute_operand(node, i)->name);
    if (rc->flags[value->id] & PINNED)
        why = "it is an output of the graph, or a nested graph reads it";
    const char *label = tc_node_label(node);
    tc_note(rc->env->ctx, NULL, "%s: '%s' of %s \"%s\" is kept: %s", row, value->name, node->op_type, label, why);
}

/* The row of a cheap op in the statistics; NULL: this value stays as it is. */
static tc_rule_stat *row_of(const recomputation *rc, const tc_value *value) {
    const tc_node *node = value->producer;
    if (value->out_index != 0 || tc_cheap_cost(node) == TC_NEVER || !is_worth_it(value))
        return NULL;
    const char *op = has_xhat(node) ? "ScaleBias" : node->op->name;
    return tc_summary_rule(rc->env, tc_arena_printf(rc->env->ctx->arena, "recompute_%s", op));
}

/* Whether a saved value may be dropped if it can be recomputed. */
static bool may_drop(const recomputation *rc, const tc_value *value) {
    const tc_rule_stat *row = row_of(rc, value);
    return row && !tc_is_disabled(rc->env->options, row->name) && !(rc->flags[value->id] & PINNED);
}

/* The bytes that have to be kept for this value and are not counted yet. */
static tc_dim price_in_bytes(const recomputation *rc, const tc_node *node, tc_dim bytes) {
    tc_dim_pool *pool = rc->graph->model->dims;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *operand = recompute_operand(node, i);
        operand = operand ? tc_storage_of(&rc->storages, operand) : NULL;
        if (!operand || !operand->producer)
            continue;
        uint8_t *flags = &rc->flags[operand->id];
        if ((*flags & CHOSEN) && !(*flags & (READ | PAID))) {
            *flags |= PAID;
            bytes = tc_dim_add(pool, bytes, tc_value_bytes(pool, operand));
        } else if (rc->cost[operand->id] != 0) {
            bytes = price_in_bytes(rc, operand->producer, bytes);
        }
    }
    return bytes;
}

/* Counts a saved value in the row of its op: dropped, or kept because of its cost or its readers. */
static void count(const recomputation *rc, const tc_value *value, bool dropped) {
    tc_rule_stat *row = row_of(rc, value);
    if (!row)
        return;
    row->tried++;
    if (!dropped && !tc_is_disabled(rc->env->options, row->name))
        explain(rc, row->name, value);
    if (!dropped)
        return;
    tc_dim_pool *pool = rc->graph->model->dims;
    row->matched++;
    row->bytes_freed = tc_dim_add(pool, row->bytes_freed, tc_value_bytes(pool, value));
    row->bytes_freed = tc_dim_sub(pool, row->bytes_freed, price_in_bytes(rc, value->producer, tc_dim_const(0)));
}

static void decide(const recomputation *rc, const tc_node *node, const tc_value *value) {
    uint8_t *cost = &rc->cost[value->id], *flags = &rc->flags[value->id];
    if (tc_is_view(node)) {
        *cost = cost_of(rc, tc_input(node, 0));
        return;
    }
    if (tc_storage_is_given(&rc->storages, value) || (*flags & CHOSEN)) {
        *cost = 0;
        return;
    }
    *cost = value->out_index == 0 && can_make(rc, node) ? 1 : TC_NEVER;
    if ((*flags & READ) && (*cost == TC_NEVER || !may_drop(rc, value) || costs_too_much(rc, node))) {
        *flags |= DEAR;
        *cost = 0;
    }
}

static void decide_all(const recomputation *rc) {
    for (const tc_node *node = rc->graph->first; node != rc->end->next; node = node->next)
        for (uint32_t i = node->n_outputs; i-- > 0;) /* x-hat comes before y, which is recomputed from it */
            if (node->outputs[i])
                decide(rc, node, node->outputs[i]);
}

/* --- values kept instead of others ------------------------------------------------------------ */

/* The storages that early nodes make, in order. */
static uint32_t list_made(const recomputation *rc, const tc_value ***out_values) {
    uint32_t n = 0;
    const tc_value **values = TC_NEW_ARRAY(rc->arena, const tc_value *, rc->graph->model->next_id);
    for (const tc_node *node = rc->graph->first; node != rc->end->next; node = node->next)
        for (uint32_t i = node->n_outputs; i-- > 0;) /* x-hat comes before y, which is recomputed from it */
            if (node->outputs[i] && !tc_is_view(node))
                values[n++] = node->outputs[i];
    *out_values = values;
    return n;
}

static bool is_there(const recomputation *rc, const tc_value *value) {
    return tc_storage_is_given(&rc->storages, value) ||
           ((rc->flags[value->id] & READ) && ((rc->flags[value->id] & DEAR) || !may_drop(rc, value)));
}

/* Chooses among n values, listed in order, those with the fewest bytes from which all others can be computed. */
static void choose(const recomputation *rc, const tc_value *const *values, uint32_t n) {
    tc_arena *scratch = tc_arena_create();
    tc_keep_value *problem = TC_NEW_ARRAY(scratch, tc_keep_value, n);
    uint32_t *numbers = TC_NEW_ARRAY(scratch, uint32_t, rc->graph->model->next_id), *operands = NULL, n_operands = 0;
    bool *keep = TC_NEW_ARRAY(scratch, bool, n);
    size_t cap = 0;
    for (uint32_t i = 0; i < n; i++) {
        const tc_node *node = values[i]->producer;
        bool lost = has_xhat(node) && !tc_output(node, 1);
        problem[i] = (tc_keep_value){.bytes = sampled_bytes(rc, values[i]), .there = is_there(rc, values[i])};
        problem[i].makes = values[i]->out_index == 0 && tc_cheap_cost(node) != TC_NEVER && !lost;
        problem[i].read = (rc->flags[values[i]->id] & READ) != 0;
        problem[i].first = n_operands;
        for (uint32_t k = 0; problem[i].makes && k < node->n_inputs; k++) {
            const tc_value *operand = recompute_operand(node, k);
            operand = operand ? tc_storage_of(&rc->storages, operand) : NULL;
            if (!operand || tc_storage_is_given(&rc->storages, operand))
                continue;
            operands = tc_arena_grow(scratch, operands, sizeof *operands, &cap, n_operands + (size_t)1);
            operands[n_operands++] = numbers[operand->id];
        }
        problem[i].n = n_operands - problem[i].first;
        numbers[values[i]->id] = i;
    }
    tc_keep_least(problem, n, operands, keep);
    for (uint32_t i = 0; i < n; i++)
        rc->flags[values[i]->id] = (uint8_t)((rc->flags[values[i]->id] & ~CHOSEN) | (keep[i] ? CHOSEN : 0));
    tc_arena_destroy(scratch);
}

static void clear(const recomputation *rc, const tc_value *const *values, uint32_t n, int flags) {
    for (uint32_t i = 0; i < n; i++)
        rc->flags[values[i]->id] = (uint8_t)(rc->flags[values[i]->id] & ~flags);
}

static uint64_t kept_bytes(const recomputation *rc, const tc_value *const *values, uint32_t n, uint32_t *out_dear) {
    uint64_t sum = 0;
    *out_dear = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t flags = rc->flags[values[i]->id];
        bool kept = (flags & (READ | CHOSEN)) && rc->cost[values[i]->id] == 0;
        sum += kept && !tc_storage_is_given(&rc->storages, values[i]) ? sampled_bytes(rc, values[i]) : 0;
        *out_dear += (flags & DEAR) != 0;
    }
    return sum;
}

/* A choice that saves nothing is discarded. If a value turns out to cost too much work, it stays, and the choice is
 * repeated with it. */
static void decide_best(const recomputation *rc, const tc_value *const *values, uint32_t n) {
    uint32_t dear, before;
    decide_all(rc);
    uint64_t plain = kept_bytes(rc, values, n, &dear), chosen = plain;
    clear(rc, values, n, DEAR);
    dear = 0;
    for (int round = 0; round < ROUNDS; round++) {
        before = dear;
        choose(rc, values, n);
        decide_all(rc);
        chosen = kept_bytes(rc, values, n, &dear);
        if (dear == before)
            break;
    }
    if (chosen < plain)
        return;
    clear(rc, values, n, CHOSEN | DEAR);
    decide_all(rc);
}

/* --- copies ----------------------------------------------------------------------------------- */

static bool is_recomputed(const recomputation *rc, const tc_value *value) {
    if (!value->producer || is_late(rc, value->producer))
        return false;
    return rc->cost[value->id] != 0 && rc->cost[value->id] != TC_NEVER;
}

static void name_copy(const recomputation *rc, tc_node *copy, const tc_node *node) {
    tc_arena *arena = rc->graph->model->arena;
    copy->name = *node->name ? tc_arena_printf(arena, "%s/recomputed", node->name) : "";
    tc_value *value = copy->outputs[0];
    value->role = TC_ROLE_BACKWARD;
    value->gradient_of = NULL;
    tc_value_rename(value,
                    tc_graph_unique_name(rc->graph, tc_arena_printf(arena, "%s_recomputed", node->outputs[0]->name)));
}

/* A copy that has result 0 only. */
static tc_node *copy_node(const recomputation *rc, const tc_node *node) {
    tc_node *copy = tc_node_clone(rc->graph, node, rc->copies);
    for (uint32_t i = 1; i < node->n_outputs; i++)
        if (node->outputs[i])
            tc_map_set_ptr(rc->copies, node->outputs[i], NULL);
    tc_node_resize_outputs(copy, 1);
    return copy;
}

static tc_node *scale_bias(const recomputation *rc, const tc_node *node) {
    tc_node *copy = tc_node_create(rc->graph, TC_TEMPO_DOMAIN, "ScaleBias", node->n_inputs, 1);
    const tc_attr *axis = tc_attr_find(node, "axis");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_value *operand = recompute_operand(node, i), *other = operand ? tc_map_get_ptr(rc->copies, operand) : NULL;
        tc_node_set_input(copy, i, other ? other : operand);
    }
    if (axis)
        tc_attr_copy(copy, axis);
    copy->ordinal = node->ordinal;
    tc_node_append(copy);
    tc_map_set_ptr(rc->copies, node->outputs[0], tc_node_add_output(copy, 0, NULL, node->outputs[0]->type));
    return copy;
}

static tc_value *emit(const recomputation *rc, tc_value *value, tc_node *before);

/* Recomputes one node, its operands first. The depth is bounded by STEPS, and by emit's loop over views. */
static void emit_node(const recomputation *rc, const tc_node *node, tc_node *before) {
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_value *operand = recompute_operand(node, i);
        if (operand && is_recomputed(rc, operand) && (i == 0 || !tc_is_view(node)))
            emit(rc, operand, before);
    }
    tc_node *copy = has_xhat(node) ? scale_bias(rc, node) : copy_node(rc, node);
    name_copy(rc, copy, node);
    tc_node_move_before(copy, before);
}

static tc_value *emit(const recomputation *rc, tc_value *value, tc_node *before) {
    tc_value *top = value, *copy = tc_map_get_ptr(rc->copies, value);
    size_t n = 0, cap = 0;
    tc_value **views = NULL;
    for (; !tc_map_get_ptr(rc->copies, top); top = tc_input(top->producer, 0)) {
        views = tc_arena_grow(rc->arena, views, sizeof *views, &cap, n + 1);
        views[n++] = top;
        if (!tc_is_view(top->producer))
            break;
    }
    while (n > 0) {
        emit_node(rc, views[--n]->producer, before);
        copy = tc_map_get_ptr(rc->copies, views[n]);
    }
    return copy;
}

static void rewire(const recomputation *rc) {
    for (tc_node *node = rc->end->next; node; node = node->next)
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            tc_value *value = tc_input(node, i);
            if (reads_elements(node, i) && value->graph == rc->graph && is_recomputed(rc, value))
                tc_node_set_input(node, i, emit(rc, value, node));
        }
}

tc_status tc_recompute_cheap(tc_pass_env *env, tc_graph *graph, const tc_node *end) {
    tc_arena *scratch = tc_arena_create();
    uint32_t n = graph->model->next_id;
    recomputation rc = {.env = env, .arena = scratch, .graph = graph, .end = end, .copies = tc_map_create(scratch)};
    rc.flags = TC_NEW_ARRAY(scratch, uint8_t, n);
    rc.cost = TC_NEW_ARRAY(scratch, uint8_t, n);
    tc_storages_make(scratch, graph, &rc.storages);
    mark_readers(&rc);
    const tc_value **made;
    uint32_t n_made = list_made(&rc, &made);
    decide_best(&rc, made, n_made);
    for (uint32_t i = 0; i < n_made; i++)
        if (rc.flags[made[i]->id] & READ)
            count(&rc, made[i], rc.cost[made[i]->id] != 0);
    rewire(&rc);
    tc_arena_destroy(scratch);
    return TC_OK;
}
