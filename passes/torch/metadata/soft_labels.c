/* soft_labels.c: with labels t of the shape of the scores x, PyTorch's cross entropy is
 *
 *   sum over classes of -t w log_softmax(x)
 * with optional weights w of classes; a mean divides by the number of rows, with weights or without. */
#include "soft_labels.h"
#include "compiler/build/build.h"
#include <string.h>

enum { SCORES, LABELS, WEIGHTS, CLASS_AXIS = 1 }; /* operands; the axis of x */

static bool has_soft_labels(const tc_node *node) {
    if (!tc_node_is(node, "", "SoftmaxCrossEntropyLoss") || tc_output(node, 1))
        return false;
    const tc_value *scores = tc_input(node, SCORES), *labels = tc_input(node, LABELS);
    return scores && labels && tc_dtype_is_float(tc_value_dtype(scores)) && tc_dtype_is_float(tc_value_dtype(labels)) &&
           tc_value_rank(scores) > CLASS_AXIS && tc_value_rank(labels) == tc_value_rank(scores);
}

/* [classes] -> [classes, 1, ...], to be multiplied with scores. */
static tc_value *along_classes(tc_build *g, tc_value *weights, int rank) {
    int64_t axes[TC_MAX_RANK];
    size_t n = 0;
    for (int axis = CLASS_AXIS + 1; axis < rank; axis++)
        axes[n++] = axis - CLASS_AXIS;
    return n ? tc_build_unsqueeze(g, weights, axes, n) : weights;
}

static tc_value *losses(tc_build *g, const tc_node *node) {
    tc_value *scores = tc_input(node, SCORES), *weights = tc_input(node, WEIGHTS);
    tc_dtype dtype = tc_value_dtype(scores);
    tc_node *logs = TC_BEGIN(g, "LogSoftmax", scores);
    tc_attr_set_int(logs, "axis", CLASS_AXIS);
    tc_value *each = TC_OP(g, "Mul", tc_build_finish(g, logs), tc_build_cast(g, tc_input(node, LABELS), dtype));
    if (weights)
        each = TC_OP(g, "Mul", each, along_classes(g, tc_build_cast(g, weights, dtype), tc_value_rank(scores)));
    return tc_build_reduce(g, "ReduceSum", each, (const int64_t[]){CLASS_AXIS}, 1, false);
}

/* The node becomes the last op. */
static void become(tc_node *node, const char *op_type, tc_value *operand) {
    tc_attr_remove(node, "reduction");
    tc_attr_remove(node, "ignore_index");
    tc_node_set_op(node, "", op_type);
    tc_node_resize_inputs(node, 1);
    tc_node_set_input(node, 0, operand);
}

tc_status tc_soft_labels(void *user, tc_node *node) {
    tc_ctx *ctx = user;
    if (!has_soft_labels(node))
        return TC_OK;
    bool mean = strcmp(tc_attr_string(node, "reduction", "mean"), "mean") == 0;
    bool none = strcmp(tc_attr_string(node, "reduction", "mean"), "none") == 0;
    tc_insert insert;
    tc_insert_begin(&insert, ctx, ctx->arena, node);
    tc_value *each = losses(&insert.g, node);
    each = none ? each : TC_OP(&insert.g, "Neg", each);
    TC_TRY(tc_insert_end(&insert));
    become(node, none ? "Neg" : mean ? "ReduceMean" : "ReduceSum", each);
    if (!none)
        tc_attr_set_int(node, "keepdims", 0);
    tc_note(ctx, node,
            "the labels are probabilities of classes: ONNX has no op for this loss, so it is "
            "computed as in PyTorch");
    return TC_OK;
}
