/* gradient_signal.c: gradients of Fourier transforms, and of overlapping windows. If pairs of derivatives are
 * complex numbers, the gradient of y = F x is conj(F) dy, because F is symmetric. This is n times the inverse
 * transform of dy; for an inverse transform it is the transform over n. A onesided dy has zeros after its half. If
 * the operand is real, the imaginary parts are dropped. */
#include "compiler/ir/ops.h"
#include "gradients.h"

static tc_value *part_of(tc_build *g, tc_value *value, int64_t axis, tc_value *from, tc_value *to) {
    return TC_OP(g, "Slice", value, from, to, tc_build_int(g, axis));
}

/* 0, 1, 2, ... of a size [1] */
static tc_value *range_of(tc_build *g, tc_value *size) {
    return TC_OP(g, "Range", tc_build_scalar(g, TC_INT64, 0), TC_OP(g, "Squeeze", size, tc_build_int(g, 0)),
                 tc_build_scalar(g, TC_INT64, 1));
}

/* A transform along the axis, of n numbers; `twice` as many parts, or the same. */
static tc_value *transform(tc_build *g, tc_value *x, tc_value *n, int64_t axis, bool inverse, bool onesided) {
    tc_value *operands[] = {x, n ? TC_OP(g, "Squeeze", n, tc_build_int(g, 0)) : NULL,
                            tc_build_scalar(g, TC_INT64, (double)axis)};
    tc_node *node = tc_build_node(g, "", "DFT", 3, operands, 1);
    tc_attr_set_int(node, "inverse", inverse);
    tc_attr_set_int(node, "onesided", onesided);
    return tc_build_finish(g, node);
}

/* Without the imaginary parts where x, of rank `rank`, has none. */
static tc_value *parts_like(tc_build *g, tc_value *value, tc_value *x, int rank) {
    int64_t parts;
    if (tc_build_static(x, rank - 1, &parts) && parts == 2)
        return value;
    return part_of(g, value, -1, tc_build_int(g, 0), tc_build_dims(g, x, rank - 1, rank));
}

/* Elements that a transform does not read have gradient 0; zeros that it added need none. */
static tc_value *length_like(tc_build *g, tc_value *value, tc_value *x, int64_t axis, int rank) {
    int64_t have, want, zeros[2 * TC_MAX_RANK] = {0};
    bool known = tc_build_static(value, (int)axis, &have) && tc_build_static(x, (int)axis, &want);
    if (known && have == want)
        return value;
    tc_value *dim = tc_build_dims(g, x, axis, axis + 1), *cut = part_of(g, value, axis, tc_build_int(g, 0), dim);
    if (known && have > want)
        return cut;
    tc_value *missing = TC_OP(g, "Sub", dim, tc_build_dims(g, cut, axis, axis + 1));
    tc_value *parts[] = {tc_build_ints(g, zeros, (size_t)(rank + axis)), missing,
                         tc_build_ints(g, zeros, (size_t)(rank - 1 - axis))};
    return TC_OP(g, "Pad", cut, tc_build_concat(g, 3, parts, 0), tc_build_like(g, value, 0));
}

/* For a real result of n numbers from the first half: the half of the transform over n, doubled where an element
 * stands for two. */
static tc_value *of_half(tc_build *g, tc_value *dy, int64_t axis, int rank) {
    int64_t n, dims[TC_MAX_RANK];
    if (!tc_build_static(dy, (int)axis, &n) || n < 1) {
        tc_grad_refuse(g, "its length is not known");
        return dy;
    }
    for (int i = 0; i < rank; i++)
        dims[i] = i == axis ? n / 2 + 1 : 1;
    tc_tensor *shares = tc_tensor_create(g->model, tc_value_dtype(dy), rank, dims, NULL);
    for (uint64_t k = 0; k < shares->count; k++) {
        bool single = k == 0 || 2 * (int64_t)k == n;
        tc_element_set(shares->dtype, (void *)(uintptr_t)shares->data, k, (single ? 1.0 : 2.0) / (double)n);
    }
    return TC_OP(g, "Mul", transform(g, dy, NULL, axis, false, true), tc_constant(g->graph, "shares", shares));
}

void tc_gradient_dft(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *dy = g->of->douts[0], *given = tc_input(g->of->node, 1),
             *axis_value = tc_input(g->of->node, 2);
    bool inverse = tc_attr_int(g->of->node, "inverse", 0) != 0, onesided = tc_attr_int(g->of->node, "onesided", 0) != 0;
    int rank = tc_grad_rank(g, x);
    int64_t at = -2;
    size_t count = 1;
    if (axis_value && !tc_build_known_ints(axis_value, &at, 1, &count))
        tc_grad_refuse(g, "its axis %s is not constant", tc_quote(g->ctx, axis_value->name));
    int64_t axis = tc_grad_axis(g, at, rank);
    if (g->status != TC_OK)
        return;
    if (inverse && onesided) {
        g->of->dins[0] = length_like(g, of_half(g, dy, axis, rank), x, axis, rank);
        return;
    }
    tc_value *n = given ? tc_build_reshape(g, tc_build_cast(g, given, TC_INT64), tc_build_int(g, 1))
                        : tc_build_dims(g, x, axis, axis + 1);
    tc_value *back = parts_like(g, transform(g, dy, n, axis, !inverse, false), x, rank);
    tc_value *scale = tc_build_cast(g, n, tc_value_dtype(x));
    back = TC_OP(g, inverse ? "Div" : "Mul", back, scale);
    g->of->dins[0] = given ? length_like(g, back, x, axis, rank) : back;
}

/* Frames are parts of the signal, one per step, times the window; gradients add up where frames overlap. */
void tc_gradient_stft(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *dy = g->of->douts[0], *window = tc_input(g->of->node, 2),
             *given = tc_input(g->of->node, 3);
    tc_value *one = tc_build_int(g, 1), *n = window  ? tc_build_dims(g, window, 0, 1)
                                             : given ? tc_build_reshape(g, tc_build_cast(g, given, TC_INT64), one)
                                                     : tc_build_dims(g, x, 1, 2);
    tc_value *step = tc_build_reshape(g, tc_build_cast(g, tc_input(g->of->node, 1), TC_INT64), one);
    tc_value *begins = TC_OP(g, "Mul", range_of(g, tc_build_dims(g, dy, 1, 2)), step);
    tc_value *places = TC_OP(g, "Add", tc_build_unsqueeze(g, begins, (int64_t[]){1}, 1), range_of(g, n));
    tc_value *back = parts_like(g, transform(g, dy, n, 2, true, false), x, 3); /* [batch, frames, n, parts] */
    back = TC_OP(g, "Mul", back, tc_build_cast(g, n, tc_value_dtype(x)));
    if (window && g->of->needed[2]) {
        tc_node *frames = TC_BEGIN(g, "Gather", x, places);
        tc_attr_set_int(frames, "axis", 1);
        tc_value *each = TC_OP(g, "Mul", back, tc_build_finish(g, frames));
        g->of->dins[2] = tc_build_reduce(g, "ReduceSum", each, (int64_t[]){0, 1, 3}, 3, false);
    }
    if (!g->of->needed[0])
        return;
    if (window)
        back = TC_OP(g, "Mul", back, tc_build_unsqueeze(g, window, (int64_t[]){1}, 1));
    tc_value *operands[] = {tc_build_shape(g, x), places, back};
    tc_node *node = tc_build_node(g, TC_TEMPO_DOMAIN, "GatherGrad", 3, operands, 1);
    tc_attr_set_int(node, "axis", 1);
    g->of->dins[0] = tc_build_finish(g, node);
}

/* --- Col2Im ----------------------------------------------------------------------------------- */
enum { SPATIAL = 8 };

/* An attribute of `count` ints, or `otherwise`. */
static int64_t int_at(const tc_node *node, const char *name, size_t i, int64_t otherwise) {
    size_t count = 0;
    const int64_t *ints = tc_attr_ints(node, name, &count);
    return i < count ? ints[i] : otherwise;
}

/* The elements that each tap of the window reads at each position: dy, padded, by a Gather [taps, places] for each
 * axis of the image, with the axes of taps before those of places. */
void tc_gradient_col2im(tc_build *g) {
    int64_t image[SPATIAL], block[SPATIAL], pads[2 * (SPATIAL + 2)] = {0}, perm[2 * SPATIAL + 2] = {0, 1};
    size_t n = 0, n_block = 0;
    if (!tc_build_known_ints(tc_input(g->of->node, 1), image, SPATIAL, &n) ||
        !tc_build_known_ints(tc_input(g->of->node, 2), block, SPATIAL, &n_block) || n != n_block) {
        tc_grad_refuse(g, "the sizes of its image or block are not known");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        pads[2 + i] = int_at(g->of->node, "pads", i, 0);
        pads[n + 4 + i] = int_at(g->of->node, "pads", n + i, 0);
    }
    tc_value *windows =
        TC_OP(g, "Pad", g->of->douts[0], tc_build_ints(g, pads, 2 * (n + 2)), tc_build_like(g, g->of->douts[0], 0));
    for (size_t i = 0; i < n; i++) {
        int64_t dilation = int_at(g->of->node, "dilations", i, 1), stride = int_at(g->of->node, "strides", i, 1);
        int64_t room = image[i] + pads[2 + i] + pads[n + 4 + i] - (block[i] - 1) * dilation - 1;
        int64_t places = room < 0 ? 0 : room / stride + 1, dims[] = {block[i], places};
        tc_tensor *table = tc_tensor_create(g->model, TC_INT64, 2, dims, NULL);
        for (uint64_t k = 0; k < table->count; k++)
            ((int64_t *)(uintptr_t)table->data)[k] = (int64_t)k / places * dilation + (int64_t)k % places * stride;
        tc_node *node = TC_BEGIN(g, "Gather", windows, tc_constant(g->graph, "window_places", table));
        tc_attr_set_int(node, "axis", (int64_t)(2 + 2 * i));
        windows = tc_build_finish(g, node);
        perm[2 + i] = (int64_t)(2 + 2 * i);
        perm[2 + n + i] = (int64_t)(3 + 2 * i);
    }
    g->of->dins[0] =
        tc_build_reshape_like(g, tc_build_transpose(g, windows, perm, (int)(2 * n + 2)), tc_input(g->of->node, 0));
}
