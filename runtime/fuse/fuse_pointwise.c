/* fuse_pointwise.c: looks for the value at each gradient's X. */
#include "fuse_pointwise.h"
#include "compiler/ir/ops.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of so many operands, the second is what the gradient is taken at. */
static bool is_gradient(const tc_node *node) { return node->n_inputs > 1; }

tk_pointwise_row rt_pointwise_row_of(const tc_node *node, const char *op) {
    tk_pointwise_row plain = tk_pointwise_find(op, "");
    return plain != TK_POINTWISE_COUNT ? plain : tk_pointwise_find(op, tc_attr_string(node, "approximate", "none"));
}

tk_pointwise_row rt_pointwise_row(const tc_node *node) {
    char op[64];
    size_t length = strlen(node->op->name), end = is_gradient(node) ? strlen("Grad") : 0;
    if (length <= end || length >= sizeof op)
        return TK_POINTWISE_COUNT;
    snprintf(op, sizeof op, "%.*s", (int)(length - end), node->op->name);
    return rt_pointwise_row_of(node, op);
}

double rt_pointwise_alpha(const tc_node *node, tk_pointwise_row row) {
    double alpha = tk_pointwise_alpha(row);
    return isnan(alpha) ? 0 : (double)tc_attr_float(node, "alpha", (float)alpha);
}

/* The row of a node with so many operands; TK_POINTWISE_COUNT: it has none. */
static tk_pointwise_row row_of(const tc_node *node, uint32_t n_inputs) {
    return node->op && node->n_inputs == n_inputs && node->n_outputs == 1 ? rt_pointwise_row(node) : TK_POINTWISE_COUNT;
}

/* Whether a node right after `place` makes the value in time for all its readers. */
static bool is_in_time(const tc_value *value, const tc_node *place) {
    TC_FOR_USES(use, value)
        if (use->user->graph != place->graph || !tc_node_before(place, use->user))
            return false;
    return true;
}

/* The later one of a node and of the value's producer. */
static tc_node *later(tc_node *node, const tc_value *value) {
    return value->producer && tc_node_before(node, value->producer) ? value->producer : node;
}

/* The node that makes f(X) where dY is there in time, and the place where both are made. Nothing else reads dY: dX,
 * which is made earlier than before, can replace it. */
static tc_node *value_beside(const tc_node *grad, tk_pointwise_row row, tc_node **out_place) {
    const tc_value *dy = tc_input(grad, 0), *x = tc_input(grad, 1);
    if (!dy || !x || tc_value_use_count(dy) != 1 || !tc_type_equal(dy->type, x->type))
        return NULL;
    TC_FOR_USES(use, x) {
        tc_node *node = use->user;
        if (node->graph != grad->graph || row_of(node, 1) != row ||
            rt_pointwise_alpha(node, row) != rt_pointwise_alpha(grad, row))
            continue;
        *out_place = later(node, dy);
        if (tc_node_before(*out_place, grad) && is_in_time(node->outputs[0], *out_place))
            return node;
    }
    return NULL;
}

static void fuse(tc_node *grad, tc_node *value, tc_node *place, tk_pointwise_row row) {
    tc_node *both = tc_node_create(grad->graph, "ai.tempo", "PointwiseBoth", 2, 2);
    both->name = tc_node_label(grad);
    both->ordinal = grad->ordinal;
    tc_node_insert_after(both, place);
    for (uint32_t i = 0; i < 2; i++)
        tc_node_set_input(both, i, tc_input(grad, i));
    tc_attr_set_int(both, "row", row);
    tc_attr_set_float(both, "alpha", (float)rt_pointwise_alpha(grad, row));
    tc_node_set_output(both, 0, tc_node_take_output(grad, 0));
    tc_node_set_output(both, 1, tc_node_take_output(value, 0));
    tc_node_erase(grad);
    tc_node_erase(value);
}

void rt_fuse_pointwise(tc_graph *graph) {
    TC_FOR_NODES_SAFE(node, graph) {
        tk_pointwise_row row = row_of(node, 2);
        tc_node *place, *value = row == TK_POINTWISE_COUNT ? NULL : value_beside(node, row, &place);
        if (value)
            fuse(node, value, place, row);
    }
}
