/* masked_sums.c: ops that combine rows. Rows that are not picked are left out: as 0 in a sum, as the lowest number
 * in a maximum, as an ignored label in a loss. */
#include "compiler/shape/shape.h"
#include "rows.h"
#include <string.h>

/* --- reductions ------------------------------------------------------------------------------- */

static const struct {
    const char *op;
    double fill;
    int lowest; /* 1: the lowest number instead; -1: the highest */
} fills[] = {
    {"ReduceL1", 0, 0},   {"ReduceL2", 0, 0},   {"ReduceLogSumExp", 0, 1},
    {"ReduceMax", 0, 1},  {"ReduceMean", 0, 0}, {"ReduceMin", 0, -1},
    {"ReduceProd", 1, 0}, {"ReduceSum", 0, 0},  {"ReduceSumSquare", 0, 0},
};

static double fill_of(const tc_node *node, tc_dtype dtype) {
    for (size_t i = 0; i < TC_COUNT(fills); i++)
        if (tc_node_is(node, "", fills[i].op))
            return fills[i].lowest ? tc_masked_lowest(dtype, fills[i].lowest) : fills[i].fill;
    return 0;
}

/* The reduced axes; false: they are not known. */
static bool reduced_axes(const tc_node *node, int rank, bool reduced[TC_MAX_RANK]) {
    int64_t axes[TC_MAX_RANK];
    size_t n = 0;
    if (tc_input(node, 1) && !tc_build_known_ints(tc_input(node, 1), axes, TC_MAX_RANK, &n))
        return false;
    bool all = n == 0 && tc_attr_int(node, "noop_with_empty_axes", 0) == 0;
    for (int i = 0; i < rank; i++)
        reduced[i] = all;
    for (size_t i = 0; i < n; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
        if (axis < 0 || axis >= rank)
            return false;
        reduced[axis] = true;
    }
    return true;
}

/* A mean over all rows becomes one over the picked rows: times the number of all, over the number of picked ones.
 * NULL: all rows are picked. */
static tc_value *mean_factor(tc_masked *w, const tc_value *x, const bool *reduced) {
    tc_build *g = w->g;
    tc_value *factor = NULL;
    tc_dtype wide = tc_value_dtype(x) == TC_DOUBLE ? TC_DOUBLE : TC_FLOAT;
    for (int axis = 0; axis < tc_value_rank(x); axis++) {
        const tc_mask *mask = reduced[axis] ? tc_mask_at(w, x, axis) : NULL;
        if (!mask)
            continue;
        tc_value *all = TC_OP(g, "Squeeze", tc_build_shape(g, mask->flat), tc_build_int(g, 0));
        tc_value *count = tc_mask_count(w, (tc_mask *)mask);
        tc_value *ratio = TC_OP(g, "Div", tc_build_cast(g, all, wide), tc_build_cast(g, count, wide));
        factor = factor ? TC_OP(g, "Mul", factor, ratio) : ratio;
    }
    return factor ? tc_build_cast(g, factor, tc_value_dtype(x)) : NULL;
}

tc_status tc_masked_reduce(tc_masked *w, tc_node *node) {
    tc_value *x = tc_input(node, 0);
    bool reduced[TC_MAX_RANK];
    int rank = tc_value_rank(x);
    if (!reduced_axes(node, rank, reduced))
        return tc_masked_refuse(w, node, "its axes are not known");
    tc_value *y = node->outputs[0], *mean;
    tc_value *factor = tc_node_is(node, "", "ReduceMean") ? mean_factor(w, x, reduced) : NULL;
    tc_node_set_input(node, 0, tc_mask_fill(w, x, reduced, fill_of(node, tc_value_dtype(x))));
    if (factor) {
        tc_node *product = tc_masked_after(w, node, "Mul", 2, &mean);
        tc_node_set_input(product, 0, mean);
        tc_node_set_input(product, 1, factor);
    }
    bool keeps = tc_attr_int(node, "keepdims", 1) != 0;
    for (int axis = 0, to = 0; axis < rank; axis++) {
        if (!reduced[axis])
            tc_mask_set(w, y, to, tc_mask_at(w, x, axis));
        to += !reduced[axis] || keeps;
    }
    return tc_masked_infer(w, node);
}

/* Rows that are not picked have a share of 1, whose logarithm is 0; other shares are 0. */
tc_status tc_masked_softmax(tc_masked *w, tc_node *node) {
    tc_value *x = tc_input(node, 0), *y = node->outputs[0];
    int rank = tc_value_rank(x);
    int64_t axis = tc_attr_int(node, "axis", -1);
    bool along[TC_MAX_RANK] = {false};
    axis += axis < 0 ? rank : 0;
    along[axis] = true;
    bool mixes = tc_mask_at(w, x, (int)axis) != NULL;
    tc_node_set_input(node, 0, tc_mask_fill(w, x, along, tc_masked_lowest(tc_value_dtype(x), 1) / 2));
    if (mixes) {
        tc_value *shares;
        tc_node *select = tc_masked_after(w, node, "Where", 3, &shares);
        tc_node_set_input(select, 0, tc_mask_for(w, x, along));
        tc_node_set_input(select, 1, shares);
        tc_node_set_input(select, 2, tc_build_like(w->g, x, tc_node_is(node, "", "Softmax") ? 1 : 0));
    }
    for (int i = 0; i < rank; i++)
        tc_mask_set(w, y, i, tc_mask_at(w, x, i));
    return tc_masked_infer(w, node);
}

/* --- products --------------------------------------------------------------------------------- */

/* A product over picked rows is a product over all rows in which the others are 0 on one side. */
static tc_status product(tc_masked *w, tc_node *node, int a_inner, int b_inner) {
    tc_value *a = tc_input(node, 0), *b = tc_input(node, 1);
    const tc_mask *of_a = tc_mask_at(w, a, a_inner), *of_b = tc_mask_at(w, b, b_inner);
    if (of_a != of_b)
        return tc_masked_refuse(w, node, "it combines rows picked by two masks");
    bool inner[TC_MAX_RANK] = {false};
    inner[a_inner] = true;
    tc_node_set_input(node, 0, tc_mask_fill(w, a, inner, 0));
    return tc_masked_infer(w, node);
}

tc_status tc_masked_matmul(tc_masked *w, tc_node *node) {
    tc_value *a = tc_input(node, 0), *b = tc_input(node, 1), *y = node->outputs[0];
    int rank_a = tc_value_rank(a), rank_b = tc_value_rank(b);
    if (rank_a < 2 || rank_b < 2)
        return tc_masked_refuse(w, node, "one of its operands is a vector");
    TC_TRY(product(w, node, rank_a - 1, rank_b - 2));
    int rank = tc_value_rank(y);
    for (int i = 0; i < rank_a - 1; i++)
        tc_mask_set(w, y, i + rank - rank_a, tc_mask_at(w, a, i));
    for (int i = 0; i < rank_b; i++) {
        const tc_mask *mask = i == rank_b - 2 ? NULL : tc_mask_at(w, b, i), *there = NULL;
        int to = i + rank - rank_b;
        there = tc_mask_at(w, y, to);
        if (mask && there && mask != there)
            return tc_masked_refuse(w, node, "it combines rows picked by two masks");
        tc_mask_set(w, y, to, mask);
    }
    return w->g->status;
}

tc_status tc_masked_gemm(tc_masked *w, tc_node *node) {
    tc_value *a = tc_input(node, 0), *b = tc_input(node, 1), *y = node->outputs[0];
    bool turned_a = tc_attr_int(node, "transA", 0) != 0, turned_b = tc_attr_int(node, "transB", 0) != 0;
    TC_TRY(product(w, node, turned_a ? 0 : 1, turned_b ? 1 : 0));
    tc_mask_set(w, y, 0, tc_mask_at(w, a, turned_a ? 1 : 0));
    tc_mask_set(w, y, 1, tc_mask_at(w, b, turned_b ? 0 : 1));
    return w->g->status;
}

/* --- losses ----------------------------------------------------------------------------------- */

tc_status tc_masked_loss(tc_masked *w, tc_node *node) {
    enum { IGNORED = -100 }; /* PyTorch's default */
    tc_value *scores = tc_input(node, 0), *labels = tc_input(node, 1);
    int rank = tc_value_rank(scores);
    const tc_mask *classes = tc_mask_at(w, scores, 1);
    bool fits = !classes && tc_value_rank(labels) == rank - 1;
    for (int i = 0; fits && i < rank - 1; i++)
        fits = tc_mask_at(w, labels, i) == tc_mask_at(w, scores, i + (i > 0));
    if (!fits)
        return tc_masked_refuse(w, node, "the rows of scores are not those of labels");
    if (!tc_attr_find(node, "ignore_index"))
        tc_attr_set_int(node, "ignore_index", IGNORED);
    tc_node_set_input(node, 1, tc_mask_fill(w, labels, NULL, (double)tc_attr_int(node, "ignore_index", IGNORED)));
    TC_TRY(tc_masked_infer(w, node));
    if (strcmp(tc_attr_string(node, "reduction", "mean"), "none") == 0)
        for (int i = 0; i < rank - 1; i++)
            tc_mask_set(w, node->outputs[0], i, tc_mask_at(w, labels, i));
    for (int i = 0; tc_output(node, 1) && i < rank; i++)
        tc_mask_set(w, node->outputs[1], i, tc_mask_at(w, scores, i));
    return w->g->status;
}

/* --- scattered rows --------------------------------------------------------------------------- */

static bool is_zeros(const tc_value *value) {
    const tc_node *node = value->producer;
    const tc_attr *attr = node && tc_node_is(node, "", "ConstantOfShape") ? tc_attr_find(node, "value") : NULL;
    const tc_tensor *tensor = attr ? attr->t : tc_value_constant(value);
    bool zeros = tensor ? tensor->data != NULL : node && tc_node_is(node, "", "ConstantOfShape");
    for (uint64_t i = 0; zeros && tensor && i < tensor->count; i++)
        zeros = tc_tensor_get(tensor, i) == 0;
    return zeros;
}

/* The neutral element of a reduction. No two replacing rows go to one position (ONNX), so among zeros this is a sum.
 * False: rows that replace others. */
static bool neutral(tc_node *node, tc_dtype dtype, double *out_fill) {
    static const struct {
        const char *reduction;
        double fill;
        int lowest;
    } kinds[] = {{"add", 0, 0}, {"mul", 1, 0}, {"max", 0, 1}, {"min", 0, -1}};
    const char *reduction = tc_attr_string(node, "reduction", "none");
    if (strcmp(reduction, "none") == 0 && is_zeros(tc_input(node, 0))) {
        reduction = "add";
        tc_attr_set_string(node, "reduction", reduction);
    }
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        if (strcmp(reduction, kinds[i].reduction) == 0) {
            *out_fill = kinds[i].lowest ? tc_masked_lowest(dtype, kinds[i].lowest) : kinds[i].fill;
            return true;
        }
    return false;
}

/* The same scatter with addition, into zeros. */
static tc_value *added(tc_masked *w, const tc_node *node, tc_value *shape, tc_value *updates) {
    tc_value *operands[] = {tc_build_zeros(w->g, shape, tc_value_dtype(updates)), tc_input(node, 1), updates};
    tc_node *sum = tc_build_node(w->g, "", node->op_type, TC_COUNT(operands), operands, 1);
    if (tc_attr_find(node, "axis"))
        tc_attr_copy(sum, tc_attr_find(node, "axis"));
    tc_attr_set_string(sum, "reduction", "add");
    return tc_build_finish(w->g, sum);
}

/* The scattered rows where there are some, data elsewhere. */
static tc_status select_rows(tc_masked *w, tc_node *node, tc_value *hit, tc_value *rows) {
    tc_value *operands[] = {hit, rows, tc_input(node, 0)};
    tc_node_set_op(node, "", "Where");
    tc_attr_remove(node, "reduction");
    tc_attr_remove(node, "axis");
    for (uint32_t i = 0; i < TC_COUNT(operands); i++)
        tc_node_set_input(node, i, operands[i]);
    return tc_masked_infer(w, node);
}

/* Whether the positions are all those of a mask over the first axes of the data, in order: data[mask] = updates. */
static bool takes_all(tc_masked *w, const tc_value *at, const tc_value *data) {
    const tc_node *transpose = at->producer;
    const tc_picked *picked = transpose && tc_node_is(transpose, "", "Transpose") && tc_value_rank(at) == 2
                                  ? tc_map_get_ptr(w->picked, tc_input(transpose, 0))
                                  : NULL;
    int rank = picked ? tc_value_rank(picked->from) : 0;
    bool same = picked && tc_mask_at(w, at, 0) == picked->mask && rank <= tc_value_rank(data);
    for (int i = 0; same && i < rank; i++)
        same = tc_dim_equal(picked->from->type->dims[i], data->type->dims[i]);
    return same;
}

/* Rows that replace others. */
static tc_status replace_rows(tc_masked *w, tc_node *node) {
    tc_build *g = w->g;
    tc_value *data = tc_input(node, 0), *at = tc_input(node, 1), *updates = tc_input(node, 2), *hit, *rows;
    int64_t depth, trailing[TC_MAX_RANK];
    int rank = tc_value_rank(data);
    if (!tc_build_static(at, tc_value_rank(at) - 1, &depth) || depth > rank)
        return tc_masked_refuse(w, node, "the number of axes of its indices is not known");
    for (int64_t i = depth; i < rank; i++)
        trailing[i - depth] = i;
    tc_value *head = tc_build_dims(g, data, 0, depth), *mask = tc_mask_for(w, at, NULL);
    if (takes_all(w, at, data)) {
        hit = tc_build_reshape(g, tc_mask_at(w, at, 0)->flat, head);
        rows = tc_build_reshape_like(g, updates, data);
    } else {
        mask = TC_OP(g, "Squeeze", tc_build_cast(g, mask, TC_INT32), tc_build_int(g, -1));
        mask = TC_OP(g, "Expand", mask, tc_build_dims(g, at, 0, tc_value_rank(at) - 1));
        hit = tc_build_cast(g, added(w, node, head, mask), TC_BOOL);
        rows = added(w, node, tc_build_shape(g, data), tc_mask_fill(w, updates, NULL, 0));
    }
    return select_rows(w, node, tc_build_unsqueeze(g, hit, trailing, (size_t)(rank - depth)), rows);
}

static tc_status replace_elements(tc_masked *w, tc_node *node) {
    tc_build *g = w->g;
    tc_value *at = tc_input(node, 1), *shape = tc_build_shape(g, tc_input(node, 0));
    tc_value *mask = TC_OP(g, "Expand", tc_build_cast(g, tc_mask_for(w, at, NULL), TC_INT32), tc_build_shape(g, at));
    tc_value *hit = tc_build_cast(g, added(w, node, shape, mask), TC_BOOL);
    return select_rows(w, node, hit, added(w, node, shape, tc_mask_fill(w, tc_input(node, 2), NULL, 0)));
}

/* Both scatters; `n_axes` of the positions' axes are also axes of the scattered rows. */
static tc_status scatter(tc_masked *w, tc_node *node, int n_axes, tc_masked_fn replace) {
    tc_value *data = tc_input(node, 0), *at = tc_input(node, 1), *updates = tc_input(node, 2);
    double fill;
    if (tc_masks_of(w, data))
        return tc_masked_refuse(w, node, "it writes rows to positions among rows");
    for (int i = 0; i < n_axes; i++)
        if (tc_mask_at(w, at, i) != tc_mask_at(w, updates, i))
            return tc_masked_refuse(w, node, "its rows are not those of its indices");
    if (!tc_masks_of(w, at))
        return tc_masked_refuse(w, node, "it writes rows to positions that depend on the data, among others");
    if (!neutral(node, tc_value_dtype(data), &fill))
        return replace(w, node);
    tc_node_set_input(node, 2, tc_mask_fill(w, updates, NULL, fill));
    return tc_masked_infer(w, node);
}

tc_status tc_masked_scatter_nd(tc_masked *w, tc_node *node) {
    return scatter(w, node, tc_value_rank(tc_input(node, 1)) - 1, replace_rows);
}

tc_status tc_masked_scatter_elements(tc_masked *w, tc_node *node) {
    return scatter(w, node, tc_value_rank(tc_input(node, 1)), replace_elements);
}
