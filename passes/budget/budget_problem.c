/* budget_problem.c: from the units of a graph to numbers. Real units are nodes, their results values of so many
 * bytes, the order of the file is the given schedule. A node of --save runs once; a node of --recompute runs a
 * second time after the forward pass, and the backward pass reads only that run. */
#include "compiler/text/marks.h"
#include "compiler/memory/memory.h"
#include "compiler/cli/cli.h"
#include "compiler/ir/ops.h"
#include "compiler/pack/pack.h"
#include "budget.h"
#include "budget_names.h"
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    tc_pass_env *env;
    tc_arena *arena;
    tc_budget *b;
    const tc_costs *costs;
    bool *saved, *again; /* [n_units] by --save and --recompute */
    bool *is_late;       /* [n_nodes] in the backward pass */
    bool *all_late;      /* [n_units] every instance is */
    uint32_t *token_of;  /* [n_units] a value without bytes that marks the unit as run; TC_REMAT_NONE */
    tc_remat_node *nodes;
    tc_remat_value *values;
    uint32_t *steps;
    size_t cap_nodes, cap_values, cap_steps, cap_result_of, cap_refs;
} maker;

static uint32_t *fill_none(tc_arena *arena, uint32_t n) {
    uint32_t *array = TC_NEW_ARRAY(arena, uint32_t, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        array[i] = TC_REMAT_NONE;
    return array;
}

/* --- values ------------------------------------------------------------------------------------ */

static uint64_t aligned(uint64_t bytes) { return tc_plan_round(bytes, TC_BUDGET_ALIGN); }

static uint64_t raw_bytes(const tc_value *value) {
    tc_dim bytes = tc_value_bytes(value->graph->model->dims, value);
    return tc_dim_is_const(bytes) && bytes.value > 0 ? (uint64_t)bytes.value : 0;
}

static uint32_t add_value(maker *m, uint64_t bytes, uint32_t result) {
    tc_budget *b = m->b;
    uint32_t at = b->problem.n_values++;
    m->values = tc_arena_grow(m->arena, m->values, sizeof *m->values, &m->cap_values, (size_t)at + 1);
    b->result_of = tc_arena_grow(m->arena, b->result_of, sizeof *b->result_of, &m->cap_result_of, (size_t)at + 1);
    m->values[at] = (tc_remat_value){.bytes = bytes};
    b->result_of[at] = result;
    return at;
}

/* Result i of the unit from some instance that has it; NULL: no instance has it, or it has no reader. */
static const tc_value *used_result(const tc_units *u, const tc_unit *unit, uint32_t i) {
    for (uint32_t at = unit->first; at != TC_REMAT_NONE; at = u->next_instance[at]) {
        const tc_value *value = tc_output(u->nodes[at], i);
        if (value && (i == 0 || tc_value_is_used(value)))
            return value;
    }
    return NULL;
}

static void add_results(maker *m, uint32_t index) {
    const tc_units *u = &m->b->units;
    const tc_unit *unit = &u->units[index];
    for (uint32_t i = 0; i < unit->n_results; i++) {
        const tc_value *value = used_result(u, unit, i);
        if (!value || unit->variant_of != TC_REMAT_NONE)
            continue;
        bool is_there = (i == 0 && unit->is_known) || tc_is_renewal(value);
        uint64_t bytes = is_there ? 0 : aligned(raw_bytes(value));
        m->b->value_of[unit->results + i] = add_value(m, bytes, unit->results + i);
        if (m->again[index])
            m->b->late_value_of[unit->results + i] = add_value(m, bytes, unit->results + i);
    }
}

/* The real result whose bytes a result shows; TC_REMAT_NONE: it takes no bytes of its own. */
static uint32_t shown_by(const tc_units *u, uint32_t result) {
    if (result == TC_REMAT_NONE || result == TC_BUDGET_GIVEN)
        return TC_REMAT_NONE;
    const tc_unit *unit = &u->units[u->maker_of[result]];
    return unit->is_free ? unit->shows : result;
}

/* The problem's value for operand `index` of the unit, for a reader. */
static uint32_t operand_value(const maker *m, const tc_unit *unit, uint32_t index, bool late) {
    const tc_budget *b = m->b;
    uint32_t shown = shown_by(&b->units, unit->operands[index]);
    if (shown == TC_REMAT_NONE)
        return TC_REMAT_NONE;
    return late && b->late_value_of[shown] != TC_REMAT_NONE ? b->late_value_of[shown] : b->value_of[shown];
}

static uint32_t token_of(maker *m, uint32_t unit) {
    if (m->token_of[unit] == TC_REMAT_NONE)
        m->token_of[unit] = add_value(m, 0, TC_REMAT_NONE);
    return m->token_of[unit];
}

/* --- nodes ------------------------------------------------------------------------------------- */

typedef struct list {
    tc_arena *arena;
    uint32_t *items, n;
    size_t cap;
} list;

static void add_once(list *l, uint32_t item) {
    for (uint32_t i = 0; i < l->n; i++)
        if (l->items[i] == item)
            return;
    l->items = tc_arena_grow(l->arena, l->items, sizeof *l->items, &l->cap, (size_t)l->n + 1);
    l->items[l->n++] = item;
}

static list list_inputs(maker *m, const tc_unit *unit, bool late, bool again) {
    const tc_units *u = &m->b->units;
    list inputs = {.arena = m->arena};
    for (uint32_t i = 0; i < unit->n_operands; i++) {
        uint32_t result = unit->operands[i], value = operand_value(m, unit, i, late);
        if (value != TC_REMAT_NONE)
            add_once(&inputs, value);
        if (result == TC_REMAT_NONE || result == TC_BUDGET_GIVEN)
            continue;
        const tc_unit *of = &u->units[u->maker_of[result]];
        for (uint32_t k = 0; of->is_free && k < of->n_after; k++)
            add_once(&inputs, token_of(m, of->after[k]));
    }
    if (again)
        add_once(&inputs, token_of(m, u->unit_of[u->turn]));
    return inputs;
}

typedef struct overs {
    tc_arena *arena;
    tc_remat_over *items;
    uint32_t n;
    size_t cap;
} overs;

static void add_over(overs *o, uint32_t operand, uint32_t result, uint64_t bytes) {
    if (operand == TC_REMAT_NONE || result == TC_REMAT_NONE || bytes == 0)
        return;
    o->items = tc_arena_grow(o->arena, o->items, sizeof *o->items, &o->cap, (size_t)o->n + 1);
    o->items[o->n++] = (tc_remat_over){operand, result, bytes};
}

static bool marked_alone(const maker *m, const tc_unit *unit, uint64_t marked, uint32_t value, bool late) {
    for (uint32_t i = 0; i < unit->n_operands; i++)
        if ((i >= 64 || (marked >> i & 1) == 0) && operand_value(m, unit, i, late) == value)
            return false;
    return true;
}

static uint32_t result_value(const maker *m, const tc_unit *unit, uint32_t i, bool again) {
    if (i >= unit->n_results)
        return TC_REMAT_NONE;
    return (again ? m->b->late_value_of : m->b->value_of)[unit->results + i];
}

/* Results that may overwrite operands. Both have one size. */
static void add_in_place(const maker *m, const tc_unit *unit, const tc_node_memory *memory, bool late, bool again,
                         overs *o) {
    for (uint32_t r = 0; r < TC_NODE_OVERS; r++) {
        uint32_t result = result_value(m, unit, r, again);
        for (uint32_t i = 0; result != TC_REMAT_NONE && i < unit->n_operands && i < 64; i++) {
            uint32_t operand = memory->over[r] >> i & 1 ? operand_value(m, unit, i, late) : TC_REMAT_NONE;
            if (operand != TC_REMAT_NONE && m->values[operand].bytes == m->values[result].bytes &&
                marked_alone(m, unit, memory->over[r], operand, late))
                add_over(o, operand, result, m->values[result].bytes);
        }
    }
}

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Parts that may be views of their whole. If the runtime places them so, the whole lives as long as any part; this
 * is the best case. */
static void add_parts(const maker *m, const tc_unit *unit, const tc_node_memory *memory, bool late, bool again,
                      overs *o) {
    bool results = memory->parts == TC_PART_RESULTS;
    uint32_t n = results ? unit->n_results : unit->n_operands;
    uint32_t whole = results ? operand_value(m, unit, 0, late) : result_value(m, unit, 0, again);
    for (uint32_t i = 0; memory->parts != TC_NO_PARTS && whole != TC_REMAT_NONE && i < n; i++) {
        uint32_t part = results ? result_value(m, unit, i, again) : operand_value(m, unit, i, late);
        if (part == TC_REMAT_NONE || (!results && memory->part_at[i] % TC_BUDGET_ALIGN != 0))
            continue;
        uint64_t bytes = at_most(m->values[part].bytes, m->values[whole].bytes);
        add_over(o, results ? whole : part, results ? part : whole, bytes);
    }
}

static uint64_t cost_of(const maker *m, const tc_node *node) {
    if (m->costs)
        return tc_node_cost(m->costs, node);
    uint64_t bytes = 1;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        bytes += tc_input(node, i) ? raw_bytes(tc_input(node, i)) : 0;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        bytes += node->outputs[i] ? raw_bytes(node->outputs[i]) : 0;
    return bytes;
}

/* A run makes the results of any instance: earlier copies may lack some. */
static uint64_t cost_of_run(const maker *m, const tc_unit *unit) {
    const tc_units *u = &m->b->units;
    tc_node whole = *u->nodes[unit->first];
    whole.n_outputs = unit->n_results;
    whole.outputs = TC_NEW_ARRAY(m->arena, tc_value *, (size_t)unit->n_results + 1);
    for (uint32_t at = unit->first; at != TC_REMAT_NONE; at = u->next_instance[at])
        for (uint32_t i = 0; i < unit->n_results; i++)
            if (!whole.outputs[i])
                whole.outputs[i] = tc_output(u->nodes[at], i);
    return cost_of(m, &whole);
}

/* The run of a unit, or, `again`, its run in the backward pass. */
static uint32_t add_problem_node(maker *m, uint32_t index, bool again) {
    tc_budget *b = m->b;
    const tc_units *u = &b->units;
    const tc_unit *unit = &u->units[index];
    const tc_node_memory *memory = u->memory[unit->first];
    bool late = again || m->all_late[index];
    list inputs = list_inputs(m, unit, late, again), outputs = {.arena = m->arena};
    overs o = {.arena = m->arena};
    for (uint32_t i = 0; i < unit->n_results; i++)
        if (result_value(m, unit, i, again) != TC_REMAT_NONE)
            add_once(&outputs, result_value(m, unit, i, again));
    add_in_place(m, unit, memory, late, again, &o);
    add_parts(m, unit, memory, late, again, &o);
    uint32_t at = b->problem.n_nodes++;
    m->nodes = tc_arena_grow(m->arena, m->nodes, sizeof *m->nodes, &m->cap_nodes, (size_t)at + 1);
    b->nodes = tc_arena_grow(m->arena, b->nodes, sizeof *b->nodes, &m->cap_refs, (size_t)at + 1);
    b->nodes[at] = (tc_budget_node){index, late};
    m->nodes[at] = (tc_remat_node){.inputs = inputs.items,
                                   .n_inputs = inputs.n,
                                   .outputs = outputs.items,
                                   .n_outputs = outputs.n,
                                   .overs = o.items,
                                   .n_overs = o.n};
    m->nodes[at].cost = cost_of_run(m, unit);
    for (uint32_t k = unit->first; k != TC_REMAT_NONE; k = u->next_instance[k])
        if (aligned(u->memory[k]->workspace) > m->nodes[at].workspace)
            m->nodes[at].workspace = aligned(u->memory[k]->workspace);
    m->nodes[at].pinned =
        unit->is_fixed || (u->turn != TC_REMAT_NONE && index == u->unit_of[u->turn]) || (m->saved[index] && !again);
    return at;
}

/* After all constraints on earlier runs are known. */
static void add_tokens(maker *m) {
    for (uint32_t index = 0; index < m->b->units.n_units; index++) {
        uint32_t at = m->b->node_of[index];
        if (m->token_of[index] == TC_REMAT_NONE || at == TC_REMAT_NONE)
            continue;
        tc_remat_node *node = &m->nodes[at];
        uint32_t *outputs = TC_NEW_ARRAY(m->arena, uint32_t, (size_t)node->n_outputs + 1);
        if (node->n_outputs)
            memcpy(outputs, node->outputs, node->n_outputs * sizeof *outputs);
        outputs[node->n_outputs++] = m->token_of[index];
        node->outputs = outputs;
    }
}

/* Variants come last; a node of --save runs as it is. */
static void add_all_nodes(maker *m) {
    tc_budget *b = m->b;
    for (uint32_t i = 0; i < b->units.n_units; i++) {
        if (b->units.units[i].is_free || b->units.units[i].variant_of != TC_REMAT_NONE)
            continue;
        b->node_of[i] = add_problem_node(m, i, false);
        if (m->again[i])
            b->late_node_of[i] = add_problem_node(m, i, true);
    }
    b->n_plain = b->problem.n_nodes;
    for (uint32_t i = 0; i < b->units.n_units; i++)
        if (b->units.units[i].variant_of != TC_REMAT_NONE && !m->saved[b->units.units[i].variant_of])
            b->node_of[i] = add_problem_node(m, i, false);
    add_tokens(m);
    for (uint32_t i = 0; i < b->units.graph->n_outputs; i++) {
        uint32_t shown = shown_by(&b->units, tc_result_of(&b->units, b->units.graph->outputs[i]));
        if (shown != TC_REMAT_NONE)
            m->values[b->value_of[shown]].is_output = true;
    }
}

/* --- the given schedule ------------------------------------------------------------------------ */

static void add_step(maker *m, uint32_t node) {
    uint32_t n = m->b->problem.n_steps++;
    m->steps = tc_arena_grow(m->arena, m->steps, sizeof *m->steps, &m->cap_steps, (size_t)n + 1);
    m->steps[n] = node;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The backward pass's runs that `node` reads, and those that they read, in the order of their units. */
static void add_late_steps(maker *m, uint32_t node, bool *done) {
    tc_budget *b = m->b;
    list todo = {.arena = m->arena}, found = {.arena = m->arena};
    add_once(&todo, node);
    for (uint32_t i = 0; i < todo.n; i++) {
        const tc_remat_node *reader = &m->nodes[todo.items[i]];
        for (uint32_t k = 0; k < reader->n_inputs; k++) {
            uint32_t result = b->result_of[reader->inputs[k]];
            uint32_t late = result == TC_REMAT_NONE || b->late_value_of[result] != reader->inputs[k]
                                ? TC_REMAT_NONE
                                : b->late_node_of[b->units.maker_of[result]];
            if (late == TC_REMAT_NONE || done[late])
                continue;
            done[late] = true;
            add_once(&todo, late);
            add_once(&found, late);
        }
    }
    if (found.n > 1)
        qsort(found.items, found.n, sizeof *found.items, ascending);
    for (uint32_t i = 0; i < found.n; i++)
        add_step(m, found.items[i]);
}

static void add_steps(maker *m) {
    tc_budget *b = m->b;
    const tc_units *u = &b->units;
    bool *done = TC_NEW_ARRAY(m->arena, bool, (size_t)b->problem.n_nodes + 1);
    for (uint32_t at = 0; at < u->n_nodes; at++) {
        uint32_t unit = u->unit_of[at];
        if (u->units[unit].is_free || u->units[unit].variant_of != TC_REMAT_NONE)
            continue;
        bool again = m->again[unit] && m->is_late[at] && at != u->units[unit].first;
        uint32_t node = again ? b->late_node_of[unit] : b->node_of[unit];
        if (m->nodes[node].pinned && done[node])
            continue;
        if (b->nodes[node].late)
            add_late_steps(m, node, done);
        done[node] = true;
        add_step(m, node);
    }
}

/* --- names on the command line ----------------------------------------------------------------- */

static bool matches_unit(const tc_units *u, const tc_unit *unit, const tc_names *names) {
    for (uint32_t at = unit->first; at != TC_REMAT_NONE; at = u->next_instance[at])
        if (tc_names_match_node(names, u->nodes[at]))
            return true;
    return false;
}

/* For views, the unit whose bytes they show. */
static tc_status mark_named(const maker *m, const char *option, const char *const *expressions, size_t n,
                            bool *marked) {
    const tc_units *u = &m->b->units;
    for (size_t k = 0; k < n; k++) {
        tc_names names;
        bool found = false;
        TC_TRY(tc_names_open(m->env->ctx, option, expressions[k], &names));
        for (uint32_t i = 0; i < u->n_units; i++) {
            const tc_unit *unit = &u->units[i];
            if (!matches_unit(u, unit, &names))
                continue;
            found = true;
            if (!unit->is_free)
                marked[i] = true;
            else if (unit->shows != TC_REMAT_NONE)
                marked[u->maker_of[unit->shows]] = true;
        }
        tc_names_close(&names);
        if (!found)
            return tc_names_unknown(m->env->ctx, u->graph, option, expressions[k]);
    }
    return TC_OK;
}

/* Recomputed in the backward pass: results of the forward pass that the backward pass reads. */
static void keep_readable(maker *m) {
    const tc_units *u = &m->b->units;
    bool *read_late = TC_NEW_ARRAY(m->arena, bool, (size_t)u->n_units + 1);
    uint32_t size;
    const bool *forward =
        u->turn == TC_REMAT_NONE ? NULL : tc_forward_nodes(m->arena, u->graph, u->nodes[u->turn]->outputs[0], &size);
    for (uint32_t i = 0; i < u->n_units; i++)
        m->all_late[i] = forward != NULL;
    for (uint32_t at = 0; at < u->n_nodes; at++) {
        m->is_late[at] = forward && at > u->turn && !forward[u->nodes[at]->id];
        m->all_late[u->unit_of[at]] &= m->is_late[at];
    }
    for (uint32_t i = u->n_units; i-- > 0;) {
        const tc_unit *unit = &u->units[i];
        m->again[i] = m->again[i] && read_late[i] && unit->variant_of == TC_REMAT_NONE && !unit->is_fixed &&
                      !m->saved[i] && !m->all_late[i] && i != u->unit_of[u->turn];
        for (uint32_t k = 0; !unit->is_free && (m->all_late[i] || m->again[i]) && k < unit->n_operands; k++) {
            uint32_t shown = shown_by(u, unit->operands[k]);
            if (shown != TC_REMAT_NONE)
                read_late[u->maker_of[shown]] = true;
        }
    }
}

tc_status tc_budget_make(tc_pass_env *env, tc_arena *arena, const tc_graph *graph, const tc_node_memories *memories,
                         tc_unit_variants variants, const tc_costs *costs, tc_budget *out_budget) {
    *out_budget = (tc_budget){0};
    TC_TRY(tc_units_make(env, arena, graph, memories, variants, &out_budget->units));
    const tc_units *u = &out_budget->units;
    const tc_options *options = env->options;
    maker m = {.env = env, .arena = arena, .b = out_budget, .costs = costs};
    m.saved = TC_NEW_ARRAY(arena, bool, (size_t)u->n_units + 1);
    m.again = TC_NEW_ARRAY(arena, bool, (size_t)u->n_units + 1);
    m.all_late = TC_NEW_ARRAY(arena, bool, (size_t)u->n_units + 1);
    m.is_late = TC_NEW_ARRAY(arena, bool, (size_t)u->n_nodes + 1);
    m.token_of = fill_none(arena, u->n_units);
    out_budget->node_of = fill_none(arena, u->n_units);
    out_budget->late_node_of = fill_none(arena, u->n_units);
    out_budget->value_of = fill_none(arena, u->n_results);
    out_budget->late_value_of = fill_none(arena, u->n_results);
    TC_TRY(mark_named(&m, "save", options->save, options->n_save, m.saved));
    TC_TRY(mark_named(&m, "recompute", options->recompute, options->n_recompute, m.again));
    keep_readable(&m);
    for (uint32_t i = 0; i < u->n_units; i++)
        if (!u->units[i].is_free)
            add_results(&m, i);
    add_all_nodes(&m);
    add_steps(&m);
    out_budget->problem.nodes = m.nodes;
    out_budget->problem.values = m.values;
    out_budget->problem.steps = m.steps;
    return TC_OK;
}
