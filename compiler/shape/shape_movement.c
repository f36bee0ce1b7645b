/* shape_movement.c: shape functions of ops that move all elements without computing: reshapes, permutations, blocks. */
#include "shape_fns.h"
#include <string.h>

/* --- views ------------------------------------------------------------------------------------ */

/* Fills the dim at `hole` so that the product of dims is the operand's element count. */
static tc_status fill_hole(tc_shape_ctx *sc, tc_node *node, tc_dim *dims, int rank, int hole) {
    tc_dim_pool *pool = sc->model->dims;
    tc_arg x = tc_arg_of(node, 0);
    if (x.rank == TC_RANK_UNKNOWN) {
        dims[hole] = tc_dim_unknown();
        return TC_OK;
    }
    tc_dim total = tc_dims_product(pool, x.dims, x.rank);
    tc_dim rest =
        tc_dim_mul(pool, tc_dims_product(pool, dims, hole), tc_dims_product(pool, dims + hole + 1, rank - hole - 1));
    if (tc_dim_is_const(rest) && rest.value == 0) {
        if (tc_dim_is_const(total) && total.value != 0)
            return TC_FAIL(sc, node, "%s cannot be reshaped to %s", tc_operand_text(sc, node, 0),
                           tc_shape_text(sc, rank, dims));
        dims[hole] = tc_dim_is_const(total) ? tc_dim_const(0) : tc_dim_unknown();
        return TC_OK;
    }
    if (tc_dim_is_const(total) && tc_dim_is_const(rest) && total.value % rest.value != 0)
        return TC_FAIL(sc, node, "%s cannot be reshaped to %s: %lld elements are no multiple of %lld",
                       tc_operand_text(sc, node, 0), tc_shape_text(sc, rank, dims), (long long)total.value,
                       (long long)rest.value);
    dims[hole] = tc_dim_div(pool, total, rest);
    return TC_OK;
}

tc_status tc_shape_reshape(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 1));
    const tc_dim *target = tc_shape_dims(sc, node, 1, &count);
    if (!target)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (count > TC_MAX_RANK)
        return tc_error(sc->ctx, TC_LIMIT, node, "shape has %zu sizes, above the limit of %d", count, TC_MAX_RANK);
    tc_dim dims[TC_MAX_RANK];
    int hole = -1, unknowns = 0, rank = (int)count;
    bool allow_zero = tc_attr_int(node, "allowzero", 0) != 0;
    for (int i = 0; i < rank; i++) {
        dims[i] = target[i];
        bool number = tc_dim_is_const(target[i]);
        if (number && target[i].value == -1 && hole >= 0)
            return TC_FAIL(sc, node, "shape %s has -1 twice", tc_shape_text(sc, rank, target));
        if (number && target[i].value < -1)
            return TC_FAIL(sc, node, "shape %s has the size %lld", tc_shape_text(sc, rank, target),
                           (long long)target[i].value);
        if (number && target[i].value == -1)
            hole = i;
        else if (number && target[i].value == 0 && !allow_zero) {
            if (x.rank != TC_RANK_UNKNOWN && i >= x.rank)
                return TC_FAIL(sc, node, "shape %s copies size %d, but %s has rank %d", tc_shape_text(sc, rank, target),
                               i, tc_operand_text(sc, node, 0), x.rank);
            dims[i] = x.rank == TC_RANK_UNKNOWN ? tc_dim_unknown() : x.dims[i];
        }
        unknowns += tc_dim_is_unknown(dims[i]);
    }
    if (unknowns == 1 && hole < 0) /* one unknown size follows from the others */
        for (int i = 0; i < rank; i++)
            hole = tc_dim_is_unknown(dims[i]) ? i : hole;
    if (hole >= 0) {
        dims[hole] = tc_dim_const(1);
        TC_TRY(fill_hole(sc, node, dims, rank, hole));
    }
    for (int i = 0; i < rank; i++)
        if (tc_dim_is_unknown(dims[i]))
            dims[i] = tc_shape_fresh(sc, node, 0, i);
    tc_dim before = x.rank < 0 ? tc_dim_unknown() : tc_dims_product(sc->model->dims, x.dims, x.rank);
    tc_dim after = tc_dims_product(sc->model->dims, dims, rank);
    if (tc_dim_is_const(before) && tc_dim_is_const(after) && before.value != after.value)
        return TC_FAIL(sc, node, "%s cannot be reshaped to %s: %lld elements against %lld",
                       tc_operand_text(sc, node, 0), tc_shape_text(sc, rank, dims), (long long)before.value,
                       (long long)after.value);
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

tc_status tc_shape_flatten(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    int64_t axis = tc_attr_int(node, "axis", 1);
    tc_dim dims[2] = {tc_dim_unknown(), tc_dim_unknown()};
    if (x.rank != TC_RANK_UNKNOWN) {
        if (axis < -x.rank || axis > x.rank)
            return TC_FAIL(sc, node, "axis is %lld, expected %d to %d", (long long)axis, -x.rank, x.rank);
        int at = (int)(axis < 0 ? axis + x.rank : axis);
        dims[0] = tc_dims_product(sc->model->dims, x.dims, at);
        dims[1] = tc_dims_product(sc->model->dims, x.dims + at, x.rank - at);
    }
    return tc_shape_set(sc, node, 0, x.dtype, 2, dims);
}

tc_status tc_shape_squeeze(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    const int64_t *axes = NULL;
    size_t count = 0;
    uint64_t mask = 0;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    bool given = tc_arg_of(node, 1).value, known = tc_shape_ints(sc, node, 1, &axes, &count);
    tc_dim dims[TC_MAX_RANK];
    int rank = 0;
    if (x.rank == TC_RANK_UNKNOWN || (given && !known))
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    TC_TRY(tc_shape_axes(sc, node, axes, count, x.rank, &mask));
    for (int i = 0; i < x.rank; i++) {
        bool one = tc_dim_is_const(x.dims[i]) && x.dims[i].value == 1;
        if (!given && !tc_dim_is_const(x.dims[i])) /* it may be 1 */
            return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
        if ((mask >> i & 1) && !one && tc_dim_is_const(x.dims[i]))
            return TC_FAIL(sc, node, "axis %d of %s has size %lld, expected 1", i, tc_operand_text(sc, node, 0),
                           (long long)x.dims[i].value);
        if (given ? !(mask >> i & 1) : !one)
            dims[rank++] = x.dims[i];
    }
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

tc_status tc_shape_unsqueeze(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    const int64_t *axes;
    size_t count;
    uint64_t mask;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    bool known = tc_shape_ints(sc, node, 1, &axes, &count);
    if (x.rank == TC_RANK_UNKNOWN || (!known && count == 0))
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (count > (size_t)(TC_MAX_RANK - x.rank))
        return tc_error(sc->ctx, TC_LIMIT, node, "the result would have rank %zu, above the limit of %d",
                        count + (size_t)x.rank, TC_MAX_RANK);
    int rank = x.rank + (int)count;
    if (!known)
        return tc_shape_set(sc, node, 0, x.dtype, rank, NULL);
    TC_TRY(tc_shape_axes(sc, node, axes, count, rank, &mask));
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0, from = 0; i < rank; i++)
        dims[i] = mask >> i & 1 ? tc_dim_const(1) : x.dims[from++];
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

/* --- permutations ----------------------------------------------------------------------------- */

tc_status tc_shape_transpose(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count;
    const int64_t *perm = tc_attr_ints(node, "perm", &count);
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, perm && count <= TC_MAX_RANK ? (int)count : TC_RANK_UNKNOWN, NULL);
    tc_dim dims[TC_MAX_RANK];
    if (perm && count != (size_t)x.rank)
        return TC_FAIL(sc, node, "perm has %zu elements, but %s has rank %d", count, tc_operand_text(sc, node, 0),
                       x.rank);
    uint64_t seen = 0;
    for (int i = 0; i < x.rank; i++) {
        int64_t from = perm ? perm[i] : x.rank - 1 - i;
        if (from < 0 || from >= x.rank || (seen >> from & 1))
            return TC_FAIL(sc, node, "perm has the element %lld at %d, expected each of 0 to %d once", (long long)from,
                           i, x.rank - 1);
        seen |= (uint64_t)1 << from;
        dims[i] = x.dims[from];
    }
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

static tc_status blocks(tc_shape_ctx *sc, tc_node *node, bool to_space) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim_pool *pool = sc->model->dims;
    int64_t block = tc_attr_int(node, "blocksize", 0);
    if (block < 1 || block > INT16_MAX)
        return TC_FAIL(sc, node, "blocksize is %lld, expected at least 1", (long long)block);
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 4));
    if (x.rank != 4)
        return tc_shape_set(sc, node, 0, x.dtype, 4, NULL);
    tc_dim by = tc_dim_const(block), square = tc_dim_const(block * block), dims[4];
    dims[0] = x.dims[0];
    for (int i = 1; i < 4; i++) {
        bool shrinks = to_space == (i == 1);
        tc_dim factor = i == 1 ? square : by;
        if (shrinks && tc_dim_is_const(x.dims[i]) && x.dims[i].value % factor.value != 0)
            return TC_FAIL(sc, node, "axis %d of %s is no multiple of %lld", i, tc_operand_text(sc, node, 0),
                           (long long)factor.value);
        dims[i] = shrinks ? tc_dim_div(pool, x.dims[i], factor) : tc_dim_mul(pool, x.dims[i], factor);
    }
    return tc_shape_set(sc, node, 0, x.dtype, 4, dims);
}

tc_status tc_shape_depth_to_space(tc_shape_ctx *sc, tc_node *node) { return blocks(sc, node, true); }
tc_status tc_shape_space_to_depth(tc_shape_ctx *sc, tc_node *node) { return blocks(sc, node, false); }

tc_status tc_shape_trilu(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    if (x.rank >= 0 && x.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2", tc_operand_text(sc, node, 0), x.rank);
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_reverse_sequence(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    return tc_shape_like(sc, node, 0, x.dtype, x);
}
