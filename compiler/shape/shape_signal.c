/* shape_signal.c: shape functions of Fourier transforms, of window functions, and of windows put back into an image. */
#include "shape_fns.h"

/* The size in operand `index`, one integer; `otherwise` where it is absent. */
static tc_dim size_of(tc_shape_ctx *sc, tc_node *node, uint32_t index, tc_dim otherwise) {
    size_t count;
    if (!tc_arg_of(node, index).value)
        return otherwise;
    const tc_dim *sizes = tc_shape_dims(sc, node, index, &count);
    return sizes && count == 1 ? sizes[0] : tc_dim_unknown();
}

/* The numbers of a transform of n that determine the others: n / 2 + 1. */
static tc_dim half_of(tc_shape_ctx *sc, tc_dim n) {
    return tc_dim_add(sc->model->dims, tc_dim_div(sc->model->dims, n, tc_dim_const(2)), tc_dim_const(1));
}

tc_status tc_shape_dft(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    bool inverse = tc_attr_int(node, "inverse", 0) != 0, onesided = tc_attr_int(node, "onesided", 0) != 0;
    const int64_t *given;
    size_t count;
    int axis;
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    if (x.rank < 2)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 2", tc_operand_text(sc, node, 0), x.rank);
    tc_dim parts = x.dims[x.rank - 1];
    if (tc_dim_is_const(parts) && parts.value != 1 && parts.value != 2)
        return TC_FAIL(sc, node, "%s has a last dim of %lld, expected 1 (real) or 2 (complex)",
                       tc_operand_text(sc, node, 0), (long long)parts.value);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = x.dims[i];
    dims[x.rank - 1] = tc_dim_const(onesided && inverse ? 1 : 2);
    if (!tc_arg_of(node, 2).value)
        axis = x.rank - 2;
    else if (tc_shape_ints(sc, node, 2, &given, &count) && count == 1)
        TC_TRY(tc_shape_axis(sc, node, given[0], x.rank, &axis));
    else
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    if (axis == x.rank - 1)
        return TC_FAIL(sc, node, "axis %d is that of real and imaginary parts", axis);
    tc_dim n = x.dims[axis];
    if (onesided && inverse)
        n = tc_dim_mul(sc->model->dims, tc_dim_const(2), tc_dim_sub(sc->model->dims, n, tc_dim_const(1)));
    n = size_of(sc, node, 1, n);
    dims[axis] = onesided && !inverse ? half_of(sc, n) : n;
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

/* [batch, frames, numbers, 2] */
tc_status tc_shape_stft(tc_shape_ctx *sc, tc_node *node) {
    tc_dim_pool *pool = sc->model->dims;
    tc_arg x = tc_arg_of(node, 0), window = tc_arg_of(node, 2);
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 3));
    TC_TRY(tc_shape_expect_rank(sc, node, 2, 1));
    if (x.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, 4, NULL);
    tc_dim step = size_of(sc, node, 1, tc_dim_const(1));
    tc_dim n = size_of(sc, node, 3, window.value && window.rank == 1 ? window.dims[0] : x.dims[1]);
    if (tc_dim_is_const(step) && step.value < 1)
        return TC_FAIL(sc, node, "its step is %lld, expected at least 1", (long long)step.value);
    tc_dim room = tc_dim_sub(pool, x.dims[1], n);
    if (tc_dim_is_const(room) && room.value < 0)
        return TC_FAIL(sc, node, "frames of %lld are longer than the signal of %lld", (long long)n.value,
                       (long long)x.dims[1].value);
    tc_dim frames = tc_dim_add(pool, tc_dim_div(pool, room, step), tc_dim_const(1));
    tc_dim dims[] = {x.dims[0], frames, tc_attr_int(node, "onesided", 1) ? half_of(sc, n) : n, tc_dim_const(2)};
    return tc_shape_set(sc, node, 0, x.dtype, 4, dims);
}

/* As many points as the operand says. */
tc_status tc_shape_window(tc_shape_ctx *sc, tc_node *node) {
    tc_dim size = size_of(sc, node, 0, tc_dim_unknown());
    if (tc_dim_is_const(size) && size.value < 0)
        return TC_FAIL(sc, node, "its size is %lld, expected at least 0", (long long)size.value);
    return tc_shape_set(sc, node, 0, (tc_dtype)tc_attr_int(node, "output_datatype", TC_FLOAT), 1, &size);
}

/* [batch, channels, image...] of [batch, channels x block, places] */
tc_status tc_shape_col2im(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    const int64_t *block;
    size_t n, n_block;
    TC_TRY(tc_shape_expect_rank(sc, node, 0, 3));
    const tc_dim *image = tc_shape_dims(sc, node, 1, &n);
    if (!image)
        return tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL);
    if (n + 2 > TC_MAX_RANK)
        return TC_FAIL(sc, node, "image_shape has %zu sizes, above the limit of %d", n, TC_MAX_RANK - 2);
    tc_dim dims[TC_MAX_RANK] = {tc_dim_unknown(), tc_dim_unknown()};
    for (size_t i = 0; i < n; i++)
        dims[2 + i] = image[i];
    if (x.rank == 3)
        dims[0] = x.dims[0];
    if (x.rank == 3 && tc_shape_ints(sc, node, 2, &block, &n_block)) {
        int64_t taps = 1;
        if (n_block != n)
            return TC_FAIL(sc, node, "block_shape has %zu sizes, expected %zu", n_block, n);
        for (size_t i = 0; i < n; i++)
            if (block[i] < 1 || block[i] > INT32_MAX || (taps *= block[i]) > INT32_MAX)
                return TC_FAIL(sc, node, "block_shape has the size %lld, which is out of range", (long long)block[i]);
        if (tc_dim_is_const(x.dims[1]) && x.dims[1].value % taps)
            return TC_FAIL(sc, node, "%s has %lld rows, expected a multiple of the block's %lld elements",
                           tc_operand_text(sc, node, 0), (long long)x.dims[1].value, (long long)taps);
        dims[1] = tc_dim_div(sc->model->dims, x.dims[1], tc_dim_const(taps));
    }
    return tc_shape_set(sc, node, 0, x.dtype, (int)n + 2, dims);
}
