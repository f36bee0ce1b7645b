/* unroll.c: nested graphs become nodes of the graph around them, once for each iteration. A body is copied with its
 * inputs replaced by the values that the iteration reads. The copies' types are inferred at once, because they may be
 * needed to know a loop's next condition. */
#include "inline.h"
#include "compiler/ir/clone.h"
#include "compiler/contents/contents.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"

enum {
    MAX_TURN_NODES = 20000, /* that one node may become, nested ones counted */
    MAX_NODES = 100000,     /* of a graph that is still unrolled further */
    MAX_COPIES = 200000,    /* of nodes, in all: those of a loop that turns out to be too long are removed again */
    MAX_ROUNDS = 64,        /* bodies in bodies, and conditions that depend on what was unrolled */
};

typedef struct unroller {
    tc_ctx *ctx;
    uint64_t copies;    /* nodes so far */
    bool only_branches; /* loops stay */
} unroller;

typedef struct turn {
    unroller *u;
    tc_node *node; /* the node that is unrolled */
    const tc_graph *body;
    uint64_t each, made;        /* nodes of one turn; so far */
    tc_node *before;            /* the node in front of the first copy, or NULL */
    tc_value **inputs;          /* [body->n_inputs], of the iteration */
    tc_value **outputs;         /* [body->n_outputs], of the last iteration */
    const char *label, *prefix; /* of the node; of the names of an iteration: these are free then */
    tc_map *reads;              /* value around the body -> the copies' operand for it; NULL: the same value */
} turn;

/* --- copies ----------------------------------------------------------------------------------- */

static tc_arena *arena_of(const tc_node *node) { return node->graph->model->arena; }

static uint64_t count_nodes(const tc_graph *graph) {
    uint64_t n = graph->n_nodes;
    TC_FOR_NODES(node, graph) {
        TC_FOR_NESTED(nested, node)
            n += count_nodes(nested);
    }
    return n;
}

static turn begin(unroller *u, tc_node *node, const tc_graph *body) {
    tc_arena *arena = arena_of(node);
    return (turn){.u = u,
                  .node = node,
                  .body = body,
                  .each = count_nodes(body) + body->n_inputs + body->n_outputs + 1,
                  .before = node->prev,
                  .label = tc_node_label(node),
                  .prefix = tc_node_label(node),
                  .inputs = TC_NEW_ARRAY(arena, tc_value *, body->n_inputs + 1),
                  .outputs = TC_NEW_ARRAY(arena, tc_value *, body->n_outputs + 1)};
}

/* Whether there is room for so many further iterations. */
static bool fits(const turn *t, uint64_t turns) {
    return turns <= MAX_TURN_NODES && t->made + turns * t->each <= MAX_TURN_NODES &&
           t->u->copies + turns * t->each <= MAX_COPIES && t->node->graph->n_nodes <= MAX_NODES;
}

static void number_turn(turn *t, int64_t k) {
    t->prefix = tc_arena_printf(arena_of(t->node), "%s/%lld", t->label, (long long)k);
}

/* The types inferred for the body hold for any iteration. More is known of this one, and its sizes may differ from
 * another's. */
static void forget_types(tc_node *copy) {
    for (uint32_t i = 0; i < copy->n_outputs; i++)
        if (copy->outputs[i])
            copy->outputs[i]->type = NULL, copy->outputs[i]->contents = NULL;
    TC_FOR_NESTED(nested, copy)
        tc_forget_shapes(nested);
}

/* The nodes of one iteration, before the node; t->outputs are the body's outputs in it. */
static tc_status copy_body(turn *t) {
    tc_graph *graph = t->node->graph;
    const tc_node *last = t->node->prev;
    t->made += t->each;
    t->u->copies += t->each;
    tc_cloner cloner = {.values = t->reads ? t->reads : tc_map_create(arena_of(t->node)), .prefix = t->prefix};
    for (uint32_t i = 0; i < t->body->n_inputs; i++)
        tc_map_set_ptr(cloner.values, t->body->inputs[i], t->inputs[i]);
    for (uint32_t i = 0; i < t->body->n_initializers; i++) {
        const tc_value *value = t->body->initializers[i];
        if (!value->is_input)
            tc_map_set_ptr(
                cloner.values, value,
                tc_constant(graph, tc_arena_printf(arena_of(t->node), "%s/%s", t->prefix, value->name), value->init));
    }
    for (const tc_node *inner = t->body->first; inner; inner = inner->next) {
        tc_node *copy = tc_cloner_node(&cloner, graph, inner);
        forget_types(copy);
        if (tc_node_is(copy, "", "Dropout") && !tc_node_is(t->node, "", "If"))
            tc_attr_remove(copy, "seed"); /* it was that of the first iteration's mask */
        tc_node_insert_before(copy, t->node);
        if (copy->op)
            TC_TRY(tc_infer_node(t->u->ctx, copy));
    }
    tc_new_ordinals(graph, last ? last->next : graph->first, t->node);
    for (uint32_t i = 0; i < t->body->n_outputs; i++)
        t->outputs[i] = tc_cloner_value(&cloner, t->body->outputs[i]);
    return TC_OK;
}

/* Removes all copies again. */
static void give_up(turn *t) {
    while (t->node->prev != t->before)
        tc_node_erase(t->node->prev);
}

static tc_status emit(turn *t, const char *op, const char *what, tc_value *const *operands, uint32_t n, int64_t axis,
                      tc_value **out_value) {
    tc_node *node = tc_node_create(t->node->graph, "", op, n, 1);
    node->name = t->prefix;
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, operands[i]);
    if (axis != INT64_MAX)
        tc_attr_set_int(node, "axis", axis);
    *out_value = tc_node_add_output(node, 0, tc_arena_printf(arena_of(t->node), "%s/%s", t->prefix, what), NULL);
    tc_node_insert_before(node, t->node);
    return tc_infer_node(t->u->ctx, node);
}

static tc_value *number(turn *t, const char *what, int64_t value) {
    return tc_constant(t->node->graph, tc_arena_printf(arena_of(t->node), "%s/%s", t->prefix, what),
                       tc_tensor_scalar_int(t->node->graph->model, value));
}

/* One result of each iteration, joined along a new axis. */
static tc_status stack(turn *t, tc_value *const *parts, uint32_t n, int64_t axis, bool reversed, tc_value **out_value) {
    tc_value **rows = TC_NEW_ARRAY(arena_of(t->node), tc_value *, n);
    tc_value *axes = tc_constant(t->node->graph, tc_arena_printf(arena_of(t->node), "%s/axes", t->prefix),
                                 tc_tensor_ints(t->node->graph->model, &axis, 1));
    for (uint32_t i = 0; i < n; i++) {
        number_turn(t, i);
        TC_TRY(
            emit(t, "Unsqueeze", "row", (tc_value *[]){parts[reversed ? n - 1 - i : i], axes}, 2, INT64_MAX, &rows[i]));
    }
    t->prefix = t->label;
    return emit(t, "Concat", "rows", rows, n, axis, out_value);
}

/* These values replace the node's results, and the node is removed. */
static void finish(turn *t, tc_value *const *results) {
    for (uint32_t j = 0; j < t->node->n_outputs; j++)
        if (t->node->outputs[j])
            tc_alias_output(t->node, j, results[j]);
    tc_node_erase(t->node);
}

/* --- known operands --------------------------------------------------------------------------- */

static const tc_graph *body_of(const tc_node *node, const char *name) {
    const tc_attr *attr = tc_attr_find(node, name);
    return attr && attr->kind == TC_ATTR_GRAPH && !attr->ref ? attr->g : NULL;
}

/* Whether every input of the body from operand `first` on is given. */
static bool all_given(const tc_node *node, uint32_t first) {
    for (uint32_t i = first; i < node->n_inputs; i++)
        if (!tc_input(node, i))
            return false;
    return true;
}

static int64_t listed(const tc_node *node, const char *name, uint32_t index) {
    size_t count;
    const int64_t *values = tc_attr_ints(node, name, &count);
    return index < count ? values[index] : 0;
}

/* --- If, Scan, Loop --------------------------------------------------------------------------- */

static tc_status unroll_if(unroller *u, tc_node *node, bool *out_done) {
    int64_t condition;
    if (!tc_value_number(node->graph->model, tc_input(node, 0), &condition))
        return TC_OK;
    const tc_graph *body = body_of(node, condition ? "then_branch" : "else_branch");
    if (!body || body->n_inputs > 0 || body->n_outputs != node->n_outputs)
        return TC_OK;
    turn t = begin(u, node, body);
    TC_TRY(copy_body(&t));
    finish(&t, t.outputs);
    *out_done = true;
    return TC_OK;
}

/* The number of slices, or -1. */
static int64_t scan_length(const tc_node *node, uint32_t states) {
    int64_t length = -1;
    for (uint32_t i = states; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        int rank = value ? tc_value_rank(value) : TC_RANK_UNKNOWN;
        int64_t axis = listed(node, "scan_input_axes", i - states);
        axis = axis < 0 ? axis + rank : axis;
        if (rank < 1 || axis < 0 || axis >= rank || !tc_dim_is_const(value->type->dims[axis]))
            return -1;
        length = value->type->dims[axis].value;
    }
    return length;
}

static tc_status scan_turns(turn *t, uint32_t states, int64_t length, tc_value **parts) {
    uint32_t scanned = t->node->n_outputs - states;
    for (int64_t k = 0; k < length; k++) {
        number_turn(t, k);
        for (uint32_t i = states; i < t->node->n_inputs; i++) {
            bool reversed = listed(t->node, "scan_input_directions", i - states) != 0;
            tc_value *at = number(t, "at", reversed ? length - 1 - k : k);
            TC_TRY(emit(t, "Gather", "slice", (tc_value *[]){tc_input(t->node, i), at}, 2,
                        listed(t->node, "scan_input_axes", i - states), &t->inputs[i]));
        }
        TC_TRY(copy_body(t));
        for (uint32_t i = 0; i < states; i++)
            t->inputs[i] = t->outputs[i];
        for (uint32_t i = 0; i < scanned; i++)
            parts[i * (uint32_t)length + (uint32_t)k] = t->outputs[states + i];
    }
    return TC_OK;
}

static tc_status unroll_scan(unroller *u, tc_node *node, bool *out_done) {
    const tc_graph *body = body_of(node, "body");
    int64_t given = tc_attr_int(node, "num_scan_inputs", 0);
    if (!body || given < 1 || given > node->n_inputs || body->n_inputs != node->n_inputs ||
        body->n_outputs != node->n_outputs || !all_given(node, 0))
        return TC_OK;
    turn t = begin(u, node, body);
    uint32_t states = node->n_inputs - (uint32_t)given;
    int64_t length = scan_length(node, states);
    if (length < 1 || !fits(&t, (uint64_t)length))
        return TC_OK;
    tc_value **parts = TC_NEW_ARRAY(arena_of(node), tc_value *, (size_t)length * (node->n_outputs - states) + 1);
    for (uint32_t i = 0; i < states; i++)
        t.inputs[i] = tc_input(node, i);
    TC_TRY(scan_turns(&t, states, length, parts));
    tc_value **results = TC_NEW_ARRAY(arena_of(node), tc_value *, node->n_outputs);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        results[i] = t.inputs[i < states ? i : 0];
        if (i >= states && node->outputs[i])
            TC_TRY(stack(&t, parts + (i - states) * (uint32_t)length, (uint32_t)length,
                         listed(node, "scan_output_axes", i - states),
                         listed(node, "scan_output_directions", i - states) != 0, &results[i]));
    }
    finish(&t, results);
    *out_done = true;
    return TC_OK;
}

/* A value for a body's input: the iteration number and the condition may be declared with or without a dim. */
static tc_value *loop_number(turn *t, uint32_t input, tc_dtype dtype, int64_t value) {
    tc_model *model = t->node->graph->model;
    static const int64_t one = 1;
    unsigned char flag = value != 0;
    const void *data = dtype == TC_BOOL ? (const void *)&flag : &value;
    int rank = tc_value_rank(t->body->inputs[input]) == 1;
    return tc_constant(t->node->graph, tc_arena_printf(model->arena, "%s/%s", t->prefix, input ? "condition" : "turn"),
                       tc_tensor_create(model, dtype, rank, &one, data));
}

/* Runs iterations until the condition fails. *out_turns is -1 where something is not known; no copies are left then. */
static tc_status loop_turns(turn *t, uint32_t carried, int64_t limit, int64_t *out_turns, tc_value ***out_rows) {
    tc_model *model = t->node->graph->model;
    int64_t condition = 1, turns = 0;
    *out_turns = -1;
    *out_rows = NULL;
    size_t cap = 0;
    if (tc_input(t->node, 1) && !tc_value_number(model, tc_input(t->node, 1), &condition))
        return TC_OK;
    for (uint32_t i = 0; i < carried; i++)
        t->inputs[i + 2] = tc_input(t->node, i + 2);
    for (; condition && turns < limit; turns++) {
        if (!fits(t, 1)) {
            give_up(t);
            return TC_OK;
        }
        number_turn(t, turns);
        t->inputs[0] = loop_number(t, 0, TC_INT64, turns);
        t->inputs[1] = loop_number(t, 1, TC_BOOL, 1);
        TC_TRY(copy_body(t));
        if (!tc_value_number(model, t->outputs[0], &condition)) {
            give_up(t);
            return TC_OK;
        }
        for (uint32_t i = 0; i < carried; i++)
            t->inputs[i + 2] = t->outputs[i + 1];
        *out_rows =
            tc_arena_grow(model->arena, *out_rows, sizeof **out_rows, &cap, (size_t)(turns + 1) * (t->body->n_outputs));
        for (uint32_t i = 0; i < t->body->n_outputs; i++)
            (*out_rows)[(uint32_t)turns * t->body->n_outputs + i] = t->outputs[i];
    }
    *out_turns = turns;
    return TC_OK;
}

static tc_status unroll_loop(unroller *u, tc_node *node, bool *out_done) {
    const tc_graph *body = body_of(node, "body");
    uint32_t carried = node->n_inputs > 2 ? node->n_inputs - 2 : 0;
    int64_t limit = INT64_MAX, turns;
    if (!body || body->n_inputs != carried + 2 || body->n_outputs != node->n_outputs + 1 || node->n_outputs < carried ||
        !all_given(node, 2) || (tc_input(node, 0) && !tc_value_number(node->graph->model, tc_input(node, 0), &limit)))
        return TC_OK;
    turn t = begin(u, node, body);
    tc_value **rows, **results = TC_NEW_ARRAY(arena_of(node), tc_value *, node->n_outputs + 1);
    if (limit < INT64_MAX && !fits(&t, (uint64_t)(limit > 0 ? limit : 0)) && !tc_input(node, 1))
        return TC_OK;
    TC_TRY(loop_turns(&t, carried, limit, &turns, &rows));
    if (turns < 0 || (turns == 0 && node->n_outputs > carried)) /* of an empty stack not even the shape is known */
        return TC_OK;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (i < carried) {
            results[i] = t.inputs[i + 2];
            continue;
        }
        tc_value **parts = TC_NEW_ARRAY(arena_of(node), tc_value *, (size_t)turns);
        for (int64_t k = 0; k < turns; k++)
            parts[k] = rows[(uint32_t)k * body->n_outputs + i + 1];
        if (node->outputs[i])
            TC_TRY(stack(&t, parts, (uint32_t)turns, 0, false, &results[i]));
    }
    finish(&t, results);
    *out_done = true;
    return TC_OK;
}

/* --- SequenceMap ------------------------------------------------------------------------------ */

/* The node that puts the sequence together, with all its items; NULL: none does. */
static const tc_node *list_of(const tc_value *value) {
    const tc_node *made = value ? value->producer : NULL;
    bool is_list = made && tc_node_is(made, "", "SequenceConstruct");
    for (uint32_t i = 0; is_list && i < made->n_inputs; i++)
        is_list = tc_input(made, i) != NULL;
    return is_list ? made : NULL;
}

/* One iteration for each item of a sequence that a node builds; tensors are the same in each, and results form
 * sequences again. */
static tc_status unroll_map(unroller *u, tc_node *node, bool *out_done) {
    const tc_graph *body = body_of(node, "body");
    const tc_node *first = list_of(tc_input(node, 0));
    if (!body || !first || body->n_inputs != node->n_inputs || body->n_outputs != node->n_outputs)
        return TC_OK;
    turn t = begin(u, node, body);
    uint32_t turns = first->n_inputs, n = node->n_outputs;
    bool known = fits(&t, turns);
    for (uint32_t i = 0; known && i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        const tc_node *list = list_of(value);
        known = list ? list->n_inputs == turns : value && value->type && value->type->kind == TC_TENSOR;
    }
    if (!known)
        return TC_OK;
    tc_value **items = TC_NEW_ARRAY(arena_of(node), tc_value *, (size_t)turns * n + 1),
             **results = TC_NEW_ARRAY(arena_of(node), tc_value *, n + 1);
    for (uint32_t k = 0; k < turns; k++) {
        number_turn(&t, k);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const tc_node *list = list_of(tc_input(node, i));
            t.inputs[i] = list ? tc_input(list, k) : tc_input(node, i);
        }
        TC_TRY(copy_body(&t));
        for (uint32_t i = 0; i < n; i++)
            items[i * turns + k] = t.outputs[i];
    }
    t.prefix = t.label;
    for (uint32_t i = 0; i < n; i++)
        TC_TRY(emit(&t, "SequenceConstruct", "list", items + (size_t)i * turns, turns, INT64_MAX, &results[i]));
    finish(&t, results);
    *out_done = true;
    return TC_OK;
}

/* --- both branches ---------------------------------------------------------------------------- */

static bool is_plain(const tc_graph *body) {
    TC_FOR_NODES(node, body)
        if (tc_has_nested(node) || tc_node_has(node, TC_SIDE_EFFECT) || tc_node_has(node, TC_RANDOM))
            return false;
    return true;
}

/* Whether each result has the same type in both branches. */
static bool same_results(const tc_node *node, const tc_graph *yes, const tc_graph *no) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_value *a = yes->outputs[i], *b = no->outputs[i];
        if (!a->type || a->type->kind != TC_TENSOR || tc_value_dtype(a) != tc_value_dtype(b) || !tc_same_shape(a, b))
            return false;
    }
    return true;
}

/* A branch that is not taken reads ones instead of its floats. Its results and gradients are not used, and its
 * condition may have guarded it from such values. A gradient that is not selected is left out, not multiplied. */
static tc_status read_ones(turn *t, bool taken_if) {
    tc_model *model = t->node->graph->model;
    t->reads = tc_map_create(arena_of(t->node));
    TC_FOR_NODES(node, t->body)
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            tc_value *x = tc_input(node, i), *read, *operands[3] = {tc_input(t->node, 0), x, x};
            bool number = x && x->init && x->init->count == 1 && x->learned != TC_LEARNED_YES;
            if (!x || x->graph == t->body || number || !tc_dtype_is_float(tc_value_dtype(x)) ||
                tc_map_get_ptr(t->reads, x))
                continue;
            operands[taken_if ? 2 : 1] =
                tc_constant(t->node->graph, "one", tc_tensor_scalar(model, tc_value_dtype(x), 1));
            TC_TRY(emit(t, "Where", "read", operands, TC_COUNT(operands), INT64_MAX, &read));
            tc_map_set_ptr(t->reads, x, read);
        }
    return TC_OK;
}

static tc_status select_results(unroller *u, tc_node *node, bool *out_done) {
    const tc_graph *yes = body_of(node, "then_branch"), *no = body_of(node, "else_branch");
    if (!yes || !no || yes->n_inputs + no->n_inputs > 0 || yes->n_outputs != node->n_outputs ||
        no->n_outputs != node->n_outputs || tc_value_rank(tc_input(node, 0)) != 0 || !is_plain(yes) || !is_plain(no) ||
        !same_results(node, yes, no))
        return TC_OK;
    turn branches[] = {begin(u, node, yes), begin(u, node, no)};
    for (int i = 0; i < 2; i++) {
        branches[i].prefix = tc_arena_printf(arena_of(node), "%s/%s", branches[i].label, i ? "else" : "then");
        TC_TRY(read_ones(&branches[i], i == 0));
        TC_TRY(copy_body(&branches[i]));
    }
    turn *t = &branches[0];
    t->prefix = t->label;
    tc_value **results = TC_NEW_ARRAY(arena_of(node), tc_value *, node->n_outputs + 1);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        tc_value *operands[] = {tc_input(node, 0), branches[0].outputs[i], branches[1].outputs[i]};
        TC_TRY(emit(t, "Where", "result", operands, TC_COUNT(operands), INT64_MAX, &results[i]));
    }
    finish(t, results);
    *out_done = true;
    return TC_OK;
}

tc_status tc_select_branches(tc_ctx *ctx, tc_graph *graph, bool *out_changed) {
    unroller u = {.ctx = ctx};
    *out_changed = false;
    TC_FOR_NODES_SAFE(node, graph) {
        bool done = false;
        if (tc_node_is(node, "", "If"))
            TC_TRY(select_results(&u, node, &done));
        *out_changed = *out_changed || done;
    }
    return *out_changed ? tc_infer_graph(ctx, graph) : TC_OK;
}

/* --- the walk --------------------------------------------------------------------------------- */

/* Visits nodes of the graph itself; nodes of bodies join it when their node is unrolled. */
static tc_status unroll_graph(unroller *u, tc_graph *graph, bool *out_changed) {
    static const struct {
        const char *op;
        tc_status (*unroll)(unroller *, tc_node *, bool *);
    } ops[] = {{"If", unroll_if}, {"Loop", unroll_loop}, {"Scan", unroll_scan}, {"SequenceMap", unroll_map}};
    *out_changed = false;
    TC_FOR_NODES_SAFE(node, graph) {
        bool done = false;
        size_t n_ops = u->only_branches ? 1 : TC_COUNT(ops);
        for (size_t i = 0; tc_node_has(node, TC_CONTROL) && i < n_ops; i++)
            if (tc_node_is(node, "", ops[i].op)) {
                TC_TRY(ops[i].unroll(u, node, &done));
                break;
            }
        *out_changed = *out_changed || done;
    }
    return TC_OK;
}

static tc_status unroll(unroller *u, tc_graph *graph, bool *out_changed) {
    bool unrolled = true;
    *out_changed = false;
    for (int round = 0; unrolled && round < MAX_ROUNDS; round++) {
        TC_TRY(tc_infer_graph(u->ctx, graph));
        TC_TRY(unroll_graph(u, graph, &unrolled));
        *out_changed = *out_changed || unrolled;
    }
    return unrolled ? tc_infer_graph(u->ctx, graph) : TC_OK;
}

tc_status tc_infer_branches(tc_ctx *ctx, tc_graph *graph, bool *out_changed) {
    unroller u = {.ctx = ctx, .only_branches = true};
    return unroll(&u, graph, out_changed);
}

tc_status tc_infer_unrolled(tc_ctx *ctx, tc_graph *graph, bool *out_changed) {
    unroller u = {.ctx = ctx};
    return unroll(&u, graph, out_changed);
}
