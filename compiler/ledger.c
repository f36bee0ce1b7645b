/* ledger.c: from a graph with a backward pass to the list of what it saves. One walk along the nodes finds every
 * value's root and notes, at the nodes outside of the forward pass, which roots they read; a second one writes the
 * list. */
#include "ledger.h"
#include "ops.h"
#include <string.h>

/* --- roots ------------------------------------------------------------------------------------ */

/* Only dims of size 1 change places, so that the elements stay in order. */
static bool moves_nothing(const tc_node *node) {
    const tc_type *type = tc_input(node, 0) ? tc_input(node, 0)->type : NULL;
    size_t n = 0;
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    if (!type || type->kind != TC_TENSOR || type->rank < 0 || (perm && n != (size_t)type->rank))
        return false;
    int64_t before = -1;
    for (int i = 0; i < type->rank; i++) {
        int64_t from = perm ? perm[i] : type->rank - 1 - i;
        if (from < 0 || from >= type->rank)
            return false;
        if (tc_dim_equal(type->dims[from], tc_dim_const(1)))
            continue;
        if (from < before)
            return false;
        before = from;
    }
    return true;
}

/* An Expand that repeats nothing: dims of 1 in front of the operand's, at most. */
static bool repeats_nothing(const tc_node *node) {
    const tc_value *from = tc_input(node, 0), *to = tc_output(node, 0);
    int rank = tc_value_rank(from), more = tc_value_rank(to) - rank;
    if (rank == TC_RANK_UNKNOWN || more < 0)
        return false;
    for (int i = 0; i < rank + more; i++)
        if (!tc_dim_equal(to->type->dims[i], i < more ? tc_dim_const(1) : from->type->dims[i - more]))
            return false;
    return true;
}

bool tc_is_view(const tc_node *node) {
    if (tc_node_has(node, TC_VIEW))
        return true;
    if (tc_node_is(node, "", "Transpose"))
        return moves_nothing(node);
    if (tc_node_is(node, "", "Cast") || tc_node_is(node, "", "CastLike"))
        return tc_input(node, 0) && tc_value_dtype(tc_input(node, 0)) != TC_UNDEFINED &&
               tc_value_dtype(tc_input(node, 0)) == tc_value_dtype(tc_output(node, 0));
    return tc_node_is(node, "", "Concat") ? node->n_inputs == 1
                                          : tc_node_is(node, "", "Expand") && repeats_nothing(node);
}

/* What the value is a view of, one step; NULL: it is none. */
static const tc_value *viewed(const tc_value *value) {
    const tc_node *node = value->producer;
    return node && value->out_index == 0 && tc_is_view(node) ? tc_input(node, 0) : NULL;
}

const tc_value *tc_view_root(const tc_value *value) {
    for (const tc_value *next = viewed(value); next; next = viewed(value))
        value = next;
    return value;
}

static const tc_value *transposed(const tc_value *value) {
    return value->producer && tc_node_is(value->producer, "", "Transpose") ? tc_input(value->producer, 0) : NULL;
}

bool tc_is_free(const tc_value *root) {
    bool copied = false;
    const tc_value *source = tc_view_root(root);
    for (const tc_value *next = transposed(source); next; next = transposed(source)) {
        copied = true;
        source = tc_view_root(next);
    }
    if (source->producer)
        return tc_node_is(source->producer, "", "Constant");
    return source->init || !copied; /* a transposed graph input is a copy that has to be kept */
}

/* --- the forward pass ------------------------------------------------------------------------- */

typedef struct marking {
    bool *marked; /* by node id */
    const tc_node **stack;
    size_t depth;
} marking;

static void mark(marking *m, const tc_value *value) {
    const tc_node *node = value ? value->producer : NULL;
    if (!node || m->marked[node->id])
        return;
    m->marked[node->id] = true;
    m->stack[m->depth++] = node;
}

static void mark_graph(marking *m, const tc_graph *graph);

/* What a node reads: its operands, and those of its nested graphs' nodes, which may be values of the graphs around. */
static void mark_operands(marking *m, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        mark(m, tc_input(node, i));
    for (uint32_t a = 0; a < node->n_attrs; a++) {
        const tc_attr *attr = &node->attrs[a];
        if (attr->kind == TC_ATTR_GRAPH && attr->g && !attr->ref)
            mark_graph(m, attr->g);
        for (size_t g = 0; attr->kind == TC_ATTR_GRAPHS && g < attr->count; g++)
            mark_graph(m, attr->graphs[g]);
    }
}

static void mark_graph(marking *m, const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        mark_operands(m, node);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        mark(m, graph->outputs[i]);
}

static void mark_all(marking *m) {
    while (m->depth)
        mark_operands(m, m->stack[--m->depth]);
}

static marking marking_make(tc_arena *arena, const tc_graph *graph) {
    uint32_t n = graph->model->next_id;
    return (marking){TC_NEW_ARRAY(arena, bool, n), TC_NEW_ARRAY(arena, const tc_node *, n), 0};
}

bool *tc_forward_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *loss, uint32_t *out_size) {
    marking m = marking_make(arena, graph);
    *out_size = graph->model->next_id;
    mark(&m, loss);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (!tc_is_gradient(graph->outputs[i]))
            mark(&m, graph->outputs[i]);
    mark_all(&m);
    return m.marked;
}

/* Nodes that a gradient depends on, by node id. */
static bool *gradient_nodes(tc_arena *arena, const tc_graph *graph) {
    marking m = marking_make(arena, graph);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (tc_is_gradient(graph->outputs[i]))
            mark(&m, graph->outputs[i]);
    mark_all(&m);
    return m.marked;
}

/* --- the loss --------------------------------------------------------------------------------- */

bool tc_is_gradient(const tc_value *output) { return output->name[0] && strstr(output->name + 1, "_grad"); }

const tc_value *tc_find_loss(const tc_graph *graph) {
    const tc_value *loss = NULL, *instead = NULL;
    bool has_gradient = false;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *value = graph->outputs[i];
        bool gradient = tc_is_gradient(value);
        int rank = tc_value_rank(value);
        bool scalar = rank == 0 || (rank == 1 && tc_dim_equal(value->type->dims[0], tc_dim_const(1)));
        bool may_be = !gradient && tc_dtype_is_float(tc_value_dtype(value)) && value->producer;
        has_gradient = has_gradient || gradient;
        if (may_be && scalar && !loss)
            loss = value;
        if (may_be && !instead)
            instead = value;
    }
    return !has_gradient ? NULL : loss ? loss : instead;
}

/* --- the ledger ------------------------------------------------------------------------------- */

tc_dim tc_value_bytes(tc_dim_pool *pool, const tc_value *value) {
    const tc_type *type = value->type;
    unsigned bits = type && type->kind == TC_TENSOR ? tc_dtype_bits(type->dtype) : 0;
    if (!bits || type->rank == TC_RANK_UNKNOWN)
        return tc_dim_unknown();
    tc_dim bytes = tc_dim_const(bits < 8 ? 1 : bits / 8);
    for (int i = 0; i < type->rank; i++)
        bytes = tc_dim_mul(pool, bytes, type->dims[i]);
    return bytes;
}

/* What the walk knows of a value, by its id. */
typedef struct fact {
    const tc_value *root; /* NULL: itself */
    const tc_node *user;  /* of roots: the first node outside of the forward pass that reads it */
    const tc_node *last;  /* the latest such node: each counts once */
    uint32_t n_users;
    bool of_parameter; /* a constant, or views and transposes of a parameter or constant */
} fact;

typedef struct walk {
    fact *facts;
    const bool *forward, *backward; /* by node id */
} walk;

static const tc_value *root_of(const walk *w, const tc_value *value) {
    const tc_value *root = w->facts[value->id].root;
    return root ? root : value;
}

/* Result 0 of a node: what it shows, and whether that is a parameter. tc_is_free and tc_view_root, without their walks.
 */
static void note_result(walk *w, const tc_node *node) {
    const tc_value *result = tc_output(node, 0), *of = result ? viewed(result) : NULL;
    const tc_value *from = of ? of : result ? transposed(result) : NULL;
    if (of)
        w->facts[result->id].root = root_of(w, of);
    if (result)
        w->facts[result->id].of_parameter =
            from ? from->init || w->facts[from->id].of_parameter : tc_node_is(node, "", "Constant");
}

static void note_readers(walk *w, const tc_graph *graph, const tc_node *outermost);

static void note_reads(walk *w, const tc_node *node, const tc_node *outermost) {
    bool counts = !w->forward[outermost->id] && w->backward[outermost->id];
    bool of = tc_output(node, 0) && viewed(node->outputs[0]);
    note_result(w, node);
    for (uint32_t i = 0; counts && i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        bool only_shape = i == 0 && (of || tc_node_has(node, TC_SHAPE_ONLY));
        fact *f = value && !only_shape ? &w->facts[root_of(w, value)->id] : NULL;
        if (!f || f->last == outermost)
            continue;
        f->user = f->user ? f->user : outermost;
        f->last = outermost;
        f->n_users++;
    }
    for (uint32_t a = 0; a < node->n_attrs; a++) {
        const tc_attr *attr = &node->attrs[a];
        if (attr->kind == TC_ATTR_GRAPH && attr->g && !attr->ref)
            note_readers(w, attr->g, outermost);
        for (size_t g = 0; attr->kind == TC_ATTR_GRAPHS && g < attr->count; g++)
            note_readers(w, attr->graphs[g], outermost);
    }
}

/* Nested graphs read for the node that holds them. */
static void note_readers(walk *w, const tc_graph *graph, const tc_node *outermost) {
    TC_FOR_NODES(node, graph)
        note_reads(w, node, outermost ? outermost : node);
}

static void add_saved(tc_arena *arena, tc_ledger *ledger, size_t *cap, const tc_saved *saved) {
    tc_dim_pool *pool = saved->value->graph->model->dims;
    tc_layer *layer = &ledger->layers[saved->layer];
    ledger->saved = tc_arena_grow(arena, ledger->saved, sizeof *ledger->saved, cap, ledger->n_saved + 1);
    ledger->saved[ledger->n_saved++] = *saved;
    layer->bytes = tc_dim_add(pool, layer->bytes, saved->bytes);
    ledger->bytes = tc_dim_add(pool, ledger->bytes, saved->bytes);
}

void tc_ledger_make(tc_arena *arena, const tc_graph *graph, const tc_value *loss, tc_ledger *out_ledger) {
    *out_ledger = (tc_ledger){.loss = loss ? loss : tc_find_loss(graph), .bytes = tc_dim_const(0)};
    if (!out_ledger->loss || !out_ledger->loss->producer)
        return;
    uint32_t size;
    const bool *forward = tc_forward_nodes(arena, graph, out_ledger->loss, &size);
    walk w = {TC_NEW_ARRAY(arena, fact, size), forward, gradient_nodes(arena, graph)};
    const uint32_t *layer_of = tc_layers_make(arena, graph, forward, out_ledger);
    note_readers(&w, graph, NULL);
    size_t cap = 0;
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; forward[node->id] && i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            const fact *f = value ? &w.facts[value->id] : NULL;
            if (!f || !f->user || f->of_parameter)
                continue;
            uint32_t layer = layer_of[node->id] == TC_NO_LAYER ? 0 : layer_of[node->id];
            add_saved(arena, out_ledger, &cap,
                      &(tc_saved){value, f->user, tc_value_bytes(graph->model->dims, value), layer, f->n_users});
        }
    }
}
