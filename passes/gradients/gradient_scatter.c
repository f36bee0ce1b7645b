/* gradient_scatter.c: gradients of ScatterElements and ScatterND. A replaced element gets no gradient. With addition,
 * all get dy. With multiplication, each factor gets dy times the product of the others. With an extremum, all values
 * equal to the result share its gradient, the data's element included. This is what PyTorch's scatter_reduce does. */
#include "gradients.h"
#include <math.h>
#include <string.h>

static bool is_nd(tc_build *g) { return tc_node_is(g->of->node, "", "ScatterND"); }

/* `updates` written into `into` at the node's positions. */
static tc_value *scatter(tc_build *g, tc_value *into, tc_value *updates, const char *reduction) {
    tc_node *node = TC_BEGIN(g, g->of->node->op->name, into, tc_input(g->of->node, 1), updates);
    if (!is_nd(g))
        tc_attr_set_int(node, "axis", tc_attr_int(g->of->node, "axis", 0));
    if (strcmp(reduction, "none") != 0)
        tc_attr_set_string(node, "reduction", reduction);
    return tc_build_finish(g, node);
}

/* The elements of `from` at the node's positions. */
static tc_value *gather(tc_build *g, tc_value *from) {
    tc_node *node = TC_BEGIN(g, is_nd(g) ? "GatherND" : "GatherElements", from, tc_input(g->of->node, 1));
    if (!is_nd(g))
        tc_attr_set_int(node, "axis", tc_attr_int(g->of->node, "axis", 0));
    return tc_build_finish(g, node);
}

static tc_value *zeros_like(tc_build *g, tc_value *value) {
    return tc_build_zeros(g, tc_build_shape(g, value), tc_value_dtype(value));
}

static void gradient_of_none(tc_build *g, const char *reduction) {
    if (g->of->needed[0])
        g->of->dins[0] = scatter(g, g->of->douts[0], zeros_like(g, tc_input(g->of->node, 2)), reduction);
    if (g->of->needed[2])
        g->of->dins[2] = gather(g, g->of->douts[0]);
}

static void gradient_of_add(tc_build *g, const char *reduction) {
    (void)reduction;
    if (g->of->needed[0])
        g->of->dins[0] = g->of->douts[0];
    if (g->of->needed[2])
        g->of->dins[2] = gather(g, g->of->douts[0]);
}

/* The gradient of each factor is dy times the product of the others: y over the factor, unless it is zero. There,
 * the product with 1 instead of the zero is right if no other update at that position is zero; with two zeros at one
 * position, a change of one changes nothing. */
static void gradient_of_mul(tc_build *g, const char *reduction) {
    tc_value *x = tc_input(g->of->node, 0), *updates = tc_input(g->of->node, 2), *dy = g->of->douts[0];
    tc_value *zero = tc_build_like(g, x, 0), *one = tc_build_like(g, x, 1);
    if (g->of->needed[0]) {
        tc_value *filled = TC_OP(g, "Where", TC_OP(g, "Equal", x, zero), one, x);
        g->of->dins[0] = TC_OP(g, "Div", TC_OP(g, "Mul", dy, scatter(g, filled, updates, reduction)), filled);
    }
    if (g->of->needed[2]) {
        tc_value *is_zero = TC_OP(g, "Equal", updates, zero);
        tc_value *zeros = scatter(g, zeros_like(g, x), tc_build_cast(g, is_zero, tc_value_dtype(x)), "add");
        tc_value *alone = TC_OP(g, "And", is_zero, TC_OP(g, "Equal", gather(g, zeros), one));
        tc_value *others = scatter(g, x, TC_OP(g, "Where", alone, one, updates), reduction);
        tc_value *quotient = TC_OP(g, "Div", gather(g, TC_OP(g, "Mul", dy, tc_output(g->of->node, 0))),
                                   TC_OP(g, "Where", is_zero, one, updates));
        g->of->dins[2] = TC_OP(g, "Where", alone, gather(g, TC_OP(g, "Mul", dy, others)), quotient);
    }
}

static tc_value *hits(tc_build *g, tc_value *value, tc_value *extremum) {
    return tc_build_wide(g, tc_build_cast(g, TC_OP(g, "Equal", value, extremum), tc_value_dtype(value)));
}

/* Bounds outside the range of float16. */
static bool is_extreme(const tc_value *value) {
    const tc_node *made = value->producer;
    const tc_attr *fill = made && tc_node_is(made, "", "ConstantOfShape") ? tc_attr_find(made, "value") : NULL;
    const tc_tensor *tensor = fill ? fill->t : tc_value_constant(value);
    bool all = tensor && tensor->data && tensor->count;
    for (uint64_t i = 0; all && i < tensor->count; i++)
        all = fabs(tc_tensor_get(tensor, i)) >= 65504;
    return all;
}

/* scatter_reduce without include_self, as exporters write it: the positions first get the least number. PyTorch
 * counts the excluded element among those that share the gradient. */
static tc_value *counted(tc_build *g, tc_value *x, const char *reduction) {
    const tc_node *before = x->producer;
    const char *opposite = strcmp(reduction, "max") == 0 ? "min" : "max";
    bool left_out = before && before->op == g->of->node->op && tc_input(before, 1) == tc_input(g->of->node, 1) &&
                    tc_attr_int(before, "axis", 0) == tc_attr_int(g->of->node, "axis", 0) &&
                    strcmp(tc_attr_string(before, "reduction", "none"), opposite) == 0 &&
                    is_extreme(tc_input(before, 2));
    return left_out ? tc_input(before, 0) : x;
}

static void gradient_of_extremum(tc_build *g, const char *reduction) {
    tc_value *x = tc_input(g->of->node, 0), *updates = tc_input(g->of->node, 2), *y = tc_output(g->of->node, 0);
    tc_value *of_x = hits(g, x, y), *of_updates = hits(g, updates, gather(g, y));
    tc_value *ties = scatter(g, hits(g, counted(g, x, reduction), y), of_updates, "add");
    tc_value *share = TC_OP(g, "Div", tc_build_wide(g, g->of->douts[0]), ties);
    if (g->of->needed[0])
        g->of->dins[0] = tc_build_cast(g, TC_OP(g, "Mul", of_x, share), tc_value_dtype(x));
    if (g->of->needed[2])
        g->of->dins[2] = tc_build_cast(g, TC_OP(g, "Mul", of_updates, gather(g, share)), tc_value_dtype(x));
}

static const struct {
    const char *reduction;
    void (*build)(tc_build *g, const char *reduction);
} gradients[] = {
    {"none", gradient_of_none},    {"add", gradient_of_add},      {"mul", gradient_of_mul},
    {"max", gradient_of_extremum}, {"min", gradient_of_extremum},
};

void tc_gradient_scatter(tc_build *g) {
    const char *reduction = tc_attr_string(g->of->node, "reduction", "none");
    for (size_t i = 0; i < TC_COUNT(gradients); i++)
        if (strcmp(reduction, gradients[i].reduction) == 0) {
            gradients[i].build(g, reduction);
            return;
        }
    tc_grad_refuse(g, "its reduction is %s, expected none, add, mul, max or min", tc_quote(g->ctx, reduction));
}
