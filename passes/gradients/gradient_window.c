/* gradient_window.c: a convolution y = W * x is linear in each operand, so its gradients are convolutions, too. That
 * of x is the transposed convolution of dy with W. That of W is the convolution of x with dy, with batch and
 * channels exchanged, and strides and dilations exchanged. Padding at the end always covers the reach of the windows
 * (tail), so that every size fits. */
#include "gradient_window.h"
#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */
static void read_ints(const tc_node *node, const char *name, int n, int64_t otherwise, int64_t *out) {
    size_t have = 0;
    const int64_t *ints = tc_attr_ints(node, name, &have);
    for (int i = 0; i < n; i++)
        out[i] = (size_t)i < have ? ints[i] : otherwise;
}

static int64_t reach(const tc_window *w, int i) { return (w->kernel[i] - 1) * w->dilation[i] + 1; }

static bool is_known(const tc_window *w, int i) { return w->wide[i] >= 0 && w->narrow[i] >= 0; }

static void read_padding(tc_build *g, tc_window *w) {
    const char *auto_pad = tc_attr_string(g->of->node, "auto_pad", "NOTSET");
    bool upper = strcmp(auto_pad, "SAME_UPPER") == 0, same = upper || strcmp(auto_pad, "SAME_LOWER") == 0;
    int64_t pads[2 * TC_WINDOW_RANK];
    read_ints(g->of->node, "pads", 2 * w->n, 0, pads);
    for (int i = 0; i < w->n; i++) {
        int64_t total = 0;
        if (!is_known(w, i) && (same || w->stride[i] != 1)) {
            tc_grad_refuse(g, "dim %d of its operand or result is not known", i + 2);
            return;
        }
        w->begin[i] = strcmp(auto_pad, "NOTSET") == 0 ? pads[i] : 0;
        if (same) {
            total = (w->narrow[i] - 1) * w->stride[i] + reach(w, i) - w->wide[i];
            total = total > 0 ? total : 0;
            w->begin[i] = upper ? total / 2 : total - total / 2;
        }
        if (is_known(w, i))
            w->tail[i] = (w->narrow[i] - 1) * w->stride[i] + reach(w, i) - w->begin[i] - w->wide[i];
        else
            w->tail[i] = strcmp(auto_pad, "NOTSET") == 0 ? pads[w->n + i] : 0;
    }
}

tc_window tc_window_read(tc_build *g, tc_value *wide, tc_value *narrow, tc_value *weight) {
    tc_window w = {.groups = tc_attr_int(g->of->node, "group", 1), .n = tc_grad_rank(g, wide) - 2};
    if (w.n < 1 || w.n > TC_WINDOW_RANK || tc_grad_rank(g, narrow) != w.n + 2 || w.groups < 1) {
        tc_grad_refuse(g, "its operand has rank %d, expected 3 to %d", w.n + 2, TC_WINDOW_RANK + 2);
        return w;
    }
    read_ints(g->of->node, "kernel_shape", w.n, 0, w.kernel);
    read_ints(g->of->node, "strides", w.n, 1, w.stride);
    read_ints(g->of->node, "dilations", w.n, 1, w.dilation);
    for (int i = 0; i < w.n; i++) {
        if (weight && !tc_build_static(weight, i + 2, &w.kernel[i]) && w.kernel[i] == 0)
            tc_grad_refuse(g, "dim %d of its weight is not known", i + 2);
        if (!tc_build_static(wide, i + 2, &w.wide[i]))
            w.wide[i] = -1;
        if (!tc_build_static(narrow, i + 2, &w.narrow[i]))
            w.narrow[i] = -1;
    }
    if (g->status == TC_OK)
        read_padding(g, &w);
    return w;
}

/* --- nodes ------------------------------------------------------------------------------------ */
static void set_window(tc_node *node, const tc_window *w, const int64_t *strides, const int64_t *dilations,
                       int64_t groups) {
    int64_t pads[2 * TC_WINDOW_RANK];
    for (int i = 0; i < w->n; i++) {
        pads[i] = w->begin[i];
        pads[w->n + i] = w->tail[i] > 0 ? w->tail[i] : 0;
    }
    tc_attr_set_ints(node, "strides", strides, (size_t)w->n);
    tc_attr_set_ints(node, "dilations", dilations, (size_t)w->n);
    tc_attr_set_ints(node, "pads", pads, 2 * (size_t)w->n);
    tc_attr_set_int(node, "group", groups);
}

tc_value *tc_window_spread(tc_build *g, const tc_window *w, tc_value *narrow, tc_value *weight) {
    tc_node *node = TC_BEGIN(g, "ConvTranspose", narrow, weight);
    int64_t unreached[TC_WINDOW_RANK];
    for (int i = 0; i < w->n; i++)
        unreached[i] = w->tail[i] < 0 ? -w->tail[i] : 0;
    set_window(node, w, w->stride, w->dilation, w->groups);
    tc_attr_set_ints(node, "output_padding", unreached, (size_t)w->n);
    return tc_build_finish(g, node);
}

tc_value *tc_window_collect(tc_build *g, const tc_window *w, tc_value *wide, tc_value *weight) {
    tc_node *node = TC_BEGIN(g, "Conv", wide, weight);
    set_window(node, w, w->stride, w->dilation, w->groups);
    return tc_build_finish(g, node);
}

/* [N, G C, ...] -> [C, G N, ...], or with `filters` [N, G M, ...] -> [G M, N, ...]. */
static tc_value *batch_inside(tc_build *g, const tc_window *w, tc_value *value, const int64_t *spatial, bool filters) {
    int64_t split[TC_WINDOW_RANK + 3], joined[TC_WINDOW_RANK + 2], perm[TC_WINDOW_RANK + 3], channels;
    int n = w->n;
    for (int i = 0; i < n + 3; i++)
        perm[i] = i;
    if (w->groups == 1 || filters) { /* groups and filters are in the right order already */
        perm[0] = 1, perm[1] = 0;
        return tc_build_transpose(g, value, perm, n + 2);
    }
    if (!tc_build_static(value, 1, &channels)) {
        tc_grad_refuse(g, "its number of channels is not known");
        return value;
    }
    split[0] = -1, split[1] = w->groups, split[2] = channels / w->groups;
    joined[0] = channels / w->groups, joined[1] = -1;
    for (int i = 0; i < n; i++) {
        if (spatial[i] < 0)
            tc_grad_refuse(g, "dim %d of its operand is not known, and it has groups", i + 2);
        split[3 + i] = joined[2 + i] = spatial[i];
    }
    perm[0] = 2, perm[2] = 0;
    tc_value *apart = TC_OP(g, "Reshape", value, tc_build_ints(g, split, (size_t)n + 3));
    return TC_OP(g, "Reshape", tc_build_transpose(g, apart, perm, n + 3), tc_build_ints(g, joined, (size_t)n + 2));
}

/* Elements of wide that no window reaches may make the result larger than the kernel. */
static tc_value *crop(tc_build *g, const tc_window *w, tc_value *value) {
    int64_t zeros[TC_WINDOW_RANK] = {0}, axes[TC_WINDOW_RANK];
    bool larger = false;
    for (int i = 0; i < w->n; i++) {
        axes[i] = i + 2;
        larger = larger || -w->tail[i] >= w->dilation[i];
    }
    size_t n = (size_t)w->n;
    return larger ? TC_OP(g, "Slice", value, tc_build_ints(g, zeros, n), tc_build_ints(g, w->kernel, n),
                          tc_build_ints(g, axes, n))
                  : value;
}

tc_value *tc_window_weight(tc_build *g, const tc_window *w, tc_value *wide, tc_value *narrow) {
    int64_t perm[TC_WINDOW_RANK + 2];
    for (int i = 0; i < w->n + 2; i++)
        perm[i] = i;
    perm[0] = 1, perm[1] = 0;
    tc_node *node =
        TC_BEGIN(g, "Conv", batch_inside(g, w, wide, w->wide, false), batch_inside(g, w, narrow, w->narrow, true));
    set_window(node, w, w->dilation, w->stride, w->groups);
    tc_value *product = crop(g, w, tc_build_finish(g, node)); /* [C, G M, kernel...] */
    return tc_build_transpose(g, product, perm, w->n + 2);
}
