/* upgrade_ort_builder.c: gradient ops of ONNX Runtime that autodiff has a builder for (gradients.def). A copy of the
 * forward node is created before the gradient node, the builder appends its gradient at the end of the graph, and
 * these nodes replace both. The graph then holds the same nodes as after autodiff. */
#include "passes/gradients/gradients.h"
#include "upgrade_ort.h"
#include <string.h>

/* --- method ------------------------------------------------------------------------------------- */

/* A copy of the forward node: a node with the attributes of its gradient, operands [n] and one result. */
static tc_status forward_again(tc_upgrade *up, tc_node *node, const char *op, tc_value *const *operands, uint32_t n,
                               tc_node **out_forward) {
    if (up->in_function)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "the op needs shapes that are not known in a function's body");
    tc_node *forward = tc_upgrade_emit(node, op, "again", operands, n)->producer;
    for (size_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(forward, &node->attrs[i]);
    *out_forward = forward;
    return tc_infer_node(up->ctx, forward);
}

/* Puts the gradients of the forward node's operands into dins[n_inputs] if needed[i] is set. */
static tc_status build(tc_upgrade *up, tc_node *node, tc_node *forward, tc_value *dy, const bool *needed,
                       tc_value **dins) {
    tc_graph *graph = node->graph;
    tc_node *last = graph->last;
    tc_arena *scratch = tc_arena_create();
    tc_build_pool pool = {scratch, tc_map_create(scratch)};
    tc_value *douts[4] = {dy}; /* builders may add results */
    tc_gradient task = {.node = forward, .douts = douts, .needed = needed, .dins = dins};
    tc_build g = {.ctx = up->ctx, .model = up->model, .graph = graph, .pool = &pool, .of = &task};
    g.label = tc_arena_printf(scratch, "%s_grad", tc_node_label(node));
    tc_gradient_build(&g);
    while (last->next)
        tc_node_move_before(last->next, node);
    tc_arena_destroy(scratch);
    return g.status;
}

/* The same for a copy, which is removed afterwards: readers of its result's shape read the gradient's shape. */
static tc_status build_again(tc_upgrade *up, tc_node *node, const char *op, tc_value *const *operands, uint32_t n,
                             tc_value *dy, const bool *needed, tc_value **dins) {
    tc_node *forward = NULL;
    TC_TRY(forward_again(up, node, op, operands, n, &forward));
    const tc_type *type = tc_output(forward, 0)->type;
    if (dy && type && type->dims) {
        dy = tc_ort_unrepeated(up, node, dy, type->dims, type->rank);
        if (dy->producer && !dy->type)
            TC_TRY(tc_infer_node(up->ctx, dy->producer));
    }
    TC_TRY(build(up, node, forward, dy, needed, dins));
    tc_value_replace(tc_output(forward, 0), dy);
    tc_node_erase(forward);
    return TC_OK;
}

static bool is_used(const tc_node *node, uint32_t index) {
    const tc_value *value = tc_output(node, index);
    return value && tc_value_is_used(value);
}

/* --- windows ------------------------------------------------------------------------------------ */

/* The sum over batch and places for each channel. */
static tc_value *channel_sum(tc_upgrade *up, tc_node *node, tc_value *dy, int rank) {
    int64_t axes[TC_MAX_RANK] = {0};
    for (int i = 2; i < rank; i++)
        axes[i - 1] = i;
    tc_value *sum = TC_EMIT(node, "ReduceSum", "bias", dy, tc_upgrade_ints(up, node, "axes", axes, rank - 1));
    tc_attr_set_int(sum->producer, "keepdims", 0);
    return sum;
}

/* (dY, X, W) -> (dX?, dW?, dB?), with the attributes of the convolution. */
static tc_status convolution(tc_upgrade *up, tc_node *node, const char *op) {
    tc_value *dy = tc_input(node, 0), *operands[] = {tc_input(node, 1), tc_input(node, 2)}, *dins[3] = {NULL};
    bool needed[] = {is_used(node, 0), is_used(node, 1)};
    int rank;
    TC_TRY(tc_ort_need_results(up, node, 3));
    TC_TRY(tc_ort_need_rank(up, node, 1, 3, &rank));
    if (is_used(node, 2))
        dins[2] = channel_sum(up, node, dy, rank);
    if (needed[0] || needed[1])
        TC_TRY(build_again(up, node, op, operands, 2, dy, needed, dins));
    tc_ort_replace_results(node, dins, 3);
    return TC_OK;
}

tc_status tc_ort_conv_grad(tc_upgrade *up, tc_node *node) { return convolution(up, node, "Conv"); }
tc_status tc_ort_conv_transpose_grad(tc_upgrade *up, tc_node *node) { return convolution(up, node, "ConvTranspose"); }

/* (dY, places): the operand's size comes from the pool that made the places. */
tc_status tc_ort_max_pool_grad(tc_upgrade *up, tc_node *node) {
    static const bool needed[] = {true};
    tc_value *dy = tc_input(node, 0), *places = tc_input(node, 1), *dx = NULL;
    tc_node *pool = places ? places->producer : NULL;
    TC_TRY(tc_ort_need_results(up, node, 1));
    if (!pool || !tc_node_is(pool, "", "MaxPool") || places->out_index != 1)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "the MaxPool that made operand 1 is not in the graph");
    TC_TRY(build(up, node, pool, dy, needed, &dx));
    tc_ort_replace_results(node, &dx, 1);
    return TC_OK;
}

static bool same_ints(const tc_node *a, const tc_node *b, const char *name) {
    size_t n = 0, m = 0;
    const int64_t *own = tc_attr_ints(a, name, &n), *theirs = tc_attr_ints(b, name, &m);
    return n == m && (n == 0 || memcmp(own, theirs, n * sizeof(*own)) == 0);
}

/* Whether the pool has the gradient's windows, and a result of dY's shape. */
static bool may_be_its_pool(const tc_node *pool, const tc_node *node) {
    return tc_node_is(pool, "", "AveragePool") && tc_same_shape(tc_output(pool, 0), tc_input(node, 0)) &&
           same_ints(pool, node, "kernel_shape") && same_ints(pool, node, "strides");
}

/* (dY): only the pools of the graph show the operand's size. */
tc_status tc_ort_average_pool_grad(tc_upgrade *up, tc_node *node) {
    static const bool needed[] = {true};
    tc_node *found = NULL;
    tc_value *dx = NULL;
    TC_TRY(tc_ort_need_results(up, node, 1));
    for (tc_node *pool = node->prev; pool; pool = pool->prev) {
        if (!may_be_its_pool(pool, node))
            continue;
        if (found && !tc_same_shape(tc_input(found, 0), tc_input(pool, 0)))
            return tc_error(up->ctx, TC_UNSUPPORTED, node,
                            "several AveragePools with different input sizes could match it");
        found = pool;
    }
    if (!found)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "no AveragePool of the graph has a result of this shape");
    TC_TRY(build(up, node, found, tc_input(node, 0), needed, &dx));
    tc_ort_replace_results(node, &dx, 1);
    return TC_OK;
}

/* --- pieces ------------------------------------------------------------------------------------- */

/* The gradient of an op that reads X only for its shape, which is an operand here: zeros replace X. If a builder
 * asks for the whole shape, it gets the operand. */
static tc_status of_shape(tc_upgrade *up, tc_node *node, const char *op, tc_value *dy, tc_value *shape,
                          tc_value *const *others, uint32_t n_others) {
    bool needed[8] = {true};
    tc_value *operands[8], *dins[8] = {NULL};
    TC_TRY(tc_ort_need_results(up, node, 1));
    operands[0] = TC_EMIT(node, "ConstantOfShape", "zeros", shape);
    tc_node *zeros = operands[0]->producer;
    tc_dtype dtype = tc_value_dtype(dy);
    int64_t one = 1;
    tc_tensor *zero = tc_tensor_scalar(up->model, dtype == TC_UNDEFINED ? TC_FLOAT : dtype, 0);
    tc_attr_set_tensor(zeros, "value", tc_tensor_create(up->model, zero->dtype, 1, &one, zero->data));
    TC_TRY(tc_infer_node(up->ctx, zeros));
    for (uint32_t i = 0; i < n_others; i++)
        operands[i + 1] = others[i];
    TC_TRY(build_again(up, node, op, operands, n_others + 1, dy, needed, dins));
    for (tc_use *use = operands[0]->uses, *next; use; use = next) {
        next = use->next;
        if (tc_node_is(use->user, "", "Shape") && use->user->n_attrs == 0)
            tc_value_replace(use->user->outputs[0], shape);
    }
    tc_ort_replace_results(node, dins, 1);
    return TC_OK;
}

/* (dY, shape, starts, ends, axes?, steps?) */
tc_status tc_ort_slice_grad(tc_upgrade *up, tc_node *node) {
    uint32_t n = node->n_inputs > 2 ? node->n_inputs - 2 : 0;
    tc_value *others[] = {tc_input(node, 2), tc_input(node, 3), tc_input(node, 4), tc_input(node, 5)};
    return of_shape(up, node, "Slice", tc_input(node, 0), tc_input(node, 1), others, n < 4 ? n : 4);
}

/* (dY, shape, indices) */
tc_status tc_ort_gather_elements_grad(tc_upgrade *up, tc_node *node) {
    tc_value *indices = tc_input(node, 2);
    return of_shape(up, node, "GatherElements", tc_input(node, 0), tc_input(node, 1), &indices, 1);
}

/* (shape, indices, dY) */
tc_status tc_ort_gather_nd_grad(tc_upgrade *up, tc_node *node) {
    tc_value *indices = tc_input(node, 1);
    return of_shape(up, node, "GatherND", tc_input(node, 2), tc_input(node, 0), &indices, 1);
}
