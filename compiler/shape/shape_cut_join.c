/* shape_cut_join.c: shape functions of ops that change the number of elements: Expand, Tile, Pad, Slice, Split,
 * Concat. */
#include "shape_fns.h"
#include <string.h>

tc_status tc_shape_expand(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    const tc_dim *target = tc_shape_dims(sc, node, 1, &count);
    if (!target || x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (count > TC_MAX_RANK)
        return tc_error(sc->ctx, TC_LIMIT, node, "shape has %zu sizes, above the limit of %d", count, TC_MAX_RANK);
    tc_dim dims[TC_MAX_RANK];
    int rank;
    for (size_t i = 0; i < count; i++)
        if (tc_dim_is_const(target[i]) && target[i].value < 0)
            return TC_FAIL(sc, node, "shape %s has a negative size", tc_shape_text(sc, (int)count, target));
    TC_TRY(tc_broadcast(sc, node, x.rank, x.dims, (int)count, target, &rank, dims));
    for (int i = 0; i < rank; i++)
        if (tc_dim_is_unknown(dims[i]))
            dims[i] = tc_shape_fresh(sc, node, 0, i);
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}

/* `size` of an axis was computed from `operands`. Where both of them are numbers and `size` is unknown, it did not fit
 * in 63 bits. */
static tc_status check_fits(tc_shape_ctx *sc, tc_node *node, int axis, tc_dim size, const tc_dim operands[2],
                            bool negative) {
    if (!tc_dim_is_unknown(size) || !tc_dim_is_const(operands[0]) || !tc_dim_is_const(operands[1]))
        return TC_OK;
    if (negative)
        return TC_FAIL(sc, node, "axis %d of the result would have a negative size", axis);
    return tc_error(sc->ctx, TC_LIMIT, node, "axis %d of the result would have 2^63 elements or more", axis);
}

tc_status tc_shape_tile(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    const tc_dim *repeats = tc_shape_dims(sc, node, 1, &count);
    if (!repeats || x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    if (count != (size_t)x.rank)
        return TC_FAIL(sc, node, "repeats has %zu elements, but %s has rank %d", count, tc_operand_text(sc, node, 0),
                       x.rank);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++) {
        dims[i] = tc_dim_mul(sc->model->dims, x.dims[i], repeats[i]);
        TC_TRY(check_fits(sc, node, i, dims[i], (tc_dim[]){x.dims[i], repeats[i]}, repeats[i].value < 0));
    }
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

/* The axes that operand `index` lists, or all; false when they are not known. */
static tc_status listed_axes(tc_shape_ctx *sc, tc_node *node, uint32_t index, int rank, int axes[TC_MAX_RANK],
                             size_t *count, bool *out_known) {
    const int64_t *given;
    *out_known = true;
    if (!tc_arg_of(node, index).value) {
        for (size_t i = 0; i < *count && i < TC_MAX_RANK; i++)
            axes[i] = (int)i;
        if (*count > (size_t)rank)
            return TC_FAIL(sc, node, "%zu axes are meant, but %s has rank %d", *count, tc_operand_text(sc, node, 0),
                           rank);
        return TC_OK;
    }
    size_t n;
    uint64_t mask;
    *out_known = tc_shape_ints(sc, node, index, &given, &n);
    if (!*out_known)
        return TC_OK;
    TC_TRY(tc_shape_axes(sc, node, given, n, rank, &mask));
    for (size_t i = 0; i < n; i++)
        TC_TRY(tc_shape_axis(sc, node, given[i], rank, &axes[i]));
    if (n != *count)
        return TC_FAIL(sc, node, "%zu axes are given for %zu elements", n, *count);
    return TC_OK;
}

tc_status tc_shape_pad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count;
    int axes[TC_MAX_RANK];
    bool known;
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    const tc_dim *pads = tc_shape_dims(sc, node, 1, &count);
    if (!pads || x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    if (count % 2)
        return TC_FAIL(sc, node, "pads has %zu elements, expected two per axis", count);
    size_t n = count / 2;
    if (!tc_arg_of(node, 3).value && n != (size_t)x.rank)
        return TC_FAIL(sc, node, "pads has %zu elements, expected %d", count, 2 * x.rank);
    TC_TRY(listed_axes(sc, node, 3, x.rank, axes, &n, &known));
    if (!known)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = x.dims[i];
    for (size_t i = 0; i < n; i++) {
        tc_dim both = tc_dim_add(sc->model->dims, pads[i], pads[n + i]), before = dims[axes[i]];
        TC_TRY(check_fits(sc, node, axes[i], both, (tc_dim[]){pads[i], pads[n + i]}, pads[i].value < 0));
        dims[axes[i]] = tc_dim_add(sc->model->dims, before, both);
        TC_TRY(check_fits(sc, node, axes[i], dims[axes[i]], (tc_dim[]){before, both}, both.value < 0));
    }
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

/* --- Slice ------------------------------------------------------------------------------------ */

/* A bound of a slice as a position; a bound before the beginning becomes `low`, one after the end `high`. */
static tc_dim slice_bound(tc_dim_pool *pool, tc_dim bound, tc_dim size, tc_dim low, tc_dim high) {
    int negative = tc_dim_less(bound, tc_dim_const(0));
    if (negative < 0)
        return tc_dim_unknown();
    if (negative) {
        tc_dim from_end = tc_dim_add(pool, bound, size);
        /* -n counts from the end. INT64_MIN + a symbol is before the beginning. */
        if (tc_dim_is_const(bound) && bound.value <= -INT32_MAX && !tc_dim_is_const(size))
            return low;
        return tc_dim_max(pool, from_end, low);
    }
    if (tc_dim_is_const(bound) && bound.value >= INT32_MAX && !tc_dim_is_const(size))
        return high;
    return tc_dim_min(pool, bound, high);
}

/* Forwards a slice lies between 0 and the size. Backwards it starts at an element, at the first one where its start is
 * before the beginning, and ends after position -1 or later. */
static tc_dim slice_size(tc_dim_pool *pool, tc_dim size, tc_dim start, tc_dim end, int64_t step) {
    bool forward = step > 0;
    const tc_dim zero = tc_dim_const(0), minus = tc_dim_const(-1);
    tc_dim high = forward ? size : tc_dim_add(pool, size, minus), from = slice_bound(pool, start, size, zero, high),
           to = slice_bound(pool, end, size, forward ? zero : minus, high),
           span = forward ? tc_dim_sub(pool, to, from) : tc_dim_sub(pool, from, to);
    if (!forward)
        span = tc_dim_min(pool, span, size); /* an empty axis has no first element */
    int64_t stride = step > 0            ? step
                     : step == INT64_MIN ? INT64_MAX
                                         : -step; /* no axis is long enough to distinguish the last two */
    if (tc_dim_is_const(span))
        return tc_dim_const(span.value > 0 ? (span.value - 1) / stride + 1 : 0);
    tc_dim rounded = tc_dim_add(pool, span, tc_dim_const(stride - 1));
    return tc_dim_max(pool, tc_dim_div(pool, rounded, tc_dim_const(stride)), zero);
}

tc_status tc_shape_slice(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t n, n_ends, n_steps;
    int axes[TC_MAX_RANK];
    bool known;
    for (uint32_t i = 1; i < 5; i++)
        TC_TRY(tc_shape_expect_type(sc, node, i, TC_INTS, "int32 or int64"));
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    const tc_dim *starts = tc_shape_dims(sc, node, 1, &n), *ends = tc_shape_dims(sc, node, 2, &n_ends);
    const int64_t *steps = NULL;
    bool steps_known = !tc_arg_of(node, 4).value || tc_shape_ints(sc, node, 4, &steps, &n_steps);
    if (starts && ends && (n != n_ends || n > (size_t)x.rank || (steps && n_steps != n)))
        return TC_FAIL(sc, node, "starts, ends and steps have %zu, %zu and %zu elements", n, n_ends,
                       steps ? n_steps : n);
    known = starts && ends;
    if (known)
        TC_TRY(listed_axes(sc, node, 3, x.rank, axes, &n, &known));
    if (!known)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    tc_dim dims[TC_MAX_RANK];
    memcpy(dims, x.dims, (size_t)x.rank * sizeof *dims);
    for (size_t i = 0; i < n; i++) {
        tc_dim *dim = &dims[axes[i]];
        if (steps && steps[i] == 0)
            return TC_FAIL(sc, node, "step is 0 for axis %d", axes[i]);
        *dim = steps_known ? slice_size(sc->model->dims, *dim, starts[i], ends[i], steps ? steps[i] : 1)
                           : tc_dim_unknown();
        if (tc_dim_is_unknown(*dim))
            *dim = tc_shape_fresh(sc, node, 0, axes[i]);
    }
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

/* --- Split, Concat ---------------------------------------------------------------------------- */

/* Sizes of the parts by num_outputs (or the number of results): all equal, but the last may be smaller (or empty). */
static tc_status equal_parts(tc_shape_ctx *sc, tc_node *node, tc_dim size, tc_dim *parts) {
    tc_dim_pool *pool = sc->model->dims;
    int64_t n = tc_attr_int(node, "num_outputs", (int64_t)node->n_outputs);
    if (n != (int64_t)node->n_outputs)
        return TC_FAIL(sc, node, "num_outputs is %lld, but there are %u results", (long long)n, node->n_outputs);
    if (!tc_attr_find(node, "num_outputs") && tc_dim_is_const(size) && size.value % n != 0)
        return TC_FAIL(sc, node, "axis of size %lld cannot be split into %lld equal parts", (long long)size.value,
                       (long long)n);
    tc_dim part = tc_dim_div(pool, tc_dim_add(pool, size, tc_dim_const(n - 1)), tc_dim_const(n));
    for (int64_t i = 0; i < n; i++) {
        tc_dim left = tc_dim_sub(pool, size, tc_dim_mul(pool, part, tc_dim_const(i)));
        bool cut = tc_attr_find(node, "num_outputs") && (i == n - 1 || tc_dim_is_const(size));
        parts[i] = cut ? tc_dim_max(pool, tc_dim_min(pool, left, part), tc_dim_const(0)) : part;
    }
    return TC_OK;
}

tc_status tc_shape_split(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    size_t count = node->n_outputs;
    int axis = 0;
    tc_dim dims[TC_MAX_RANK];
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), x.rank, &axis));
    tc_dim *parts = TC_NEW_ARRAY(sc->model->arena, tc_dim, count + 1);
    for (size_t i = 0; i < count; i++)
        parts[i] = tc_dim_unknown();
    if (tc_arg_of(node, 1).value) {
        const tc_dim *given = tc_shape_dims(sc, node, 1, &count);
        if (given && count != node->n_outputs)
            return TC_FAIL(sc, node, "split has %zu sizes, but there are %u results", count, node->n_outputs);
        tc_dim sum = tc_dim_const(0);
        for (size_t i = 0; given && i < count; i++) {
            parts[i] = given[i];
            sum = tc_dim_add(sc->model->dims, sum, given[i]);
        }
        if (given && x.rank != TC_RANK_UNKNOWN && tc_dim_is_const(sum) && tc_dim_is_const(x.dims[axis]) &&
            sum.value != x.dims[axis].value)
            return TC_FAIL(sc, node, "split adds up to %lld, but axis %d has size %lld", (long long)sum.value, axis,
                           (long long)x.dims[axis].value);
    } else if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(equal_parts(sc, node, x.dims[axis], parts));
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        for (int j = 0; j < x.rank; j++)
            dims[j] = j == axis ? parts[i] : x.dims[j];
        TC_TRY(tc_shape_set(sc, node, i, x.dtype, x.rank, x.rank < 0 ? NULL : dims));
    }
    return TC_OK;
}

tc_status tc_shape_concat(tc_shape_ctx *sc, tc_node *node) {
    tc_arg first = tc_arg_of(node, 0);
    tc_dim dims[TC_MAX_RANK], sum = tc_dim_const(0);
    int axis;
    if (first.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, first.dtype, TC_RANK_UNKNOWN, NULL);
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", 0), first.rank, &axis));
    memcpy(dims, first.dims, (size_t)first.rank * sizeof *dims);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_arg arg = tc_arg_of(node, i);
        TC_TRY(tc_shape_expect_rank(sc, node, i, first.rank));
        if (arg.rank == TC_RANK_UNKNOWN) {
            sum = tc_dim_unknown();
            continue;
        }
        sum = tc_dim_add(sc->model->dims, sum, arg.dims[axis]);
        for (int j = 0; j < first.rank; j++)
            if (j != axis)
                TC_TRY(tc_shape_same_dim(sc, node, "size of the operands beside the joined axis", dims[j], arg.dims[j],
                                         &dims[j]));
    }
    dims[axis] = sum;
    return tc_shape_set(sc, node, 0, first.dtype, first.rank, dims);
}
