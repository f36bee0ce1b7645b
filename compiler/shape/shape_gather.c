/* shape_gather.c: shape functions of ops that read or write at given indices, and of ops whose result size depends on
 * data: NonZero, Compress, Unique. Constant indices are checked against known sizes. */
#include "shape_fns.h"
#include <string.h>

/* Constant indices of operand `index` must lie in -size..size-1. */
static tc_status check_indices(tc_shape_ctx *sc, tc_node *node, uint32_t index, tc_dim size) {
    tc_value *value = tc_input(node, index);
    const tc_contents *known = value ? tc_value_contents(sc->model, value) : NULL;
    if (!known || !tc_dim_is_const(size) || tc_dtype_is_float(known->dtype))
        return TC_OK;
    for (uint64_t i = 0; i < known->count; i++) {
        tc_dim item = known->items[i].i;
        if (tc_dim_is_const(item) && (item.value < -size.value || item.value >= size.value))
            return TC_FAIL(sc, node, "index %lld is outside an axis of size %lld", (long long)item.value,
                           (long long)size.value);
    }
    return TC_OK;
}

static tc_status too_deep(tc_shape_ctx *sc, tc_node *node, int rank) {
    return tc_error(sc->ctx, TC_LIMIT, node, "the result would have rank %d, above the limit of %d", rank, TC_MAX_RANK);
}

tc_status tc_shape_gather(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), indices = tc_arg_of(node, 1);
    int axis, rank = 0;
    TC_TRY(tc_shape_expect_type(sc, node, 1, TC_INTS, "int32 or int64"));
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
    TC_TRY(check_indices(sc, node, 1, x.dims[axis]));
    if (indices.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (x.rank - 1 + indices.rank > TC_MAX_RANK)
        return too_deep(sc, node, x.rank - 1 + indices.rank);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < axis; i++)
        dims[rank++] = x.dims[i];
    for (int i = 0; i < indices.rank; i++)
        dims[rank++] = indices.dims[i];
    for (int i = axis + 1; i < x.rank; i++)
        dims[rank++] = x.dims[i];
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

tc_status tc_shape_gather_elements(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), indices = tc_arg_of(node, 1);
    int axis;
    TC_TRY(tc_shape_expect_type(sc, node, 1, TC_INTS, "int32 or int64"));
    if (x.rank != TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
        TC_TRY(tc_shape_expect_rank(sc, node, 1, x.rank));
        TC_TRY(check_indices(sc, node, 1, x.dims[axis]));
    }
    return tc_shape_like(sc, node, 0, x.dtype, indices);
}

/* The checks that GatherND and ScatterND share; *out_tuple is how many axes one index tuple names, or -1. */
static tc_status tuple_size(tc_shape_ctx *sc, tc_node *node, int batch, int *out_tuple) {
    tc_arg x = tc_arg_of(node, 0), indices = tc_arg_of(node, 1);
    *out_tuple = -1;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    if (indices.rank == 0)
        return TC_FAIL(sc, node, "%s is a scalar, expected rank 1 or more", tc_operand_text(sc, node, 1));
    if (batch < 0 || (indices.rank > 0 && batch >= indices.rank) || (x.rank >= 0 && batch > x.rank))
        return TC_FAIL(sc, node, "batch_dims is %d, which the operands' ranks do not allow", batch);
    if (x.rank < 0 || indices.rank < 0 || !tc_dim_is_const(indices.dims[indices.rank - 1]))
        return TC_OK;
    int64_t tuple = indices.dims[indices.rank - 1].value;
    if (tuple > x.rank - batch)
        return TC_FAIL(sc, node, "%s holds tuples of %lld indices, but %s has rank %d", tc_operand_text(sc, node, 1),
                       (long long)tuple, tc_operand_text(sc, node, 0), x.rank);
    *out_tuple = (int)tuple;
    return TC_OK;
}

tc_status tc_shape_gather_nd(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), indices = tc_arg_of(node, 1);
    int64_t given = tc_attr_int(node, "batch_dims", 0);
    int batch = given < 0 || given > TC_MAX_RANK ? -1 : (int)given, tuple, rank = 0;
    TC_TRY(tuple_size(sc, node, batch, &tuple));
    if (tuple < 0)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (indices.rank - 1 + x.rank - tuple - batch > TC_MAX_RANK)
        return too_deep(sc, node, indices.rank - 1 + x.rank - tuple - batch);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < indices.rank - 1; i++)
        dims[rank++] = indices.dims[i];
    for (int i = 0; i < batch; i++)
        TC_TRY(tc_shape_same_dim(sc, node, "size of a batch axis", x.dims[i], indices.dims[i], &dims[i]));
    for (int i = batch + tuple; i < x.rank; i++)
        dims[rank++] = x.dims[i];
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

tc_status tc_shape_scatter_elements(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), indices = tc_arg_of(node, 1), updates = tc_arg_of(node, 2);
    int axis;
    tc_dim unused;
    TC_TRY(tc_shape_expect_type(sc, node, 1, TC_INTS, "int32 or int64"));
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 2));
    if (x.rank != TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
        TC_TRY(tc_shape_expect_rank(sc, node, 1, x.rank));
        TC_TRY(tc_shape_expect_rank(sc, node, 2, x.rank));
        TC_TRY(check_indices(sc, node, 1, x.dims[axis]));
    }
    for (int i = 0; i < indices.rank && indices.rank == updates.rank; i++)
        TC_TRY(tc_shape_same_dim(sc, node, "size of indices and updates", indices.dims[i], updates.dims[i], &unused));
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_scatter_nd(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), indices = tc_arg_of(node, 1), updates = tc_arg_of(node, 2);
    int tuple;
    tc_dim unused;
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 2));
    TC_TRY(tuple_size(sc, node, 0, &tuple));
    if (tuple >= 0 && updates.rank >= 0) {
        TC_TRY(tc_shape_expect_rank(sc, node, 2, indices.rank - 1 + x.rank - tuple));
        for (int i = 0; i < updates.rank; i++) {
            tc_dim want = i < indices.rank - 1 ? indices.dims[i] : x.dims[tuple + i - (indices.rank - 1)];
            TC_TRY(tc_shape_same_dim(sc, node, "size of updates", want, updates.dims[i], &unused));
        }
    }
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_onehot(tc_shape_ctx *sc, tc_node *node) {
    tc_arg indices = tc_arg_of(node, 0), values = tc_arg_of(node, 2);
    int axis, from = 0;
    tc_value *depth = tc_input(node, 1);
    const tc_contents *known = tc_value_contents(sc->model, depth);
    tc_dim size = tc_dim_unknown(), dims[TC_MAX_RANK];
    if (known && known->count == 1)
        size = tc_dtype_is_float(known->dtype) ? tc_dim_const((int64_t)known->items[0].f) : known->items[0].i;
    if (indices.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, values.dtype, TC_RANK_UNKNOWN, NULL);
    if (indices.rank + 1 > TC_MAX_RANK)
        return too_deep(sc, node, indices.rank + 1);
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", -1), indices.rank + 1, &axis));
    for (int i = 0; i <= indices.rank; i++)
        dims[i] = i != axis ? indices.dims[from++] : tc_dim_is_unknown(size) ? tc_shape_fresh(sc, node, 0, i) : size;
    return tc_shape_set(sc, node, 0, values.dtype, indices.rank + 1, dims);
}

/* --- sizes that depend on data ---------------------------------------------------------------- */

/* The number of nonzero elements; unknown where the elements are not known. */
static tc_dim count_nonzero(const tc_contents *known) {
    int64_t count = 0;
    if (!known || !tc_contents_is_const(known))
        return tc_dim_unknown();
    for (uint64_t i = 0; i < known->count; i++)
        count += tc_dtype_is_float(known->dtype) ? known->items[i].f != 0 : known->items[i].i.value != 0;
    return tc_dim_const(count);
}

tc_status tc_shape_nonzero(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim count = count_nonzero(tc_value_contents(sc->model, tc_input(node, 0)));
    if (tc_dim_is_unknown(count))
        count = tc_shape_fresh(sc, node, 0, 1);
    tc_dim dims[2] = {x.rank < 0 ? tc_dim_unknown() : tc_dim_const(x.rank), count};
    return tc_shape_set(sc, node, 0, TC_INT64, 2, dims);
}

tc_status tc_shape_compress(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim dims[TC_MAX_RANK];
    int axis = 0, rank = 1;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_BOOL, "bool"));
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 1));
    if (tc_attr_find(node, "axis")) {
        if (x.rank == TC_RANK_UNKNOWN)
            return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
        rank = x.rank;
        memcpy(dims, x.dims, (size_t)rank * sizeof *dims);
    }
    tc_dim kept = count_nonzero(tc_value_contents(sc->model, tc_input(node, 1)));
    dims[axis] = tc_dim_is_unknown(kept) ? tc_shape_fresh(sc, node, 0, axis) : kept;
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

tc_status tc_shape_unique(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim dims[TC_MAX_RANK], inverse = tc_dim_unknown();
    int axis = 0, rank = 1;
    if (x.rank == TC_RANK_UNKNOWN)
        rank = tc_attr_find(node, "axis") ? TC_RANK_UNKNOWN : 1;
    else if (tc_attr_find(node, "axis")) {
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
        rank = x.rank;
        memcpy(dims, x.dims, (size_t)rank * sizeof *dims);
        inverse = x.dims[axis];
    } else
        inverse = tc_dims_product(sc->model->dims, x.dims, x.rank);
    tc_dim kept = tc_shape_fresh(sc, node, 0, axis);
    dims[axis] = kept;
    TC_TRY(tc_shape_set(sc, node, 0, x.dtype, rank, dims));
    TC_TRY(tc_shape_set(sc, node, 1, TC_INT64, 1, &kept));
    TC_TRY(tc_shape_set(sc, node, 2, TC_INT64, 1, &inverse));
    return tc_shape_set(sc, node, 3, TC_INT64, 1, &kept);
}
