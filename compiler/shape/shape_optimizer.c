/* shape_optimizer.c: shape functions of the optimizers, from (R, T, X..., G..., state...), as ONNX's preview.training
 * lays them out, followed by a number and copies, to (X..., state...); and of the norm of all gradients. Meanings:
 * ops.def. */
#include "shape_fns.h"

/* One number. */
static tc_status expect_number(tc_shape_ctx *sc, tc_node *node, uint32_t index) {
    tc_arg arg = tc_arg_of(node, index);
    if (arg.rank > 1 || (arg.rank == 1 && tc_dim_is_const(arg.dims[0]) && arg.dims[0].value != 1))
        return TC_FAIL(sc, node, "%s is not one number", tc_operand_text(sc, node, index));
    return TC_OK;
}

static bool is_number(const tc_node *node, uint32_t index) {
    tc_arg arg = tc_arg_of(node, index);
    return arg.value && (arg.rank == TC_RANK_UNKNOWN || arg.rank == 0 ||
                         (arg.rank == 1 && !(tc_dim_is_const(arg.dims[0]) && arg.dims[0].value != 1)));
}

/* Operand `index` belongs to the tensor of operand `first`: it has its shape and, unless it is `any_type`, its element
 * type. */
static tc_status expect_alike(tc_shape_ctx *sc, tc_node *node, uint32_t first, uint32_t index, bool any_type) {
    tc_arg x = tc_arg_of(node, first), other = tc_arg_of(node, index);
    tc_dim dim;
    if (!other.value)
        return TC_FAIL(sc, node, "operand %u is absent (\"\"), but the op needs it", index);
    if (!any_type)
        TC_TRY(tc_shape_expect_same_type(sc, node, first, index));
    if (x.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    TC_TRY(tc_shape_expect_rank(sc, node, index, x.rank));
    for (int i = 0; i < x.rank && other.rank == x.rank; i++)
        TC_TRY(tc_shape_same_dim(sc, node, tc_operand_text(sc, node, index), x.dims[i], other.dims[i], &dim));
    return TC_OK;
}

static const uint32_t halves = 1u << TC_FLOAT16 | 1u << TC_BFLOAT16, floats = 1u << TC_FLOAT | 1u << TC_DOUBLE;

/* The type of copies of new weights; TC_UNDEFINED: there are none. */
static tc_status copy_type(tc_shape_ctx *sc, tc_node *node, tc_dtype *out_dtype) {
    *out_dtype = (tc_dtype)tc_attr_int(node, "copy_type", TC_UNDEFINED);
    if (*out_dtype != TC_UNDEFINED && (*out_dtype > 31 || (halves >> *out_dtype & 1) == 0))
        return TC_FAIL(sc, node, "copy_type is %lld, not 10 (float16) or 16 (bfloat16)",
                       (long long)tc_attr_int(node, "copy_type", 0));
    return TC_OK;
}

/* The number of trained tensors, given `each` operands for one, and the number after them. */
static tc_status count_tensors(tc_shape_ctx *sc, tc_node *node, uint32_t each, uint32_t *out_n) {
    uint32_t n = node->n_inputs - 2u, rest = n % each;
    *out_n = n / each;
    if (rest > 1 || (rest == 1 && !is_number(node, node->n_inputs - 1u)))
        return TC_FAIL(sc, node,
                       "has %u operands after R and T, expected a multiple of %u: X, G and %u of state; one more is "
                       "the number that gradients are multiplied by",
                       n, each, each - 2);
    if (rest == 1)
        TC_TRY(tc_shape_expect_type(sc, node, node->n_inputs - 1u, floats | halves, "a float"));
    return TC_OK;
}

/* Tensor i of n: X, G, states; its results. */
static tc_status one_tensor(tc_shape_ctx *sc, tc_node *node, uint32_t i, uint32_t n, uint32_t states, tc_dtype copy) {
    tc_arg x = tc_arg_of(node, 2 + i), g = tc_arg_of(node, 2 + n + i);
    TC_TRY(tc_shape_expect_type(sc, node, 2 + i, copy ? 1u << TC_FLOAT : floats,
                                copy ? "float, of which there are copies in 16 bits" : "float or double"));
    bool narrow = x.dtype == TC_FLOAT && g.dtype != TC_UNDEFINED && (halves >> g.dtype & 1) != 0;
    for (uint32_t k = 0; k < 2 + states; k++)
        TC_TRY(expect_alike(sc, node, 2 + i, 2 + k * n + i, k == 1 && narrow));
    for (uint32_t k = 0; k < 1 + states; k++)
        TC_TRY(tc_shape_like(sc, node, k * n + i, x.dtype, x));
    return copy ? tc_shape_like(sc, node, (1 + states) * n + i, copy, x) : TC_OK;
}

/* `states`: how many tensors the optimizer keeps for each one that it trains. */
static tc_status optimizer(tc_shape_ctx *sc, tc_node *node, uint32_t states) {
    uint32_t n;
    tc_dtype copy;
    TC_TRY(copy_type(sc, node, &copy));
    TC_TRY(count_tensors(sc, node, 2 + states, &n));
    if (node->n_outputs > n * (1 + states + (copy != TC_UNDEFINED)))
        return TC_FAIL(sc, node, "has %u results, expected %u: X and %u of state%s for each of %u tensors",
                       node->n_outputs, n * (1 + states + (copy != TC_UNDEFINED)), states,
                       copy ? ", and a copy of X," : "", n);
    TC_TRY(expect_number(sc, node, 0));
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    TC_TRY(expect_number(sc, node, 1));
    for (uint32_t i = 0; i < n; i++)
        TC_TRY(one_tensor(sc, node, i, n, states, copy));
    return TC_OK;
}

tc_status tc_shape_optimizer_none(tc_shape_ctx *sc, tc_node *node) { return optimizer(sc, node, 0); }
tc_status tc_shape_optimizer_one(tc_shape_ctx *sc, tc_node *node) { return optimizer(sc, node, 1); }
tc_status tc_shape_optimizer_two(tc_shape_ctx *sc, tc_node *node) { return optimizer(sc, node, 2); }

/* Norm and, with max_norm, Scale: numbers, of double where gradients are. */
tc_status tc_shape_global_norm(tc_shape_ctx *sc, tc_node *node) {
    tc_dtype dtype = tc_arg_of(node, 0).dtype;
    const tc_arg number = {.rank = 0};
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        tc_arg g = tc_arg_of(node, i);
        if (!g.value)
            return TC_FAIL(sc, node, "operand %u is absent (\"\"), but the op needs it", i);
        TC_TRY(tc_shape_expect_type(sc, node, i, floats | halves, "a float"));
        if (dtype != TC_UNDEFINED && g.dtype != TC_UNDEFINED && (g.dtype == TC_DOUBLE) != (dtype == TC_DOUBLE))
            return TC_FAIL(sc, node, "%s is %s; gradients are all of double, or none is", tc_operand_text(sc, node, i),
                           tc_dtype_name(g.dtype));
    }
    if (node->n_outputs > 1 && !tc_attr_find(node, "max_norm"))
        return TC_FAIL(sc, node, "has no max_norm, but its second result depends on it");
    if (dtype != TC_UNDEFINED)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            TC_TRY(tc_shape_like(sc, node, i, dtype == TC_DOUBLE ? TC_DOUBLE : TC_FLOAT, number));
    return TC_OK;
}
