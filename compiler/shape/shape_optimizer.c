/* shape_optimizer.c: shape functions of the optimizers: of (R, T, X..., G..., state...), as ONNX's preview.training
 * lays them out, to (X..., state...). Meanings: ops.def. */
#include "shape_fns.h"

/* One number. */
static tc_status expect_number(tc_shape_ctx *sc, tc_node *node, uint32_t index) {
    tc_arg arg = tc_arg_of(node, index);
    if (arg.rank > 1 || (arg.rank == 1 && tc_dim_is_const(arg.dims[0]) && arg.dims[0].value != 1))
        return TC_FAIL(sc, node, "%s is not one number", tc_operand_text(sc, node, index));
    return TC_OK;
}

/* Operand `index` belongs to the tensor that operand `first` is: it has its element type and shape. */
static tc_status expect_alike(tc_shape_ctx *sc, tc_node *node, uint32_t first, uint32_t index) {
    tc_arg x = tc_arg_of(node, first), other = tc_arg_of(node, index);
    tc_dim dim;
    if (!other.value)
        return TC_FAIL(sc, node, "operand %u is absent (\"\"), but the op needs it", index);
    TC_TRY(tc_shape_expect_same_type(sc, node, first, index));
    if (x.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    TC_TRY(tc_shape_expect_rank(sc, node, index, x.rank));
    for (int i = 0; i < x.rank && other.rank == x.rank; i++)
        TC_TRY(tc_shape_same_dim(sc, node, tc_operand_text(sc, node, index), x.dims[i], other.dims[i], &dim));
    return TC_OK;
}

/* `states`: how many tensors the optimizer keeps for each one that it trains. */
static tc_status optimizer(tc_shape_ctx *sc, tc_node *node, uint32_t states) {
    uint32_t each = 2 + states, n = (node->n_inputs - 2) / each;
    if ((node->n_inputs - 2) % each != 0)
        return TC_FAIL(sc, node, "has %u operands behind R and T, expected a multiple of %u: X, G and %u of state",
                       node->n_inputs - 2u, each, states);
    if (node->n_outputs > n * (1 + states))
        return TC_FAIL(sc, node, "has %u results, expected %u: X and %u of state for each of %u tensors",
                       node->n_outputs, n * (1 + states), states, n);
    TC_TRY(expect_number(sc, node, 0));
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_INT64, "int64"));
    TC_TRY(expect_number(sc, node, 1));
    for (uint32_t i = 0; i < n; i++) {
        tc_arg x = tc_arg_of(node, 2 + i);
        TC_TRY(tc_shape_expect_type(sc, node, 2 + i, 1u << TC_FLOAT | 1u << TC_DOUBLE, "float or double"));
        for (uint32_t k = 0; k < each; k++)
            TC_TRY(expect_alike(sc, node, 2 + i, 2 + k * n + i));
        for (uint32_t k = 0; k < 1 + states; k++)
            TC_TRY(tc_shape_like(sc, node, k * n + i, x.dtype, x));
    }
    return TC_OK;
}

tc_status tc_shape_optimizer_one(tc_shape_ctx *sc, tc_node *node) { return optimizer(sc, node, 1); }
tc_status tc_shape_optimizer_two(tc_shape_ctx *sc, tc_node *node) { return optimizer(sc, node, 2); }
