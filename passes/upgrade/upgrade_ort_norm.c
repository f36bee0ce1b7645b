/* upgrade_ort_norm.c: normalizations, embeddings with one, and softmax of ONNX Runtime, and their gradients. */
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

/* --- embeddings ------------------------------------------------------------------------------- */

static tc_value *one_int(tc_upgrade *up, tc_node *node, const char *what, int64_t value) {
    return tc_upgrade_ints(up, node, what, &value, 1);
}

/* Of a mask [batch, tokens]: int32[batch], how many elements are 1. */
static tc_value *count_ones(tc_upgrade *up, tc_node *node, tc_value *mask) {
    tc_value *ones = TC_EMIT(node, "Equal", "ones", mask, tc_ort_number(up, node, "one", 1, mask));
    tc_value *numbers = TC_EMIT(node, "Cast", "numbers", ones);
    tc_value *sum = TC_EMIT(node, "ReduceSum", "lengths", numbers, one_int(up, node, "last", 1));
    tc_attr_set_int(numbers->producer, "to", TC_INT32);
    tc_attr_set_int(sum->producer, "keepdims", 0);
    return sum;
}

/* Rows of the table for the ids of positions, or for 0, 1, ... */
static tc_value *rows_of_positions(tc_upgrade *up, tc_node *node, tc_value *table, tc_value *ids, tc_value *tokens) {
    if (ids)
        return TC_EMIT(node, "Gather", "positions", table, ids);
    tc_value *count = TC_EMIT(node, "Shape", "count", tokens);
    tc_attr_set_int(count->producer, "start", 1);
    tc_attr_set_int(count->producer, "end", 2);
    return TC_EMIT(node, "Slice", "positions", table, one_int(up, node, "from", 0), count,
                   one_int(up, node, "axis", 0));
}

/* (ids, segments?, words, positions, segment table?, scale, shift, mask?, position_ids?) -> (y, lengths?, sum?) */
tc_status tc_ort_embed_layer_norm(tc_upgrade *up, tc_node *node) {
    tc_value *ids = tc_input(node, 0), *segments = tc_input(node, 1), *mask = tc_input(node, 7);
    tc_value *lengths = tc_output(node, 1), *shown = tc_output(node, 2);
    TC_TRY(tc_ort_need_results(up, node, 3));
    if (lengths && tc_value_is_used(lengths)) {
        if (!mask)
            return tc_error(up->ctx, TC_UNSUPPORTED, node,
                            "its result 1, lengths by a mask, is in use, but it has no mask");
        tc_value_replace(lengths, count_ones(up, node, mask));
    }
    tc_value *words = TC_EMIT(node, "Gather", "words", tc_input(node, 2), ids);
    tc_value *rows = rows_of_positions(up, node, tc_input(node, 3), tc_input(node, 8), ids);
    tc_value *sum = TC_EMIT(node, "Add", "sum", words, rows);
    if (segments)
        sum = TC_EMIT(node, "Add", "sum", sum, TC_EMIT(node, "Gather", "segments", tc_input(node, 4), segments));
    if (shown)
        tc_value_replace(shown, sum);
    tc_node_resize_outputs(node, 1);
    tc_attr_remove(node, "mask_index_type");
    tc_attr_set_float(node, "epsilon", tc_attr_float(node, "epsilon", 1e-12f));
    tc_attr_set_int(node, "axis", -1);
    return TC_BECOME(node, "", "LayerNormalization", sum, tc_input(node, 5), tc_input(node, 6));
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
