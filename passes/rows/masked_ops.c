/* masked_ops.c: ops that treat rows one by one, and the axes of the rows in their results. The results of rows that
 * are not picked have no readers. */
#include "compiler/shape/shape.h"
#include "rows.h"

static int axis_of(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* Whether rows are picked along the axis of the operand. */
static bool is_picked(const tc_masked *w, const tc_value *value, int axis) {
    return axis >= 0 && axis < TC_MAX_RANK && tc_mask_at(w, value, axis) != NULL;
}

/* Axis `from` of the operand is axis `to` of the result: they have the same rows. */
static tc_status carry(tc_masked *w, const tc_node *node, const tc_value *operand, int from, tc_value *result, int to) {
    const tc_mask *mask = tc_mask_at(w, operand, from), *there = tc_mask_at(w, result, to);
    if (mask && there && mask != there)
        return tc_masked_refuse(w, node, "it combines rows picked by two masks");
    tc_mask_set(w, result, to, mask);
    return TC_OK;
}

/* Results have the operand's shape. */
static tc_status alike(tc_masked *w, tc_node *node) {
    TC_TRY(tc_masked_infer(w, node));
    for (uint32_t i = 0; i < node->n_outputs; i++)
        for (int axis = 0; node->outputs[i] && axis < tc_value_rank(node->outputs[i]); axis++)
            TC_TRY(carry(w, node, tc_input(node, 0), axis, node->outputs[i], axis));
    return TC_OK;
}

/* Operands are broadcast. A real axis beside picked rows would need as many elements as there are picked rows. */
static tc_status elementwise(tc_masked *w, tc_node *node) {
    TC_TRY(tc_masked_infer(w, node));
    tc_value *y = node->outputs[0];
    int rank = tc_value_rank(y);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        for (int axis = 0; tc_input(node, i) && axis < tc_value_rank(tc_input(node, i)); axis++)
            TC_TRY(carry(w, node, tc_input(node, i), axis, y, axis + rank - tc_value_rank(tc_input(node, i))));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *x = tc_input(node, i);
        for (int axis = 0; x && axis < tc_value_rank(x); axis++) {
            tc_dim dim = x->type->dims[axis];
            bool single = tc_dim_is_const(dim) && dim.value == 1;
            if (!single && !is_picked(w, x, axis) && is_picked(w, y, axis + rank - tc_value_rank(x)))
                return tc_masked_refuse(w, node, "'%s' has rows that no mask picked", tc_quote(w->env->ctx, x->name));
        }
    }
    return TC_OK;
}

/* Along the attribute's axis, or from it on, elements are combined: all of them must be real. */
static tc_status except_axis(tc_masked *w, tc_node *node, int64_t otherwise, bool and_behind) {
    const tc_value *x = tc_input(node, 0);
    int rank = tc_value_rank(x), axis = axis_of(tc_attr_int(node, "axis", otherwise), rank);
    for (int i = axis; i < (and_behind ? rank : axis + 1); i++)
        if (is_picked(w, x, i))
            return tc_masked_refuse(w, node, "it combines rows");
    return alike(w, node);
}

static tc_status along_last(tc_masked *w, tc_node *node) { return except_axis(w, node, -1, false); }
static tc_status norm(tc_masked *w, tc_node *node) { return except_axis(w, node, -1, true); }

static tc_status cumulate(tc_masked *w, tc_node *node) {
    int64_t axis;
    size_t n;
    if (!tc_build_known_ints(tc_input(node, 1), &axis, 1, &n) || n != 1 ||
        is_picked(w, tc_input(node, 0), axis_of(axis, tc_value_rank(tc_input(node, 0)))))
        return tc_masked_refuse(w, node, "it combines rows");
    return alike(w, node);
}

/* The positions that ArgMax finds along a real axis. */
static tc_status find(tc_masked *w, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    int rank = tc_value_rank(x), axis = axis_of(tc_attr_int(node, "axis", 0), rank);
    bool keeps = tc_attr_int(node, "keepdims", 1) != 0;
    if (is_picked(w, x, axis))
        return tc_masked_refuse(w, node, "its result is a position among rows");
    TC_TRY(tc_masked_infer(w, node));
    for (int i = 0; i < rank; i++)
        if (i != axis)
            TC_TRY(carry(w, node, x, i, node->outputs[0], i - (i > axis && !keeps)));
    return TC_OK;
}

/* Ops whose results have rows if their first operand has some along axis 0, and no other picked rows: a batch. */
static tc_status batched(tc_masked *w, tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        for (int axis = 0; tc_input(node, i) && axis < tc_value_rank(tc_input(node, i)); axis++)
            if (is_picked(w, tc_input(node, i), axis) && (i > 0 || axis > 0))
                return tc_masked_refuse(w, node, "its rows are not the batch");
    TC_TRY(tc_masked_infer(w, node));
    return carry(w, node, tc_input(node, 0), 0, node->outputs[0], 0);
}

/* --- views and moves -------------------------------------------------------------------------- */

static tc_dim product(tc_masked *w, const tc_value *value, int from, int to) {
    tc_dim all = tc_dim_const(1);
    for (int i = from; i < to; i++)
        all = tc_dim_mul(w->model->dims, all, value->type->dims[i]);
    return all;
}

/* Rows along an axis stay rows if as many elements come before it, and if it keeps its length, alone or together
 * with some of the axes after it. */
static tc_status view_axis(tc_masked *w, const tc_node *node, int axis) {
    tc_value *x = tc_input(node, 0), *y = node->outputs[0];
    const tc_mask *mask = tc_mask_at(w, x, axis);
    tc_dim before = product(w, x, 0, axis);
    for (int to = 0; to < tc_value_rank(y); to++)
        for (int end = axis + 1; tc_dim_equal(product(w, y, 0, to), before) && end <= tc_value_rank(x); end++) {
            if (!tc_dim_equal(product(w, x, axis, end), y->type->dims[to]))
                continue;
            tc_dim inner = product(w, x, axis + 1, end);
            tc_value *sizes = NULL;
            if (!tc_dim_is_const(inner) || inner.value != 1) {
                sizes = tc_build_dims(w->g, x, axis + 1, end);
                sizes = end - axis > 2 ? tc_build_reduce(w->g, "ReduceProd", sizes, (int64_t[]){0}, 1, true) : sizes;
            }
            tc_mask_set(w, y, to, sizes ? tc_mask_repeat(w, mask, inner, sizes) : mask);
            return TC_OK;
        }
    return tc_masked_refuse(w, node, "it splits or joins rows");
}

static tc_status view(tc_masked *w, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    TC_TRY(tc_masked_infer(w, node));
    if (tc_value_rank(node->outputs[0]) == TC_RANK_UNKNOWN)
        return tc_masked_refuse(w, node, "the rank of its result is not known");
    for (int axis = 0; axis < tc_value_rank(x); axis++)
        if (is_picked(w, x, axis))
            TC_TRY(view_axis(w, node, axis));
    return TC_OK;
}

static tc_status transpose(tc_masked *w, tc_node *node) {
    size_t n;
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    int rank = tc_value_rank(tc_input(node, 0));
    TC_TRY(tc_masked_infer(w, node));
    for (int i = 0; i < rank; i++)
        TC_TRY(carry(w, node, tc_input(node, 0), perm ? (int)perm[i] : rank - 1 - i, node->outputs[0], i));
    return TC_OK;
}

/* The result has the operand's axes except one, along which it is concatenated or cut. */
static tc_status beside(tc_masked *w, tc_node *node, int axis, uint32_t n_operands) {
    for (uint32_t i = 0; i < n_operands; i++)
        if (is_picked(w, tc_input(node, i), axis))
            return tc_masked_refuse(w, node, "it cuts or joins rows");
    TC_TRY(tc_masked_infer(w, node));
    for (uint32_t i = 0; i < n_operands; i++)
        for (uint32_t j = 0; j < node->n_outputs; j++)
            for (int k = 0; node->outputs[j] && k < tc_value_rank(node->outputs[j]); k++)
                if (k != axis)
                    TC_TRY(carry(w, node, tc_input(node, i), k, node->outputs[j], k));
    return TC_OK;
}

static tc_status concat(tc_masked *w, tc_node *node) {
    return beside(w, node, axis_of(tc_attr_int(node, "axis", 0), tc_value_rank(tc_input(node, 0))), node->n_inputs);
}

/* All positions of a mask, int64[size]: first the picked ones, then the others, each in order. */
static tc_value *places_split(tc_masked *w, const tc_mask *mask) {
    tc_build *g = w->g;
    tc_value *zero = tc_build_scalar(g, TC_INT64, 0), *one = tc_build_scalar(g, TC_INT64, 1);
    tc_value *is_picked_one = tc_build_cast(g, mask->flat, TC_INT64);
    tc_value *before = TC_OP(g, "CumSum", is_picked_one, zero);
    tc_value *other = TC_OP(g, "CumSum", TC_OP(g, "Sub", one, is_picked_one), zero);
    other = TC_OP(g, "Add", other, tc_mask_count(w, (tc_mask *)mask));
    tc_value *to = TC_OP(g, "Sub", TC_OP(g, "Where", mask->flat, before, other), one);
    tc_value *size = TC_OP(g, "Squeeze", tc_build_shape(g, mask->flat), tc_build_int(g, 0));
    tc_value *all = TC_OP(g, "Range", zero, size, one);
    return TC_OP(g, "ScatterElements", tc_build_zeros(g, tc_build_shape(g, mask->flat), TC_INT64), to, all);
}

/* The value computed from all positions, the picked ones first, instead of the picked ones alone; NULL: it is no
 * view of them. */
static tc_value *of_all(tc_masked *w, tc_value *value) {
    tc_build *g = w->g;
    const tc_picked *picked = tc_map_get_ptr(w->picked, value);
    const tc_node *node = value->producer;
    if (picked)
        return tc_mask_coordinates(w, picked->from, places_split(w, picked->mask));
    if (!node || (!tc_node_is(node, "", "Transpose") && !tc_node_has(node, TC_VIEW)))
        return NULL;
    tc_value *operands[] = {of_all(w, tc_input(node, 0)), tc_input(node, 1)};
    if (!operands[0])
        return NULL;
    tc_node *copy = tc_build_node(g, node->domain, node->op_type, node->n_inputs, operands, 1);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(copy, &node->attrs[i]);
    return tc_build_finish(g, copy);
}

/* Positions split into as many parts as were picked when the model was traced; it runs with no other number.
 * TorchScript writes loops over the experts that have tokens in this way. An expert without tokens is replaced by
 * another one without tokens, and later ops have no rows of it. */
static tc_status split(tc_masked *w, tc_node *node) {
    tc_value *x = tc_input(node, 0);
    int axis = axis_of(tc_attr_int(node, "axis", 0), tc_value_rank(x));
    int64_t sizes[TC_MAX_RANK * 4], rows, all = 0;
    size_t n;
    if (!is_picked(w, x, axis))
        return beside(w, node, axis, 1);
    bool known = tc_build_known_ints(tc_input(node, 1), sizes, TC_COUNT(sizes), &n) && tc_build_static(x, axis, &rows);
    for (size_t i = 0; known && i < n; i++)
        all += sizes[i];
    tc_value *of = known && all <= rows ? of_all(w, x) : NULL;
    if (!of)
        return tc_masked_refuse(w, node, "it cuts or joins rows");
    tc_build *g = w->g;
    if (all < rows)
        of = TC_OP(g, "Slice", of, tc_build_int(g, 0), tc_build_int(g, all), tc_build_int(g, axis));
    tc_node_set_input(node, 0, of);
    return tc_masked_infer(w, node);
}

/* No row may be cut off; a slice to the end of the rows cuts none. */
static tc_status slice(tc_masked *w, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    TC_TRY(tc_masked_infer(w, node));
    for (int axis = 0; axis < tc_value_rank(x); axis++) {
        if (is_picked(w, x, axis) && !tc_dim_equal(x->type->dims[axis], node->outputs[0]->type->dims[axis]))
            return tc_masked_refuse(w, node, "it cuts rows");
        TC_TRY(carry(w, node, x, axis, node->outputs[0], axis));
    }
    return TC_OK;
}

static tc_status tile(tc_masked *w, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    int64_t times[TC_MAX_RANK];
    size_t n;
    bool known = tc_build_known_ints(tc_input(node, 1), times, TC_MAX_RANK, &n);
    for (int axis = 0; axis < tc_value_rank(x); axis++)
        if (is_picked(w, x, axis) && (!known || times[axis] != 1))
            return tc_masked_refuse(w, node, "it repeats rows");
    return alike(w, node);
}

/* Each element becomes several, or one of each row. Rows requested by a count are picked by the mask of that count. */
static tc_status expand(tc_masked *w, tc_node *node) {
    tc_value *sizes = tc_input(node, 1), *bound = tc_masked_bound(w, sizes);
    tc_node_set_input(node, 1, bound);
    TC_TRY(tc_masked_infer(w, node));
    tc_value *x = tc_input(node, 0), *y = node->outputs[0];
    int rank = tc_value_rank(y);
    for (int axis = 0; axis < rank; axis++) {
        int from = axis - rank + tc_value_rank(x);
        if (from >= 0)
            TC_TRY(carry(w, node, x, from, y, axis));
        if (!is_picked(w, y, axis))
            tc_mask_set(w, y, axis, tc_masked_count_at(w, sizes, axis));
    }
    return TC_OK;
}

/* --- lookups ---------------------------------------------------------------------------------- */

static tc_status gather(tc_masked *w, tc_node *node) {
    tc_value *data = tc_input(node, 0), *at = tc_input(node, 1);
    int rank = tc_value_rank(data), n = tc_value_rank(at), axis = axis_of(tc_attr_int(node, "axis", 0), rank);
    if (is_picked(w, data, axis))
        return tc_masked_refuse(w, node, "it looks up rows by their position");
    TC_TRY(tc_masked_infer(w, node));
    for (int i = 0; i < rank; i++)
        if (i != axis)
            TC_TRY(carry(w, node, data, i, node->outputs[0], i < axis ? i : i - 1 + n));
    for (int i = 0; i < n; i++)
        TC_TRY(carry(w, node, at, i, node->outputs[0], axis + i));
    return TC_OK;
}

static tc_status gather_nd(tc_masked *w, tc_node *node) {
    tc_value *at = tc_input(node, 1);
    int n = tc_value_rank(at);
    if (tc_masks_of(w, tc_input(node, 0)) || is_picked(w, at, n - 1))
        return tc_masked_refuse(w, node, "it looks up rows by their position");
    TC_TRY(tc_masked_infer(w, node));
    for (int i = 0; i < n - 1; i++)
        TC_TRY(carry(w, node, at, i, node->outputs[0], i));
    return TC_OK;
}

static tc_status gather_elements(tc_masked *w, tc_node *node) {
    tc_value *data = tc_input(node, 0), *at = tc_input(node, 1);
    int rank = tc_value_rank(at), axis = axis_of(tc_attr_int(node, "axis", 0), rank);
    TC_TRY(tc_masked_infer(w, node));
    for (int i = 0; i < rank; i++) {
        if (i == axis ? is_picked(w, data, i) : tc_mask_at(w, data, i) != tc_mask_at(w, at, i))
            return tc_masked_refuse(w, node, "it looks up rows by their position");
        TC_TRY(carry(w, node, at, i, node->outputs[0], i));
    }
    return TC_OK;
}

static tc_status one_hot(tc_masked *w, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    int rank = tc_value_rank(x), axis = axis_of(tc_attr_int(node, "axis", -1), rank + 1);
    TC_TRY(tc_masked_infer(w, node));
    for (int i = 0; i < rank; i++)
        TC_TRY(carry(w, node, x, i, node->outputs[0], i + (i >= axis)));
    return TC_OK;
}

/* Readers of sizes get those of the values, or counts: masked.c. */
static tc_status size(tc_masked *w, tc_node *node) { return tc_masked_infer(w, node); }

static const struct {
    const char *domain, *op;
    tc_masked_fn handle;
} ops[] = {
    {"", "ArgMax", find},
    {"", "ArgMin", find},
    {"", "Bernoulli", alike},
    {"", "Concat", concat},
    {"", "Conv", batched},
    {"", "ConvTranspose", batched},
    {"", "CumSum", cumulate},
    {"", "Dropout", alike},
    {"", "Expand", expand},
    {"", "Flatten", view},
    {"", "Gather", gather},
    {"", "GatherElements", gather_elements},
    {"", "GatherND", gather_nd},
    {"", "Gemm", tc_masked_gemm},
    {"", "GlobalAveragePool", batched},
    {"", "GroupNormalization", batched},
    {"", "InstanceNormalization", batched},
    {"", "LayerNormalization", norm},
    {"", "LogSoftmax", tc_masked_softmax},
    {"", "MatMul", tc_masked_matmul},
    {"", "MaxPool", batched},
    {"", "NegativeLogLikelihoodLoss", tc_masked_loss},
    {"", "OneHot", one_hot},
    {"", "RandomNormalLike", alike},
    {"", "RandomUniformLike", alike},
    {"", "ReduceL1", tc_masked_reduce},
    {"", "ReduceL2", tc_masked_reduce},
    {"", "ReduceLogSumExp", tc_masked_reduce},
    {"", "ReduceMax", tc_masked_reduce},
    {"", "ReduceMean", tc_masked_reduce},
    {"", "ReduceMin", tc_masked_reduce},
    {"", "ReduceProd", tc_masked_reduce},
    {"", "ReduceSum", tc_masked_reduce},
    {"", "ReduceSumSquare", tc_masked_reduce},
    {"", "Reshape", view},
    {"", "ScatterElements", tc_masked_scatter_elements},
    {"", "ScatterND", tc_masked_scatter_nd},
    {"", "Shape", size},
    {"", "Size", size},
    {"", "Slice", slice},
    {"", "Softmax", tc_masked_softmax},
    {"", "SoftmaxCrossEntropyLoss", tc_masked_loss},
    {"", "Split", split},
    {"", "Squeeze", view},
    {"", "Tile", tile},
    {"", "TopK", along_last},
    {"", "Transpose", transpose},
    {"", "Unsqueeze", view},
    {TC_TEMPO_DOMAIN, "RMSNormalization", norm},
    {TC_TEMPO_DOMAIN, "StopGradient", alike},
};

tc_masked_fn tc_masked_handler(const tc_node *node) {
    for (size_t i = 0; i < TC_COUNT(ops); i++)
        if (tc_node_is(node, ops[i].domain, ops[i].op))
            return ops[i].handle;
    if (tc_node_has(node, TC_ELEMENTWISE))
        return elementwise;
    return tc_node_is(node, "", "Identity") ? alike : NULL;
}
