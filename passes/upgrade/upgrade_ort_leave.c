/* upgrade_ort_leave.c: gradients that leave or enter a training graph of ONNX Runtime. They leave through
 * accumulators, which add to a buffer of the caller; these become plain outputs W_grad, as in graphs that tempoc
 * differentiated itself. A YieldOp, which hands over to a framework, becomes outputs and inputs of the graph. */
#include "upgrade_ort.h"
#include <string.h>

static const char *without_end(tc_model *model, const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0 ? tc_arena_strndup(model->arena, name, n - m) : name;
}

static void drop_input(tc_value *value) {
    if (value && value->is_input && !tc_value_is_used(value))
        tc_graph_remove_input(value->graph, value);
}

/* The training tools call the buffer of W "W_grad.accumulation.buffer"; it has W's type. NULL: this name does not
 * follow that pattern. */
static tc_value *parameter_of(tc_graph *graph, const tc_value *gradient, const tc_value *buffer) {
    const char *name = without_end(graph->model, buffer->name, "_grad.accumulation.buffer");
    tc_value *value = name == buffer->name ? NULL : tc_graph_find(graph, name);
    bool is_given = value && value != gradient && !value->producer;
    return is_given && tc_type_equal(value->type, buffer->type) ? value : NULL;
}

/* The new content of the accumulator's buffer. V2: the gradient alone if `flag` is true, else the sum. V1: the sum
 * if `flag` is true, else the old buffer. The flag has one element, or is absent: the sum. */
static tc_value *accumulated(tc_upgrade *up, tc_node *node, tc_value *gradient) {
    tc_value *buffer = tc_input(node, 0), *flag = tc_input(node, 2);
    tc_value *sum = TC_EMIT(node, "Add", "sum", buffer, gradient);
    if (!flag)
        return sum;
    tc_value *scalar = TC_EMIT(node, "Reshape", "flag", flag, tc_upgrade_ints(up, node, "scalar", NULL, 0));
    bool is_v2 = strcmp(node->op_type, "InPlaceAccumulatorV2") == 0;
    return TC_EMIT(node, "Where", "kept", scalar, is_v2 ? gradient : sum, is_v2 ? sum : buffer);
}

/* The value that leaves the graph, called `name` if that is free. It cannot be renamed if it comes from outside or
 * is an output already. A gradient of this name that is added to a buffer gets another one. */
static tc_value *named(tc_upgrade *up, tc_node *node, tc_value *gradient, const char *name) {
    tc_graph *graph = node->graph;
    tc_value *leaves = gradient;
    if (up->accumulate)
        leaves = accumulated(up, node, gradient);
    else if (strcmp(gradient->name, name) != 0)
        leaves = TC_EMIT(node, "Identity", "grad", gradient);
    if (leaves == gradient)
        return gradient;
    if (strcmp(gradient->name, name) == 0 && gradient->producer && gradient->n_graph_outputs == 0)
        tc_value_rename(gradient, tc_graph_unique_name(graph, tc_arena_printf(up->model->arena, "%s_of_batch", name)));
    tc_value_rename(leaves, tc_graph_unique_name(graph, name));
    return leaves;
}

/* (buffer, gradient, flag?) -> (done, buffer?): the gradient becomes the output instead of `done`. */
tc_status tc_ort_accumulator(tc_upgrade *up, tc_node *node) {
    tc_graph *graph = node->graph;
    tc_value *buffer = tc_input(node, 0), *gradient = tc_input(node, 1), *reset = tc_input(node, 2),
             *done = tc_output(node, 0);
    if (!buffer || !buffer->is_input || !gradient || graph->parent || tc_value_use_count(buffer) != 1)
        return tc_error(up->ctx, TC_UNSUPPORTED, node,
                        "a buffer that is not a graph input, or that is used elsewhere, cannot be omitted");
    for (uint32_t i = 0; i < node->n_outputs; i++)
        for (tc_use *use = node->outputs[i] ? node->outputs[i]->uses : NULL; use; use = use->next)
            return tc_error(up->ctx, TC_UNSUPPORTED, node,
                            "result %u is read by a node: it has no meaning without the buffer", i);
    const char *name = without_end(up->model, buffer->name, ".accumulation.buffer");
    gradient = named(up, node, gradient, name);
    gradient->role = TC_ROLE_GRADIENT;
    gradient->gradient_of = parameter_of(graph, gradient, buffer);
    bool placed = false;
    for (uint32_t k = 0; k < graph->n_outputs; k++)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (graph->outputs[k] == node->outputs[i] && (done == node->outputs[i] || node->outputs[i])) {
                if (placed)
                    return tc_error(up->ctx, TC_UNSUPPORTED, node, "several of its results are outputs of the graph");
                tc_graph_set_output(graph, k, gradient);
                placed = true;
            }
    tc_node_erase(node);
    drop_input(buffer);
    drop_input(reset);
    up->accumulators++;
    return TC_OK;
}

/* Operands become outputs. Results become inputs, which the caller provides; they are the gradients of
 * differentiable operands, in order. */
tc_status tc_ort_yield(tc_upgrade *up, tc_node *node) {
    size_t n_skipped;
    const int64_t *skipped = tc_attr_ints(node, "non_differentiable_outputs", &n_skipped);
    uint32_t at = 0;
    if (node->graph->parent)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "a YieldOp in a nested graph has no meaning");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_value *value = tc_input(node, i);
        bool skip = false;
        for (size_t k = 0; k < n_skipped; k++)
            skip = skip || skipped[k] == (int64_t)i;
        if (value && value->n_graph_outputs == 0)
            tc_graph_add_output(node->graph, value);
        if (skip || at >= node->n_outputs)
            continue;
        if (!node->outputs[at++])
            continue;
        tc_value *gradient = tc_node_take_output(node, at - 1);
        if (!gradient->type && value)
            gradient->type = value->type;
        gradient->role = TC_ROLE_BACKWARD;
        tc_graph_add_input(node->graph, gradient);
        tc_note(up->ctx, NULL, "YieldOp: '%s' is now an output of the graph, and its gradient the input '%s' %s",
                value ? tc_quote(up->ctx, value->name) : "absent", tc_quote(up->ctx, gradient->name),
                tc_type_text(up->ctx->arena, gradient->type));
    }
    TC_TRY(tc_ort_need_results(up, node, at));
    tc_node_erase(node);
    return TC_OK;
}
