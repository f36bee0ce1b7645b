/* upgrade_ort_fused.c: splits fused ops, which ONNX Runtime makes when a session or a build for GPUs optimizes a
 * training graph, so that later passes see the ops of the exporter. */
#include "compiler/shape/shape.h"
#include "upgrade_ort.h"
#include <string.h>

/* --- products --------------------------------------------------------------------------------- */

/* Operand `index`: dim 0 moves before the last one if the attribute `batch` is set; then the last two dims are
 * exchanged if `last` is. */
static tc_status transposed(tc_upgrade *up, tc_node *node, uint32_t index, const char *batch, const char *last,
                            tc_value **out_value) {
    int rank;
    int64_t perm[TC_MAX_RANK];
    bool moves = tc_attr_int(node, batch, 0) != 0, swaps = tc_attr_int(node, last, 0) != 0;
    tc_attr_remove(node, batch);
    tc_attr_remove(node, last);
    *out_value = tc_input(node, index);
    if (!moves && !swaps)
        return TC_OK;
    TC_TRY(tc_ort_need_rank(up, node, index, 2, &rank));
    for (int i = 0; i < rank; i++)
        perm[i] = !moves || i == rank - 1 ? i : i == rank - 2 ? 0 : i + 1;
    if (swaps) {
        int64_t before = perm[rank - 2];
        perm[rank - 2] = perm[rank - 1];
        perm[rank - 1] = before;
    }
    *out_value = TC_EMIT(node, "Transpose", last, *out_value);
    tc_attr_set_ints((*out_value)->producer, "perm", perm, (size_t)rank);
    return TC_OK;
}

tc_status tc_ort_fused_matmul(tc_upgrade *up, tc_node *node) {
    float alpha = tc_attr_float(node, "alpha", 1.0f);
    tc_value *a, *b;
    TC_TRY(transposed(up, node, 0, "transBatchA", "transA", &a));
    TC_TRY(transposed(up, node, 1, "transBatchB", "transB", &b));
    tc_attr_remove(node, "alpha");
    if (alpha == 1.0f)
        return TC_BECOME(node, "", "MatMul", a, b);
    tc_value *product = TC_EMIT(node, "MatMul", "product", a, b);
    return TC_BECOME(node, "", "Mul", product, tc_ort_number(up, node, "alpha", (double)alpha, a));
}

/* Ops of ai.onnx that are fused after a product, with their attributes in the order of activation_params. */
static const struct activation {
    const char *op, *params[2];
} activations[] = {
    {"Elu", {"alpha", NULL}},       {"HardSigmoid", {"alpha", "beta"}},
    {"LeakyRelu", {"alpha", NULL}}, {"Relu", {NULL, NULL}},
    {"Selu", {"alpha", "gamma"}},   {"Sigmoid", {NULL, NULL}},
    {"Softplus", {NULL, NULL}},     {"Softsign", {NULL, NULL}},
    {"Tanh", {NULL, NULL}},         {"ThresholdedRelu", {"alpha", NULL}},
};

static tc_status read_activation(tc_upgrade *up, tc_node *node, const struct activation **out_activation) {
    const char *name = tc_attr_string(node, "activation", "");
    for (size_t i = 0; i < TC_COUNT(activations); i++) {
        if (strcmp(activations[i].op, name) != 0)
            continue;
        *out_activation = &activations[i];
        tc_attr_remove(node, "activation");
        return TC_OK;
    }
    return tc_error(up->ctx, TC_UNSUPPORTED, node, "the activation '%s' is not known here", tc_quote(up->ctx, name));
}

/* Attributes that begin with activation_ belong to the fused op and stay, the others go to the product. */
static void split_attrs(tc_node *node, tc_node *product) {
    for (size_t i = node->n_attrs; i-- > 0;) {
        if (strncmp(node->attrs[i].name, "activation_", strlen("activation_")) == 0)
            continue;
        tc_attr_copy(product, &node->attrs[i]);
        tc_attr_remove(node, node->attrs[i].name);
    }
}

/* Each attribute of the fused op is one of the node, with a prefix. */
tc_status tc_ort_fused_gemm(tc_upgrade *up, tc_node *node) {
    const struct activation *activation = NULL;
    TC_TRY(read_activation(up, node, &activation));
    tc_value *operands[] = {tc_input(node, 0), tc_input(node, 1), tc_input(node, 2)};
    tc_value *sum = tc_upgrade_emit(node, "Gemm", "sum", operands, tc_input(node, 2) ? 3 : 2);
    split_attrs(node, sum->producer);
    for (size_t i = node->n_attrs; i-- > 0;) {
        tc_attr attr = node->attrs[i];
        tc_attr_remove(node, attr.name);
        attr.name += strlen("activation_");
        attr.origin = NULL; /* it has the old name */
        tc_attr_copy(node, &attr);
    }
    return TC_BECOME(node, "", activation->op, sum);
}

/* (x, weight, bias?, added?): the attributes of the fused op are one list. */
tc_status tc_ort_fused_conv(tc_upgrade *up, tc_node *node) {
    const struct activation *activation = NULL;
    TC_TRY(read_activation(up, node, &activation));
    tc_value *operands[] = {tc_input(node, 0), tc_input(node, 1), tc_input(node, 2)}, *added = tc_input(node, 3);
    tc_value *sum = tc_upgrade_emit(node, "Conv", "sum", operands, tc_input(node, 2) ? 3 : 2);
    split_attrs(node, sum->producer);
    const tc_attr *given = tc_attr_find(node, "activation_params");
    float params[2] = {0};
    for (size_t i = 0; i < TC_COUNT(params) && given && given->kind == TC_ATTR_FLOATS && i < given->count; i++)
        params[i] = given->floats[i];
    size_t n = given ? given->count : 0;
    tc_attr_remove(node, "activation_params");
    for (size_t i = 0; i < n && i < TC_COUNT(params) && activation->params[i]; i++)
        tc_attr_set_float(node, activation->params[i], params[i]);
    return TC_BECOME(node, "", activation->op, added ? TC_EMIT(node, "Add", "added", sum, added) : sum);
}

/* --- dropout ---------------------------------------------------------------------------------- */

/* The node's Dropout: of x, with ratio and training_mode from operand `ratio` on and the node's seed. Its mask
 * replaces result 1. Returns the dropped x. */
static tc_value *dropped(tc_node *node, tc_value *x, tc_value *ratio, tc_value *training) {
    tc_value *operands[] = {x, ratio, training};
    tc_value *result = tc_upgrade_emit(node, "Dropout", "dropped", operands, training ? 3 : ratio ? 2 : 1);
    const tc_attr *seed = tc_attr_find(node, "seed");
    if (seed)
        tc_attr_copy(result->producer, seed);
    tc_attr_remove(node, "seed");
    if (tc_output(node, 1)) {
        node->outputs[1]->type = NULL; /* the mask is no longer packed */
        tc_node_set_output(result->producer, 1, tc_node_take_output(node, 1));
    }
    return result;
}

/* (x, bias, residual?, ratio?, training_mode?) -> (y, mask?) */
tc_status tc_ort_bias_dropout(tc_upgrade *up, tc_node *node) {
    tc_value *residual = tc_input(node, 2);
    TC_TRY(tc_ort_need_results(up, node, 2));
    tc_value *y = dropped(node, tc_ort_biased(node, 0), tc_input(node, 3), tc_input(node, 4));
    tc_node_resize_outputs(node, 1);
    return residual ? TC_BECOME(node, "", "Add", y, residual) : TC_BECOME(node, "", "Identity", y);
}

/* Only the gradient can read a mask of one bit per element. */
static tc_status need_own_mask(tc_upgrade *up, const tc_node *node) {
    const tc_value *mask = tc_output(node, 1);
    bool is_own = !mask || mask->n_graph_outputs == 0;
    for (const tc_use *use = mask ? mask->uses : NULL; use; use = use->next)
        is_own = is_own && tc_node_is(use->user, node->domain, "BitmaskDropoutGrad") && use->index == 1;
    return is_own ? TC_OK
                  : tc_error(up->ctx, TC_UNSUPPORTED, node, "its packed mask '%s' has other readers than its gradient",
                             tc_quote(up->ctx, mask->name));
}

tc_status tc_ort_bitmask_bias_dropout(tc_upgrade *up, tc_node *node) {
    TC_TRY(need_own_mask(up, node));
    return tc_ort_bias_dropout(up, node);
}

/* (x, ratio?, training_mode?) -> (y, mask?) */
tc_status tc_ort_bitmask_dropout(tc_upgrade *up, tc_node *node) {
    TC_TRY(need_own_mask(up, node));
    if (tc_output(node, 1))
        node->outputs[1]->type = NULL;
    tc_node_set_op(node, "", "Dropout");
    return TC_OK;
}

/* (dY, mask, ratio?, training_mode?): the Dropout above now gives a mask of bools. */
tc_status tc_ort_bitmask_dropout_grad(tc_upgrade *up, tc_node *node) {
    const tc_value *mask = tc_input(node, 1);
    if (!mask || !mask->producer || !tc_node_is(mask->producer, "", "Dropout"))
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "its packed mask '%s' comes from no dropout of the graph",
                        mask ? tc_quote(up->ctx, mask->name) : "absent");
    return tc_ort_dropout_grad(up, node);
}

/* --- softmax and norms ------------------------------------------------------------------------ */

/* The softmax of x + bias over all axes from `axis` on, as one. */
static tc_value *biased_softmax(tc_node *node) {
    tc_value *x = tc_ort_biased(node, 0);
    int64_t axis = tc_attr_int(node, "axis", 1);
    int rank = tc_value_rank(tc_input(node, 0));
    bool is_last = axis == -1 || (rank >= 0 && axis == rank - 1);
    tc_attr_remove(node, "axis");
    tc_attr_remove(node, "is_inner_broadcast"); /* the bias has dims of 1 where it repeats */
    tc_value *rows = x;
    if (!is_last) {
        rows = TC_EMIT(node, "Flatten", "flat", x);
        tc_attr_set_int(rows->producer, "axis", axis);
    }
    rows = TC_EMIT(node, "Softmax", "softmax", rows);
    tc_attr_set_int(rows->producer, "axis", -1);
    return is_last ? rows : TC_EMIT(node, "Reshape", "whole", rows, TC_EMIT(node, "Shape", "shape", x));
}

tc_status tc_ort_bias_softmax(tc_upgrade *up, tc_node *node) {
    (void)up;
    return TC_BECOME(node, "", "Identity", biased_softmax(node));
}

/* (x, bias, ratio?) -> (dropped, mask, softmax) */
tc_status tc_ort_bias_softmax_dropout(tc_upgrade *up, tc_node *node) {
    TC_TRY(tc_ort_need_results(up, node, 3));
    tc_value *softmax = biased_softmax(node), *ratio = tc_input(node, 2);
    tc_value *training = tc_upgrade_constant(up, node, "training", tc_tensor_scalar(up->model, TC_BOOL, 1));
    tc_value *y = dropped(node, softmax, ratio, training);
    if (tc_output(node, 2))
        tc_value_replace(node->outputs[2], softmax);
    tc_node_resize_outputs(node, 1);
    return TC_BECOME(node, "", "Identity", y);
}

/* (dY, mask, softmax, ratio?) */
tc_status tc_ort_softmax_dropout_grad(tc_upgrade *up, tc_node *node) {
    tc_value *ratio = tc_input(node, 3), *softmax = tc_input(node, 2);
    if (!ratio)
        ratio = tc_upgrade_constant(up, node, "ratio", tc_tensor_scalar(up->model, TC_FLOAT, 0.5));
    tc_value *kept = TC_EMIT(node, "DropoutGrad", "kept", tc_input(node, 0), tc_input(node, 1), ratio);
    tc_node_set_op(kept->producer, TC_TEMPO_DOMAIN, "DropoutGrad");
    tc_node_set_input(node, 0, kept);
    tc_node_set_input(node, 1, softmax);
    tc_node_resize_inputs(node, 2);
    return tc_ort_flat_softmax_grad(up, node);
}

/* The sum of operands 0, 1 and `bias`, which is also a result: (y, mean?, 1/std?, sum?). */
static tc_status skipped(tc_upgrade *up, tc_node *node, uint32_t bias, tc_value **out_sum) {
    TC_TRY(tc_ort_need_results(up, node, 4));
    *out_sum = TC_EMIT(node, "Add", "skip", tc_input(node, 0), tc_input(node, 1));
    if (tc_input(node, bias))
        *out_sum = TC_EMIT(node, "Add", "biased", *out_sum, tc_input(node, bias));
    if (tc_output(node, 3)) {
        tc_value_replace(node->outputs[3], *out_sum);
        tc_node_resize_outputs(node, 3);
    }
    tc_attr_set_float(node, "epsilon", tc_attr_float(node, "epsilon", 1e-12f));
    tc_attr_set_int(node, "axis", -1);
    return TC_OK;
}

/* (x, skip, scale, shift?, bias?) */
tc_status tc_ort_skip_layer_norm(tc_upgrade *up, tc_node *node) {
    tc_value *sum, *scale = tc_input(node, 2), *shift = tc_input(node, 3);
    TC_TRY(skipped(up, node, 4, &sum));
    return shift ? TC_BECOME(node, "", "LayerNormalization", sum, scale, shift)
                 : TC_BECOME(node, "", "LayerNormalization", sum, scale);
}

/* (x, skip, scale, bias?) -> (y, -, 1/std?, sum?): the op's mean is that of LayerNormalization; this node does not
 * compute it. */
tc_status tc_ort_skip_rms_norm(tc_upgrade *up, tc_node *node) {
    tc_value *sum, *scale = tc_input(node, 2), *mean = tc_output(node, 1);
    if (mean && tc_value_is_used(mean))
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "its result 1, a mean, is in use, but the op computes none");
    TC_TRY(skipped(up, node, 3, &sum));
    tc_value *inv = node->n_outputs > 2 && node->outputs[2] ? tc_node_take_output(node, 2) : NULL;
    tc_node_resize_outputs(node, 1);
    if (inv)
        tc_node_set_output(node, 1, inv);
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "RMSNormalization", sum, scale);
}
