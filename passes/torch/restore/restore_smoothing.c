/* restore_smoothing.c: the label smoothing of PyTorch's cross entropy, which the dynamo exporter omits. The call
 * shows it: `cross_entropy_loss(%x, %labels, %weight, 1, -100, 0.1)`. With smoothing e and C classes the loss is
 *
 *   (1 - e) nll + e / C sum over classes of -w log_softmax(x)
 * Ignored labels contribute nothing, and a mean divides both parts by the same number: that of the labels, or the
 * sum of their weights. */
#include "restore_nodes.h"
#include <stdlib.h>
#include <string.h>

enum { SMOOTHING = 5, SCORES = 0, LABELS = 1, WEIGHTS = 2, CLASS_AXIS = 1 }; /* of the call; of ONNX's operands; of x */

typedef struct smoothing {
    tc_restore_nodes nodes; /* after the loss */
    tc_node *loss;
    tc_dtype dtype;
    double share; /* e */
    tc_value *zero, *ignored;
} smoothing;

static tc_value *number(const smoothing *s, tc_dtype dtype, double value) {
    return tc_restore_number(&s->nodes, dtype, value);
}

static tc_value *add(smoothing *s, const char *op_type, tc_value *a, tc_value *b, tc_value *c) {
    return tc_restore_add(&s->nodes, op_type, a, b, c);
}

static tc_value *add_sum(smoothing *s, tc_value *x) {
    tc_value *sum = add(s, "ReduceSum", x, NULL, NULL);
    tc_attr_set_int(sum->producer, "keepdims", 0);
    return sum;
}

/* The weights of classes, to be multiplied with scores. */
static tc_value *add_along_classes(smoothing *s, tc_value *weights, int rank) {
    tc_graph *graph = s->nodes.r->graph;
    int64_t *dims = TC_NEW_ARRAY(graph->model->arena, int64_t, (size_t)rank);
    for (int i = CLASS_AXIS; i < rank; i++)
        dims[i - CLASS_AXIS] = i == CLASS_AXIS ? -1 : 1;
    tc_tensor *shape = tc_tensor_ints(graph->model, dims, rank - CLASS_AXIS);
    return add(s, "Reshape", weights, tc_constant(graph, "class_weights_shape", shape), NULL);
}

/* For each label, the mean over classes of -w log_softmax(x); 0 if it is ignored. */
static tc_value *add_uniform(smoothing *s) {
    tc_value *scores = tc_input(s->loss, SCORES), *weights = tc_input(s->loss, WEIGHTS);
    const int64_t axis = CLASS_AXIS;
    tc_value *log = add(s, "LogSoftmax", scores, NULL, NULL);
    tc_attr_set_int(log->producer, "axis", axis);
    if (weights)
        log = add(s, "Mul", log, add_along_classes(s, weights, tc_value_rank(scores)), NULL);
    tc_value *mean = add(s, "ReduceMean", log, NULL, NULL);
    tc_restore_set_axes(mean->producer, &axis, 1);
    tc_attr_set_int(mean->producer, "keepdims", 0);
    return add(s, "Where", s->ignored, s->zero, add(s, "Neg", mean, NULL, NULL));
}

/* The divisor of a mean. */
static tc_value *add_divisor(smoothing *s) {
    tc_value *labels = tc_input(s->loss, LABELS), *weights = tc_input(s->loss, WEIGHTS), *each = NULL;
    if (weights) {
        tc_value *valid = add(s, "Where", s->ignored, number(s, tc_value_dtype(labels), 0), labels);
        each = add(s, "Gather", weights, valid, NULL);
    } else {
        each = number(s, s->dtype, 1);
    }
    return add_sum(s, add(s, "Where", s->ignored, s->zero, each));
}

static void put_back(smoothing *s) {
    tc_node *loss = s->loss;
    tc_value *labels = tc_input(loss, LABELS);
    const char *reduction = tc_attr_string(loss, "reduction", "mean");
    s->zero = number(s, s->dtype, 0);
    s->ignored = number(s, tc_value_dtype(labels), (double)tc_attr_int(loss, "ignore_index", -100));
    s->ignored = add(s, "Equal", labels, s->ignored, NULL);
    tc_value *uniform = add_uniform(s);
    if (strcmp(reduction, "none") != 0)
        uniform = add_sum(s, uniform);
    if (strcmp(reduction, "mean") == 0)
        uniform = add(s, "Div", uniform, add_divisor(s), NULL);
    uniform = add(s, "Mul", uniform, number(s, s->dtype, s->share), NULL);
    tc_value *result = tc_node_take_output(loss, 0);
    tc_value *plain =
        tc_node_add_output(loss, 0, tc_arena_printf(s->nodes.r->arena, "%s_plain", result->name), result->type);
    plain = add(s, "Mul", plain, number(s, s->dtype, 1 - s->share), NULL);
    tc_node_set_output(tc_restore_add_node(&s->nodes, "Add", plain, uniform, NULL), 0, result);
}

/* Labels that are probabilities of classes (soft_labels.h) are smoothed themselves, before the loss: (1 - e) t + e /
 * C. */
static bool smooth_labels(smoothing *s) {
    tc_value *labels = tc_input(s->loss, LABELS);
    const tc_type *type = labels->type->rank > CLASS_AXIS ? labels->type : tc_input(s->loss, SCORES)->type;
    if (!tc_dim_is_const(type->dims[CLASS_AXIS]))
        return false;
    s->nodes = tc_restore_before(s->nodes.r, s->loss, "smoothing");
    tc_dtype dtype = tc_value_dtype(labels);
    double uniform = s->share / (double)type->dims[CLASS_AXIS].value;
    tc_value *kept = add(s, "Mul", labels, number(s, dtype, 1 - s->share), NULL);
    tc_value *smooth = add(s, "Add", kept, number(s, dtype, uniform), NULL);
    tc_node_set_input(s->loss, LABELS, smooth);
    return true;
}

tc_status tc_restore_smoothing(tc_restore *r) {
    const char **names = TC_NEW_ARRAY(r->arena, const char *, r->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const tc_torch_call *call = &r->calls[i].call;
        const char *word = tc_torch_call_argument(call, SMOOTHING, "label_smoothing");
        double share = word ? strtod(word, NULL) : 0;
        tc_node *loss = tc_restore_node(&r->calls[i], "SoftmaxCrossEntropyLoss");
        if (!tc_torch_call_is(call, "aten.cross_entropy_loss") || !(share > 0 && share <= 1) || !loss)
            continue;
        const tc_value *scores = tc_input(loss, SCORES);
        smoothing s = {.nodes = tc_restore_after(r, loss, "smoothing"),
                       .loss = loss,
                       .dtype = tc_value_dtype(scores),
                       .share = share};
        bool known = tc_dtype_is_float(s.dtype) && tc_value_rank(scores) > CLASS_AXIS &&
                     tc_value_dtype(tc_input(loss, LABELS)) != TC_UNDEFINED;
        if (known && tc_dtype_is_float(tc_value_dtype(tc_input(loss, LABELS))))
            known = smooth_labels(&s);
        else if (known)
            put_back(&s);
        if (!known)
            TC_TRY(tc_restore_refuse(r, loss, "the file lacks PyTorch's label_smoothing",
                                     "write it with log_softmax, nll_loss and a mean"));
        names[n] = call->result;
        n += known;
    }
    if (n)
        tc_note(r->env->ctx, NULL, "label smoothing of %s is restored, as in PyTorch",
                tc_quote_list(r->env->ctx, names, n));
    return TC_OK;
}
