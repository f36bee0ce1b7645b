/* gradient_normalization.c: gradients of softmax, normalizations and losses. Those of Softmax, LogSoftmax,
 * LayerNormalization and SoftmaxCrossEntropyLoss are ops of ai.tempo that read results of the forward op. Results
 * that the file omitted (mean and 1/std, log probabilities) are added to the forward node. */
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "gradients.h"
#include <string.h>

static tc_value *softmax_grad(tc_build *g, const char *op, tc_value *dy, tc_value *y, int64_t axis) {
    tc_node *node = tc_build_node(g, TC_TEMPO_DOMAIN, op, TC_VALUES(dy, y), 1);
    tc_attr_set_int(node, "axis", axis);
    return tc_build_finish(g, node);
}

void tc_gradient_softmax(tc_build *g) {
    g->of->dins[0] = softmax_grad(g, "SoftmaxGrad", g->of->douts[0], tc_output(g->of->node, 0),
                                  tc_attr_int(g->of->node, "axis", -1));
}

void tc_gradient_log_softmax(tc_build *g) {
    g->of->dins[0] = softmax_grad(g, "LogSoftmaxGrad", g->of->douts[0], tc_output(g->of->node, 0),
                                  tc_attr_int(g->of->node, "axis", -1));
}

/* The common parts of LayerNormalization and RMSNormalization over all axes from one on. */
typedef struct row_norm {
    tc_value *x, *scale;
    int axis, rank;
    bool by_row; /* the scale has dims before the normalized ones: it may differ by row */
} row_norm;

static row_norm read_row_norm(tc_build *g) {
    row_norm n = {.x = tc_input(g->of->node, 0), .scale = tc_input(g->of->node, 1)};
    n.rank = tc_grad_rank(g, n.x);
    n.axis = tc_grad_axis(g, tc_attr_int(g->of->node, "axis", -1), n.rank);
    n.by_row = tc_grad_rank(g, n.scale) > n.rank - n.axis;
    for (uint32_t i = 1; i < g->of->node->n_outputs; i++)
        if (g->of->douts[i])
            tc_grad_refuse(g, "the loss depends on its result %u", (unsigned)i);
    return n;
}

/* The op's scale in the shape of the normalized dims, which the gradient op expects. */
static tc_value *full_scale(tc_build *g, const row_norm *n) {
    tc_value *scale = n->by_row ? tc_build_like(g, n->x, 1) : n->scale;
    bool full = tc_grad_rank(g, scale) == n->rank - n->axis;
    for (int i = n->axis; full && i < n->rank; i++) {
        tc_dim dim = scale->type->dims[i - n->axis];
        full = tc_dim_equal(dim, n->x->type->dims[i]) || (tc_dim_is_const(dim) && dim.value != 1);
    }
    return full ? scale : TC_OP(g, "Expand", scale, tc_build_dims(g, n->x, n->axis, n->rank));
}

/* y = xhat scale. If the scale differs by row, the gradient op gets the gradient of xhat, and treats xhat as y. */
static tc_value *gradient_of_result(tc_build *g, const row_norm *n) {
    return n->by_row ? TC_OP(g, "Mul", g->of->douts[0], n->scale) : g->of->douts[0];
}

/* The gradient of a scale that differs by row: dY xhat, where xhat is the op's result for a scale of 1. */
static tc_value *gradient_of_scale(tc_build *g, const row_norm *n, tc_value *ones) {
    tc_node *again = tc_build_node(g, g->of->node->domain, g->of->node->op_type, TC_VALUES(n->x, ones), 1);
    for (uint32_t i = 0; i < g->of->node->n_attrs; i++)
        tc_attr_copy(again, &g->of->node->attrs[i]);
    return TC_OP(g, "Mul", g->of->douts[0], tc_build_finish(g, again));
}

void tc_gradient_layer_normalization(tc_build *g) {
    tc_node *node = g->of->node;
    tc_value *bias = tc_input(node, 2);
    row_norm n = read_row_norm(g);
    if (g->status != TC_OK)
        return;
    tc_value *mean = tc_grad_result(g, 1, "mean"), *inv_std = tc_grad_result(g, 2, "inv_std");
    tc_grad_infer_forward(g);
    tc_value *full = full_scale(g, &n), *operands[] = {gradient_of_result(g, &n), n.x, full, mean, inv_std};
    tc_node *grad = tc_build_node(g, TC_TEMPO_DOMAIN, "LayerNormalizationGrad", 5, operands, 3);
    tc_attr_set_int(grad, "axis", n.axis - n.rank);
    tc_attr_set_int(grad, "stash_type", tc_attr_int(node, "stash_type", 1));
    tc_build_finish(g, grad);
    if (g->of->needed[0])
        g->of->dins[0] = grad->outputs[0];
    if (g->of->needed[1])
        g->of->dins[1] = tc_grad_reduce_like(g, n.by_row ? gradient_of_scale(g, &n, full) : grad->outputs[1], n.scale);
    if (bias && g->of->needed[2])
        g->of->dins[2] = tc_grad_reduce_like(
            g, n.by_row || tc_grad_rank(g, bias) > n.rank - n.axis ? g->of->douts[0] : grad->outputs[2], bias);
}

/* The same without mean and bias. */
void tc_gradient_rms_normalization(tc_build *g) {
    row_norm n = read_row_norm(g);
    if (g->status != TC_OK)
        return;
    tc_value *inv_std = tc_grad_result(g, 1, "inv_std");
    tc_grad_infer_forward(g);
    tc_value *full = full_scale(g, &n), *operands[] = {gradient_of_result(g, &n), n.x, full, inv_std};
    const bool wanted[] = {g->of->needed[0] || n.by_row, g->of->needed[1] && !n.by_row};
    tc_node *grad =
        tc_build_node_with(g, TC_TEMPO_DOMAIN, "RMSNormalizationGrad", 4, operands, wanted[1] ? 2 : 1, wanted);
    tc_attr_set_int(grad, "axis", n.axis - n.rank);
    tc_build_finish(g, grad);
    g->of->dins[0] = grad->outputs[0];
    if (g->of->needed[1])
        g->of->dins[1] = tc_grad_reduce_like(g, n.by_row ? gradient_of_scale(g, &n, full) : grad->outputs[1], n.scale);
}

/* --- losses ----------------------------------------------------------------------------------- */
void tc_gradient_softmax_cross_entropy_loss(tc_build *g) {
    tc_node *node = g->of->node;
    tc_value *dloss = g->of->douts[0], *dlog = node->n_outputs > 1 ? g->of->douts[1] : NULL;
    tc_value *log_prob = tc_grad_result(g, 1, "log_prob"), *parts[2];
    size_t n = 0;
    tc_grad_infer_forward(g);
    if (dloss) {
        tc_value *weights = tc_input(node, 2), *operands[] = {dloss, log_prob, tc_input(node, 1), weights};
        tc_node *grad = tc_build_node(g, TC_TEMPO_DOMAIN, "SoftmaxCrossEntropyLossGrad", weights ? 4 : 3, operands, 1);
        tc_attr_set_string(grad, "reduction", tc_attr_string(node, "reduction", "mean"));
        const tc_attr *ignored = tc_attr_find(node, "ignore_index");
        if (ignored)
            tc_attr_set_int(grad, "ignore_index", ignored->i);
        parts[n++] = tc_build_finish(g, grad);
    }
    if (dlog)
        parts[n++] = softmax_grad(g, "LogSoftmaxGrad", dlog, log_prob, 1);
    if (n > 0)
        g->of->dins[0] = tc_build_sum(g, n, parts);
}

/* The weight of each label in the loss, [N, d1, ...]: its class's weight or 1. `kept`: the labels that count, or
 * NULL for all of them. */
static tc_value *label_weights(tc_build *g, tc_value *x, tc_value *weights, tc_value *labels, tc_value *kept) {
    tc_value *own = weights ? TC_OP(g, "Gather", weights, labels) : NULL,
             *counted = kept ? tc_build_cast(g, kept, tc_value_dtype(x)) : NULL;
    if (own && counted)
        return TC_OP(g, "Mul", own, counted);
    if (own || counted)
        return own ? own : counted;
    return TC_OP(g, "Expand", tc_build_like(g, x, 1), tc_build_shape(g, labels));
}

/* loss = -sum of w[label] x[label], divided by the sum of the weights for a mean. An ignored label gets 0, whatever
 * that sum is; the sum is 0 if all labels are ignored. */
void tc_gradient_negative_log_likelihood_loss(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *labels = tc_input(g->of->node, 1), *dloss = g->of->douts[0];
    const char *reduction = tc_attr_string(g->of->node, "reduction", "mean");
    const tc_attr *ignored = tc_attr_find(g->of->node, "ignore_index");
    tc_value *kept = NULL;
    if (ignored) {
        tc_dtype dtype = tc_value_dtype(labels);
        kept = TC_OP(g, "Not", TC_OP(g, "Equal", labels, tc_build_scalar(g, dtype, (double)ignored->i)));
        labels = TC_OP(g, "Where", kept, labels, tc_build_scalar(g, dtype, 0)); /* in range everywhere */
    }
    tc_value *weight = label_weights(g, x, tc_input(g->of->node, 2), labels, kept);
    if (strcmp(reduction, "mean") == 0) {
        weight = tc_build_wide(g, weight);
        tc_node *total = TC_BEGIN(g, "ReduceSum", weight);
        tc_attr_set_int(total, "keepdims", 0);
        dloss = TC_OP(g, "Div", tc_build_wide(g, dloss), tc_build_finish(g, total));
    }
    tc_value *share = tc_build_cast(g, TC_OP(g, "Mul", weight, dloss), tc_value_dtype(x));
    share = kept ? TC_OP(g, "Where", kept, share, tc_build_like(g, x, 0)) : share;
    int64_t channel = 1;
    tc_value *updates = tc_build_unsqueeze(g, TC_OP(g, "Neg", share), &channel, 1);
    tc_value *zeros = tc_build_zeros(g, tc_build_shape(g, x), tc_value_dtype(x));
    tc_node *node = TC_BEGIN(g, "ScatterElements", zeros, tc_build_unsqueeze(g, labels, &channel, 1), updates);
    tc_attr_set_int(node, "axis", 1);
    g->of->dins[0] = tc_build_finish(g, node);
}
