/* gradient_batch_norm.c: gradients of normalizations over other axes than the last ones: y = scale * xhat + bias
 * with xhat = (x - mean) / sqrt(var + epsilon). mean and var are operands (inference), or those of x over some axes. */
#include "gradients.h"

typedef struct norm {
    tc_value *x, *dy;     /* any shape */
    tc_value *inv, *xhat; /* 1 / sqrt(var + epsilon), and the normalized x */
    int64_t axes[TC_MAX_RANK];
    size_t n_axes; /* axes that mean and var are taken over */
} norm;

static tc_value *inverse_std(tc_build *g, tc_value *var) {
    tc_value *epsilon = tc_build_like(g, var, (double)tc_attr_float(g->of->node, "epsilon", 1e-5F));
    return TC_OP(g, "Reciprocal", TC_OP(g, "Sqrt", TC_OP(g, "Add", var, epsilon)));
}

static void normalize(tc_build *g, norm *n) {
    tc_value *centered = TC_OP(g, "Sub", n->x, tc_build_reduce(g, "ReduceMean", n->x, n->axes, n->n_axes, true));
    n->inv =
        inverse_std(g, tc_build_reduce(g, "ReduceMean", TC_OP(g, "Mul", centered, centered), n->axes, n->n_axes, true));
    n->xhat = TC_OP(g, "Mul", centered, n->inv);
}

/* dx from dxhat, for mean and var of x: inv (dxhat - mean(dxhat) - xhat mean(dxhat xhat)). The first mean is subtracted
 * last: the mean of xhat is 0 but for rounding, and this step removes that rounding error and the one of the product
 * with inv. Then dx has the mean 0, and so has the gradient of a bias before the norm, as closely as floats can. */
static tc_value *through_statistics(tc_build *g, const norm *n, tc_value *dxhat) {
    tc_value *along = tc_build_reduce(g, "ReduceMean", TC_OP(g, "Mul", dxhat, n->xhat), n->axes, n->n_axes, true);
    tc_value *rest = TC_OP(g, "Mul", n->inv, TC_OP(g, "Sub", dxhat, TC_OP(g, "Mul", n->xhat, along)));
    return TC_OP(g, "Sub", rest, tc_build_reduce(g, "ReduceMean", rest, n->axes, n->n_axes, true));
}

/* A parameter [C] against [N, C, d1, ...]. */
static tc_value *per_channel(tc_build *g, tc_value *value, int rank) {
    int64_t axes[TC_MAX_RANK];
    for (int i = 2; i < rank; i++)
        axes[i - 2] = i - 1;
    return tc_build_unsqueeze(g, value, axes, rank > 2 ? (size_t)rank - 2 : 0);
}

/* All axes except the channels'. */
static size_t other_axes(int rank, int64_t *out_axes) {
    size_t n = 0;
    for (int i = 0; i < rank; i++)
        if (i != 1)
            out_axes[n++] = i;
    return n;
}

static tc_value *channel_sum(tc_build *g, tc_value *value, int rank) {
    int64_t axes[TC_MAX_RANK];
    return tc_build_reduce(g, "ReduceSum", value, axes, other_axes(rank, axes), false);
}

/* The running statistics of the inference variant. */
static void running_gradients(tc_build *g, const norm *n, tc_value *dxhat, int rank) {
    tc_value *scaled = TC_OP(g, "Mul", dxhat, n->inv);
    if (g->of->needed[3])
        g->of->dins[3] = TC_OP(g, "Neg", channel_sum(g, scaled, rank));
    if (g->of->needed[4]) {
        tc_value *half = tc_build_like(g, n->x, -0.5);
        tc_value *slope = TC_OP(g, "Mul", TC_OP(g, "Mul", scaled, n->xhat), TC_OP(g, "Mul", n->inv, half));
        g->of->dins[4] = channel_sum(g, slope, rank);
    }
}

void tc_gradient_batch_normalization(tc_build *g) {
    norm n = {.x = tc_input(g->of->node, 0), .dy = g->of->douts[0]};
    int rank = tc_grad_rank(g, n.x);
    bool training = tc_attr_int(g->of->node, "training_mode", 0) != 0;
    for (uint32_t i = 1; i < g->of->node->n_outputs; i++)
        if (g->of->douts[i])
            tc_grad_refuse(g, "the loss depends on its result %u", (unsigned)i);
    if (g->status != TC_OK || !n.dy)
        return;
    if (training) {
        n.n_axes = other_axes(rank, n.axes);
        normalize(g, &n);
    } else {
        n.inv = per_channel(g, inverse_std(g, tc_input(g->of->node, 4)), rank);
        n.xhat = TC_OP(g, "Mul", TC_OP(g, "Sub", n.x, per_channel(g, tc_input(g->of->node, 3), rank)), n.inv);
    }
    if (g->of->needed[0] || (!training && (g->of->needed[3] || g->of->needed[4]))) {
        tc_value *dxhat = TC_OP(g, "Mul", n.dy, per_channel(g, tc_input(g->of->node, 1), rank));
        if (g->of->needed[0])
            g->of->dins[0] = training ? through_statistics(g, &n, dxhat) : TC_OP(g, "Mul", dxhat, n.inv);
        if (!training)
            running_gradients(g, &n, dxhat, rank);
    }
    if (g->of->needed[1])
        g->of->dins[1] = channel_sum(g, TC_OP(g, "Mul", n.dy, n.xhat), rank);
    if (g->of->needed[2])
        g->of->dins[2] = channel_sum(g, n.dy, rank);
}

void tc_gradient_instance_normalization(tc_build *g) {
    norm n = {.x = tc_input(g->of->node, 0), .dy = g->of->douts[0]};
    int rank = tc_grad_rank(g, n.x);
    for (int i = 2; i < rank; i++)
        n.axes[n.n_axes++] = i;
    normalize(g, &n);
    if (g->of->needed[0])
        g->of->dins[0] =
            through_statistics(g, &n, TC_OP(g, "Mul", n.dy, per_channel(g, tc_input(g->of->node, 1), rank)));
    if (g->of->needed[1])
        g->of->dins[1] = channel_sum(g, TC_OP(g, "Mul", n.dy, n.xhat), rank);
    if (g->of->needed[2])
        g->of->dins[2] = channel_sum(g, n.dy, rank);
}

/* Groups of channels share their statistics: x is seen as [N, groups, the rest]; scale and bias stay per channel. */
void tc_gradient_group_normalization(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *dy = g->of->douts[0];
    int rank = tc_grad_rank(g, x);
    tc_value *group_shape = tc_build_ints(g, (int64_t[]){0, tc_attr_int(g->of->node, "num_groups", 1), -1}, 3);
    norm n = {.x = TC_OP(g, "Reshape", x, group_shape), .axes = {2}, .n_axes = 1};
    normalize(g, &n);
    if (g->of->needed[0]) {
        tc_value *dxhat = TC_OP(g, "Mul", dy, per_channel(g, tc_input(g->of->node, 1), rank));
        g->of->dins[0] = tc_build_reshape(g, through_statistics(g, &n, TC_OP(g, "Reshape", dxhat, group_shape)),
                                          tc_build_shape(g, x));
    }
    if (g->of->needed[1])
        g->of->dins[1] = channel_sum(g, TC_OP(g, "Mul", dy, tc_build_reshape(g, n.xhat, tc_build_shape(g, x))), rank);
    if (g->of->needed[2])
        g->of->dins[2] = channel_sum(g, dy, rank);
}
