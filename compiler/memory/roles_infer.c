/* roles_infer.c: finds the loss and gradients of a graph without marks, to which another tool appended a backward pass
 * in standard ops.
 *
 * A backward pass starts from a seed, dL/dL: ones of the loss's type, or a graph input of that type. By the chain rule
 * every gradient is linear in it, which is rare for anything else: `1 - x` or `logits / temperature + bias` are not
 * linear in their constants and inputs. So an output is a gradient if it is linear in a seed (linear.def), the loss
 * does not depend on it, and it has the type of an input or initializer that the loss does depend on. Other outputs
 * that depend on the seed are of the backward pass, too. A backward pass whose seed was folded into other constants is
 * not found: passes that append one must mark it (roles.h). */
#include "compiler/contents/contents.h"
#include "compiler/ir/ops.h"
#include "roles.h"
#include "storage.h"
#include <string.h>

enum {
    LOSSES = 4,      /* outputs tried as the loss */
    SEEDS = 8,       /* values tried as its gradient */
    FEW_BYTES = 4096 /* of constants looked at */
};

/* --- linear in the seed ----------------------------------------------------------------------- */

typedef enum how { FIRST, EACH, PRODUCT, CHOICE, UPDATE } how;

static const struct row {
    const char *op;
    how way;
} rows[] = {
#define LINEAR(op, how) {#op, how},
#include "linear.def"
#undef LINEAR
};

typedef enum state { INDEPENDENT, LINEAR, TAINTED } state; /* of a value, with regard to the seed */

static bool is_all(const tc_value *value, double number) {
    const tc_tensor *tensor = tc_value_constant(value);
    if (!tensor || !tensor->data || tensor->bytes > FEW_BYTES || !tc_dtype_is_float(tensor->dtype))
        return false;
    for (uint64_t i = 0; i < tensor->count; i++)
        if (tc_tensor_get(tensor, i) != number)
            return false;
    return true;
}

static bool may_carry(how way, uint32_t index) {
    switch (way) {
    case FIRST: return index == 0;
    case EACH: return true;
    case PRODUCT: return index < 2;
    case CHOICE: return index > 0;
    case UPDATE: return index == 0 || index == 2;
    }
    return false;
}

/* Whether an operand that does not depend on the seed is added to one that does. */
static bool is_added(how way, uint32_t index) {
    return way == PRODUCT ? index > 1 : way != FIRST && may_carry(way, index);
}

static state state_of(const tc_node *node, const uint8_t *states) {
    const struct row *row = NULL;
    uint32_t linear = 0, added = 0;
    for (size_t i = 0; i < TC_COUNT(rows) && !row; i++)
        row = tc_node_is(node, "", rows[i].op) ? &rows[i] : NULL;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        tc_read read = tc_operand_read(node, i);
        if (read == TC_READ_NOTHING || read == TC_READ_SHAPE)
            continue;
        if (states[value->id] == INDEPENDENT) {
            added += row && is_added(row->way, i) && !is_all(value, 0);
            continue;
        }
        if (!row || states[value->id] == TAINTED || !may_carry(row->way, i))
            return TAINTED;
        linear++;
    }
    if (linear == 0)
        return INDEPENDENT;
    bool pads = tc_node_is(node, "", "Pad") && tc_input(node, 2) && !is_all(tc_input(node, 2), 0);
    return added > 0 || pads || (row->way == PRODUCT && linear > 1) ? TAINTED : LINEAR;
}

/* By value id. Nested graphs are not looked into. */
static uint8_t *follow(tc_arena *arena, const tc_graph *graph, const bool *early, const tc_value *seed) {
    uint8_t *states = TC_NEW_ARRAY(arena, uint8_t, graph->model->next_id);
    states[seed->id] = LINEAR;
    TC_FOR_NODES(node, graph) {
        state s = early[node->id] ? INDEPENDENT : state_of(node, states);
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i] && node->outputs[i] != seed)
                states[node->outputs[i]->id] = (uint8_t)s;
    }
    return states;
}

/* --- seeds ------------------------------------------------------------------------------------ */

typedef struct search {
    tc_arena *arena;
    const tc_graph *graph;
    const tc_value *loss;
    const bool *early; /* nodes that the loss depends on */
    const tc_map *by_type;
    tc_role *outputs;
    tc_value **parameters;
    uint32_t tried;
} search;

static bool is_late(const search *s, const tc_value *value) {
    return value->producer && !s->early[value->producer->id];
}

/* Whether outputs are gradients by this seed. */
static bool try_seed(search *s, const tc_value *seed) {
    bool found = false;
    if (s->tried >= SEEDS)
        return false;
    s->tried++;
    const uint8_t *states = follow(s->arena, s->graph, s->early, seed);
    for (uint32_t i = 0; i < s->graph->n_outputs; i++) {
        const tc_value *value = s->graph->outputs[i];
        s->parameters[i] = NULL;
        bool gradient = states[value->id] == LINEAR && tc_typed_as(s->arena, s->by_type, value, &s->parameters[i]);
        s->outputs[i] = value == s->loss                   ? TC_ROLE_LOSS
                        : gradient                         ? TC_ROLE_GRADIENT
                        : states[value->id] != INDEPENDENT ? TC_ROLE_BACKWARD
                                                           : TC_ROLE_FORWARD;
        found = found || gradient;
    }
    return found;
}

static bool read_by(const search *s, const tc_value *value, bool early) {
    TC_FOR_USES(use, value)
        if (use->user->graph == s->graph && s->early[use->user->id] == early)
            return true;
    return false;
}

static bool is_ones(const search *s, const tc_value *value) {
    const tc_type *type = s->loss->type;
    return tc_value_dtype(value) == type->dtype && is_all(value, 1) &&
           (tc_type_equal(value->type, type) || (tc_is_scalar_float(value) && tc_is_scalar_float(s->loss)));
}

/* ConstantOfShape with ones. */
static bool makes_ones(const search *s, const tc_node *node) {
    const tc_attr *attr = tc_attr_find(node, "value");
    return tc_node_is(node, "", "ConstantOfShape") && attr && attr->kind == TC_ATTR_TENSOR && attr->t->data &&
           attr->t->count == 1 && tc_tensor_get(attr->t, 0) == 1 && tc_output(node, 0) &&
           tc_type_equal(node->outputs[0]->type, s->loss->type);
}

static bool try_seeds(search *s) {
    const tc_graph *graph = s->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *value = graph->inputs[i];
        if (tc_type_equal(value->type, s->loss->type) && !read_by(s, value, true) && read_by(s, value, false) &&
            try_seed(s, value))
            return true;
    }
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        if (is_ones(s, value) && read_by(s, value, false) && try_seed(s, value))
            return true;
    }
    TC_FOR_NODES(node, graph) {
        const tc_value *value = tc_output(node, 0);
        bool may_be = value && !s->early[node->id] && (makes_ones(s, node) || is_ones(s, value));
        if (may_be && try_seed(s, value))
            return true;
    }
    return false;
}

/* --- losses ----------------------------------------------------------------------------------- */

static bool try_loss(search *s, const tc_value *loss) {
    bool any = false;
    tc_value *only;
    s->loss = loss;
    s->early = tc_needed_nodes(s->arena, s->graph, loss);
    s->by_type = tc_read_by_type(s->arena, s->graph, s->early);
    s->tried = 0;
    for (uint32_t i = 0; i < s->graph->n_outputs && !any; i++)
        any = is_late(s, s->graph->outputs[i]) && tc_typed_as(s->arena, s->by_type, s->graph->outputs[i], &only);
    return any && try_seeds(s);
}

/* Scalars, or where there are none, any float outputs. */
bool tc_roles_infer(tc_arena *arena, const tc_graph *graph, const tc_value **out_loss, tc_role *of,
                    tc_value **parameters) {
    search s = {.arena = arena, .graph = graph, .outputs = of, .parameters = parameters};
    bool scalar = false;
    uint32_t tried = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        scalar = scalar || (graph->outputs[i]->producer && tc_is_scalar_float(graph->outputs[i]));
    for (uint32_t i = 0; i < graph->n_outputs && tried < LOSSES; i++) {
        const tc_value *value = graph->outputs[i];
        if (!value->producer || !tc_dtype_is_float(tc_value_dtype(value)) || scalar != tc_is_scalar_float(value))
            continue;
        tried++;
        if (try_loss(&s, value)) {
            *out_loss = value;
            return true;
        }
    }
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        of[i] = TC_ROLE_FORWARD;
        parameters[i] = NULL;
    }
    return false;
}
