/* shape_elementwise.c: shape functions of ops that work element by element: the result has the operands' broadcast
 * shape, or the shape of operand 0, and an element type that the op's specification fixes. Also those that only draw
 * such a tensor. */
#include "shape_fns.h"
#include <string.h>

tc_status tc_shape_unary(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_identity(tc_shape_ctx *sc, tc_node *node) {
    const tc_value *x = tc_input(node, 0);
    return tc_output(node, 0) ? tc_shape_merge(sc, node, tc_output(node, 0), x->type) : TC_OK;
}

tc_status tc_shape_predicate(tc_shape_ctx *sc, tc_node *node) {
    return tc_shape_like(sc, node, 0, TC_BOOL, tc_arg_of(node, 0));
}

/* The broadcast shape of operands first.. as result 0. */
static tc_status broadcast_from(tc_shape_ctx *sc, tc_node *node, uint32_t first, tc_dtype dtype) {
    tc_dim dims[TC_MAX_RANK];
    int rank = 0;
    for (uint32_t i = first; i < node->n_inputs; i++) {
        tc_arg arg = tc_arg_of(node, i);
        if (!arg.value)
            continue;
        if (arg.rank == TC_RANK_UNKNOWN)
            return tc_shape_set(sc, node, 0, dtype, TC_RANK_UNKNOWN, NULL);
        TC_TRY(tc_broadcast(sc, node, rank, dims, arg.rank, arg.dims, &rank, dims));
    }
    return tc_shape_set(sc, node, 0, dtype, rank, dims);
}

static tc_dtype first_dtype(const tc_node *node, uint32_t first) {
    for (uint32_t i = first; i < node->n_inputs; i++)
        if (tc_arg_of(node, i).dtype != TC_UNDEFINED)
            return tc_arg_of(node, i).dtype;
    return TC_UNDEFINED;
}

tc_status tc_shape_broadcast(tc_shape_ctx *sc, tc_node *node) {
    if (strcmp(node->op_type, "BitShift") == 0) {
        const char *direction = tc_attr_string(node, "direction", "");
        if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
            return TC_FAIL(sc, node, "direction is \"%s\", expected LEFT or RIGHT", tc_quote(sc->ctx, direction));
    }
    return broadcast_from(sc, node, 0, first_dtype(node, 0));
}

tc_status tc_shape_compare(tc_shape_ctx *sc, tc_node *node) {
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 1));
    return broadcast_from(sc, node, 0, TC_BOOL);
}

tc_status tc_shape_pow(tc_shape_ctx *sc, tc_node *node) {
    return broadcast_from(sc, node, 0, tc_arg_of(node, 0).dtype);
}

tc_status tc_shape_prelu(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_expect_fits(sc, node, 1, x.rank, x.dims));
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_where(tc_shape_ctx *sc, tc_node *node) {
    TC_TRY(tc_shape_expect_same_type(sc, node, 1, 2));
    return broadcast_from(sc, node, 0, first_dtype(node, 1));
}

tc_status tc_shape_same_shape(tc_shape_ctx *sc, tc_node *node) {
    tc_arg a = tc_arg_of(node, 0), b = tc_arg_of(node, 1);
    if (a.rank == TC_RANK_UNKNOWN || b.rank == TC_RANK_UNKNOWN)
        return tc_shape_like(sc, node, 0, first_dtype(node, 0), a.rank == TC_RANK_UNKNOWN ? b : a);
    tc_dim dims[TC_MAX_RANK];
    TC_TRY(tc_shape_expect_rank(sc, node, 1, a.rank));
    for (int i = 0; i < a.rank; i++)
        TC_TRY(tc_shape_same_dim(sc, node, "size of the operands", a.dims[i], b.dims[i], &dims[i]));
    return tc_shape_set(sc, node, 0, first_dtype(node, 0), a.rank, dims);
}

/* --- types ------------------------------------------------------------------------------------ */

static tc_status dtype_attr(tc_shape_ctx *sc, tc_node *node, const char *name, tc_dtype otherwise, tc_dtype *out) {
    int64_t number = tc_attr_int(node, name, (int64_t)otherwise);
    if (number == TC_UNDEFINED && otherwise == TC_UNDEFINED && !tc_attr_find(node, name)) {
        *out = TC_UNDEFINED;
        return TC_OK;
    }
    if (number <= 0 || number >= TC_DTYPE_COUNT)
        return TC_FAIL(sc, node, "%s is %lld, expected an element type (1 to %d)", name, (long long)number,
                       TC_DTYPE_COUNT - 1);
    *out = (tc_dtype)number;
    return TC_OK;
}

tc_status tc_shape_cast(tc_shape_ctx *sc, tc_node *node) {
    tc_dtype to = TC_UNDEFINED;
    TC_TRY(dtype_attr(sc, node, "to", TC_UNDEFINED, &to));
    return tc_shape_like(sc, node, 0, to, tc_arg_of(node, 0));
}

tc_status tc_shape_cast_like(tc_shape_ctx *sc, tc_node *node) {
    return tc_shape_like(sc, node, 0, tc_arg_of(node, 1).dtype, tc_arg_of(node, 0));
}

tc_status tc_shape_random_like(tc_shape_ctx *sc, tc_node *node) {
    tc_dtype dtype = TC_UNDEFINED;
    TC_TRY(dtype_attr(sc, node, "dtype", tc_arg_of(node, 0).dtype, &dtype));
    if (strcmp(node->op_type, "EyeLike") == 0)
        TC_TRY(tc_shape_expect_rank(sc, node, 0, 2));
    return tc_shape_like(sc, node, 0, dtype, tc_arg_of(node, 0));
}

tc_status tc_shape_random(tc_shape_ctx *sc, tc_node *node) {
    tc_dtype dtype = TC_UNDEFINED;
    size_t count;
    const int64_t *sizes = tc_attr_ints(node, "shape", &count);
    tc_dim dims[TC_MAX_RANK];
    TC_TRY(dtype_attr(sc, node, "dtype", TC_FLOAT, &dtype));
    if (count > TC_MAX_RANK)
        return tc_error(sc->ctx, TC_LIMIT, node, "shape has %zu sizes, above the limit of %d", count, TC_MAX_RANK);
    for (size_t i = 0; i < count; i++)
        dims[i] = tc_dim_const(sizes[i]);
    return tc_shape_set(sc, node, 0, dtype, (int)count, dims);
}

tc_status tc_shape_multinomial(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dtype dtype = TC_UNDEFINED;
    TC_TRY(dtype_attr(sc, node, "dtype", TC_INT32, &dtype));
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 2));
    tc_dim dims[2] = {x.rank == 2 ? x.dims[0] : tc_dim_unknown(), tc_dim_const(tc_attr_int(node, "sample_size", 1))};
    return tc_shape_set(sc, node, 0, dtype, 2, dims);
}

tc_status tc_shape_dropout(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    double ratio;
    TC_TRY(tc_shape_expect_type(sc, node, 2, 1u << TC_BOOL, "bool"));
    if (tc_shape_float(sc, node, 1, &ratio) && !(ratio >= 0 && ratio <= 1))
        return TC_FAIL(sc, node, "ratio is %g, expected at least 0 and at most 1", ratio);
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    return tc_shape_like(sc, node, 1, TC_BOOL, x);
}

tc_status tc_shape_quantize(tc_shape_ctx *sc, tc_node *node) {
    tc_dtype dtype = TC_UNDEFINED;
    TC_TRY(dtype_attr(sc, node, "output_dtype", TC_UNDEFINED, &dtype));
    if (tc_arg_of(node, 2).value)
        dtype = tc_arg_of(node, 2).dtype;
    else if (dtype == TC_UNDEFINED)
        dtype = TC_UINT8;
    return tc_shape_like(sc, node, 0, dtype, tc_arg_of(node, 0));
}

tc_status tc_shape_dequantize(tc_shape_ctx *sc, tc_node *node) {
    return tc_shape_like(sc, node, 0, tc_arg_of(node, 1).dtype, tc_arg_of(node, 0));
}
