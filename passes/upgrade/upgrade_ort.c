/* upgrade_ort.c: ops of ONNX Runtime's training tools, by ort.def. Their graphs hold the backward pass in ops of
 * com.microsoft. Each becomes the op of ours that autodiff would have made, or a few standard ones, so that the lean
 * rules find their pairs in these graphs, too. upgrade_ort.h lists the other files with rewrites. */
#include "upgrade_ort.h"
#include <string.h>

#define ORT_DOMAIN "com.microsoft"

typedef tc_status (*rewrite_fn)(tc_upgrade *up, tc_node *node);

/* --- tools ------------------------------------------------------------------------------------ */

tc_status tc_ort_become(tc_node *node, const char *domain, const char *op, tc_value *const *operands, uint32_t n) {
    tc_node_set_op(node, domain, op);
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, operands[i]);
    tc_node_resize_inputs(node, n);
    return TC_OK;
}

tc_value *tc_ort_number(tc_upgrade *up, tc_node *node, const char *what, double value, tc_value *like) {
    tc_dtype dtype = tc_value_dtype(like);
    if (dtype != TC_UNDEFINED)
        return tc_upgrade_constant(up, node, what, tc_tensor_scalar(up->model, dtype, value));
    tc_value *plain = tc_upgrade_constant(up, node, what, tc_tensor_scalar(up->model, TC_FLOAT, value));
    return TC_EMIT(node, "CastLike", what, plain, like);
}

tc_status tc_ort_need_rank(tc_upgrade *up, const tc_node *node, uint32_t operand, int least, int *out_rank) {
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

tc_status tc_ort_need_results(tc_upgrade *up, const tc_node *node, uint32_t most) {
    for (uint32_t i = most; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_value_is_used(node->outputs[i]))
            return tc_error(up->ctx, TC_BAD_INPUT, node, "result %u ('%s') is in use, but the op has %u", i,
                            tc_quote(up->ctx, node->outputs[i]->name), most);
    return TC_OK;
}

void tc_ort_replace_results(tc_node *node, tc_value *const *values, uint32_t n) {
    for (uint32_t i = 0; i < n && i < node->n_outputs; i++) {
        tc_value *result = node->outputs[i];
        if (!result || !values[i])
            continue;
        if (result->n_graph_outputs == 0) {
            tc_value_replace(result, values[i]);
            continue;
        }
        tc_node *same = tc_node_create(node->graph, "", "Identity", 1, 1); /* an output keeps its name */
        tc_node_set_input(same, 0, values[i]);
        tc_node_insert_before(same, node);
        tc_node_set_output(same, 0, tc_node_take_output(node, i));
    }
    tc_node_erase(node);
}

/* --- GELU and similar ops --------------------------------------------------------------------- */

static tc_status to_gelu(tc_node *node, tc_value *x, const char *approximate) {
    tc_attr_set_string(node, "approximate", approximate);
    return TC_BECOME(node, "", "Gelu", x);
}

static tc_status to_gelu_grad(tc_node *node, tc_value *x, const char *approximate) {
    tc_attr_set_string(node, "approximate", approximate);
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "GeluGrad", tc_input(node, 0), x);
}

tc_value *tc_ort_biased(tc_node *node, uint32_t index) {
    tc_value *x = tc_input(node, index), *bias = tc_input(node, index + 1);
    return bias ? TC_EMIT(node, "Add", "biased", x, bias) : x;
}

tc_status tc_ort_bias_gelu(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu(node, tc_ort_biased(node, 0), "none");
}
tc_status tc_ort_fast_gelu(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu(node, tc_ort_biased(node, 0), "tanh");
}
tc_status tc_ort_bias_gelu_grad(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu_grad(node, tc_ort_biased(node, 1), "none");
}
tc_status tc_ort_fast_gelu_grad(tc_upgrade *up, tc_node *node) {
    return (void)up, to_gelu_grad(node, tc_ort_biased(node, 1), "tanh");
}

/* x sigmoid(alpha x), and its gradient. The default here is 1.702, not 1. */
tc_status tc_ort_quick_gelu(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_attr_set_float(node, "alpha", tc_attr_float(node, "alpha", 1.702f));
    tc_node_set_op(node, TC_TEMPO_DOMAIN, strcmp(node->op_type, "QuickGelu") == 0 ? "Swish" : "SwishGrad");
    return TC_OK;
}

/* --- gradients from results ------------------------------------------------------------------- */

/* Of tanh: dY (1 - Y^2). */
tc_status tc_ort_tanh_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1);
    tc_value *slope =
        TC_EMIT(node, "Sub", "slope", tc_ort_number(up, node, "one", 1, y), TC_EMIT(node, "Mul", "square", y, y));
    return TC_BECOME(node, "", "Mul", dy, slope);
}

/* Of the sigmoid: dY Y (1 - Y). */
tc_status tc_ort_sigmoid_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1);
    tc_value *slope =
        TC_EMIT(node, "Mul", "slope", y, TC_EMIT(node, "Sub", "rest", tc_ort_number(up, node, "one", 1, y), y));
    return TC_BECOME(node, "", "Mul", dy, slope);
}

/* Operand 1 is the operand of Relu or its result: the sign is the same. */
tc_status tc_ort_relu_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1), *zero = tc_ort_number(up, node, "zero", 0, y);
    tc_value *above = TC_EMIT(node, "Greater", "above", y, zero);
    return TC_BECOME(node, "", "Where", above, dy, zero);
}

/* The same with a slope below zero. If a slope is not above zero, the result's sign does not determine the
 * operand's. */
tc_status tc_ort_leaky_relu_grad(tc_upgrade *up, tc_node *node) {
    tc_value *dy = tc_input(node, 0), *y = tc_input(node, 1), *zero = tc_ort_number(up, node, "zero", 0, y);
    tc_value *slope = tc_ort_number(up, node, "slope", (double)tc_attr_float(node, "alpha", 0.01f), y);
    tc_value *above = TC_EMIT(node, "Greater", "above", y, zero), *less = TC_EMIT(node, "Mul", "less", dy, slope);
    tc_attr_remove(node, "alpha");
    return TC_BECOME(node, "", "Where", above, dy, less);
}

/* x times or over a number of another type. */
tc_status tc_ort_scale(tc_upgrade *up, tc_node *node) {
    (void)up;
    tc_value *x = tc_input(node, 0), *by = TC_EMIT(node, "CastLike", "scale", tc_input(node, 1), x);
    bool down = tc_attr_int(node, "scale_down", 0) != 0;
    tc_attr_remove(node, "scale_down");
    return TC_BECOME(node, "", down ? "Div" : "Mul", x, by);
}

/* --- dropout, pieces, losses ------------------------------------------------------------------ */

/* (dY, mask, ratio?, training_mode?): the mask of a Dropout that does not train keeps all, and its ratio applies all
 * the same. */
tc_status tc_ort_dropout_grad(tc_upgrade *up, tc_node *node) {
    tc_value *ratio = tc_input(node, 2);
    if (!ratio)
        ratio = tc_upgrade_constant(up, node, "ratio", tc_tensor_scalar(up->model, TC_FLOAT, 0.5));
    tc_attr_remove(node, "seed"); /* the tools copy it; the mask is an operand */
    return TC_BECOME(node, TC_TEMPO_DOMAIN, "DropoutGrad", tc_input(node, 0), tc_input(node, 1), ratio);
}

/* The second result holds the sizes of the pieces. */
tc_status tc_ort_concat(tc_upgrade *up, tc_node *node) {
    TC_TRY(tc_ort_need_results(up, node, 2));
    int64_t axis = tc_attr_int(node, "axis", 0);
    tc_value *sizes = tc_output(node, 1);
    if (sizes) {
        tc_node *joined = tc_node_create(node->graph, "", "Concat", node->n_inputs, 1);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            tc_value *size = TC_EMIT(node, "Shape", "size", tc_input(node, i));
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

tc_status tc_ort_loss_internal(tc_upgrade *up, tc_node *node) {
    TC_TRY(take_ignored(up, node, 3));
    tc_node_set_op(node, "", "SoftmaxCrossEntropyLoss");
    tc_node_resize_inputs(node, tc_input(node, 2) ? 3 : 2);
    return TC_OK;
}

/* (dLoss, log_prob, labels, weights?, ignored?, other?): `other`, a gradient of the scores in any shape, is added. */
tc_status tc_ort_loss_internal_grad(tc_upgrade *up, tc_node *node) {
    TC_TRY(take_ignored(up, node, 4));
    tc_value *other = tc_input(node, 5), *weights = tc_input(node, 3);
    tc_node_set_op(node, TC_TEMPO_DOMAIN, "SoftmaxCrossEntropyLossGrad");
    tc_node_resize_inputs(node, weights ? 4 : 3);
    if (!other)
        return TC_OK;
    tc_value *own = tc_upgrade_emit(node, node->op_type, "own",
                                    (tc_value *[]){tc_input(node, 0), tc_input(node, 1), tc_input(node, 2), weights},
                                    node->n_inputs);
    tc_node_set_op(own->producer, TC_TEMPO_DOMAIN, node->op_type);
    while (node->n_attrs > 0) {
        tc_attr_copy(own->producer, &node->attrs[0]);
        tc_attr_remove(node, node->attrs[0].name);
    }
    tc_value *shape = TC_EMIT(node, "Shape", "shape", tc_input(node, 1));
    return TC_BECOME(node, "", "Add", own, TC_EMIT(node, "Reshape", "other", other, shape));
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

static const row *find_row(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(rows); i++)
        if (tc_node_is(node, rows[i].domain, rows[i].op))
            return &rows[i];
    return NULL;
}

bool tc_ort_uses(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (strcmp(node->domain, ORT_DOMAIN) == 0 || (!node->op && find_row(node)))
            return true;
    return false;
}

/* ONNX Runtime marks nodes of any op: __backwardpass, and the order of recomputation. Our own marks stay. */
static void drop_marks(tc_node *node) {
    for (size_t i = node->n_attrs; i-- > 0;) {
        const char *name = node->attrs[i].name;
        if (strncmp(name, "__", 2) == 0 && strcmp(name, TC_SEED_MARK) != 0 && strcmp(name, TC_RATIO_MARK) != 0)
            tc_attr_remove(node, name);
    }
}

tc_status tc_ort_upgrade(tc_upgrade *up, tc_node *node) {
    drop_marks(node);
    if (node->op || tc_model_function(up->model, node->domain, node->op_type, node->overload))
        return TC_OK;
    const row *r = find_row(node);
    if (r && r->rewrite)
        return r->rewrite(up, node);
    if (r && r->new_op) {
        tc_node_set_op(node, r->new_domain, r->new_op);
        if (node->n_inputs > r->operands)
            tc_node_resize_inputs(node, r->operands);
        return TC_OK;
    }
    if (r) {
        tc_error(up->ctx, TC_UNSUPPORTED, node, "%s of %s cannot be compiled", r->op, r->domain);
        tc_hint(up->ctx, "%s", r->hint);
        return TC_UNSUPPORTED;
    }
    if (strcmp(node->domain, ORT_DOMAIN) != 0 || !ends_with_grad(node->op_type))
        return TC_OK;
    tc_error(up->ctx, TC_UNSUPPORTED, node, "the gradient op %s of %s is not known", tc_quote(up->ctx, node->op_type),
             ORT_DOMAIN);
    tc_hint(up->ctx,
            "give tempoc the model from before the training tools added a backward pass; tempoc makes its own");
    return TC_UNSUPPORTED;
}
