/* shape_conv.c: shape functions of convolutions and pooling: operands are [batch, channels, spatial...]. */
#include "shape_fns.h"
#include <string.h>

/* What a sliding window does along the spatial axes, from the attributes; defaults filled in. */
typedef struct window {
    int n; /* spatial axes */
    tc_dim kernel[TC_MAX_RANK];
    int64_t strides[TC_MAX_RANK], dilations[TC_MAX_RANK], begin[TC_MAX_RANK], end[TC_MAX_RANK], extra[TC_MAX_RANK];
    enum { EXPLICIT, SAME_UPPER, SAME_LOWER, VALID } auto_pad;
    bool ceil;
} window;

/* `count` ints of an attribute, each at least `least`; `otherwise` where it is absent. */
static tc_status window_ints(tc_shape_ctx *sc, tc_node *node, const char *name, int count, int64_t least,
                             int64_t otherwise, int64_t *out) {
    size_t have;
    const int64_t *ints = tc_attr_ints(node, name, &have);
    if (have && have != (size_t)count)
        return TC_FAIL(sc, node, "%s has %zu elements, expected %d", name, have, count);
    for (int i = 0; i < count; i++) {
        out[i] = have ? ints[i] : otherwise;
        if (out[i] < least || out[i] > INT32_MAX)
            return TC_FAIL(sc, node, "%s has the element %lld, expected at least %lld", name, (long long)out[i],
                           (long long)least);
    }
    return TC_OK;
}

static tc_status read_window(tc_shape_ctx *sc, tc_node *node, int n, window *w) {
    static const char *const words[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *auto_pad = tc_attr_string(node, "auto_pad", "NOTSET");
    int64_t pads[2 * TC_MAX_RANK];
    size_t i = 0;
    while (i < TC_COUNT(words) && strcmp(words[i], auto_pad) != 0)
        i++;
    if (i == TC_COUNT(words))
        return TC_FAIL(sc, node, "auto_pad is \"%s\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                       tc_quote(sc->ctx, auto_pad));
    w->n = n;
    w->auto_pad = (int)i;
    w->ceil = tc_attr_int(node, "ceil_mode", 0) != 0;
    TC_TRY(window_ints(sc, node, "strides", n, 1, 1, w->strides));
    TC_TRY(window_ints(sc, node, "dilations", n, 1, 1, w->dilations));
    TC_TRY(window_ints(sc, node, "output_padding", n, 0, 0, w->extra));
    TC_TRY(window_ints(sc, node, "pads", 2 * n, 0, 0, pads));
    for (int a = 0; a < n; a++) {
        w->begin[a] = pads[a];
        w->end[a] = pads[n + a];
    }
    return TC_OK;
}

/* The kernel's sizes: the attribute, which must fit the weight where there is one. */
static tc_status read_kernel(tc_shape_ctx *sc, tc_node *node, window *w, const tc_dim *weight) {
    int64_t sizes[TC_MAX_RANK];
    TC_TRY(window_ints(sc, node, "kernel_shape", w->n, 1, 1, sizes));
    bool given = tc_attr_find(node, "kernel_shape") != NULL;
    for (int i = 0; i < w->n; i++) {
        w->kernel[i] = given ? tc_dim_const(sizes[i]) : weight[i];
        if (weight)
            TC_TRY(tc_shape_same_dim(sc, node, "kernel_shape and the weight's size", w->kernel[i], weight[i],
                                     &w->kernel[i]));
    }
    return TC_OK;
}

/* How many places the window has along spatial axis a of `size` elements. */
static tc_dim window_places(tc_dim_pool *pool, const window *w, int a, tc_dim size) {
    tc_dim one = tc_dim_const(1), stride = tc_dim_const(w->strides[a]);
    if (w->auto_pad == SAME_UPPER || w->auto_pad == SAME_LOWER)
        return tc_dim_div(pool, tc_dim_add(pool, size, tc_dim_const(w->strides[a] - 1)), stride);
    int64_t pads = w->auto_pad == EXPLICIT ? w->begin[a] + w->end[a] : 0;
    tc_dim reach = tc_dim_mul(pool, tc_dim_sub(pool, w->kernel[a], one), tc_dim_const(w->dilations[a]));
    tc_dim room = tc_dim_sub(pool, tc_dim_add(pool, size, tc_dim_const(pads - 1)), reach);
    tc_dim places = tc_dim_add(pool, tc_dim_div(pool, room, stride), one);
    if (!w->ceil)
        return places;
    tc_dim rounded = tc_dim_add(pool, room, tc_dim_const(w->strides[a] - 1));
    places = tc_dim_add(pool, tc_dim_div(pool, rounded, stride), one);
    /* The last window must start within the data or the padding before it. */
    if (tc_dim_is_const(places) && tc_dim_is_const(size) &&
        (places.value - 1) * w->strides[a] >= size.value + w->begin[a])
        places.value--;
    return places;
}

/* Batch, `channels`, and the window's places as results 0 and (pooling) 1. */
static tc_status set_places(tc_shape_ctx *sc, tc_node *node, const window *w, tc_dim channels) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim dims[TC_MAX_RANK];
    dims[0] = x.dims[0];
    dims[1] = channels;
    for (int i = 0; i < w->n; i++) {
        dims[2 + i] = window_places(sc->model->dims, w, i, x.dims[2 + i]);
        if (tc_dim_is_const(dims[2 + i]) && dims[2 + i].value < 0)
            return TC_FAIL(sc, node, "the window is larger than spatial axis %d of %s", i,
                           tc_operand_text(sc, node, 0));
    }
    TC_TRY(tc_shape_set(sc, node, 0, x.dtype, x.rank, dims));
    return tc_shape_set(sc, node, 1, TC_INT64, x.rank, dims);
}

static tc_status expect_spatial(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    if (x.rank >= 0 && x.rank < 3)
        return TC_FAIL(sc, node, "%s has rank %d, expected at least 3: batch, channels and spatial axes",
                       tc_operand_text(sc, node, 0), x.rank);
    return TC_OK;
}

static tc_status read_group(tc_shape_ctx *sc, tc_node *node, int64_t *group) {
    *group = tc_attr_int(node, "group", 1);
    if (*group < 1 || *group > INT32_MAX)
        return TC_FAIL(sc, node, "group is %lld, expected at least 1", (long long)*group);
    return TC_OK;
}

tc_status tc_shape_conv(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), weight = tc_arg_of(node, 1);
    int64_t group;
    window w;
    tc_dim unused;
    TC_TRY(read_group(sc, node, &group));
    TC_TRY(expect_spatial(sc, node));
    if (x.rank == TC_RANK_UNKNOWN || weight.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    TC_TRY(tc_shape_expect_rank(sc, node, 1, x.rank));
    TC_TRY(tc_shape_expect_rank(sc, node, 2, 1));
    tc_dim channels = tc_dim_mul(sc->model->dims, weight.dims[1], tc_dim_const(group));
    TC_TRY(tc_shape_same_dim(sc, node, "number of channels (data; group times weight)", x.dims[1], channels, &unused));
    if (tc_dim_is_const(weight.dims[0]) && weight.dims[0].value % group != 0)
        return TC_FAIL(sc, node, "%lld output channels cannot be split into %lld groups",
                       (long long)weight.dims[0].value, (long long)group);
    if (tc_arg_of(node, 2).rank == 1)
        TC_TRY(tc_shape_same_dim(sc, node, "size of the bias and of the output channels", tc_arg_of(node, 2).dims[0],
                                 weight.dims[0], &unused));
    TC_TRY(read_window(sc, node, x.rank - 2, &w));
    TC_TRY(read_kernel(sc, node, &w, weight.dims + 2));
    return set_places(sc, node, &w, weight.dims[0]);
}

tc_status tc_shape_conv_transpose(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0), weight = tc_arg_of(node, 1);
    tc_dim_pool *pool = sc->model->dims;
    int64_t group, given[TC_MAX_RANK];
    window w;
    tc_dim unused, dims[TC_MAX_RANK];
    TC_TRY(read_group(sc, node, &group));
    TC_TRY(expect_spatial(sc, node));
    if (x.rank == TC_RANK_UNKNOWN || weight.rank == TC_RANK_UNKNOWN)
        return tc_shape_set(sc, node, 0, x.dtype, x.rank, NULL);
    TC_TRY(tc_shape_expect_rank(sc, node, 1, x.rank));
    TC_TRY(tc_shape_same_dim(sc, node, "number of channels", x.dims[1], weight.dims[0], &unused));
    TC_TRY(read_window(sc, node, x.rank - 2, &w));
    TC_TRY(read_kernel(sc, node, &w, weight.dims + 2));
    TC_TRY(window_ints(sc, node, "output_shape", w.n, 1, 1, given));
    dims[0] = x.dims[0];
    dims[1] = tc_dim_mul(pool, weight.dims[1], tc_dim_const(group));
    for (int i = 0; i < w.n; i++) {
        tc_dim stride = tc_dim_const(w.strides[i]), size = x.dims[2 + i], one = tc_dim_const(1);
        tc_dim reach = tc_dim_mul(pool, tc_dim_sub(pool, w.kernel[i], one), tc_dim_const(w.dilations[i]));
        int64_t pads = w.auto_pad == EXPLICIT ? w.begin[i] + w.end[i] : 0;
        tc_dim full = tc_dim_add(pool, tc_dim_mul(pool, tc_dim_sub(pool, size, one), stride), reach);
        full = tc_dim_add(pool, full, tc_dim_const(1 + w.extra[i] - pads));
        bool same = w.auto_pad == SAME_UPPER || w.auto_pad == SAME_LOWER;
        dims[2 + i] = tc_attr_find(node, "output_shape") ? tc_dim_const(given[i])
                      : same                             ? tc_dim_mul(pool, size, stride)
                                                         : full;
    }
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}

tc_status tc_shape_pool(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    window w;
    TC_TRY(expect_spatial(sc, node));
    if (x.rank == TC_RANK_UNKNOWN) {
        TC_TRY(tc_shape_set(sc, node, 0, x.dtype, TC_RANK_UNKNOWN, NULL));
        return tc_shape_set(sc, node, 1, TC_INT64, TC_RANK_UNKNOWN, NULL);
    }
    TC_TRY(read_window(sc, node, x.rank - 2, &w));
    TC_TRY(read_kernel(sc, node, &w, NULL));
    return set_places(sc, node, &w, x.dims[1]);
}

tc_status tc_shape_global_pool(tc_shape_ctx *sc, tc_node *node) {
    tc_arg x = tc_arg_of(node, 0);
    tc_dim dims[TC_MAX_RANK];
    for (int i = 0; i < x.rank; i++)
        dims[i] = i < 2 ? x.dims[i] : tc_dim_const(1);
    return tc_shape_set(sc, node, 0, x.dtype, x.rank, dims);
}
