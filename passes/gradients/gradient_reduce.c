/* gradient_reduce.c: gradients of reductions. With dy and y brought back to the operand's rank (kept dims of size
 * 1), each is one broadcast product. Axes must be known. Several equal extrema share the gradient, unless PyTorch
 * gave it to one. Zeros in a product are handled exactly. */
#include "compiler/ir/ops.h"
#include "passes/torch/metadata/metadata.h"
#include "gradients.h"
#include <string.h>

typedef struct reduction {
    tc_value *x, *dy; /* dy with its reduced dims kept, or a scalar */
    int64_t axes[TC_MAX_RANK];
    size_t n_axes;
} reduction;

static tc_value *keep_dims(tc_build *g, const reduction *r, tc_value *value) {
    bool broadcasts = tc_attr_int(g->of->node, "keepdims", 1) || tc_value_rank(value) == 0;
    return broadcasts ? value : tc_build_unsqueeze(g, value, r->axes, r->n_axes);
}

static reduction read_reduction(tc_build *g) {
    reduction r = {.x = tc_input(g->of->node, 0)};
    int rank = tc_grad_rank(g, r.x);
    tc_value *axes = tc_input(g->of->node, 1);
    if (axes && !tc_build_known_ints(axes, r.axes, TC_MAX_RANK, &r.n_axes))
        tc_grad_refuse(g, "its axes %s are not constant", tc_quote(g->ctx, axes->name));
    for (size_t i = 0; i < r.n_axes; i++)
        r.axes[i] = tc_grad_axis(g, r.axes[i], rank);
    if (r.n_axes == 0 && !tc_attr_int(g->of->node, "noop_with_empty_axes", 0))
        for (; r.n_axes < (size_t)rank; r.n_axes++)
            r.axes[r.n_axes] = (int64_t)r.n_axes;
    r.dy = keep_dims(g, &r, g->of->douts[0]);
    return r;
}

static tc_value *kept_y(tc_build *g, const reduction *r) { return keep_dims(g, r, tc_output(g->of->node, 0)); }

void tc_gradient_reduce_sum(tc_build *g) {
    reduction r = read_reduction(g);
    g->of->dins[0] = tc_build_expand_like(g, r.dy, r.x);
}

/* dy over the number of elements per result. If 16 bits cannot hold that number, or if it is not known, the quotient
 * is computed in float. */
static tc_value *over_count(tc_build *g, const reduction *r) {
    tc_dtype dtype = tc_value_dtype(r->x);
    int64_t dim, count = 1;
    bool known = true;
    for (size_t i = 0; i < r->n_axes; i++) {
        known = known && tc_build_static(r->x, (int)r->axes[i], &dim);
        count = known ? count * dim : 0;
    }
    bool fits = !tc_dtype_is_half(dtype) || (known && tc_round_float(dtype, (double)count) == (double)count);
    tc_value *dy = fits ? r->dy : tc_build_wide(g, r->dy), *number;
    if (known) {
        number = tc_build_like(g, dy, (double)count);
    } else {
        tc_value *dims = TC_OP(g, "Gather", tc_build_shape(g, r->x), tc_build_ints(g, r->axes, r->n_axes));
        tc_node *product = TC_BEGIN(g, "ReduceProd", dims);
        tc_attr_set_int(product, "keepdims", 0);
        number = tc_build_cast(g, tc_build_finish(g, product), tc_value_dtype(dy));
    }
    return tc_build_cast(g, TC_OP(g, "Div", dy, number), dtype);
}

void tc_gradient_reduce_mean(tc_build *g) {
    reduction r = read_reduction(g);
    g->of->dins[0] = tc_build_expand_like(g, over_count(g, &r), r.x);
}

/* Whether PyTorch returned the position of the extremum along one axis. It is the first of equals, and gets the
 * whole gradient. */
static bool has_place(tc_build *g, const reduction *r) {
    static const char *const targets[] = {"aten.max.dim", "aten.min.dim", "aten.adaptive_max_pool1d.default",
                                          "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default"};
    tc_torch_call call;
    if (r->n_axes != 1 || !tc_torch_call_read(g->pool->arena, g->of->node, &call))
        return false;
    for (size_t i = 0; i < TC_COUNT(targets); i++)
        if (strcmp(call.target, targets[i]) == 0)
            return true;
    return false;
}

static tc_value *at_place(tc_build *g, const reduction *r) {
    tc_node *places = TC_BEGIN(g, strcmp(g->of->node->op->name, "ReduceMax") == 0 ? "ArgMax" : "ArgMin", r->x);
    tc_attr_set_int(places, "axis", r->axes[0]);
    tc_value *zeros = tc_build_zeros(g, tc_build_shape(g, r->x), tc_value_dtype(r->x));
    tc_node *scatter = TC_BEGIN(g, "ScatterElements", zeros, tc_build_finish(g, places), r->dy);
    tc_attr_set_int(scatter, "axis", r->axes[0]);
    return tc_build_finish(g, scatter);
}

/* ReduceMax, ReduceMin. */
void tc_gradient_reduce_extremum(tc_build *g) {
    reduction r = read_reduction(g);
    if (has_place(g, &r)) {
        g->of->dins[0] = at_place(g, &r);
        return;
    }
    tc_value *hits = tc_build_cast(g, TC_OP(g, "Equal", r.x, kept_y(g, &r)), tc_value_dtype(r.x));
    tc_value *count = tc_build_reduce(g, "ReduceSum", hits, r.axes, r.n_axes, true);
    g->of->dins[0] = TC_OP(g, "Mul", hits, TC_OP(g, "Div", r.dy, count));
}

/* dx_i = dy * product of the others: y / x_i. With one zero only that element has a gradient, with two none has. */
void tc_gradient_reduce_prod(tc_build *g) {
    reduction r = read_reduction(g);
    tc_value *zero = tc_build_like(g, r.x, 0), *one = tc_build_like(g, r.x, 1);
    tc_value *is_zero = TC_OP(g, "Equal", r.x, zero);
    tc_value *filled = TC_OP(g, "Where", is_zero, one, r.x);
    tc_value *product = tc_build_reduce(g, "ReduceProd", filled, r.axes, r.n_axes, true);
    tc_value *zeros =
        tc_build_reduce(g, "ReduceSum", tc_build_cast(g, is_zero, tc_value_dtype(r.x)), r.axes, r.n_axes, true);
    tc_value *allowed = TC_OP(g, "Where", is_zero, one, zero); /* the zeros allowed: the element itself */
    tc_value *others = TC_OP(g, "Where", TC_OP(g, "Equal", zeros, allowed), TC_OP(g, "Div", product, filled), zero);
    g->of->dins[0] = TC_OP(g, "Mul", others, r.dy);
}

void tc_gradient_reduce_l1(tc_build *g) {
    reduction r = read_reduction(g);
    g->of->dins[0] = TC_OP(g, "Mul", TC_OP(g, "Sign", r.x), r.dy);
}

/* dx = x dy / y, 0 where the norm is 0. */
void tc_gradient_reduce_l2(tc_build *g) {
    reduction r = read_reduction(g);
    tc_value *zero = tc_build_like(g, r.x, 0), *y = kept_y(g, &r);
    tc_value *ratio = TC_OP(g, "Where", TC_OP(g, "Equal", y, zero), zero, TC_OP(g, "Div", r.dy, y));
    g->of->dins[0] = TC_OP(g, "Mul", r.x, ratio);
}

void tc_gradient_reduce_log_sum(tc_build *g) {
    reduction r = read_reduction(g);
    g->of->dins[0] = tc_build_expand_like(g, TC_OP(g, "Div", r.dy, TC_OP(g, "Exp", kept_y(g, &r))), r.x);
}

void tc_gradient_reduce_log_sum_exp(tc_build *g) {
    reduction r = read_reduction(g);
    g->of->dins[0] = TC_OP(g, "Mul", TC_OP(g, "Exp", TC_OP(g, "Sub", r.x, kept_y(g, &r))), r.dy);
}

void tc_gradient_reduce_sum_square(tc_build *g) {
    reduction r = read_reduction(g);
    g->of->dins[0] = TC_OP(g, "Mul", TC_OP(g, "Mul", r.x, r.dy), tc_build_like(g, r.x, 2));
}

/* The mean over all axes from the second on. */
void tc_gradient_global_average_pool(tc_build *g) {
    reduction r = {.x = tc_input(g->of->node, 0), .dy = g->of->douts[0]};
    for (int rank = tc_grad_rank(g, r.x); (int)r.n_axes + 2 < rank; r.n_axes++)
        r.axes[r.n_axes] = (int64_t)r.n_axes + 2;
    g->of->dins[0] = tc_build_expand_like(g, over_count(g, &r), r.x);
}

/* y = x / n with n the norm of order p along the axis: dx = (dy - y' sum(dy y)) / n; y' = y for p = 2, sign(x) for p
 * = 1. */
void tc_gradient_lp_normalization(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *y = tc_output(g->of->node, 0), *dy = g->of->douts[0];
    int64_t axis = tc_grad_axis(g, tc_attr_int(g->of->node, "axis", -1), tc_grad_rank(g, x));
    bool first = tc_attr_int(g->of->node, "p", 2) == 1;
    tc_value *norm = tc_build_reduce(g, first ? "ReduceL1" : "ReduceL2", x, &axis, 1, true);
    tc_value *along = tc_build_reduce(g, "ReduceSum", TC_OP(g, "Mul", dy, y), &axis, 1, true);
    tc_value *across = TC_OP(g, "Sub", dy, TC_OP(g, "Mul", first ? TC_OP(g, "Sign", x) : y, along));
    tc_value *zero = tc_build_like(g, x, 0);
    g->of->dins[0] = TC_OP(g, "Where", TC_OP(g, "Equal", norm, zero), zero, TC_OP(g, "Div", across, norm));
}
