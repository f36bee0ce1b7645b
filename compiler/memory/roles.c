/* roles.c: from marks, metadata and the ops of a graph to the role of each output and the nodes of the forward pass. */
#include "roles.h"
#include "compiler/ir/ops.h"
#include <string.h>

/* --- dependencies ----------------------------------------------------------------------------- */

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

/* The values that a node reads: its operands, and those of its nested graphs' nodes, which may be values of the graphs
 * around. */
static void mark_operands(marking *m, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        mark(m, tc_input(node, i));
    TC_FOR_NESTED(nested, node)
        mark_graph(m, nested);
}

static void mark_graph(marking *m, const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        mark_operands(m, node);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        mark(m, graph->outputs[i]);
}

static bool *mark_all(marking *m) {
    while (m->depth)
        mark_operands(m, m->stack[--m->depth]);
    return m->marked;
}

static marking marking_make(tc_arena *arena, const tc_graph *graph) {
    uint32_t n = graph->model->next_id;
    return (marking){TC_NEW_ARRAY(arena, bool, n), TC_NEW_ARRAY(arena, const tc_node *, n), 0};
}

bool *tc_needed_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *value) {
    marking m = marking_make(arena, graph);
    mark(&m, value);
    return mark_all(&m);
}

static bool is_behind(tc_role role) { return role == TC_ROLE_BACKWARD || role == TC_ROLE_GRADIENT; }

bool *tc_forward_nodes(tc_arena *arena, const tc_graph *graph, const tc_value *loss, uint32_t *out_size) {
    marking m = marking_make(arena, graph);
    tc_roles roles;
    tc_roles_find(arena, graph, &roles);
    *out_size = graph->model->next_id;
    mark(&m, loss);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (!is_behind(roles.outputs[i]))
            mark(&m, graph->outputs[i]);
    return mark_all(&m);
}

bool *tc_gradient_nodes(tc_arena *arena, const tc_graph *graph) {
    marking m = marking_make(arena, graph);
    tc_roles roles;
    tc_roles_find(arena, graph, &roles);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (is_behind(roles.outputs[i]))
            mark(&m, graph->outputs[i]);
    return mark_all(&m);
}

/* --- dependencies on a gradient ---------------------------------------------------------------- */

static bool is_gradient_op(const tc_node *node) {
    static const char *const ends[] = {"Grad", "Grad_13"};
    size_t n = strlen(node->op_type);
    if (strcmp(node->domain, TC_TEMPO_DOMAIN) != 0 && strcmp(node->domain, "com.microsoft") != 0)
        return false;
    for (size_t i = 0; i < TC_COUNT(ends); i++)
        if (n > strlen(ends[i]) && strcmp(node->op_type + n - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

static bool graph_reads(const tc_graph *graph, const bool *late);

static bool node_reads(const tc_node *node, const bool *late) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (tc_input(node, i) && late[tc_input(node, i)->id])
            return true;
    TC_FOR_NESTED(nested, node)
        if (graph_reads(nested, late))
            return true;
    return false;
}

static bool graph_reads(const tc_graph *graph, const bool *late) {
    TC_FOR_NODES(node, graph)
        if (node_reads(node, late))
            return true;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (late[graph->outputs[i]->id])
            return true;
    return false;
}

typedef struct finding {
    tc_arena *arena;
    const tc_graph *graph;
    bool *late;  /* by value id: depends on a gradient */
    bool marked; /* some value is marked as one */
    tc_role *outputs;
    tc_value **parameters;
} finding;

tc_value *tc_marked_loss(const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i]->role == TC_ROLE_LOSS)
            return graph->outputs[i];
    return NULL;
}

static void note_mark(finding *f, const tc_value *value) {
    f->marked = f->marked || is_behind(value->role);
    f->late[value->id] = f->late[value->id] || is_behind(value->role);
}

/* A gradient can also be a value that the loss depends on (dL/dw of x w is x); that does not make the loss a
 * gradient. */
static void find_late(finding *f, const tc_value *loss) {
    const bool *early = tc_needed_nodes(f->arena, f->graph, loss);
    f->late = TC_NEW_ARRAY(f->arena, bool, f->graph->model->next_id);
    for (uint32_t i = 0; i < f->graph->n_outputs; i++)
        f->marked = f->marked || is_behind(f->graph->outputs[i]->role);
    for (uint32_t i = 0; i < f->graph->n_inputs; i++)
        note_mark(f, f->graph->inputs[i]);
    TC_FOR_NODES(node, f->graph) {
        bool late = !early[node->id] && (is_gradient_op(node) || node_reads(node, f->late));
        for (uint32_t i = 0; !early[node->id] && i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            if (value) {
                f->late[value->id] = late;
                note_mark(f, value);
            }
        }
    }
}

/* --- outputs ---------------------------------------------------------------------------------- */

bool tc_is_scalar_float(const tc_value *value) {
    int rank = tc_value_rank(value);
    return tc_dtype_is_float(tc_value_dtype(value)) &&
           (rank == 0 || (rank == 1 && tc_dim_equal(value->type->dims[0], tc_dim_const(1))));
}

static const tc_value *choose_loss(const finding *f) {
    const tc_value *instead = NULL;
    for (uint32_t i = 0; i < f->graph->n_outputs; i++) {
        const tc_value *value = f->graph->outputs[i];
        if (f->late[value->id] || !value->producer || !tc_dtype_is_float(tc_value_dtype(value)))
            continue;
        if (tc_is_scalar_float(value))
            return value;
        instead = instead ? instead : value;
    }
    return instead;
}

typedef struct typed {
    tc_value *first;
    uint32_t n;
} typed;

tc_map *tc_read_by_type(tc_arena *arena, const tc_graph *graph, const bool *nodes) {
    tc_map *by_type = tc_map_create(arena);
    for (uint32_t i = 0; i < graph->n_inputs + graph->n_initializers; i++) {
        bool is_input = i < graph->n_inputs, read = false;
        tc_value *value = is_input ? graph->inputs[i] : graph->initializers[i - graph->n_inputs];
        TC_FOR_USES(use, value)
            read = read || use->user->graph != graph || nodes[use->user->id];
        if (!read || !tc_dtype_is_float(tc_value_dtype(value)) || is_behind(value->role) ||
            (!is_input && value->is_input))
            continue;
        const char *type = tc_type_text(arena, value->type);
        typed *t = tc_map_get(by_type, type);
        if (!t) {
            t = TC_NEW(arena, typed);
            t->first = value;
            tc_map_set(by_type, type, t);
        }
        t->n++;
    }
    return by_type;
}

bool tc_typed_as(tc_arena *arena, const tc_map *by_type, const tc_value *value, tc_value **out_only) {
    const typed *t = value->type ? tc_map_get(by_type, tc_type_text(arena, value->type)) : NULL;
    *out_only = t && t->n == 1 ? t->first : NULL;
    return t != NULL;
}

/* A result of the backward pass is a gradient if it has the type of a value that the loss depends on. So is, in a graph
 * with gradient ops and no marks, such a result that its last layer made by standard ops alone. */
static void find_gradients(finding *f, const tc_value *loss) {
    const bool *early = tc_needed_nodes(f->arena, f->graph, loss);
    const tc_map *by_type = tc_read_by_type(f->arena, f->graph, early);
    for (uint32_t i = 0; i < f->graph->n_outputs; i++) {
        tc_value *value = f->graph->outputs[i];
        bool late = f->late[value->id] || is_behind(value->role);
        bool may_be = late || (!f->marked && value->producer && !early[value->producer->id]);
        f->outputs[i] = late ? TC_ROLE_BACKWARD : TC_ROLE_FORWARD;
        if (value->role == TC_ROLE_GRADIENT) {
            f->outputs[i] = TC_ROLE_GRADIENT;
            f->parameters[i] = value->gradient_of;
        } else if (value->role != TC_ROLE_BACKWARD && may_be &&
                   tc_typed_as(f->arena, by_type, value, &f->parameters[i])) {
            f->outputs[i] = TC_ROLE_GRADIENT;
        }
        if (value == loss)
            f->outputs[i] = TC_ROLE_LOSS;
    }
}

static bool has_late_output(const finding *f) {
    for (uint32_t i = 0; i < f->graph->n_outputs; i++)
        if (f->late[f->graph->outputs[i]->id] || is_behind(f->graph->outputs[i]->role))
            return true;
    return false;
}

void tc_roles_find(tc_arena *arena, const tc_graph *graph, tc_roles *out_roles) {
    finding f = {.arena = arena, .graph = graph};
    const tc_value *loss = tc_marked_loss(graph);
    f.outputs = TC_NEW_ARRAY(arena, tc_role, (size_t)graph->n_outputs + 1);
    f.parameters = TC_NEW_ARRAY(arena, tc_value *, (size_t)graph->n_outputs + 1);
    *out_roles = (tc_roles){.outputs = f.outputs, .parameters = f.parameters};
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        f.outputs[i] = TC_ROLE_FORWARD;
    find_late(&f, loss);
    if (!has_late_output(&f)) {
        out_roles->inferred = tc_roles_infer(arena, graph, &out_roles->loss, f.outputs, f.parameters);
        return;
    }
    out_roles->loss = loss ? loss : choose_loss(&f);
    find_gradients(&f, out_roles->loss);
}

void tc_roles_settle(tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    tc_roles roles;
    tc_roles_find(scratch, graph, &roles);
    for (uint32_t i = 0; roles.loss && i < graph->n_outputs; i++) {
        graph->outputs[i]->role = roles.outputs[i];
        graph->outputs[i]->gradient_of = roles.parameters[i];
    }
    tc_arena_destroy(scratch);
}

const tc_value *tc_find_loss(const tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    tc_roles roles;
    tc_roles_find(scratch, graph, &roles);
    tc_arena_destroy(scratch);
    return roles.loss;
}

bool tc_has_backward(const tc_graph *graph, bool marked_only) {
    tc_arena *scratch = tc_arena_create();
    tc_roles roles;
    tc_roles_find(scratch, graph, &roles);
    bool has = false;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        has = has || (is_behind(roles.outputs[i]) && !(roles.inferred && marked_only));
    tc_arena_destroy(scratch);
    TC_FOR_NODES(node, graph)
        has = has || is_gradient_op(node);
    return has;
}
