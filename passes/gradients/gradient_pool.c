/* gradient_pool.c: gradients of pools. The gradient of a maximum goes to its position, the first of equals, which is
 * MaxPool's own second result. The gradient of an average or a norm goes to all positions of the window, by a
 * transposed convolution with ones, one channel at a time. GlobalAveragePool is in gradient_reduce.c. */
#include "gradient_window.h"
#include <string.h>

void tc_gradient_max_pool(tc_build *g) {
    tc_node *node = g->of->node;
    tc_value *x = tc_input(node, 0), *dy = g->of->douts[0];
    if (tc_attr_int(node, "storage_order", 0) != 0) {
        if (tc_output(node, 1) && tc_value_is_used(tc_output(node, 1)))
            tc_grad_refuse(g, "its indices have a reader and are in column-major order");
        tc_attr_remove(node, "storage_order");
    }
    tc_value *places = tc_grad_result(g, 1, "indices"); /* in all of x, over batch and channels */
    tc_grad_infer_forward(g);
    tc_value *size = TC_OP(g, "Reshape", TC_OP(g, "Size", x), tc_build_int(g, 1)), *flat = tc_build_int(g, -1);
    tc_node *scatter = TC_BEGIN(g, "ScatterElements", tc_build_zeros(g, size, tc_value_dtype(dy)),
                                TC_OP(g, "Reshape", places, flat), TC_OP(g, "Reshape", dy, flat));
    tc_attr_set_string(scatter, "reduction", "add");
    g->of->dins[0] = tc_build_reshape_like(g, tc_build_finish(g, scatter), x);
}

void tc_gradient_global_max_pool(tc_build *g) {
    tc_value *x = tc_input(g->of->node, 0), *flat = TC_OP(g, "Reshape", x, tc_build_ints(g, (int64_t[]){0, 0, -1}, 3));
    tc_value *dy = TC_OP(g, "Reshape", g->of->douts[0], tc_build_ints(g, (int64_t[]){0, 0, 1}, 3));
    tc_node *places = TC_BEGIN(g, "ArgMax", flat);
    tc_attr_set_int(places, "axis", 2);
    tc_node *scatter = TC_BEGIN(g, "ScatterElements", tc_build_zeros(g, tc_build_shape(g, flat), tc_value_dtype(dy)),
                                tc_build_finish(g, places), dy);
    tc_attr_set_int(scatter, "axis", 2);
    g->of->dins[0] = tc_build_reshape_like(g, tc_build_finish(g, scatter), x);
}

/* The divisor of the average at each place along one axis: the elements in the input, or in the padded input. */
static int64_t count_along(const tc_window *w, int i, int64_t place, bool padded, int64_t end_padding) {
    int64_t count = 0, first = place * w->stride[i] - w->begin[i];
    for (int64_t k = 0; k < w->kernel[i]; k++) {
        int64_t at = first + k * w->dilation[i];
        count += padded ? at < w->wide[i] + end_padding : at >= 0 && at < w->wide[i];
    }
    return count;
}

/* The divisors of all places, [1, 1, narrow...]. */
static tc_value *divisors(tc_build *g, const tc_window *w) {
    bool padded = tc_attr_int(g->of->node, "count_include_pad", 0) != 0;
    bool explicit = strcmp(tc_attr_string(g->of->node, "auto_pad", "NOTSET"), "NOTSET") == 0;
    size_t n_pads = 0;
    const int64_t *pads = tc_attr_ints(g->of->node, "pads", &n_pads);
    int64_t dims[TC_WINDOW_RANK + 2] = {1, 1}, total = 1;
    tc_dtype dtype = tc_value_dtype(g->of->douts[0]);
    for (int i = 0; i < w->n; i++) {
        dims[2 + i] = w->narrow[i];
        total *= w->narrow[i];
    }
    tc_tensor *tensor = tc_tensor_create(g->model, dtype, w->n + 2, dims, NULL);
    for (int64_t at = 0; at < total; at++) {
        int64_t count = 1, rest = at;
        for (int i = w->n; i-- > 0; rest /= w->narrow[i]) {
            int64_t end = explicit         ? (n_pads == 2 * (size_t)w->n ? pads[w->n + i] : 0)
                          : w->tail[i] > 0 ? w->tail[i]
                                           : 0;
            count *= count_along(w, i, rest % w->narrow[i], padded, end);
        }
        tc_element_set(dtype, (void *)(uintptr_t)tensor->data, (uint64_t)at, (double)count);
    }
    return tc_constant(g->graph, "window_sizes", tensor);
}

static tc_value *ones(tc_build *g, const tc_window *w) {
    int64_t dims[TC_WINDOW_RANK + 2] = {1, 1};
    for (int i = 0; i < w->n; i++)
        dims[2 + i] = w->kernel[i];
    tc_tensor *tensor = tc_tensor_create(g->model, tc_value_dtype(g->of->douts[0]), w->n + 2, dims, NULL);
    for (uint64_t i = 0; i < tensor->count; i++)
        tc_element_set(tensor->dtype, (void *)(uintptr_t)tensor->data, i, 1);
    return tc_constant(g->graph, "ones", tensor);
}

/* The window of a pool whose sizes are all known. */
static tc_window read_pool(tc_build *g) {
    tc_window w = tc_window_read(g, tc_input(g->of->node, 0), tc_output(g->of->node, 0), NULL);
    for (int i = 0; i < w.n && g->status == TC_OK; i++)
        if (w.wide[i] < 0 || w.narrow[i] < 0)
            tc_grad_refuse(g, "dim %d of its operand is not known", i + 2);
    return w;
}

/* Each place's share for all elements of its window: narrow -> x's shape. */
static tc_value *spread(tc_build *g, const tc_window *w, tc_value *shares) {
    int64_t planes[TC_WINDOW_RANK + 2] = {-1, 1};
    for (int i = 0; i < w->n; i++)
        planes[2 + i] = w->narrow[i];
    tc_value *apart = TC_OP(g, "Reshape", shares, tc_build_ints(g, planes, (size_t)w->n + 2));
    return tc_build_reshape_like(g, tc_window_spread(g, w, apart, ones(g, w)), tc_input(g->of->node, 0));
}

void tc_gradient_average_pool(tc_build *g) {
    tc_window w = read_pool(g);
    if (g->status == TC_OK)
        g->of->dins[0] = spread(g, &w, TC_OP(g, "Div", g->of->douts[0], divisors(g, &w)));
}

/* --- norms: y = (sum |x|^p)^(1/p), dx = dy y^(1-p) |x|^(p-1) sign(x), 0 where y is 0 ----------- */
static tc_value *power(tc_build *g, tc_value *value, int64_t exponent) {
    return exponent == 1 ? value : TC_OP(g, "Pow", value, tc_build_like(g, value, (double)exponent));
}

/* dy y^(1-p) */
static tc_value *norm_shares(tc_build *g, int64_t p) {
    tc_value *y = tc_output(g->of->node, 0), *zero = tc_build_like(g, y, 0);
    if (p == 1)
        return g->of->douts[0];
    tc_value *quotient = TC_OP(g, "Div", g->of->douts[0], power(g, y, p - 1));
    return TC_OP(g, "Where", TC_OP(g, "Equal", y, zero), zero, quotient);
}

/* |x|^(p-1) sign(x) times the gradient that reached each element of x. */
static tc_value *norm_slopes(tc_build *g, int64_t p, tc_value *shares) {
    tc_value *x = tc_input(g->of->node, 0);
    if (p == 1)
        return TC_OP(g, "Mul", TC_OP(g, "Sign", x), shares);
    tc_value *size = power(g, p % 2 == 0 ? x : TC_OP(g, "Abs", x), p - 1);
    return TC_OP(g, "Mul", p % 2 == 0 ? size : TC_OP(g, "Mul", TC_OP(g, "Sign", x), size), shares);
}

void tc_gradient_lp_pool(tc_build *g) {
    tc_window w = read_pool(g);
    int64_t p = tc_attr_int(g->of->node, "p", 2);
    if (g->status == TC_OK)
        g->of->dins[0] = norm_slopes(g, p, spread(g, &w, norm_shares(g, p)));
}

void tc_gradient_global_lp_pool(tc_build *g) {
    int64_t p = tc_attr_int(g->of->node, "p", 2);
    g->of->dins[0] = norm_slopes(g, p, norm_shares(g, p));
}
