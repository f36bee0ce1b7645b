/* gradient_conv.c: gradients of Conv and ConvTranspose. If the windows of Conv tile the input (a patch embedding, a
 * 1x1 convolution: no overlap, no padding, one group), it is a product of patches [N * places, C * kernel] with the
 * weight [M, C * kernel], and its gradients are products, too. Otherwise they are convolutions (window.h). */
#include "gradient_window.h"
#include <string.h>

typedef struct patches {
    tc_value *x, *w;
    int spatial;                /* number of spatial dims */
    int64_t channels, features; /* C, M */
    int64_t kernel[TC_MAX_RANK], places[TC_MAX_RANK];
    int64_t kernel_size; /* C times the kernel's dims */
} patches;

static bool all_ints(const tc_node *node, const char *name, int64_t expected) {
    size_t n = 0;
    const int64_t *ints = tc_attr_ints(node, name, &n);
    for (size_t i = 0; i < n; i++)
        if (ints[i] != expected)
            return false;
    return true;
}

/* False if the windows do not tile the input, or if this is not known. */
static bool read_patches(tc_build *g, patches *p) {
    const tc_node *node = g->of->node;
    const char *auto_pad = tc_attr_string(node, "auto_pad", "NOTSET");
    size_t n = 0;
    const int64_t *strides = tc_attr_ints(node, "strides", &n);
    *p = (patches){.x = tc_input(node, 0), .w = tc_input(node, 1), .kernel_size = 1};
    p->spatial = tc_value_rank(p->w) - 2;
    if (tc_value_rank(p->x) != p->spatial + 2 || p->spatial < 1 || p->spatial > 8 ||
        tc_attr_int(node, "group", 1) != 1 || !all_ints(node, "dilations", 1) || !all_ints(node, "pads", 0) ||
        (strcmp(auto_pad, "NOTSET") != 0 && strcmp(auto_pad, "VALID") != 0))
        return false;
    for (int i = 0; i < p->spatial; i++) {
        int64_t size;
        if (!tc_build_static(p->w, i + 2, &p->kernel[i]) || !tc_build_static(p->x, i + 2, &size) || p->kernel[i] < 1 ||
            size % p->kernel[i] != 0 || (strides && (size_t)i < n ? strides[i] : 1) != p->kernel[i])
            return false;
        p->places[i] = size / p->kernel[i];
        p->kernel_size *= p->kernel[i];
    }
    if (!tc_build_static(p->w, 0, &p->features) || !tc_build_static(p->w, 1, &p->channels))
        return false;
    p->kernel_size *= p->channels;
    return true;
}

/* [N, C, places, kernel interleaved] and [N, places, C, kernel]: the dims, and the permutation from the first to the
 * second. */
static int tile_dims(const patches *p, int64_t *tiled, int64_t *apart, int64_t *perm) {
    int rank = 2 * p->spatial + 2, d = p->spatial;
    tiled[0] = -1;
    tiled[1] = p->channels;
    perm[0] = 0;
    perm[1 + d] = 1;
    for (int i = 0; i < d; i++) {
        tiled[2 + 2 * i] = p->places[i];
        tiled[3 + 2 * i] = p->kernel[i];
        perm[1 + i] = 2 + 2 * i;
        perm[2 + d + i] = 3 + 2 * i;
    }
    for (int i = 0; i < rank; i++)
        apart[i] = tiled[perm[i]];
    return rank;
}

static tc_value *as_matrix(tc_build *g, tc_value *value, int64_t columns) {
    return TC_OP(g, "Reshape", value, tc_build_ints(g, (int64_t[]){-1, columns}, 2));
}

/* The sum over batch and places for each channel. */
static tc_value *bias_gradient(tc_build *g, tc_value *dy) {
    int64_t axes[TC_MAX_RANK] = {0};
    int rank = tc_grad_rank(g, dy);
    for (int i = 2; i < rank; i++)
        axes[i - 1] = i;
    return tc_build_reduce(g, "ReduceSum", dy, axes, rank > 2 ? (size_t)rank - 1 : 1, false);
}

static void tiles_backward(tc_build *g, const patches *p) {
    int64_t tiled[2 * TC_MAX_RANK], apart[2 * TC_MAX_RANK], perm[2 * TC_MAX_RANK], last[TC_MAX_RANK];
    int rank = tile_dims(p, tiled, apart, perm);
    for (int i = 0; i < p->spatial + 1; i++) /* [N, M, places] -> [N, places, M] */
        last[i] = i == 0 ? 0 : i + 1;
    last[p->spatial + 1] = 1;
    tc_value *rows = as_matrix(g, tc_build_transpose(g, g->of->douts[0], last, p->spatial + 2), p->features);
    if (g->of->needed[0]) {
        tc_value *d = TC_OP(g, "MatMul", rows, as_matrix(g, p->w, p->kernel_size));
        int64_t back[2 * TC_MAX_RANK];
        for (int i = 0; i < rank; i++)
            back[perm[i]] = i;
        d = tc_build_transpose(g, TC_OP(g, "Reshape", d, tc_build_ints(g, apart, (size_t)rank)), back, rank);
        g->of->dins[0] = tc_build_reshape(g, d, tc_build_shape(g, p->x));
    }
    if (g->of->needed[1]) {
        tc_value *tiles = TC_OP(g, "Reshape", p->x, tc_build_ints(g, tiled, (size_t)rank));
        tc_node *product =
            TC_BEGIN(g, "Gemm", rows, as_matrix(g, tc_build_transpose(g, tiles, perm, rank), p->kernel_size));
        tc_attr_set_int(product, "transA", 1);
        g->of->dins[1] = tc_build_reshape_like(g, tc_build_finish(g, product), p->w);
    }
}

static void windows_backward(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *weight = tc_input(g->of->node, 1), *dy = g->of->douts[0];
    tc_window w = tc_window_read(g, x, tc_output(g->of->node, 0), weight);
    if (g->status != TC_OK)
        return;
    if (g->of->needed[0])
        g->of->dins[0] = tc_window_spread(g, &w, dy, weight);
    if (g->of->needed[1])
        g->of->dins[1] = tc_window_weight(g, &w, x, dy);
}

void tc_gradient_conv(tc_build *g) {
    patches p;
    if (read_patches(g, &p))
        tiles_backward(g, &p);
    else
        windows_backward(g);
    if (tc_input(g->of->node, 2) && g->of->needed[2])
        g->of->dins[2] = bias_gradient(g, g->of->douts[0]);
}

/* Conv with operand and result exchanged; the weight is the same. */
void tc_gradient_conv_transpose(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *weight = tc_input(g->of->node, 1), *dy = g->of->douts[0];
    const char *auto_pad = tc_attr_string(g->of->node, "auto_pad", "NOTSET");
    if (tc_attr_find(g->of->node, "output_shape") || strncmp(auto_pad, "SAME_", 5) == 0)
        tc_grad_refuse(g, "its padding is given by output_shape or auto_pad, expected pads");
    tc_window w = tc_window_read(g, tc_output(g->of->node, 0), x, weight);
    if (g->status != TC_OK)
        return;
    if (g->of->needed[0])
        g->of->dins[0] = tc_window_collect(g, &w, dy, weight);
    if (g->of->needed[1])
        g->of->dins[1] = tc_window_weight(g, &w, dy, x);
    if (tc_input(g->of->node, 2) && g->of->needed[2])
        g->of->dins[2] = bias_gradient(g, dy);
}
