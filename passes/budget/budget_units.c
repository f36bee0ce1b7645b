/* budget_units.c: groups nodes that compute the same, and finds nodes that compute nothing. One walk in order: an op
 * with its attributes on the same operands is the same unit. So the copies of the pass `lean`, or of an earlier
 * plan, are one unit that runs several times. */
#include "passes/canonical/canonical.h"
#include "passes/weights/weights.h"
#include "compiler/text/marks.h"
#include "compiler/ir/ops.h"
#include "budget.h"
#include <string.h>

typedef struct maker {
    tc_pass_env *env;
    tc_units *u;
    uint32_t *slots; /* of the hash table: unit + 1 */
    uint64_t *hashes;
    size_t mask;
    size_t cap_units, cap_results;
    uint32_t *variant_of; /* [n_nodes] position of the node whose results a variant makes, or TC_REMAT_NONE */
} maker;

uint32_t tc_result_of(const tc_units *units, const tc_value *value) {
    if (!value)
        return TC_REMAT_NONE;
    if (!value->producer)
        return TC_BUDGET_GIVEN;
    return units->units[units->unit_of[units->position[value->producer->id]]].results + value->out_index;
}

uint32_t tc_unit_root(const tc_units *units, uint32_t unit) {
    return units->units[unit].variant_of == TC_REMAT_NONE ? unit : units->units[unit].variant_of;
}

/* --- the same ---------------------------------------------------------------------------------- */

static bool makes_output(const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && node->outputs[i]->n_graph_outputs)
            return true;
    return false;
}

/* An optimizer's node runs once, on the elements that its results overwrite. */
static bool renews(const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_is_renewal(node->outputs[i]))
            return true;
    return false;
}

/* The identity of an operand for the hash and for equality: a result's number, or a given value. */
static uint64_t operand_key(const tc_units *u, const tc_node *node, uint32_t index) {
    const tc_value *value = tc_input(node, index);
    uint32_t result = tc_result_of(u, value);
    return result == TC_BUDGET_GIVEN ? (uint64_t)value->id << 32 | TC_BUDGET_GIVEN : result;
}

static uint64_t hash_of(const tc_units *u, const tc_node *node) {
    uint64_t hash = tc_hash_op(node);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        uint64_t key = operand_key(u, node, i);
        hash = tc_hash_bytes(&key, sizeof key, hash);
    }
    return hash;
}

static bool is_same(const tc_units *u, const tc_node *a, const tc_node *b) {
    bool same = tc_same_op(a, b);
    for (uint32_t i = 0; same && i < a->n_inputs; i++)
        same = operand_key(u, a, i) == operand_key(u, b, i);
    return same;
}

/* Two outputs of the graph are two values, though they may be equal. */
static uint32_t find_unit(const maker *m, const tc_node *node, uint64_t hash, size_t *out_slot) {
    size_t at = (size_t)hash & m->mask;
    for (; m->slots[at]; at = (at + 1) & m->mask) {
        const tc_unit *unit = &m->u->units[m->slots[at] - 1];
        if (m->hashes[at] == hash && !(unit->makes_output && makes_output(node)) &&
            node->n_outputs <= unit->n_results && is_same(m->u, m->u->nodes[unit->first], node))
            return m->slots[at] - 1;
    }
    *out_slot = at;
    return TC_REMAT_NONE;
}

/* --- free units -------------------------------------------------------------------------------- */

static void add_after(const maker *m, tc_unit *unit, size_t *cap, uint32_t other) {
    for (uint32_t i = 0; i < unit->n_after; i++)
        if (unit->after[i] == other)
            return;
    uint32_t *after =
        tc_arena_grow(m->u->arena, (uint32_t *)unit->after, sizeof *after, cap, (size_t)unit->n_after + 1);
    after[unit->n_after++] = other;
    unit->after = after;
}

/* The result that a free unit shows, and the units that must run before it, from its operands. */
static void trace(const maker *m, tc_unit *unit, int view_of) {
    const tc_units *u = m->u;
    size_t cap = 0;
    for (uint32_t i = 0; i < unit->n_operands; i++) {
        uint32_t result = unit->operands[i];
        if (result == TC_REMAT_NONE || result == TC_BUDGET_GIVEN)
            continue;
        uint32_t maker_of = m->u->maker_of[result];
        const tc_unit *of = &u->units[maker_of];
        uint32_t shown = of->is_free ? of->shows : result;
        for (uint32_t k = 0; k < of->n_after; k++)
            add_after(m, unit, &cap, of->after[k]);
        if ((int)i == view_of)
            unit->shows = shown;
        else if (shown != TC_REMAT_NONE)
            add_after(m, unit, &cap, m->u->maker_of[shown]);
    }
}

/* A result known beforehand is free if it reads no bytes that would have to be kept. */
static bool reads_real(const maker *m, const tc_node *node, const tc_unit *unit) {
    for (uint32_t i = 0; i < unit->n_operands; i++) {
        uint32_t result = unit->operands[i];
        if (result == TC_REMAT_NONE || result == TC_BUDGET_GIVEN || (i == 0 && tc_node_has(node, TC_SHAPE_ONLY)))
            continue;
        const tc_unit *of = &m->u->units[m->u->maker_of[result]];
        if (!of->is_free || of->shows != TC_REMAT_NONE)
            return true;
    }
    return false;
}

/* --- all units --------------------------------------------------------------------------------- */

static const uint32_t *operands_of(const tc_units *u, const tc_node *node) {
    uint32_t *operands = TC_NEW_ARRAY(u->arena, uint32_t, (size_t)node->n_inputs + 1);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        operands[i] = tc_result_of(u, tc_input(node, i));
    return operands;
}

static uint32_t most_results(const tc_node *node) {
    uint32_t n = node->n_outputs;
    return node->op && node->op->max_outputs != TC_VARIADIC && node->op->max_outputs > n ? node->op->max_outputs : n;
}

static uint32_t add_unit(maker *m, uint32_t at) {
    tc_units *u = m->u;
    const tc_node *node = u->nodes[at];
    const tc_node_memory *memory = u->memory[at];
    u->units = tc_arena_grow(u->arena, u->units, sizeof *u->units, &m->cap_units, (size_t)u->n_units + 1);
    tc_unit *unit = &u->units[u->n_units];
    *unit = (tc_unit){.first = at, .results = u->n_results, .n_results = most_results(node), .shows = TC_REMAT_NONE};
    unit->variant_of = TC_REMAT_NONE;
    unit->n_operands = node->n_inputs;
    unit->operands = operands_of(u, node);
    unit->is_fixed =
        !node->op || tc_node_has(node, TC_RANDOM | TC_CONTROL | TC_SIDE_EFFECT) || tc_has_nested(node) || renews(node);
    unit->is_known = !memory || memory->is_known;
    unit->is_free = !memory || memory->view_of >= 0 || (memory->is_known && !reads_real(m, node, unit));
    if (m->variant_of[at] != TC_REMAT_NONE) {
        unit->variant_of = u->unit_of[m->variant_of[at]];
        unit->results = u->units[unit->variant_of].results;
        unit->n_results = node->n_outputs;
        return u->n_units++;
    }
    u->n_results += unit->n_results;
    u->maker_of = tc_arena_grow(u->arena, u->maker_of, sizeof *u->maker_of, &m->cap_results, (size_t)u->n_results + 1);
    for (uint32_t i = 0; i < unit->n_results; i++)
        u->maker_of[unit->results + i] = u->n_units;
    if (unit->is_free)
        trace(m, unit, memory && !memory->is_known ? memory->view_of : -1);
    return u->n_units++;
}

static void add_node(maker *m, uint32_t at) {
    tc_units *u = m->u;
    const tc_node *node = u->nodes[at];
    uint64_t hash = hash_of(u, node);
    size_t slot = 0;
    bool can_merge = tc_can_merge(node) && m->variant_of[at] == TC_REMAT_NONE;
    uint32_t unit = can_merge ? find_unit(m, node, hash, &slot) : TC_REMAT_NONE;
    if (unit == TC_REMAT_NONE) {
        unit = add_unit(m, at);
        if (can_merge) {
            m->slots[slot] = unit + 1;
            m->hashes[slot] = hash;
        }
    }
    tc_unit *x = &u->units[unit];
    x->makes_output |= makes_output(node);
    u->unit_of[at] = unit;
    u->next_instance[at] = TC_REMAT_NONE;
    if (x->first != at)
        u->next_instance[x->last] = at;
    x->last = at;
}

static const tc_node_memory *memory_of(const tc_node_memories *memories, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            return tc_map_get(memories->by_result, node->outputs[i]->name);
    return NULL;
}

static tc_status check_node(tc_ctx *ctx, const tc_node *node, const tc_node_memory *memory) {
    if (!memory && node->n_outputs > 0 && node->outputs[0] && tc_value_constant(node->outputs[0]))
        return TC_OK;
    if (memory && !tc_has_nested(node) && strcmp(memory->op_type, node->op_type) == 0 &&
        strcmp(memory->domain, node->domain) == 0)
        return TC_OK;
    tc_error(ctx, TC_UNSUPPORTED, node, "--memory-budget cannot plan this node: its memory is not known");
    return TC_UNSUPPORTED;
}

static tc_status list_nodes(tc_pass_env *env, const tc_node_memories *memories, tc_units *u) {
    uint32_t at = 0;
    TC_FOR_NODES(node, u->graph) {
        u->nodes[at] = node;
        u->memory[at] = memory_of(memories, node);
        u->position[node->id] = at;
        TC_TRY(check_node(env->ctx, node, u->memory[at]));
        at++;
    }
    const tc_value *loss = tc_made_loss(env->options, u->graph);
    u->turn = loss ? u->position[loss->producer->id] : TC_REMAT_NONE;
    return TC_OK;
}

static void note_variants(maker *m, tc_unit_variants variants) {
    for (uint32_t at = 0; at < m->u->n_nodes; at++)
        m->variant_of[at] = TC_REMAT_NONE;
    for (uint32_t i = 0; i < variants.n; i++)
        m->variant_of[m->u->position[variants.list[i].variant->id]] = m->u->position[variants.list[i].node->id];
    m->u->has_variants = variants.n > 0;
}

tc_status tc_units_make(tc_pass_env *env, tc_arena *arena, const tc_graph *graph, const tc_node_memories *memories,
                        tc_unit_variants variants, tc_units *out_units) {
    size_t n = (size_t)graph->n_nodes + 1, size = 16;
    while (size < n * 2)
        size *= 2;
    *out_units = (tc_units){.arena = arena, .graph = graph, .n_nodes = graph->n_nodes};
    out_units->nodes = TC_NEW_ARRAY(arena, tc_node *, n);
    out_units->memory = TC_NEW_ARRAY(arena, const tc_node_memory *, n);
    out_units->position = TC_NEW_ARRAY(arena, uint32_t, (size_t)graph->model->next_id + 1);
    out_units->unit_of = TC_NEW_ARRAY(arena, uint32_t, n);
    out_units->next_instance = TC_NEW_ARRAY(arena, uint32_t, n);
    maker m = {.env = env, .u = out_units, .mask = size - 1};
    m.slots = TC_NEW_ARRAY(arena, uint32_t, size);
    m.hashes = TC_NEW_ARRAY(arena, uint64_t, size);
    m.variant_of = TC_NEW_ARRAY(arena, uint32_t, n);
    TC_TRY(list_nodes(env, memories, out_units));
    note_variants(&m, variants);
    for (uint32_t at = 0; at < out_units->n_nodes; at++)
        add_node(&m, at);
    return TC_OK;
}
