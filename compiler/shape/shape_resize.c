/* shape_resize.c: shape functions of Resize, its gradient, and GridSample. */
#include "shape_fns.h"
#include <math.h>
#include <string.h>

/* --- Resize ----------------------------------------------------------------------------------- */

/* The axes of scales or sizes: all, or the attribute's. */
static tc_status resize_axes(tc_shape_ctx *sc, tc_node *node, int rank, int axes[TC_MAX_RANK], size_t *count) {
    const int64_t *given = tc_attr_ints(node, "axes", count);
    uint64_t mask;
    if (!given || *count == 0) {
        *count = (size_t)rank;
        for (int i = 0; i < rank; i++)
            axes[i] = i;
        return TC_OK;
    }
    TC_TRY(tc_shape_axes(sc, node, given, *count, rank, &mask));
    for (size_t i = 0; i < *count; i++)
        TC_TRY(tc_shape_axis(sc, node, given[i], rank, &axes[i]));
    return TC_OK;
}

/* floor(dim * factor), a product of floats as in ONNX Runtime and PyTorch. For an open dim only where the factor is m /
 * 2^k with an m of few bits: that product is exact. */
static tc_dim scaled_dim(tc_dim_pool *pool, tc_dim dim, double factor) {
    if (tc_dim_is_const(dim) && factor > 0 && (double)dim.value * factor < INT32_MAX)
        return tc_dim_const((int64_t)floorf((float)dim.value * (float)factor));
    for (int64_t parts = 1; parts <= 256 && factor > 0 && factor < 256; parts *= 2) {
        const double numerator = factor * (double)parts;
        if (numerator == floor(numerator))
            return tc_dim_div(pool, tc_dim_mul(pool, dim, tc_dim_const((int64_t)numerator)), tc_dim_const(parts));
    }
    return tc_dim_unknown();
}

/* With keep_aspect_ratio_policy all axes have one factor, the least or the most that sizes ask for; each size is the
 * dim times it, halves rounded up. */
static void keep_aspect_ratio(tc_dim *dims, const int *axes, const tc_dim *wanted, size_t n, bool not_larger) {
    double factor = not_larger ? INFINITY : 0;
    bool known = true;
    for (size_t i = 0; i < n; i++) {
        known &= tc_dim_is_const(wanted[i]) && tc_dim_is_const(dims[axes[i]]) && dims[axes[i]].value > 0;
        double own = known ? (double)wanted[i].value / (double)dims[axes[i]].value : 0;
        factor = not_larger ? fmin(factor, own) : fmax(factor, own);
    }
    for (size_t i = 0; i < n; i++)
        dims[axes[i]] =
            known ? tc_dim_const((int64_t)floor(factor * (double)dims[axes[i]].value + 0.5)) : tc_dim_unknown();
}

tc_status tc_shape_resize(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    int axes[TC_MAX_RANK];
    size_t n, count = 0;
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    TC_TRY(resize_axes(sc, node, x.rank, axes, &n));
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = x.dims[i];
    const char *policy = tc_attr_string(node, "keep_aspect_ratio_policy", "stretch");
    const tc_dim *wanted = tc_input(node, 3) ? tc_shape_dims(sc, node, 3, &count) : NULL;
    const tc_contents *factors = tc_input(node, 2) ? tc_value_contents(sc->model, tc_input(node, 2)) : NULL;
    bool by_sizes = tc_input(node, 3) && !(wanted && count == 0); /* empty is absent: opset 11 wrote it this way */
    wanted = by_sizes ? wanted : NULL;
    bool known = !by_sizes && factors && factors->count && tc_dtype_is_float(factors->dtype);
    if ((wanted && count != n) || (known && factors->count != n))
        return TC_FAIL(sc, node, "%s has %zu elements, expected %zu", tc_operand_text(sc, node, wanted ? 3 : 2),
                       wanted ? count : (size_t)factors->count, n);
    if (wanted && strcmp(policy, "stretch") != 0)
        keep_aspect_ratio(dims, axes, wanted, n, strcmp(policy, "not_larger") == 0);
    else
        for (size_t i = 0; i < n; i++)
            dims[axes[i]] = wanted  ? wanted[i]
                            : known ? scaled_dim(sc->model->dims, dims[axes[i]], factors->items[i].f)
                                    : tc_dim_unknown();
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

/* (dY, shape, roi, scales, sizes): the shape is that of Resize's operand. */
tc_status tc_shape_resize_grad(tc_shape_ctx *sc, tc_node *node) {
    tc_arg dy = tc_arg_of(node, 0);
    size_t count;
    TC_TRY(tc_shape_expect_rank(sc, node, 1, 1));
    const tc_dim *dims = tc_shape_dims(sc, node, 1, &count);
    if (!dims)
        return tc_shape_set(sc, node, 0, dy.dtype, dy.rank, NULL);
    if (count > TC_MAX_RANK)
        return TC_FAIL(sc, node, "shape has %zu sizes, expected at most %d", count, TC_MAX_RANK);
    TC_TRY(tc_shape_expect_rank(sc, node, 0, (int)count));
    return tc_shape_set(sc, node, 0, dy.dtype, (int)count, dims);
}

/* --- GridSample ------------------------------------------------------------------------------- */

/* X [batch, channels, spatial...], grid [batch, places..., axes] -> [batch, channels, places...]. */
tc_status tc_shape_grid_sample(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), grid = tc_arg_of(node, 1);
    int rank = x.rank >= 0 ? x.rank : grid.rank;
    tc_dim dims[TC_MAX_RANK], unused;
    if (rank < 0)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (rank < 3)
        return TC_FAIL(sc, node, "%s has rank %d, expected 3 at least", tc_operand_text(sc, node, x.rank >= 0 ? 0 : 1),
                       rank);
    TC_TRY(tc_shape_expect_rank(sc, node, 1, rank));
    for (int i = 0; i < rank; i++)
        dims[i] = i < 2            ? (x.rank >= 0 ? x.dims[i] : tc_dim_unknown())
                  : grid.rank >= 0 ? grid.dims[i - 1]
                                   : tc_dim_unknown();
    if (grid.rank >= 0) {
        TC_TRY(tc_shape_same_dim(sc, node, "batch size of X and grid", dims[0], grid.dims[0], &dims[0]));
        TC_TRY(tc_shape_same_dim(sc, node, "number of axes in grid and X", grid.dims[rank - 1], tc_dim_const(rank - 2),
                                 &unused));
    }
    return tc_shape_set(sc, node, 0, x.dtype, rank, dims);
}
