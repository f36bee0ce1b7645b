/* upgrade_ort_norm.c: normalizations and softmax of ONNX Runtime, and their gradients. */
#include "compiler/shape/shape.h"
#include "upgrade_ort.h"
#include <string.h>

tc_status tc_ort_layer_norm_grad(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_remove(node, "epsilon"); /* it is in 1/std */
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "LayerNormalizationGrad");
    return TC_OK;
}

/* A result of the LayerNormalization that made Y, added if the node lacks it. */
static tc_value *statistic(tc_node *norm, uint32_t index, const char *what) {
    if (norm->n_outputs <= index)
        tc_node_resize_outputs(norm, index + 1);
    tc_value *value = tc_output(norm, index);
    const char *name = tc_arena_printf(norm->graph->model->arena, "%s_%s", norm->outputs[0]->name, what);
    return value ? value : tc_node_add_output(norm, index, name, NULL);
}

/* (dY, Y, scale, bias, 1/std): x-hat = (Y - bias) / scale, which is NaN where scale is 0. If the norm itself is in
 * the graph, its operand suffices; the recipe chooses the tensor to keep. */
tc_status tc_ort_layer_norm_grad_from_y(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1), *scale = tc_input(node, 2), *inv = tc_input(node, 4);
    tc_node *norm = y ? y->producer : NULL;
    tc_attr_remove(node, "epsilon");
    tc_attr_remove(node, "stash_type");
    if (norm && tc_node_is(norm, "", "LayerNormalization") && y->out_index == 0 && tc_input(norm, 1) == scale) {
        tc_value *mean = statistic(norm, 1, "mean");
        inv = statistic(norm, 2, "inv_std");
        if (!up->in_function)
            TC_TRY(tc_infer_node(up->ctx, norm));
        return TC_BECOME(node, TC_TEMPO_DOMAIN, "LayerNormalizationGrad", dy, tc_input(norm, 0), scale, mean, inv);
    }
    tc_warn(up->ctx, node, "this gradient divides by the scale '%s': it is NaN where an element of the scale is 0",
            scale ? tc_quote(up->ctx, scale->name) : "absent");
    tc_value *xhat = TC_EMIT(node, "Div", "xhat", TC_EMIT(node, "Sub", "centred", y, tc_input(node, 3)), scale);
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "LayerNormalizationXhatGrad", dy, xhat, scale, inv);
}

tc_status tc_ort_rms_norm(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "RMSNormalization");
    return TC_OK;
}

tc_status tc_ort_rms_norm_grad(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_remove(node, "epsilon");
    tc_attr_remove(node, "stash_type");
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "RMSNormalizationGrad");
    return TC_OK;
}

/* --- over batch and places -------------------------------------------------------------------- */

typedef struct channels { /* for [N, C, d1, ...] */
    tc_upgrade *up;
    tc_node *node;
    tc_value *others; /* all axes except the channels' */
    tc_value *places; /* 1, ... rank - 2: axes that a parameter [C] lacks */
} channels;

static tc_status read_channels(tc_upgrade *up, tc_node *node, uint32_t operand, channels *out) {
    int64_t axes[TC_MAX_RANK] = {0}, places[TC_MAX_RANK];
    int rank;
    TC_TRY(tc_ort_need_rank(up, node, operand, 2, &rank));
    for (int i = 2; i < rank; i++) {
        axes[i - 1] = i;
        places[i - 2] = i - 1;
    }
    *out = (channels){up, node, tc_upgrade_ints(up, node, "axes", axes, rank - 1), NULL};
    if (rank > 2)
        out->places = tc_upgrade_ints(up, node, "places", places, rank - 2);
    return TC_OK;
}

static tc_value *reduce(const channels *c, const char *op, tc_value *value, bool keepdims) {
    tc_value *result = TC_EMIT(c->node, op, op, value, c->others);
    tc_attr_set_int(result->producer, "keepdims", keepdims);
    return result;
}

static tc_value *per_channel(const channels *c, tc_value *value) {
    return c->places ? TC_EMIT(c->node, "Unsqueeze", "wide", value, c->places) : value;
}

/* (dY, X, scale, mean, 1/std) -> (dX, dscale, dbias); the statistics [C] are those of X itself. */
tc_status tc_ort_batch_norm_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *x = tc_input(node, 1);
    channels c;
    TC_TRY(tc_ort_need_results(up, node, 3));
    TC_TRY(read_channels(up, node, 1, &c));
    tc_value *inv = per_channel(&c, tc_input(node, 4)), *mean = per_channel(&c, tc_input(node, 3));
    tc_value *xhat = TC_EMIT(node, "Mul", "xhat", TC_EMIT(node, "Sub", "centred", x, mean), inv);
    tc_value *dxhat = TC_EMIT(node, "Mul", "dxhat", dy, per_channel(&c, tc_input(node, 2)));
    tc_value *along = reduce(&c, "ReduceMean", TC_EMIT(node, "Mul", "product", dxhat, xhat), true);
    tc_value *rest = TC_EMIT(node, "Sub", "rest", dxhat, TC_EMIT(node, "Mul", "along", xhat, along));
    tc_value *turned = TC_EMIT(node, "Sub", "turned", rest, reduce(&c, "ReduceMean", rest, true));
    tc_value *gradients[] = {TC_EMIT(node, "Mul", "dx", turned, inv),
                             reduce(&c, "ReduceSum", TC_EMIT(node, "Mul", "share", dy, xhat), false),
                             reduce(&c, "ReduceSum", dy, false)};
    tc_ort_replace_results(node, gradients, 3);
    return TC_OK;
}

/* BatchNormalization with two more results: mean and 1/std of its operand. */
tc_status tc_ort_batch_norm(tc_upgrade *up, tc_node *node) {
    tc_value *x = tc_input(node, 0), *statistics[5] = {NULL};
    channels c;
    TC_TRY(tc_ort_need_results(up, node, 5));
    if (tc_attr_int(node, "training_mode", 0) == 0)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "without training_mode it has no batch statistics");
    TC_TRY(read_channels(up, node, 0, &c));
    tc_value *mean = reduce(&c, "ReduceMean", x, false);
    tc_value *centred = TC_EMIT(node, "Sub", "centred", x, per_channel(&c, mean));
    tc_value *var = reduce(&c, "ReduceMean", TC_EMIT(node, "Mul", "square", centred, centred), false);
    tc_value *epsilon = tc_ort_number(up, node, "epsilon", (double)tc_attr_float(node, "epsilon", 1e-5f), x);
    tc_value *std = TC_EMIT(node, "Sqrt", "std", TC_EMIT(node, "Add", "var", var, epsilon));
    statistics[3] = mean;
    statistics[4] = TC_EMIT(node, "Reciprocal", "inv_std", std);
    for (uint32_t i = 3; i < node->n_outputs && i < 5; i++)
        if (node->outputs[i])
            tc_value_replace(node->outputs[i], statistics[i]);
    if (node->n_outputs > 3)
        tc_node_resize_outputs(node, 3);
    tc_node_set_op(node, "", "BatchNormalization");
    return TC_OK;
}

/* --- softmax ---------------------------------------------------------------------------------- */

/* Before opset 13 all axes from `axis` on were one. (dY, Y) -> dX. */
tc_status tc_ort_flat_softmax_grad(tc_upgrade *up, tc_node *node) {
    const char *op = strncmp(node->op_type, "Log", 3) == 0 ? "LogSoftmaxGrad" : "SoftmaxGrad";
    int64_t axis = tc_attr_int(node, "axis", 1);
    tc_value *y = tc_input(node, 1);
    int rank = tc_value_rank(y);
    (void)up;
    if (axis == -1 || (rank >= 0 && axis == rank - 1)) {
        tc_attr_set_int(node, "axis", -1);
        return TC_BECOME(node, TC_TEMPO_DOMAIN, op, tc_input(node, 0), y);
    }
    tc_value *flat[2];
    for (uint32_t i = 0; i < 2; i++) {
        flat[i] = TC_EMIT(node, "Flatten", "flat", tc_input(node, i));
        tc_attr_set_int(flat[i]->producer, "axis", axis);
    }
    tc_value *rows = TC_EMIT(node, op, "rows", flat[0], flat[1]);
    tc_node_set_op(rows->producer, TC_TEMPO_DOMAIN, op);
    tc_attr_set_int(rows->producer, "axis", -1);
    tc_attr_remove(node, "axis");
    return TC_BECOME(node, "", "Reshape", rows, TC_EMIT(node, "Shape", "shape", y));
}
