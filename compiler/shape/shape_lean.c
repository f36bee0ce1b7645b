/* shape_lean.c: shape functions of the ai.tempo ops that the lean recipes work with: Dropout from a seed, attention
 * over operands that are split into heads already, and normalizations that keep xhat = (x - mean) / std. Meanings:
 * ops.def.
 */
#include "shape_fns.h"
#include <string.h>

/* --- Dropout ---------------------------------------------------------------------------------- */

/* Operand `ratio` is one number in [0, 1), operand `seed` int64[2]; both may be absent. */
static tc_status check_draw(tc_shape_ctx *sc, tc_node *node, uint32_t ratio, uint32_t seed) {
    tc_arg r = tc_arg_of(node, ratio), s = tc_arg_of(node, seed);
    double number;
    tc_dim two;
    if (r.rank > 1 || (r.rank == 1 && tc_dim_is_const(r.dims[0]) && r.dims[0].value != 1))
        return TC_FAIL(sc, node, "%s is not one number", tc_operand_text(sc, node, ratio));
    if (tc_shape_float(sc, node, ratio, &number) && !(number >= 0 && number < 1))
        return TC_FAIL(sc, node, "ratio is %g, expected at least 0 and less than 1", number);
    TC_TRY(tc_shape_expect_type(sc, node, seed, 1u << TC_INT64, "int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, seed, 1));
    return s.rank == 1 ? tc_shape_same_dim(sc, node, "size of seed (seed and step)", s.dims[0], tc_dim_const(2), &two)
                       : TC_OK;
}

tc_status tc_shape_tempo_dropout(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    TC_TRY(check_draw(sc, node, 1, 2));
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    return tc_shape_like(sc, node, 1, TC_BOOL, x);
}

tc_status tc_shape_dropout_grad(tc_shape_ctx *sc, tc_node *node) {
    TC_TRY(tc_shape_expect_type(sc, node, 1, 1u << TC_BOOL, "bool"));
    TC_TRY(check_draw(sc, node, 2, 3));
    return tc_shape_same_shape(sc, node);
}

/* --- attention -------------------------------------------------------------------------------- */

/* A matrix operand, with leading dims. */
static tc_status expect_matrix(tc_shape_ctx *sc, tc_node *node, uint32_t index) {
    tc_arg arg = tc_arg_of(node, index);
    if (arg.rank >= 0 && arg.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2", tc_operand_text(sc, node, index), arg.rank);
    return TC_OK;
}

/* The shape of operand a times operand b, as MatMul has it; with `transposed`, of a times b with its last two axes
 * exchanged. *out_rank is TC_RANK_UNKNOWN where one of them is not known. */
static tc_status product(tc_shape_ctx *sc, tc_node *node, tc_arg a, tc_arg b, bool transposed, int *out_rank,
                         tc_dim dims[TC_MAX_RANK]) {
    *out_rank = TC_RANK_UNKNOWN;
    if (a.rank == TC_RANK_UNKNOWN || b.rank == TC_RANK_UNKNOWN)
        return TC_OK;
    tc_dim inner;
    int rank;
    TC_TRY(tc_shape_same_dim(sc, node, "inner size of a product", a.dims[a.rank - 1],
                             b.dims[b.rank - (transposed ? 1 : 2)], &inner));
    TC_TRY(tc_broadcast(sc, node, a.rank - 2, a.dims, b.rank - 2, b.dims, &rank, dims));
    dims[rank++] = a.dims[a.rank - 2];
    dims[rank++] = b.dims[b.rank - (transposed ? 2 : 1)];
    *out_rank = rank;
    return TC_OK;
}

tc_status tc_shape_dot_attention(tc_shape_ctx *sc, tc_node *node) {
    tc_arg q = tc_arg_of(node, 0), kt = tc_arg_of(node, 1), v = tc_arg_of(node, 2);
    tc_dim scores[TC_MAX_RANK], dims[TC_MAX_RANK];
    int rank, rank_y;
    for (uint32_t i = 0; i < 3; i++)
        TC_TRY(expect_matrix(sc, node, i));
    for (uint32_t i = 1; i < 4 && q.dtype != TC_UNDEFINED; i++)
        TC_TRY(tc_shape_expect_type(sc, node, i, 1u << q.dtype, tc_dtype_name(q.dtype)));
    TC_TRY(tc_shape_expect_type(sc, node, 4, 1u << TC_BOOL, "bool"));
    TC_TRY(check_draw(sc, node, 5, 6));
    if (!tc_input(node, 5) != !tc_input(node, 6))
        return TC_FAIL(sc, node, "has a %s, but no %s: dropout takes both", tc_input(node, 5) ? "ratio" : "seed",
                       tc_input(node, 5) ? "seed" : "ratio");
    TC_TRY(product(sc, node, q, kt, false, &rank, scores));
    if (rank != TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_expect_fits(sc, node, 3, rank, scores));
        TC_TRY(tc_shape_expect_fits(sc, node, 4, rank, scores));
    }
    TC_TRY(tc_shape_set(sc, node, 1, q.dtype, rank, scores));
    TC_TRY(tc_shape_set(sc, node, 2, q.dtype, rank, scores));
    TC_TRY(tc_shape_set(sc, node, 3, TC_BOOL, rank, scores));
    TC_TRY(product(sc, node, (tc_arg){.rank = rank, .dims = scores}, v, false, &rank_y, dims));
    return tc_shape_set(sc, node, 0, q.dtype, rank_y, dims);
}

/* Gradients have the leading dims of the products that make them: broadcast dims are not summed here. */
tc_status tc_shape_dot_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg dy = tc_arg_of(node, 0), q = tc_arg_of(node, 1), kt = tc_arg_of(node, 2), v = tc_arg_of(node, 3),
           p = tc_arg_of(node, 4);
    tc_dim ds[TC_MAX_RANK], dims[TC_MAX_RANK], swapped[TC_MAX_RANK];
    int rank, rank_ds;
    for (uint32_t i = 0; i < 5; i++)
        TC_TRY(expect_matrix(sc, node, i));
    TC_TRY(tc_shape_expect_type(sc, node, 6, 1u << TC_BOOL, "bool"));
    TC_TRY(check_draw(sc, node, 7, UINT32_MAX));
    TC_TRY(tc_shape_expect_type(sc, node, 8, 1u << TC_BOOL, "bool"));
    TC_TRY(
        product(sc, node, dy, v, true, &rank_ds, ds)); /* [.., S, T], with the leading dims of dy: those of P and V */
    if (rank_ds != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_expect_fits(sc, node, 8, rank_ds, ds));
    TC_TRY(tc_shape_set(sc, node, 3, p.dtype, rank_ds, ds));
    tc_arg d = {.rank = rank_ds, .dims = ds};
    TC_TRY(product(sc, node, d, kt, true, &rank, dims));
    TC_TRY(tc_shape_set(sc, node, 0, q.dtype, rank, dims));
    struct {
        uint32_t output;
        tc_arg left, right;
        tc_dtype dtype;
    } products[] = {{1, q, d, kt.dtype}, {2, p, dy, v.dtype}};
    for (size_t i = 0; i < TC_COUNT(products); i++) { /* left^T right */
        tc_arg left = products[i].left;
        if (left.rank != TC_RANK_UNKNOWN) {
            memcpy(swapped, left.dims, (size_t)left.rank * sizeof *swapped);
            swapped[left.rank - 1] = left.dims[left.rank - 2];
            swapped[left.rank - 2] = left.dims[left.rank - 1];
            left.dims = swapped;
        }
        TC_TRY(product(sc, node, left, products[i].right, false, &rank, dims));
        TC_TRY(tc_shape_set(sc, node, products[i].output, products[i].dtype, rank, dims));
    }
    return TC_OK;
}

/* --- normalizations --------------------------------------------------------------------------- */

/* Y, XHat and InvStdDev; Y has the element type of operand `y_like`. */
static tc_status xhat(tc_shape_ctx *sc, tc_node *node, uint32_t y_like, uint32_t last) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dtype stash;
    int axis = 0;
    TC_TRY(tc_shape_check_epsilon(sc, node));
    TC_TRY(tc_shape_stash_type(sc, node, &stash));
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, last, &axis));
    TC_TRY(tc_shape_like(sc, node, 0, tc_arg_of(node, y_like).dtype, x));
    TC_TRY(tc_shape_like(sc, node, 1, x.dtype, x));
    return tc_shape_statistic(sc, node, 2, stash, 0, axis);
}

tc_status tc_shape_layer_norm_xhat(tc_shape_ctx *sc, tc_node *node) { return xhat(sc, node, 0, 2); }
tc_status tc_shape_rms_norm_xhat(tc_shape_ctx *sc, tc_node *node) { return xhat(sc, node, 1, 1); }

tc_status tc_shape_scale_bias(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), scale = tc_arg_of(node, 1);
    int axis;
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, 2, &axis));
    return tc_shape_like(sc, node, 0, scale.dtype, x);
}
