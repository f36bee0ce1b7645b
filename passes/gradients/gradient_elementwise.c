/* gradient_elementwise.c: gradients of elementwise ops that depend on an attribute's value, on a constant operand's
 * value, or on a variable number of operands. The others are in gradients.rules. */
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "passes/torch/metadata/metadata.h"
#include "gradients.h"
#include <math.h>

static tc_value *x_of(const tc_build *g) { return tc_input(g->of->node, 0); }

/* dx = condition ? dy * factor : 0; factor NULL: 1. */
static void select_gradient(tc_build *g, tc_value *condition, tc_value *factor) {
    tc_value *dy = g->of->douts[0];
    tc_value *on = factor ? TC_OP(g, "Mul", dy, factor) : dy;
    g->of->dins[0] = TC_OP(g, "Where", condition, on, tc_build_like(g, dy, 0));
}

/* dx = x > 0 ? above * dy : dy * below. */
static void two_sided(tc_build *g, double above, tc_value *below) {
    tc_value *x = x_of(g), *dy = g->of->douts[0];
    tc_value *positive = TC_OP(g, "Greater", x, tc_build_like(g, x, 0));
    tc_value *upper = above == 1 ? dy : TC_OP(g, "Mul", dy, tc_build_like(g, x, above));
    g->of->dins[0] = TC_OP(g, "Where", positive, upper, TC_OP(g, "Mul", dy, below));
}

void tc_gradient_leaky_relu(tc_build *g) {
    two_sided(g, 1, tc_build_like(g, x_of(g), (double)tc_attr_float(g->of->node, "alpha", 0.01F)));
}

/* y = alpha (exp x - 1) below 0. */
void tc_gradient_elu(tc_build *g) {
    tc_value *x = x_of(g), *alpha = tc_build_like(g, x, (double)tc_attr_float(g->of->node, "alpha", 1));
    two_sided(g, 1, TC_OP(g, "Mul", TC_OP(g, "Exp", x), alpha));
}

/* y = gamma x above 0, gamma alpha (exp x - 1) below. */
void tc_gradient_selu(tc_build *g) {
    double alpha = (double)tc_attr_float(g->of->node, "alpha", 1.67326319217681884765625F);
    double gamma = (double)tc_attr_float(g->of->node, "gamma", 1.05070102214813232421875F);
    tc_value *x = x_of(g);
    two_sided(g, gamma, TC_OP(g, "Mul", TC_OP(g, "Exp", x), tc_build_like(g, x, alpha * gamma)));
}

/* y = max(0, x) + min(0, alpha (exp(x / alpha) - 1)). */
void tc_gradient_celu(tc_build *g) {
    tc_value *x = x_of(g), *alpha = tc_build_like(g, x, (double)tc_attr_float(g->of->node, "alpha", 1));
    two_sided(g, 1, TC_OP(g, "Exp", TC_OP(g, "Div", x, alpha)));
}

/* y = max(0, min(1, alpha x + beta)). */
void tc_gradient_hard_sigmoid(tc_build *g) {
    tc_value *y = tc_output(g->of->node, 0);
    tc_value *inside =
        TC_OP(g, "And", TC_OP(g, "Greater", y, tc_build_like(g, y, 0)), TC_OP(g, "Less", y, tc_build_like(g, y, 1)));
    select_gradient(g, inside, tc_build_like(g, y, (double)tc_attr_float(g->of->node, "alpha", 0.2F)));
}

/* y = x max(0, min(1, x/6 + 1/2)): dy/dx = 0 below -3, 1 above 3, x/3 + 1/2 between. */
void tc_gradient_hard_swish(tc_build *g) {
    tc_value *x = x_of(g), *dy = g->of->douts[0];
    tc_value *slope = TC_OP(g, "Add", TC_OP(g, "Div", x, tc_build_like(g, x, 3)), tc_build_like(g, x, 0.5));
    tc_value *above = TC_OP(g, "GreaterOrEqual", x, tc_build_like(g, x, 3));
    tc_value *upper = TC_OP(g, "Where", above, dy, TC_OP(g, "Mul", dy, slope));
    tc_value *below = TC_OP(g, "LessOrEqual", x, tc_build_like(g, x, -3));
    g->of->dins[0] = TC_OP(g, "Where", below, tc_build_like(g, x, 0), upper);
}

void tc_gradient_thresholded_relu(tc_build *g) {
    tc_value *x = x_of(g);
    select_gradient(g, TC_OP(g, "Greater", x, tc_build_like(g, x, (double)tc_attr_float(g->of->node, "alpha", 1))),
                    NULL);
}

/* y = x + bias below -lambd, x - bias above lambd, 0 between. */
void tc_gradient_shrink(tc_build *g) {
    tc_value *x = x_of(g);
    tc_value *limit = tc_build_like(g, x, (double)tc_attr_float(g->of->node, "lambd", 0.5F));
    select_gradient(g, TC_OP(g, "Greater", TC_OP(g, "Abs", x), limit), NULL);
}

/* A Cast's result is float here; otherwise no gradient would reach it. */
void tc_gradient_cast(tc_build *g) { g->of->dins[0] = tc_build_cast(g, g->of->douts[0], tc_value_dtype(x_of(g))); }

/* The gradient for x of Max(x, bound) or Min(x, bound). A trained bound is a tensor in PyTorch, and x shares the
 * gradient with it where they are equal. A bound that is a number gets no gradient, and neither does x where it is
 * equal to it. */
static tc_value *gradient_at_bound(tc_build *g, uint32_t i, tc_value *x, tc_value *dy) {
    tc_value *bound = tc_input(g->of->node, i), *zero = tc_build_like(g, dy, 0), *at = zero, *passes;
    if (!bound)
        return dy;
    passes = TC_OP(g, i == 1 ? "Greater" : "Less", x, bound);
    if (g->of->needed[i]) {
        tc_value *half = TC_OP(g, "Mul", dy, tc_build_like(g, dy, 0.5)),
                 *cut = TC_OP(g, i == 1 ? "Less" : "Greater", x, bound);
        at = TC_OP(g, "Where", TC_OP(g, "Equal", x, bound), half, zero);
        g->of->dins[i] = tc_grad_reduce_like(g, TC_OP(g, "Where", cut, dy, at), bound);
    }
    return TC_OP(g, "Where", passes, dy, at);
}

/* Min(Max(x, min), max). The gradient passes where min < x < max; as in PyTorch, it does not pass at a bound that is
 * a number. */
void tc_gradient_clip(tc_build *g) {
    tc_value *x = x_of(g), *dy = g->of->douts[0], *min = tc_input(g->of->node, 1), *max = tc_input(g->of->node, 2);
    if (min && max && !g->of->needed[1] && !g->of->needed[2]) {
        tc_value *inside = TC_OP(g, "And", TC_OP(g, "Greater", x, min), TC_OP(g, "Less", x, max));
        g->of->dins[0] = TC_OP(g, "Where", inside, dy, tc_build_like(g, x, 0));
        return;
    }
    tc_value *above = min && max ? TC_OP(g, "Max", x, min) : x;
    g->of->dins[0] = gradient_at_bound(g, 1, x, gradient_at_bound(g, 2, above, dy));
}

/* The TorchScript exporter writes cdist as powers 2, and 1 / (2 + 1e-6), of all pairwise differences. */
static bool is_root_of_cdist(const tc_node *pow, const tc_node *square) {
    const tc_value *d = tc_input(square, 0);
    double root;
    if (!tc_node_is(square, "", "Mul") || d != tc_input(square, 1) || !d->producer ||
        !tc_node_is(d->producer, "", "Sub"))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const tc_value *x = tc_input(d->producer, i);
        if (!x->producer || !tc_node_is(x->producer, "", "Unsqueeze"))
            return false;
    }
    return tc_build_known_number(tc_input(pow, 1), &root) && root < 0.5 && root > 0.499999;
}

/* The root of a sum of powers of magnitudes: PyTorch's norms of orders other than 1, 2 and infinity. For even powers
 * exporters omit the magnitudes. */
static bool is_root_of_norm(const tc_node *pow) {
    const tc_node *sum = tc_input(pow, 0)->producer, *power;
    double order;
    if (!sum || !tc_node_is(pow, "", "Pow") || !tc_node_is(sum, "", "ReduceSum"))
        return false;
    power = tc_input(sum, 0)->producer;
    if (!power || !tc_node_is(power, "", "Pow"))
        return power && is_root_of_cdist(pow, power);
    const tc_node *magnitude = tc_input(power, 0)->producer;
    return (magnitude && tc_node_is(magnitude, "", "Abs")) ||
           (tc_build_known_number(tc_input(power, 1), &order) && fmod(order, 2) == 0);
}

/* The root, or one of the powers. */
static bool is_of_norm(const tc_node *pow) {
    TC_FOR_USES(sum, pow->outputs[0])
        if (tc_node_is(sum->user, "", "ReduceSum") && tc_output(sum->user, 0))
            TC_FOR_USES(root, sum->user->outputs[0])
                if (root->index == 0 && is_root_of_norm(root->user))
                    return true;
    return is_root_of_norm(pow);
}

/* dy e x^(e-1); common exponents get the expression that one would write by hand. */
static tc_value *pow_base(tc_build *g, tc_value *x, tc_value *e, tc_value *dy) {
    double number;
    if (tc_build_known_number(e, &number)) {
        if (number == 1)
            return dy;
        tc_value *lower = number == 2 ? x : TC_OP(g, "Pow", x, tc_build_like(g, x, number - 1));
        tc_value *zero = tc_build_like(g, x, 0);
        if (number < 1 && is_of_norm(g->of->node)) /* PyTorch's norms have the gradient 0 at 0 */
            lower = TC_OP(g, "Where", TC_OP(g, "Equal", x, zero), zero, lower);
        return number == 0 ? NULL : TC_OP(g, "Mul", dy, TC_OP(g, "Mul", lower, tc_build_like(g, x, number)));
    }
    tc_value *exponent = tc_build_cast(g, e, tc_value_dtype(x));
    tc_value *lower = TC_OP(g, "Pow", x, TC_OP(g, "Sub", exponent, tc_build_like(g, x, 1)));
    tc_value *slope = TC_OP(g, "Mul", lower, exponent);
    tc_value *is_zero = TC_OP(g, "Equal", exponent, tc_build_like(g, x, 0));
    return TC_OP(g, "Mul", dy, TC_OP(g, "Where", is_zero, tc_build_like(g, x, 0), slope));
}

/* y = x^e: de = dy y log x, 0 where x is 0 (there y is constant for e > 0). */
void tc_gradient_pow(tc_build *g) {
    tc_value *x = x_of(g), *e = tc_input(g->of->node, 1), *dy = g->of->douts[0];
    if (g->of->needed[0]) {
        tc_value *dx = pow_base(g, x, e, dy);
        g->of->dins[0] = dx ? tc_grad_reduce_like(g, dx, x) : NULL;
    }
    if (g->of->needed[1]) {
        tc_value *is_zero = TC_OP(g, "Equal", x, tc_build_like(g, x, 0));
        tc_value *log = TC_OP(g, "Log", TC_OP(g, "Where", is_zero, tc_build_like(g, x, 1), x));
        tc_value *de = TC_OP(g, "Mul", dy, TC_OP(g, "Mul", tc_output(g->of->node, 0), log));
        g->of->dins[1] = tc_grad_reduce_like(g, tc_build_cast(g, de, tc_value_dtype(e)), e);
    }
}

/* --- any number of operands ------------------------------------------------------------------- */
void tc_gradient_sum(tc_build *g) {
    for (uint32_t i = 0; i < g->of->node->n_inputs; i++)
        if (g->of->needed[i])
            g->of->dins[i] = tc_grad_reduce_like(g, g->of->douts[0], tc_input(g->of->node, i));
}

void tc_gradient_mean(tc_build *g) {
    tc_value *share = TC_OP(g, "Div", g->of->douts[0], tc_build_like(g, g->of->douts[0], g->of->node->n_inputs));
    for (uint32_t i = 0; i < g->of->node->n_inputs; i++)
        if (g->of->needed[i])
            g->of->dins[i] = tc_grad_reduce_like(g, share, tc_input(g->of->node, i));
}

/* y = a - b n with n = trunc(a / b), a whole number, found by rounding. */
void tc_gradient_mod(tc_build *g) {
    tc_value *a = tc_input(g->of->node, 0), *b = tc_input(g->of->node, 1), *dy = g->of->douts[0];
    if (g->of->needed[0])
        g->of->dins[0] = tc_grad_reduce_like(g, dy, a);
    if (!g->of->needed[1])
        return;
    tc_value *n = TC_OP(g, "Round", TC_OP(g, "Div", TC_OP(g, "Sub", a, tc_output(g->of->node, 0)), b));
    g->of->dins[1] = tc_grad_reduce_like(g, TC_OP(g, "Neg", TC_OP(g, "Mul", dy, n)), b);
}

/* A bound of PyTorch's clamp, one number, as the dynamo exporter writes it: at the bound x gets no gradient (if
 * bounds are tensors, both share it). */
static bool is_clamp(tc_build *g) {
    tc_torch_call call;
    return g->of->node->n_inputs == 2 && tc_value_rank(tc_input(g->of->node, 1)) == 0 && !g->of->needed[1] &&
           tc_torch_call_read(g->pool->arena, g->of->node, &call) && tc_torch_call_is(&call, "aten.clamp");
}

static void gradient_of_bound(tc_build *g) {
    bool greatest = tc_node_is(g->of->node, "", "Max");
    tc_value *dy = g->of->douts[0], *zero = tc_build_like(g, dy, 0);
    for (uint32_t i = 0; i < 2; i++) {
        if (!g->of->needed[i])
            continue;
        tc_value *x = tc_input(g->of->node, i),
                 *won = TC_OP(g, greatest ? "Greater" : "Less", x, tc_input(g->of->node, 1 - i));
        g->of->dins[i] = tc_grad_reduce_like(g, TC_OP(g, "Where", won, dy, zero), x);
    }
}

/* Max and Min: operands that tie share the gradient. */
void tc_gradient_extremum(tc_build *g) {
    tc_value *y = tc_output(g->of->node, 0), *dy = g->of->douts[0];
    uint32_t n = g->of->node->n_inputs;
    if (is_clamp(g)) {
        gradient_of_bound(g);
        return;
    }
    tc_value **hits = TC_NEW_ARRAY(g->pool->arena, tc_value *, n);
    if (n == 1) {
        g->of->dins[0] = dy;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        hits[i] = tc_build_cast(g, TC_OP(g, "Equal", tc_input(g->of->node, i), y), tc_value_dtype(y));
    tc_value *share = TC_OP(g, "Div", dy, tc_build_sum(g, n, hits));
    for (uint32_t i = 0; i < n; i++)
        if (g->of->needed[i])
            g->of->dins[i] = tc_grad_reduce_like(g, TC_OP(g, "Mul", share, hits[i]), tc_input(g->of->node, i));
}

/* y = mask x / (1 - ratio) in training, else x. The mask is the op's own second result, added if the file omitted
 * it. */
void tc_gradient_dropout(tc_build *g) {
    tc_node *node = g->of->node;
    tc_value *dy = g->of->douts[0], *ratio = tc_input(node, 1), *training = tc_input(node, 2);
    double on = 0, r = 0.5;
    if (!training || (tc_build_known_number(training, &on) && on == 0)) {
        g->of->dins[0] = dy;
        return;
    }
    tc_value *mask = tc_grad_result(g, 1, "mask");
    tc_grad_infer_forward(g);
    tc_value *zero = tc_build_like(g, dy, 0), *keep;
    if (!ratio || tc_build_known_number(ratio, &r))
        keep = tc_build_like(g, dy, 1 - r);
    else
        keep = TC_OP(g, "Sub", tc_build_like(g, dy, 1), tc_build_cast(g, ratio, tc_value_dtype(dy)));
    tc_value *dropped = TC_OP(g, "Where", mask, TC_OP(g, "Div", dy, keep), zero);
    g->of->dins[0] = on != 0 ? dropped : TC_OP(g, "Where", training, dropped, dy);
}
