/* shape_control.c: shape functions of If, Loop and Scan. They give the nested graph's inputs their types, infer it, and
 * read the types of its outputs. Sizes that may change from one iteration to the next are left unknown. */
#include "shape_fns.h"

static tc_status body_of(tc_shape_ctx *sc, tc_node *node, const char *name, tc_graph **out) {
    const tc_attr *attr = tc_attr_find(node, name);
    if (!attr || attr->kind != TC_ATTR_GRAPH || !attr->g)
        return TC_FAIL(sc, node, "attribute \"%s\" is missing, but is required", name);
    *out = attr->g;
    return TC_OK;
}

static const tc_type *tensor_type(tc_shape_ctx *sc, tc_dtype dtype, int rank, const tc_dim *dims) {
    return tc_type_tensor(sc->model, dtype, rank, dims);
}

static bool element_types_differ(const tc_type *a, const tc_type *b) {
    return a && b && a->kind == TC_TENSOR && b->kind == TC_TENSOR && a->dtype != b->dtype && a->dtype != TC_UNDEFINED &&
           b->dtype != TC_UNDEFINED;
}

/* A type that holds for both: differing sizes become unknown. NULL: the kinds or element types differ, or one is not
 * known. */
static const tc_type *common_type(tc_shape_ctx *sc, const tc_type *a, const tc_type *b) {
    if (!a || !b)
        return NULL;
    if (a->kind != TC_TENSOR || b->kind != TC_TENSOR)
        return a->kind == b->kind ? a : NULL;
    if (a->dtype != b->dtype)
        return NULL;
    if (a->rank != b->rank || a->rank < 0)
        return tensor_type(sc, a->dtype, TC_RANK_UNKNOWN, NULL);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < a->rank; i++)
        dims[i] = tc_dim_equal(a->dims[i], b->dims[i]) ? a->dims[i] : tc_dim_unknown();
    return tensor_type(sc, a->dtype, a->rank, dims);
}

static tc_status merge_output(tc_shape_ctx *sc, tc_node *node, uint32_t output, const tc_type *type) {
    tc_value *value = tc_output(node, output);
    return value && type ? tc_shape_merge(sc, node, value, type) : TC_OK;
}

/* A branch that is not taken may not fit its operands at all: the condition may test just that. */
static tc_status infer_branch(tc_shape_ctx *sc, tc_graph *branch, bool not_taken) {
    size_t n_diags = sc->ctx->n_diags;
    tc_status status = tc_infer_graph(sc->ctx, branch);
    if (not_taken && (status == TC_BAD_INPUT || status == TC_UNSUPPORTED))
        return sc->ctx->n_diags = n_diags, TC_OK;
    return status;
}

tc_status tc_shape_if(tc_shape_ctx *sc, tc_node *node) {
    tc_graph *yes = NULL, *no = NULL;
    int64_t condition;
    bool known = tc_value_number(sc->model, tc_input(node, 0), &condition);
    TC_TRY(body_of(sc, node, "then_branch", &yes));
    TC_TRY(body_of(sc, node, "else_branch", &no));
    TC_TRY(infer_branch(sc, yes, known && !condition));
    TC_TRY(infer_branch(sc, no, known && condition));
    if (yes->n_outputs != node->n_outputs || no->n_outputs != node->n_outputs)
        return TC_FAIL(sc, node, "has %u results, but the branches have %u and %u", node->n_outputs, yes->n_outputs,
                       no->n_outputs);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_type *a = yes->outputs[i]->type, *b = no->outputs[i]->type, *both = common_type(sc, a, b);
        if (known) {
            TC_TRY(merge_output(sc, node, i, condition ? a : b));
            continue;
        }
        if (element_types_differ(a, b))
            return TC_FAIL(sc, node, "result %u is %s in one branch and %s in the other", i,
                           tc_type_text(sc->ctx->arena, a), tc_type_text(sc->ctx->arena, b));
        TC_TRY(merge_output(sc, node, i, both));
    }
    return TC_OK;
}

/* The rank may change with each iteration, the element type may not. */
static const tc_type *loop_carried(tc_shape_ctx *sc, const tc_value *initial) {
    if (!initial || !initial->type || initial->type->kind != TC_TENSOR)
        return initial ? initial->type : NULL;
    return tensor_type(sc, initial->type->dtype, TC_RANK_UNKNOWN, NULL);
}

/* `type` with `size` prepended. */
static const tc_type *stacked(tc_shape_ctx *sc, const tc_type *type, tc_dim size, int axis) {
    if (!type || type->kind != TC_TENSOR)
        return NULL;
    if (type->rank < 0 || type->rank >= TC_MAX_RANK || axis > type->rank)
        return tensor_type(sc, type->dtype, TC_RANK_UNKNOWN, NULL);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0, from = 0; i <= type->rank; i++)
        dims[i] = i == axis ? size : type->dims[from++];
    return tensor_type(sc, type->dtype, type->rank + 1, dims);
}

tc_status tc_shape_loop(tc_shape_ctx *sc, tc_node *node) {
    tc_graph *body = NULL;
    TC_TRY(body_of(sc, node, "body", &body));
    uint32_t carried = node->n_inputs > 2 ? node->n_inputs - 2 : 0;
    if (body->n_inputs != carried + 2 || body->n_outputs != node->n_outputs + 1 || node->n_outputs < carried)
        return TC_FAIL(sc, node, "body has %u inputs and %u outputs, expected %u and %u", body->n_inputs,
                       body->n_outputs, carried + 2, node->n_outputs + 1);
    TC_TRY(tc_shape_merge(sc, node, body->inputs[0],
                          tensor_type(sc, TC_INT64, body->inputs[0]->type ? TC_RANK_UNKNOWN : 0, NULL)));
    TC_TRY(tc_shape_merge(sc, node, body->inputs[1],
                          tensor_type(sc, TC_BOOL, body->inputs[1]->type ? TC_RANK_UNKNOWN : 0, NULL)));
    for (uint32_t i = 0; i < carried; i++)
        TC_TRY(tc_shape_merge(sc, node, body->inputs[i + 2], loop_carried(sc, tc_input(node, i + 2))));
    TC_TRY(tc_infer_graph(sc->ctx, body));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_type *inner = body->outputs[i + 1]->type;
        if (i >= carried) { /* stacked over the iterations; their number is known only in the run */
            TC_TRY(merge_output(sc, node, i, stacked(sc, inner, tc_shape_fresh(sc, node, i, 0), 0)));
            continue;
        }
        const tc_value *initial = tc_input(node, i + 2);
        const tc_type *both = initial ? common_type(sc, initial->type, inner) : NULL;
        if (initial && element_types_differ(initial->type, inner))
            return TC_FAIL(sc, node, "carried value %u is %s before the loop and %s after an iteration", i,
                           tc_type_text(sc->ctx->arena, initial->type), tc_type_text(sc->ctx->arena, inner));
        TC_TRY(merge_output(sc, node, i, both));
    }
    return TC_OK;
}

/* --- Scan ------------------------------------------------------------------------------------- */

static tc_status scan_axis(tc_shape_ctx *sc, tc_node *node, const char *name, uint32_t index, int rank, int *out_axis) {
    size_t count;
    const int64_t *axes = tc_attr_ints(node, name, &count);
    return tc_shape_axis(sc, node, index < count ? axes[index] : 0, rank, out_axis);
}

/* One slice of a scanned operand; *steps becomes the number of slices. */
static tc_status scan_slice(tc_shape_ctx *sc, tc_node *node, uint32_t index, uint32_t operand, tc_dim *steps,
                            const tc_type **out) {
    tc_arg x = tc_arg_of(node, operand);
    tc_dim dims[TC_MAX_RANK];
    int axis, rank = 0;
    *out = x.dtype == TC_UNDEFINED ? NULL : tensor_type(sc, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (x.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    TC_TRY(scan_axis(sc, node, "scan_input_axes", index, x.rank, &axis));
    TC_TRY(tc_shape_same_dim(sc, node, "number of slices", *steps, x.dims[axis], steps));
    for (int i = 0; i < x.rank; i++)
        if (i != axis)
            dims[rank++] = x.dims[i];
    *out = tensor_type(sc, x.dtype, rank, dims);
    return TC_OK;
}

tc_status tc_shape_scan(tc_shape_ctx *sc, tc_node *node) {
    tc_graph *body = NULL;
    TC_TRY(body_of(sc, node, "body", &body));
    int64_t given = tc_attr_int(node, "num_scan_inputs", 0);
    if (given < 1 || given > node->n_inputs)
        return TC_FAIL(sc, node, "num_scan_inputs is %lld, expected 1 to %u", (long long)given, node->n_inputs);
    uint32_t states = node->n_inputs - (uint32_t)given;
    if (body->n_inputs != node->n_inputs || body->n_outputs != node->n_outputs || node->n_outputs < states)
        return TC_FAIL(sc, node, "body has %u inputs and %u outputs, expected %u and %u", body->n_inputs,
                       body->n_outputs, node->n_inputs, node->n_outputs);
    tc_dim steps = tc_dim_unknown();
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_type *type = i < states && tc_input(node, i) ? tc_input(node, i)->type : NULL;
        if (i >= states)
            TC_TRY(scan_slice(sc, node, i - states, i, &steps, &type));
        if (type)
            TC_TRY(tc_shape_merge(sc, node, body->inputs[i], type));
    }
    TC_TRY(tc_infer_graph(sc->ctx, body));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_type *type = body->outputs[i]->type;
        int axis = 0;
        if (i >= states && type && type->kind == TC_TENSOR && type->rank >= 0) {
            TC_TRY(scan_axis(sc, node, "scan_output_axes", i - states, type->rank + 1, &axis));
            type = stacked(sc, type, steps, axis);
        } else if (i >= states)
            type = NULL;
        TC_TRY(merge_output(sc, node, i, type));
    }
    return TC_OK;
}
