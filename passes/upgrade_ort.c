/* upgrade_ort.c: ops of ONNX Runtime's training tools, by ort.def. Their graphs hold the backward pass in ops of
 * com.microsoft; each becomes the op of ours that autodiff would have made, or a few standard ones, so that the lean
 * rules find their pairs in these graphs, too.
 *
 * Gradients leave such a graph by accumulators, which add to a buffer that the caller owns: they become plain outputs
 * W_grad, as in graphs that tempoc differentiated itself. A YieldOp, where a framework takes over, becomes outputs and
 * inputs of the graph. */
#include "../compiler/contents.h"
#include "../compiler/shape.h"
#include "upgrade.h"
#include <string.h>

#define ORT_DOMAIN "com.microsoft"
#define OPERANDS(...) (tc_value *[]){__VA_ARGS__}, (uint32_t)TC_COUNT(((tc_value *[]){__VA_ARGS__}))
#define EMIT(node, op, what, ...) tc_upgrade_emit(node, op, what, OPERANDS(__VA_ARGS__))

typedef tc_status (*rewrite_fn)(tc_upgrade *up, tc_node *node);

/* --- tools ------------------------------------------------------------------------------------ */

/* The node becomes another op with these operands; results and attributes stay. */
static tc_status become(tc_node *node, const char *domain, const char *op, tc_value *const *operands, uint32_t n) {
    tc_node_set_op(node, domain, op);
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, operands[i]);
    tc_node_resize_inputs(node, n);
    return TC_OK;
}
#define BECOME(node, domain, op, ...) become(node, domain, op, OPERANDS(__VA_ARGS__))

/* A number of the element type of `like`. */
static tc_value *number(tc_upgrade *up, tc_node *node, const char *what, double value, tc_value *like) {
    tc_dtype dtype = tc_value_dtype(like);
    if (dtype != TC_UNDEFINED)
        return tc_upgrade_constant(up, node, what, tc_tensor_scalar(up->model, dtype, value));
    tc_value *plain = tc_upgrade_constant(up, node, what, tc_tensor_scalar(up->model, TC_FLOAT, value));
    return EMIT(node, "CastLike", what, plain, like);
}

static tc_status need_rank(tc_upgrade *up, const tc_node *node, uint32_t operand, int least, int *out_rank) {
    const tc_value *value = tc_input(node, operand);
    *out_rank = tc_value_rank(value);
    if (*out_rank >= least)
        return TC_OK;
    if (*out_rank != TC_RANK_UNKNOWN)
        return tc_error(up->ctx, TC_BAD_INPUT, node, "operand %u has rank %d, expected at least %d", operand, *out_rank,
                        least);
    return tc_error(up->ctx, TC_UNSUPPORTED, node,
                    "the rank of operand %u ('%s') is not known, and what the op does depends on it", operand,
                    value ? tc_quote(up->ctx, value->name) : "absent");
}

/* Refuses a node that uses results behind the first `most`, all that the op has. */
static tc_status need_results(tc_upgrade *up, const tc_node *node, uint32_t most) {
    for (uint32_t i = most; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_value_is_used(node->outputs[i]))
            return tc_error(up->ctx, TC_BAD_INPUT, node, "result %u ('%s') is in use, but the op has %u", i,
                            tc_quote(up->ctx, node->outputs[i]->name), most);
    return TC_OK;
}

/* --- GELU and its kin ------------------------------------------------------------------------- */

static tc_status to_gelu(tc_node *node, tc_value *x, const char *approximate) {
    tc_attr_set_string(node, "approximate", approximate);
    return BECOME(node, "", "Gelu", x);
}

static tc_status to_gelu_grad(tc_node *node, tc_value *x, const char *approximate) {
    tc_attr_set_string(node, "approximate", approximate);
    return BECOME(node, TC_TEMPO_DOMAIN, "GeluGrad", tc_input(node, 0), x);
}

/* Operand `index` and behind it a bias, which may be absent. */
static tc_value *biased(tc_node *node, uint32_t index) {
    tc_value *x = tc_input(node, index), *bias = tc_input(node, index + 1);
    return bias ? EMIT(node, "Add", "biased", x, bias) : x;
}

static tc_status tc_ort_bias_gelu(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu(node, biased(node, 0), "none");
}
static tc_status tc_ort_fast_gelu(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu(node, biased(node, 0), "tanh");
}
static tc_status tc_ort_bias_gelu_grad(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu_grad(node, biased(node, 1), "none");
}
static tc_status tc_ort_fast_gelu_grad(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu_grad(node, biased(node, 1), "tanh");
}

/* x sigmoid(alpha x), and its gradient. Not 1 but 1.702 is the default here. */
static tc_status tc_ort_quick_gelu(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_set_float(node, "alpha", tc_attr_float(node, "alpha", 1.702f));
    tc_node_set_op(node, TC_TEMPO_DOMAIN, strcmp(node->op_type, "QuickGelu") == 0 ? "Swish" : "SwishGrad");
    return TC_OK;
}

/* --- gradients from results ------------------------------------------------------------------- */

/* Of tanh: dY (1 - Y^2). */
static tc_status tc_ort_tanh_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1);
    tc_value *slope = EMIT(node, "Sub", "slope", number(up, node, "one", 1, y), EMIT(node, "Mul", "square", y, y));
    return BECOME(node, "", "Mul", dy, slope);
}

/* Of the sigmoid: dY Y (1 - Y). */
static tc_status tc_ort_sigmoid_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1);
    tc_value *slope = EMIT(node, "Mul", "slope", y, EMIT(node, "Sub", "rest", number(up, node, "one", 1, y), y));
    return BECOME(node, "", "Mul", dy, slope);
}

/* Operand 1 is what Relu read or what it made: the sign is the same. */
static tc_status tc_ort_relu_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1), *zero = number(up, node, "zero", 0, y);
    tc_value *above = EMIT(node, "Greater", "above", y, zero);
    return BECOME(node, "", "Where", above, dy, zero);
}

/* --- normalizations --------------------------------------------------------------------------- */

static tc_status tc_ort_layer_norm_grad(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_remove(node, "epsilon"); /* it is in 1/std */
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "LayerNormalizationGrad");
    return TC_OK;
}

/* (dY, Y, scale, bias, 1/std): x-hat = (Y - bias) / scale. */
static tc_status tc_ort_layer_norm_grad_from_y(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_value *scale = tc_input(node, 2), *centred = EMIT(node, "Sub", "centred", tc_input(node, 1), tc_input(node, 3));
    tc_value *xhat = EMIT(node, "Div", "xhat", centred, scale);
    tc_attr_remove(node, "epsilon");
    tc_attr_remove(node, "stash_type");
    return BECOME(node, TC_TEMPO_DOMAIN, "LayerNormalizationXhatGrad", tc_input(node, 0), xhat, scale,
                  tc_input(node, 4));
}

static tc_status tc_ort_rms_norm(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "RMSNormalization");
    return TC_OK;
}

static tc_status tc_ort_rms_norm_grad(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_remove(node, "epsilon");
    tc_attr_remove(node, "stash_type");
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "RMSNormalizationGrad");
    return TC_OK;
}

/* --- products --------------------------------------------------------------------------------- */

/* Operand `index`, its last two dims exchanged if the attribute says so. */
static tc_status transposed(tc_upgrade *up, tc_node *node, uint32_t index, const char *flag, tc_value **out_value) {
    int rank;
    int64_t perm[TC_MAX_RANK];
    *out_value = tc_input(node, index);
    bool wanted = tc_attr_int(node, flag, 0) != 0;
    tc_attr_remove(node, flag);
    if (!wanted)
        return TC_OK;
    TC_TRY(need_rank(up, node, index, 2, &rank));
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    *out_value = EMIT(node, "Transpose", flag, *out_value);
    tc_attr_set_ints((*out_value)->producer, "perm", perm, (size_t)rank);
    return TC_OK;
}

static tc_status tc_ort_fused_matmul(tc_upgrade *up, tc_node *node) {
    float alpha = tc_attr_float(node, "alpha", 1.0f);
    tc_value *a, *b;
    if (tc_attr_int(node, "transBatchA", 0) || tc_attr_int(node, "transBatchB", 0))
        return tc_error(up->ctx, TC_UNSUPPORTED, node,
                        "a FusedMatMul that moves batch dims (transBatchA, transBatchB) is not known");
    TC_TRY(transposed(up, node, 0, "transA", &a));
    TC_TRY(transposed(up, node, 1, "transB", &b));
    tc_attr_remove(node, "transBatchA");
    tc_attr_remove(node, "transBatchB");
    tc_attr_remove(node, "alpha");
    if (alpha == 1.0f)
        return BECOME(node, "", "MatMul", a, b);
    tc_value *product = EMIT(node, "MatMul", "product", a, b);
    return BECOME(node, "", "Mul", product, number(up, node, "alpha", (double)alpha, a));
}

static tc_status tc_ort_fused_gemm(tc_upgrade *up, tc_node *node) {
    static const char *const gemm[] = {"alpha", "beta", "transA", "transB"}, *const known[] = {"Relu", "Sigmoid",
                                                                                               "Tanh"};
    const char *activation = tc_attr_string(node, "activation", "");
    bool is_known = false;
    for (size_t i = 0; i < TC_COUNT(known); i++)
        is_known = is_known || strcmp(activation, known[i]) == 0;
    if (!is_known)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "the activation '%s' is not known here",
                        tc_quote(up->ctx, activation));
    tc_value *sum =
        tc_upgrade_emit(node, "Gemm", "sum", (tc_value *[]){tc_input(node, 0), tc_input(node, 1), tc_input(node, 2)},
                        tc_input(node, 2) ? 3 : 2);
    for (size_t i = 0; i < TC_COUNT(gemm); i++) {
        const tc_attr *attr = tc_attr_find(node, gemm[i]);
        if (attr)
            tc_attr_copy(sum->producer, attr);
    }
    while (node->n_attrs > 0)
        tc_attr_remove(node, node->attrs[0].name);
    return BECOME(node, "", activation, sum);
}

/* --- broadcasting ----------------------------------------------------------------------------- */

/* The shape with ones before it, as the other operand's rank wants. */
static tc_value *padded(tc_upgrade *up, tc_node *node, tc_value *shape, int missing) {
    int64_t ones[TC_MAX_RANK];
    for (int i = 0; i < missing; i++)
        ones[i] = 1;
    if (missing <= 0)
        return shape;
    tc_value *all = EMIT(node, "Concat", "padded", tc_upgrade_ints(up, node, "ones", ones, missing), shape);
    tc_attr_set_int(all->producer, "axis", 0);
    return all;
}

/* The axes along which an operand was repeated where dims tell: those that it lacks, and its ones. False: they do not
 * tell. */
static bool repeated_axes(const tc_contents *own, const tc_contents *other, int64_t axes[TC_MAX_RANK], int *out_n) {
    int rank = (int)(own->count > other->count ? own->count : other->count), lacks = rank - (int)own->count;
    *out_n = 0;
    for (int i = 0; i < rank; i++) {
        tc_dim mine = i < lacks ? tc_dim_const(1) : own->items[i - lacks].i;
        int at = i - (rank - (int)other->count);
        tc_dim theirs = at < 0 ? tc_dim_const(1) : other->items[at].i;
        bool one = tc_dim_equal(mine, tc_dim_const(1));
        if (one && (i < lacks || !tc_dim_equal(theirs, mine)))
            axes[(*out_n)++] = i;
        else if (!tc_dim_equal(mine, theirs) && !tc_dim_is_const(mine))
            return false;
    }
    return true;
}

/* The same when the graph runs: the axes at which the operand's own size is not the larger of both. */
static tc_value *axes_at_run_time(tc_upgrade *up, tc_node *node, tc_value *own, tc_value *largest) {
    static const int64_t all = -1;
    tc_value *differs = EMIT(node, "Not", "differs", EMIT(node, "Equal", "same", own, largest));
    tc_value *where = EMIT(node, "NonZero", "where", differs);
    return EMIT(node, "Reshape", "axes", where, tc_upgrade_ints(up, node, "flat", &all, 1));
}

/* The axes to sum over for each of two operands, of which `shapes` are the shapes. */
static tc_status broadcast_axes(tc_upgrade *up, tc_node *node, tc_value *const shapes[2], tc_value *out_axes[2]) {
    const tc_contents *known[2];
    int64_t axes[TC_MAX_RANK], counts[2];
    int n;
    for (int i = 0; i < 2; i++) {
        known[i] = shapes[i] ? tc_value_contents(up->model, shapes[i]) : NULL;
        const tc_type *type = shapes[i] ? shapes[i]->type : NULL;
        if (!type || type->rank != 1 || !type->dims || !tc_dim_is_const(type->dims[0]) ||
            type->dims[0].value > TC_MAX_RANK)
            return tc_error(up->ctx, TC_UNSUPPORTED, node, "the rank that the shape '%s' is of is not known",
                            shapes[i] ? tc_quote(up->ctx, shapes[i]->name) : "absent");
        counts[i] = type->dims[0].value;
    }
    tc_value *full[2], *largest = NULL;
    for (int i = 0; i < 2; i++) {
        if (known[0] && known[1] && repeated_axes(known[i], known[1 - i], axes, &n)) {
            out_axes[i] = tc_upgrade_ints(up, node, "axes", axes, n);
            continue;
        }
        for (int k = 0; k < 2 && !largest; k++)
            full[k] = padded(up, node, shapes[k], (int)(counts[1 - k] - counts[k]));
        if (!largest)
            largest = EMIT(node, "Max", "largest", full[0], full[1]);
        out_axes[i] = axes_at_run_time(up, node, full[i], largest);
    }
    return TC_OK;
}

/* Other values take the place of the node's results, and the node is removed. */
static void replace_results(tc_node *node, tc_value *const *values, uint32_t n) {
    for (uint32_t i = 0; i < n && i < node->n_outputs; i++)
        if (node->outputs[i] && values[i])
            tc_value_replace(node->outputs[i], values[i]);
    tc_node_erase(node);
}

static tc_status tc_ort_broadcast_axes(tc_upgrade *up, tc_node *node) {
    tc_value *shapes[] = {tc_input(node, 0), tc_input(node, 1)}, *axes[2];
    TC_TRY(need_results(up, node, 2));
    TC_TRY(broadcast_axes(up, node, shapes, axes));
    replace_results(node, axes, 2);
    return TC_OK;
}

/* A gradient summed to the shape of what was repeated; `what` names it. */
static tc_value *summed(tc_node *node, const char *what, tc_value *gradient, tc_value *axes, tc_value *shape) {
    tc_value *sum = EMIT(node, "ReduceSum", what, gradient, axes);
    tc_attr_set_int(sum->producer, "keepdims", 1);
    tc_attr_set_int(sum->producer, "noop_with_empty_axes", 1);
    return EMIT(node, "Reshape", what, sum, shape);
}

/* (dY, A, B) of A / B: dA = dY / B, dB = -dY A / B / B. */
static tc_status tc_ort_div_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *a = tc_input(node, 1), *b = tc_input(node, 2), *axes[2], *gradients[2];
    TC_TRY(need_results(up, node, 2));
    tc_value *shapes[] = {EMIT(node, "Shape", "a_shape", a), EMIT(node, "Shape", "b_shape", b)};
    for (int i = 0; i < 2; i++)
        TC_TRY(tc_infer_node(up->ctx, shapes[i]->producer));
    TC_TRY(broadcast_axes(up, node, shapes, axes));
    tc_value *da = EMIT(node, "Div", "da", dy, b), *quotient = EMIT(node, "Div", "quotient", a, b);
    tc_value *db = EMIT(node, "Neg", "db", EMIT(node, "Div", "share", EMIT(node, "Mul", "product", dy, quotient), b));
    gradients[0] = summed(node, "da", da, axes[0], shapes[0]);
    gradients[1] = summed(node, "db", db, axes[1], shapes[1]);
    replace_results(node, gradients, 2);
    return TC_OK;
}

/* x times or over a number of another type. */
static tc_status tc_ort_scale(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_value *x = tc_input(node, 0), *by = EMIT(node, "CastLike", "scale", tc_input(node, 1), x);
    bool down = tc_attr_int(node, "scale_down", 0) != 0;
    tc_attr_remove(node, "scale_down");
    return BECOME(node, "", down ? "Div" : "Mul", x, by);
}

/* --- dropout, pieces, losses ------------------------------------------------------------------ */

/* (dY, mask, ratio?, training_mode?): the mask of a Dropout that does not train keeps all, and its ratio counts all the
 * same. */
static tc_status tc_ort_dropout_grad(tc_upgrade *up, tc_node *node) {
    tc_value *ratio = tc_input(node, 2);
    if (!ratio)
        ratio = tc_upgrade_constant(up, node, "ratio", tc_tensor_scalar(up->model, TC_FLOAT, 0.5));
    return BECOME(node, TC_TEMPO_DOMAIN, "DropoutGrad", tc_input(node, 0), tc_input(node, 1), ratio);
}

/* The second result holds the sizes of the pieces. */
static tc_status tc_ort_concat(tc_upgrade *up, tc_node *node) {
    TC_TRY(need_results(up, node, 2));
    int64_t axis = tc_attr_int(node, "axis", 0);
    tc_value *sizes = tc_output(node, 1);
    if (sizes) {
        tc_node *joined = tc_node_create(node->graph, "", "Concat", node->n_inputs, 1);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            tc_value *size = EMIT(node, "Shape", "size", tc_input(node, i));
            tc_attr_set_int(size->producer, "start", axis);
            if (axis != -1)
                tc_attr_set_int(size->producer, "end", axis + 1);
            tc_node_set_input(joined, i, size);
        }
        tc_attr_set_int(joined, "axis", 0);
        tc_node_insert_before(joined, node);
        tc_node_set_output(joined, 0, tc_node_take_output(node, 1));
    }
    if (node->n_outputs > 1)
        tc_node_resize_outputs(node, 1);
    tc_node_set_op(node, "", "Concat");
    return TC_OK;
}

/* The ignored label is an operand here: a constant, or absent. */
static tc_status take_ignored(tc_upgrade *up, tc_node *node, uint32_t index) {
    tc_value *ignored = tc_input(node, index);
    const tc_tensor *tensor = ignored ? tc_value_constant(ignored) : NULL;
    tc_attr_remove(node, "output_type");
    if (!ignored)
        return TC_OK;
    if (!tensor || !tensor->data || tensor->count != 1 || tensor->dtype != TC_INT64)
        return tc_error(up->ctx, TC_UNSUPPORTED, node, "the label to ignore, '%s', is no constant",
                        tc_quote(up->ctx, ignored->name));
    tc_attr_set_int(node, "ignore_index", tc_tensor_get_int(tensor, 0));
    return TC_OK;
}

static tc_status tc_ort_loss_internal(tc_upgrade *up, tc_node *node) {
    TC_TRY(take_ignored(up, node, 3));
    tc_node_set_op(node, "", "SoftmaxCrossEntropyLoss");
    tc_node_resize_inputs(node, tc_input(node, 2) ? 3 : 2);
    return TC_OK;
}

/* (dLoss, log_prob, labels, weights?, ignored?, bias?) */
static tc_status tc_ort_loss_internal_grad(tc_upgrade *up, tc_node *node) {
    if (tc_input(node, 5))
        return tc_error(up->ctx, TC_UNSUPPORTED, node,
                        "a gradient of the loss to which another is added (operand 5) is not known");
    TC_TRY(take_ignored(up, node, 4));
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "SoftmaxCrossEntropyLossGrad");
    tc_node_resize_inputs(node, tc_input(node, 3) ? 4 : 3);
    return TC_OK;
}

/* --- where gradients leave the graph ---------------------------------------------------------- */

static const char *without_end(tc_model *model, const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0 ? tc_arena_strndup(model->arena, name, n - m) : name;
}

static void drop_input(tc_value *value) {
    if (value && value->is_input && !tc_value_is_used(value))
        tc_graph_remove_input(value->graph, value);
}

/* The training tools call the buffer of W "W_grad.accumulation.buffer"; it has W's type. NULL: this one says nothing.
 */
static tc_value *parameter_of(tc_graph *graph, const tc_value *gradient, const tc_value *buffer) {
    const char *name = without_end(graph->model, buffer->name, "_grad.accumulation.buffer");
    tc_value *value = name == buffer->name ? NULL : tc_graph_find(graph, name);
    bool is_given = value && value != gradient && !value->producer;
    return is_given && tc_type_equal(value->type, buffer->type) ? value : NULL;
}

/* (buffer, gradient, reset?) -> (done, buffer?): the gradient is the output that `done` was. */
static tc_status tc_ort_accumulator(tc_upgrade *up, tc_node *node) {
    tc_graph *graph = node->graph;
    tc_value *buffer = tc_input(node, 0), *gradient = tc_input(node, 1), *reset = tc_input(node, 2),
             *done = tc_output(node, 0);
    if (!buffer || !buffer->is_input || !gradient || graph->parent || tc_value_use_count(buffer) != 1)
        return tc_error(up->ctx, TC_UNSUPPORTED, node,
                        "a buffer that is no graph input, or that is used elsewhere, cannot be left out");
    for (uint32_t i = 0; i < node->n_outputs; i++)
        for (tc_use *use = node->outputs[i] ? node->outputs[i]->uses : NULL; use; use = use->next)
            return tc_error(up->ctx, TC_UNSUPPORTED, node,
                            "result %u is read by a node: it has no meaning without the buffer", i);
    const char *name = without_end(up->model, buffer->name, ".accumulation.buffer");
    /* A value that came from elsewhere, or is an output already, cannot take the name. */
    if (strcmp(gradient->name, name) != 0) {
        gradient = EMIT(node, "Identity", "grad", gradient);
        tc_value_rename(gradient, tc_graph_unique_name(graph, name));
    }
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

/* Operands leave the graph, results come from whoever runs it; results are those of differentiable operands, in order.
 */
static tc_status tc_ort_yield(tc_upgrade *up, tc_node *node) {
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
    }
    TC_TRY(need_results(up, node, at));
    tc_node_erase(node);
    return TC_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

typedef struct row {
    const char *domain, *op;
    rewrite_fn rewrite;
    const char *new_domain, *new_op; /* SAME_OP */
    uint32_t operands;
    const char *hint; /* REFUSE */
} row;

static const row rows[] = {
#define SAME_OP(domain, op, new_domain, new_op, operands) {domain, #op, NULL, new_domain, #new_op, operands, NULL},
#define REWRITE(domain, op, rewrite) {domain, #op, tc_ort_##rewrite, NULL, NULL, 0, NULL},
#define REFUSE(domain, op, hint) {domain, #op, NULL, NULL, NULL, 0, hint},
#include "ort.def"
#undef SAME_OP
#undef REWRITE
#undef REFUSE
};

static bool ends_with_grad(const char *op) {
    const char *at = strstr(op, "Grad");
    return at && (strspn(at + 4, "_0123456789") == strlen(at + 4) || strcmp(at + 4, "_dX") == 0);
}

bool tc_ort_uses(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (strcmp(node->domain, ORT_DOMAIN) == 0)
            return true;
    return false;
}

tc_status tc_ort_upgrade(tc_upgrade *up, tc_node *node) {
    tc_attr_remove(node, "__backwardpass"); /* a mark of ONNX Runtime's, on any op */
    if (node->op || tc_model_function(up->model, node->domain, node->op_type, node->overload))
        return TC_OK;
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        const row *r = &rows[i];
        if (!tc_node_is(node, r->domain, r->op))
            continue;
        if (r->rewrite)
            return r->rewrite(up, node);
        if (r->new_op) {
            tc_node_set_op(node, r->new_domain, r->new_op);
            if (node->n_inputs > r->operands)
                tc_node_resize_inputs(node, r->operands);
            return TC_OK;
        }
        tc_error(up->ctx, TC_UNSUPPORTED, node, "%s of %s cannot be compiled", r->op, r->domain);
        tc_hint(up->ctx, "%s", r->hint);
        return TC_UNSUPPORTED;
    }
    if (strcmp(node->domain, ORT_DOMAIN) != 0 || !ends_with_grad(node->op_type))
        return TC_OK;
    tc_error(up->ctx, TC_UNSUPPORTED, node, "the gradient op %s of %s is not known", tc_quote(up->ctx, node->op_type),
             ORT_DOMAIN);
    tc_hint(up->ctx,
            "give tempoc the model as it was before the training tools added a backward pass: it makes one of its own");
    return TC_UNSUPPORTED;
}
