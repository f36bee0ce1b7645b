/* budget_emit.c: from a schedule back to a graph. Instances of a unit run in their order, further runs are copies
 * (NAME__rcK, their results VALUE__rcK). A reader reads the newest run before it. Free nodes come before their first
 * reader, and once more after a recomputation of the result that they show. Outputs of the graph keep their names. */
#include "compiler/ir/ops.h"
#include "budget.h"
#include <string.h>

typedef struct emitter {
    tc_arena *arena;
    const tc_budget *b;
    const tc_units *u;
    tc_graph *graph;
    tc_node **nodes;     /* [n_nodes] of this graph, by position */
    tc_node *end;        /* emitted nodes come before it */
    tc_value ***given;   /* [n_units] operands that no node makes, from the template */
    tc_value **now;      /* [n_results] by the newest run, */
    tc_value **late;     /* [n_results] and by the run in the backward pass, for units that have one */
    uint32_t *next;      /* [n_units] position of the next instance to be used */
    uint32_t *runs;      /* [n_units] so far */
    bool *used;          /* [n_nodes] */
    const char ***names; /* [n_units] for variants: those of their originals' results */
    tc_value ***read;    /* [n_units] for free ones: the operands of the newest run */
    uint32_t *asked;     /* [n_units] the query that last visited a free unit */
    uint32_t question;
    bool is_backward; /* the loss has been computed */
    uint32_t n_copies;
    tc_node **copies; /* [n_copies] */
    size_t cap_copies;
} emitter;

/* --- one run ----------------------------------------------------------------------------------- */

static tc_value *newest(const emitter *e, uint32_t result, bool late) {
    return late && e->late[result] ? e->late[result] : e->now[result];
}

static tc_value *operand(const emitter *e, uint32_t unit, uint32_t index, bool late) {
    uint32_t result = e->u->units[unit].operands[index];
    if (result == TC_REMAT_NONE)
        return NULL;
    tc_value *value = result == TC_BUDGET_GIVEN ? e->given[unit][index] : newest(e, result, late);
    TC_ASSERT(value != NULL);
    return value;
}

static void name_copy(const emitter *e, tc_node *copy, const tc_node *node, uint32_t run) {
    tc_arena *arena = e->graph->model->arena;
    copy->name = *node->name ? tc_arena_printf(arena, "%s__rc%u", node->name, run) : "";
    for (uint32_t i = 0; i < copy->n_outputs; i++) {
        tc_value *value = copy->outputs[i];
        if (!value)
            continue;
        const char *name = tc_arena_printf(arena, "%s__rc%u", node->outputs[i]->name, run);
        tc_value_rename(value, tc_graph_unique_name(e->graph, name));
        value->gradient_of = NULL;
        value->role = e->is_backward ? TC_ROLE_BACKWARD : TC_ROLE_NONE;
    }
}

static tc_node *copy_node(emitter *e, uint32_t unit) {
    const tc_node *node = e->nodes[e->u->units[unit].first];
    tc_node *copy = tc_node_clone(e->graph, node, tc_map_create(e->arena));
    name_copy(e, copy, node, e->runs[unit]);
    e->copies = tc_arena_grow(e->arena, e->copies, sizeof *e->copies, &e->cap_copies, (size_t)e->n_copies + 1);
    e->copies[e->n_copies++] = copy;
    return copy;
}

/* Instances have only the results that had readers; others may be needed now. */
static void add_results(const emitter *e, tc_node *node, uint32_t unit) {
    const tc_unit *x = &e->u->units[unit];
    for (uint32_t i = 0; i < x->n_results; i++) {
        bool is_value = !x->is_free && e->b->value_of[x->results + i] != TC_REMAT_NONE;
        if (!is_value || tc_output(node, i))
            continue;
        const tc_value *like = NULL;
        for (uint32_t at = x->first; !like; at = e->u->next_instance[at])
            like = tc_output(e->nodes[at], i);
        if (i >= node->n_outputs)
            tc_node_resize_outputs(node, i + 1);
        const char *name = tc_arena_printf(e->graph->model->arena, "%s__rc%u", like->name, e->runs[unit]);
        tc_node_add_output(node, i, name, like->type);
    }
}

static void run_unit(emitter *e, uint32_t unit, bool late, bool again) {
    const tc_unit *x = &e->u->units[unit];
    uint32_t at = e->next[unit];
    tc_node *node = at != TC_REMAT_NONE ? e->nodes[at] : copy_node(e, unit);
    if (at != TC_REMAT_NONE) {
        e->used[at] = true;
        e->next[unit] = e->u->next_instance[at];
    }
    add_results(e, node, unit);
    for (uint32_t i = 0; i < x->n_operands; i++)
        tc_node_set_input(node, i, operand(e, unit, i, late));
    tc_node_move_before(node, e->end);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i]) {
            (again ? e->late : e->now)[x->results + i] = node->outputs[i];
            if (e->u->has_variants && e->is_backward && node->outputs[i]->role == TC_ROLE_NONE)
                node->outputs[i]->role = TC_ROLE_BACKWARD; /* the variant ran in the forward pass */
        }
    e->runs[unit]++;
    e->is_backward |= e->u->turn != TC_REMAT_NONE && e->u->unit_of[e->u->turn] == unit;
}

/* --- free units -------------------------------------------------------------------------------- */

static bool is_stale(const emitter *e, uint32_t unit, bool late) {
    const tc_unit *x = &e->u->units[unit];
    bool stale = e->runs[unit] == 0;
    for (uint32_t i = 0; !stale && !x->is_known && i < x->n_operands; i++)
        stale = e->read[unit][i] != operand(e, unit, i, late);
    return stale;
}

static void run_free(emitter *e, uint32_t unit, bool late) {
    const tc_unit *x = &e->u->units[unit];
    if (!is_stale(e, unit, late))
        return;
    run_unit(e, unit, late, false);
    if (!e->read[unit])
        e->read[unit] = TC_NEW_ARRAY(e->arena, tc_value *, (size_t)x->n_operands + 1);
    for (uint32_t i = 0; i < x->n_operands; i++)
        e->read[unit][i] = operand(e, unit, i, late);
}

typedef struct stack {
    uint32_t *items, n;
    size_t cap;
} stack;

static void push(emitter *e, stack *s, uint32_t unit) {
    s->items = tc_arena_grow(e->arena, s->items, sizeof *s->items, &s->cap, (size_t)s->n + 1);
    s->items[s->n++] = unit;
}

/* Pushes the free operands of this unit that this query has not visited; false: there are none. */
static bool push_operands(emitter *e, stack *s, uint32_t unit) {
    const tc_unit *x = &e->u->units[unit];
    uint32_t n = s->n;
    if (x->is_free && x->is_known && e->runs[unit] > 0)
        return false;
    for (uint32_t i = 0; i < x->n_operands; i++) {
        uint32_t result = x->operands[i];
        uint32_t of = result < TC_BUDGET_GIVEN ? e->u->maker_of[result] : TC_REMAT_NONE;
        if (of != TC_REMAT_NONE && e->u->units[of].is_free && e->asked[of] != e->question)
            push(e, s, of);
    }
    return s->n > n;
}

/* Updates the free units that `unit`, on top of the stack, reads, and then itself if it is free. */
static void bring_up(emitter *e, stack *s, uint32_t unit, bool late) {
    e->question++;
    push(e, s, unit);
    while (s->n > 0) {
        uint32_t top = s->items[s->n - 1];
        bool is_done = e->asked[top] == e->question;
        if (!is_done && push_operands(e, s, top))
            continue;
        s->n--;
        if (is_done)
            continue;
        e->asked[top] = e->question;
        if (e->u->units[top].is_free)
            run_free(e, top, late);
    }
}

/* --- the graph's outputs ----------------------------------------------------------------------- */

/* The output keeps name and role, whatever run makes it. */
static void hand_over(const emitter *e, uint32_t index, tc_value *to) {
    tc_value *from = e->graph->outputs[index];
    if (to == from)
        return;
    const char *name = from->name;
    uint32_t n = 0;
    tc_value_rename(from, tc_graph_unique_name(e->graph, tc_arena_printf(e->graph->model->arena, "%s__rc%u", name, n)));
    tc_value_rename(to, name);
    to->role = from->role;
    to->gradient_of = from->gradient_of;
    to->origin = from->origin;
    from->role = e->is_backward ? TC_ROLE_BACKWARD : TC_ROLE_NONE;
    from->gradient_of = NULL;
    from->origin = NULL;
    for (uint32_t i = 0; i < e->graph->n_outputs; i++)
        if (e->graph->outputs[i] == from)
            tc_graph_set_output(e->graph, i, to);
}

static void set_outputs(emitter *e, stack *s) {
    const uint32_t n = e->graph->n_outputs;
    uint32_t *results = TC_NEW_ARRAY(e->arena, uint32_t, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        results[i] = tc_result_of(e->u, e->u->graph->outputs[i]);
    for (uint32_t i = 0; i < n; i++) {
        if (results[i] >= TC_BUDGET_GIVEN)
            continue;
        uint32_t unit = e->u->maker_of[results[i]];
        if (e->u->units[unit].is_free)
            bring_up(e, s, unit, false);
        hand_over(e, i, e->now[results[i]]);
    }
}

/* --- the whole graph --------------------------------------------------------------------------- */

static void erase_unused(const emitter *e) {
    for (uint32_t at = e->u->n_nodes; at-- > 0;)
        if (!e->used[at])
            tc_node_erase(e->nodes[at]);
    for (uint32_t i = 0; i < e->n_copies; i++) {
        tc_node *copy = e->copies[i];
        uint32_t n = copy->n_outputs;
        if (!copy->op || copy->op->max_outputs == TC_VARIADIC)
            continue; /* Split: the number of results determines them */
        while (n > 1 && n > copy->op->min_outputs && !(copy->outputs[n - 1] && tc_value_is_used(copy->outputs[n - 1])))
            n--;
        tc_node_resize_outputs(copy, n);
    }
}

/* Outputs of the graph have their names already. */
static void name_results(const emitter *e, const tc_node *node, const char *const *names, const char *format) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        tc_value *value = node->outputs[i];
        if (!value || !names[i] || value->n_graph_outputs)
            continue;
        const char *name = tc_arena_printf(e->graph->model->arena, format, names[i]);
        tc_value_rename(value, tc_graph_unique_name(e->graph, name));
    }
}

/* The first run has the original's names, even if it is a variant; later runs have those of a copy. */
static void name_variants(const emitter *e) {
    for (uint32_t i = 0; i < e->u->n_units; i++) {
        const tc_unit *x = &e->u->units[i];
        if (x->variant_of == TC_REMAT_NONE || !e->used[x->first])
            continue;
        uint32_t at = e->u->units[x->variant_of].first;
        tc_node *variant = e->nodes[x->first], *original = e->used[at] ? e->nodes[at] : NULL;
        bool is_first = !original || tc_node_before(variant, original);
        tc_node *second = is_first ? original : variant;
        if (second) {
            name_results(e, second, e->names[i], "%s__rc1");
            if (*second->name)
                second->name = tc_arena_printf(e->graph->model->arena, "%s__rc1", second->name);
        }
        if (is_first)
            name_results(e, variant, e->names[i], "%s");
    }
}

static const char **names_of(const emitter *e, const tc_node *node) {
    const char **names = TC_NEW_ARRAY(e->arena, const char *, (size_t)node->n_outputs + 1);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        names[i] = node->outputs[i] ? node->outputs[i]->name : NULL;
    return names;
}

static emitter begin(tc_arena *arena, tc_graph *graph, const tc_budget *budget) {
    const tc_units *u = &budget->units;
    emitter e = {.arena = arena, .b = budget, .u = u, .graph = graph};
    e.nodes = TC_NEW_ARRAY(arena, tc_node *, (size_t)u->n_nodes + 1);
    e.given = TC_NEW_ARRAY(arena, tc_value **, (size_t)u->n_units + 1);
    e.now = TC_NEW_ARRAY(arena, tc_value *, (size_t)u->n_results + 1);
    e.late = TC_NEW_ARRAY(arena, tc_value *, (size_t)u->n_results + 1);
    e.next = TC_NEW_ARRAY(arena, uint32_t, (size_t)u->n_units + 1);
    e.runs = TC_NEW_ARRAY(arena, uint32_t, (size_t)u->n_units + 1);
    e.used = TC_NEW_ARRAY(arena, bool, (size_t)u->n_nodes + 1);
    e.names = TC_NEW_ARRAY(arena, const char **, (size_t)u->n_units + 1);
    e.read = TC_NEW_ARRAY(arena, tc_value **, (size_t)u->n_units + 1);
    e.asked = TC_NEW_ARRAY(arena, uint32_t, (size_t)u->n_units + 1);
    uint32_t at = 0;
    TC_FOR_NODES(node, graph)
        e.nodes[at++] = node;
    TC_ASSERT(at == u->n_nodes);
    for (uint32_t i = 0; i < u->n_units; i++) {
        const tc_unit *x = &u->units[i];
        e.next[i] = x->first;
        e.names[i] = x->variant_of == TC_REMAT_NONE ? NULL : names_of(&e, e.nodes[u->units[x->variant_of].first]);
        e.given[i] = TC_NEW_ARRAY(arena, tc_value *, (size_t)x->n_operands + 1);
        for (uint32_t k = 0; k < x->n_operands; k++)
            e.given[i][k] = tc_input(e.nodes[x->first], k);
    }
    e.end = tc_node_create(graph, "", "Identity", 0, 0);
    tc_node_append(e.end);
    return e;
}

uint32_t tc_budget_emit(tc_graph *graph, const tc_budget *budget, const uint32_t *steps, uint32_t n_steps,
                        const tc_node **out_ran) {
    tc_arena *arena = tc_arena_create();
    emitter e = begin(arena, graph, budget);
    stack s = {0};
    for (uint32_t i = 0; i < n_steps; i++) {
        const tc_budget_node *node = &budget->nodes[steps[i]];
        bring_up(&e, &s, node->unit, node->late);
        run_unit(&e, node->unit, node->late, steps[i] == budget->late_node_of[node->unit]);
        if (out_ran)
            out_ran[i] = e.end->prev;
    }
    set_outputs(&e, &s);
    erase_unused(&e);
    if (e.u->has_variants) {
        tc_variants_forget(graph);
        name_variants(&e);
    }
    tc_node_erase(e.end);
    tc_place_updates_again(arena, graph); /* after nodes recomputed from the weights */
    uint32_t n = 0;
    for (uint32_t i = e.u->n_units; i-- > 0;) { /* variants come after their originals */
        if (e.u->units[i].variant_of != TC_REMAT_NONE)
            e.runs[e.u->units[i].variant_of] += e.runs[i];
        else if (!e.u->units[i].is_free && e.runs[i] > 1)
            n += e.runs[i] - 1;
    }
    tc_arena_destroy(arena);
    return n;
}
