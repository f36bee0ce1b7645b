/* shape_reduce.c: shape functions of ops that combine elements along axes: sums and extremes, ArgMax, TopK, CumSum. */
#include "shape_fns.h"

static tc_status read_keepdims(tc_shape_ctx *sc, const tc_node *node, bool *out) {
    int64_t keep = tc_attr_int(node, "keepdims", 1);
    *out = keep == 1;
    return keep == 0 || keep == 1 ? TC_OK : TC_FAIL(sc, node, "keepdims is %lld, expected 0 or 1", (long long)keep);
}

/* Removes the axes of `mask` (keepdims: makes them 1) and sets result 0. */
static tc_status set_reduced(tc_shape_ctx *sc, tc_node *node, tc_dtype dtype, uint64_t mask) {
    tc_arg x = tc_arg_of(node, 0);
    bool keep;
    tc_dim dims[TC_MAX_RANK];
    int rank = 0;
    TC_TRY(read_keepdims(sc, node, &keep));
    for (int i = 0; i < x.rank; i++) {
        if (!(mask >> i & 1))
            dims[rank++] = x.dims[i];
        else if (keep)
            dims[rank++] = tc_dim_const(1);
    }
    return tc_shape_set(sc, node, 0, dtype, rank, dims);
}

/* Axes that are not known: with keepdims the rank stays, else their number lowers it. */
static tc_status set_reduced_unknown(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), axes = tc_arg_of(node, 1);
    bool keep;
    TC_TRY(read_keepdims(sc, node, &keep));
    int rank = keep ? x.rank : TC_RANK_UNKNOWN;
    if (rank == TC_RANK_UNKNOWN && axes.rank == 1 && tc_dim_is_const(axes.dims[0]) && axes.dims[0].value > 0 &&
        axes.dims[0].value <= x.rank)
        rank = x.rank - (int)axes.dims[0].value;
    return tc_shape_set(sc, node, 0, x.dtype, rank, NULL);
}

tc_status tc_shape_reduce(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    const int64_t *axes = NULL;
    size_t count = 0;
    uint64_t mask = 0;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    bool given = tc_arg_of(node, 1).value != NULL, known = tc_shape_ints(sc, node, 1, &axes, &count);
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (given && !known)
        return set_reduced_unknown(sc, node);
    if (count > 0)
        TC_TRY(tc_shape_axes(sc, node, axes, count, x.rank, &mask));
    else if (tc_attr_int(node, "noop_with_empty_axes", 0) == 0)
        mask = UINT64_MAX;
    return set_reduced(sc, node, x.dtype, mask);
}

tc_status tc_shape_arg_reduce(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    int axis;
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, TC_INT64, TC_RANK_UNKNOWN, NULL);
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
    return set_reduced(sc, node, TC_INT64, (uint64_t)1 << axis);
}

tc_status tc_shape_topk(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count;
    int axis;
    if (x.rank == TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL));
        return tc_shape_set(sc, node, 1, TC_INT64, TC_RANK_UNKNOWN, NULL);
    }
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", -1), x.rank, &axis));
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = x.dims[i];
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    const tc_dim *k = tc_shape_dims(sc, node, 1, &count);
    dims[axis] = k && count == 1 ? k[0] : tc_dim_unknown();
    if (tc_dim_is_unknown(dims[axis]))
        dims[axis] = tc_shape_fresh(sc, node, 0, axis);
    if (tc_dim_is_const(dims[axis]) && tc_dim_is_const(x.dims[axis]) && dims[axis].value > x.dims[axis].value)
        return TC_FAIL(sc, node, "k is %lld, but axis %d has %lld elements", (long long)dims[axis].value, axis,
                       (long long)x.dims[axis].value);
    TC_TRY(tc_shape_set(sc, node, 0, x.dtype, x.rank, dims));
    return tc_shape_set(sc, node, 1, TC_INT64, x.rank, dims);
}

tc_status tc_shape_cumsum(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    const int64_t *axis;
    size_t count;
    int at;
    TC_TRY(tc_shape_expect_type(sc, node, 1, TC_INTS, "int32 or int64"));
    if (x.rank != TC_RANK_UNKNOWN && tc_shape_ints(sc, node, 1, &axis, &count) && count == 1)
        TC_TRY(tc_shape_axis(sc, node, axis[0], x.rank, &at));
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_det(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    if (x.rank >= 0 && x.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2", tc_operand_text(sc, node, 0), x.rank);
    return tc_shape_set(sc, node, 0, x.dtype, x.rank < 0 ? x.rank : x.rank - 2, x.dims);
}

/* Of one number for each matrix, and the matrices. */
tc_status tc_shape_det_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 1);
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 1));
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, x.dims);
}
