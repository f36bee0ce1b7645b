/* shape_norm.c: shape functions of normalizations, softmax and losses. */
#include "shape_fns.h"
#include <math.h>
#include <string.h>

tc_status tc_shape_softmax(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    int axis;
    if (x.rank > 0)
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", -1), x.rank, &axis));
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

tc_status tc_shape_softmax_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    int axis;
    if (x.rank > 0)
        TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", -1), x.rank, &axis));
    return tc_shape_same_shape(sc, node);
}

tc_status tc_shape_check_epsilon(tc_shape_ctx *sc, tc_node *node) {
    float epsilon = tc_attr_float(node, "epsilon", 1e-5f);
    if (epsilon >= 0)
        return TC_OK;
    return TC_FAIL(sc, node, "epsilon is %g, expected at least 0", (double)epsilon);
}

/* Operands first..last hold one number per channel (axis 1 of operand 0). */
static tc_status per_channel(tc_shape_ctx *sc, tc_node *node, uint32_t first, uint32_t last) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim channels = x.rank > 1 ? x.dims[1] : tc_dim_unknown(), unused;
    for (uint32_t i = first; i <= last; i++) {
        TC_TRY(tc_shape_expect_rank(sc, node, i, 1));
        if (tc_arg_of(node, i).rank == 1)
            TC_TRY(tc_shape_same_dim(sc, node, "number of channels", channels, tc_arg_of(node, i).dims[0], &unused));
    }
    return TC_OK;
}

tc_status tc_shape_batch_norm(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), mean = tc_arg_of(node, 3), var = tc_arg_of(node, 4);
    TC_TRY(tc_shape_check_epsilon(sc, node));
    TC_TRY(per_channel(sc, node, 1, 4));
    TC_TRY(tc_shape_expect_same_type(sc, node, 1, 2));
    TC_TRY(tc_shape_expect_same_type(sc, node, 3, 4));
    bool more = tc_output(node, 1) || tc_output(node, 2);
    if (more && tc_attr_int(node, "training_mode", 0) == 0)
        return TC_FAIL(sc, node, "has %u results, but training_mode is 0: only result 0 is defined", node->n_outputs);
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    TC_TRY(tc_shape_like(sc, node, 1, mean.dtype, mean));
    return tc_shape_like(sc, node, 2, var.dtype, var);
}

tc_status tc_shape_channel_norm(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    TC_TRY(tc_shape_check_epsilon(sc, node));
    if (x.rank >= 0 && x.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2", tc_operand_text(sc, node, 0), x.rank);
    if (tc_attr_find(node, "num_groups")) {
        int64_t groups = tc_attr_int(node, "num_groups", 0);
        if (groups < 1 || (x.rank > 1 && tc_dim_is_const(x.dims[1]) && x.dims[1].value % groups != 0))
            return TC_FAIL(sc, node, "num_groups is %lld, expected a divisor of the number of channels",
                           (long long)groups);
    }
    TC_TRY(per_channel(sc, node, 1, 2));
    return tc_shape_like(sc, node, 0, x.dtype, x);
}

/* Reads the axis attribute and checks that operands first..last can be broadcast to the normalized axes. */
tc_status tc_shape_normalized_axes(tc_shape_ctx *sc, tc_node *node, uint32_t data, uint32_t first, uint32_t last,
                                   int *out_axis) {
    tc_arg x = tc_arg_of(node, data);
    TC_TRY(tc_shape_axis(sc, node, tc_attr_int(node, "axis", -1), x.rank, out_axis));
    for (uint32_t i = first; i <= last; i++)
        TC_TRY(tc_shape_expect_fits(sc, node, i, x.rank, x.dims));
    return TC_OK;
}

tc_status tc_shape_stash_type(tc_shape_ctx *sc, tc_node *node, tc_dtype *out_dtype) {
    int64_t stash = tc_attr_int(node, "stash_type", TC_FLOAT);
    if (stash <= 0 || stash >= TC_DTYPE_COUNT)
        return TC_FAIL(sc, node, "stash_type is %lld, expected a float type", (long long)stash);
    *out_dtype = (tc_dtype)stash;
    return TC_OK;
}

tc_status tc_shape_statistic(tc_shape_ctx *sc, tc_node *node, uint32_t output, tc_dtype dtype, uint32_t data,
                             int axis) {
    tc_arg x = tc_arg_of(node, data);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = i < axis ? x.dims[i] : tc_dim_const(1);
    return tc_shape_set(sc, node, output, dtype, x.rank, x.rank == TC_RANK_UNKNOWN ? NULL : dims);
}

tc_status tc_shape_layer_norm(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dtype stash;
    int axis = 0;
    TC_TRY(tc_shape_check_epsilon(sc, node));
    TC_TRY(tc_shape_stash_type(sc, node, &stash));
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 1));
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 2));
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, 2, &axis));
    TC_TRY(tc_shape_statistic(sc, node, 1, stash, 0, axis));
    return tc_shape_statistic(sc, node, 2, stash, 0, axis);
}

/* (dY, X or XHat, Scale, statistics): X's gradient, then as many of Scale's shape as there are results. */
tc_status tc_shape_norm_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 1), scale = tc_arg_of(node, 2);
    int axis;
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 1, 2, 2, &axis));
    TC_TRY(tc_shape_like(sc, node, 0, x.dtype, x));
    TC_TRY(tc_shape_like(sc, node, 1, scale.dtype, scale));
    return tc_shape_like(sc, node, 2, scale.dtype, scale);
}

tc_status tc_shape_rms_norm(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), scale = tc_arg_of(node, 1);
    tc_dtype stash;
    int axis = 0;
    TC_TRY(tc_shape_check_epsilon(sc, node));
    TC_TRY(tc_shape_stash_type(sc, node, &stash));
    if (x.rank != TC_RANK_UNKNOWN)
        TC_TRY(tc_shape_normalized_axes(sc, node, 0, 1, 1, &axis));
    TC_TRY(tc_shape_like(sc, node, 0, scale.dtype, x));
    return tc_shape_statistic(sc, node, 1, stash, 0, axis);
}

/* --- losses ----------------------------------------------------------------------------------- */

/* Labels are the scores without axis 1; weights one number per class. */
static tc_status check_labels(tc_shape_ctx *sc, tc_node *node, uint32_t at_scores, uint32_t at_labels,
                              uint32_t at_weights) {
    tc_arg scores = tc_arg_of(node, at_scores), labels = tc_arg_of(node, at_labels),
           weights = tc_arg_of(node, at_weights);
    tc_dim unused;
    TC_TRY(tc_shape_expect_type(sc, node, at_labels, TC_INTS, "int32 or int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, at_weights, 1));
    if (scores.dtype != TC_UNDEFINED)
        TC_TRY(tc_shape_expect_type(sc, node, at_weights, 1u << scores.dtype, "the type of the scores"));
    if (scores.rank >= 0 && scores.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2: batch and classes",
                       tc_operand_text(sc, node, at_scores), scores.rank);
    if (scores.rank < 0 || labels.rank < 0)
        return TC_OK;
    TC_TRY(tc_shape_expect_rank(sc, node, at_labels, scores.rank - 1));
    for (int i = 0; i < labels.rank; i++)
        TC_TRY(tc_shape_same_dim(sc, node, "size of scores and labels", scores.dims[i ? i + 1 : 0], labels.dims[i],
                                 &unused));
    if (weights.rank == 1)
        TC_TRY(tc_shape_same_dim(sc, node, "number of classes (scores; weights)", scores.dims[1], weights.dims[0],
                                 &unused));
    return TC_OK;
}

static tc_status read_reduction(tc_shape_ctx *sc, tc_node *node, bool *none) {
    const char *reduction = tc_attr_string(node, "reduction", "mean");
    *none = strcmp(reduction, "none") == 0;
    if (*none || strcmp(reduction, "mean") == 0 || strcmp(reduction, "sum") == 0)
        return TC_OK;
    return TC_FAIL(sc, node, "reduction is \"%s\", expected none, sum or mean", tc_quote(sc->ctx, reduction));
}

static tc_status loss(tc_shape_ctx *sc, tc_node *node) {
    tc_arg scores = tc_arg_of(node, 0);
    bool none;
    TC_TRY(read_reduction(sc, node, &none));
    TC_TRY(check_labels(sc, node, 0, 1, 2));
    return none ? tc_shape_like(sc, node, 0, scores.dtype, tc_arg_of(node, 1))
                : tc_shape_set(sc, node, 0, scores.dtype, 0, NULL);
}

tc_status tc_shape_nll_loss(tc_shape_ctx *sc, tc_node *node) { return loss(sc, node); }

tc_status tc_shape_softmax_loss(tc_shape_ctx *sc, tc_node *node) {
    tc_arg scores = tc_arg_of(node, 0);
    TC_TRY(loss(sc, node));
    return tc_shape_like(sc, node, 1, scores.dtype, scores);
}

tc_status tc_shape_softmax_loss_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg scores = tc_arg_of(node, 1);
    bool none;
    TC_TRY(read_reduction(sc, node, &none));
    TC_TRY(check_labels(sc, node, 1, 2, 3));
    return tc_shape_like(sc, node, 0, scores.dtype, scores);
}

/* X [..., hidden], W [hidden, classes] or, transB, [classes, hidden]; as many labels as X has rows. */
static tc_status check_linear(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), w = tc_arg_of(node, 1), bias = tc_arg_of(node, 3), weights = tc_arg_of(node, 4);
    int hidden = tc_attr_int(node, "transB", 0) != 0;
    tc_dim unused;
    TC_TRY(tc_shape_expect_same_type(sc, node, 0, 1));
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 2));
    TC_TRY(tc_shape_expect_type(sc, node, 2, TC_INTS, "int32 or int64"));
    TC_TRY(tc_shape_expect_rank(sc, node, 3, 1));
    TC_TRY(tc_shape_expect_rank(sc, node, 4, 1));
    if (x.rank >= 0 && x.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2: rows and what they hold",
                       tc_operand_text(sc, node, 0), x.rank);
    if (x.rank > 0 && w.rank == 2)
        TC_TRY(tc_shape_same_dim(sc, node, "inner size of the product", x.dims[x.rank - 1], w.dims[hidden], &unused));
    if (bias.rank == 1 && w.rank == 2)
        TC_TRY(tc_shape_same_dim(sc, node, "number of classes (W; B)", w.dims[!hidden], bias.dims[0], &unused));
    if (weights.rank == 1 && w.rank == 2)
        TC_TRY(
            tc_shape_same_dim(sc, node, "number of classes (W; weights)", w.dims[!hidden], weights.dims[0], &unused));
    return TC_OK;
}

tc_status tc_shape_linear_loss(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), w = tc_arg_of(node, 1), labels = tc_arg_of(node, 2);
    tc_dtype dtype = (tc_dtype)tc_attr_int(node, "loss_type", x.dtype);
    bool none;
    TC_TRY(read_reduction(sc, node, &none));
    TC_TRY(check_linear(sc, node));
    TC_TRY(none ? tc_shape_like(sc, node, 0, dtype, labels) : tc_shape_set(sc, node, 0, dtype, 0, NULL));
    TC_TRY(tc_shape_like(sc, node, 1, x.dtype, x));
    TC_TRY(tc_shape_like(sc, node, 2, x.dtype, w));
    tc_dim classes = w.rank == 2 ? w.dims[tc_attr_int(node, "transB", 0) == 0] : tc_dim_unknown();
    return tc_shape_set(sc, node, 3, x.dtype, 1, &classes);
}
