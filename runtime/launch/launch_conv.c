/* launch_conv.c: Conv, ConvTranspose, the pools and Col2Im to the kernels of kernels/conv and kernels/pool. */
#include "kernels/conv/conv.h"
#include "kernels/pool/pool.h"
#include "kernels/common/window.h"
#include "launch_util.h"
#include <string.h>

/* --- the window ------------------------------------------------------------------------------- */

/* Attribute `name`, a list of `count` ints of at least `least`; NULL when absent. */
static tc_status read_list(rt_launcher *launcher, const tc_node *node, const char *name, int count, int64_t least,
                           const int64_t **out_list) {
    size_t n = 0;
    *out_list = tc_attr_ints(node, name, &n);
    if (*out_list && n != (size_t)count)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "%s has %zu elements, not %d", name, n, count);
    for (size_t i = 0; *out_list && i < n; i++)
        if ((*out_list)[i] < least || (*out_list)[i] > INT32_MAX)
            return tc_error(launcher->ctx, TC_BAD_INPUT, node, "%s holds %lld, which is out of range", name,
                            (long long)(*out_list)[i]);
    return TC_OK;
}

/* SAME_UPPER and SAME_LOWER pad so that the result is the input over the stride. */
static void pad_same(tk_window *w, int d, bool upper) {
    int64_t total = (w->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - w->inp[d];
    total = total > 0 ? total : 0;
    w->pad_begin[d] = upper ? total / 2 : total - total / 2;
    w->pad_end[d] = total - w->pad_begin[d];
}

/* The attributes of a window of `rank` dims, with kernel[rank]; inp and out are 1. */
static tc_status read_window(rt_launcher *launcher, const tc_node *node, int rank, const int64_t *kernel,
                             tk_window *w) {
    const int64_t *strides = NULL, *dilations = NULL, *pads = NULL;
    if (rank < 1 || rank > TK_WINDOW_RANK)
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for %d spatial dims", rank);
    TC_TRY(read_list(launcher, node, "strides", rank, 1, &strides));
    TC_TRY(read_list(launcher, node, "dilations", rank, 1, &dilations));
    TC_TRY(read_list(launcher, node, "pads", 2 * rank, 0, &pads));
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        int s = d - (TK_WINDOW_RANK - rank);
        w->inp[d] = w->out[d] = 1;
        w->kernel[d] = s < 0 ? 1 : kernel[s];
        w->stride[d] = s < 0 || !strides ? 1 : strides[s];
        w->dilation[d] = s < 0 || !dilations ? 1 : dilations[s];
        w->pad_begin[d] = s < 0 || !pads ? 0 : pads[s];
        w->pad_end[d] = s < 0 || !pads ? 0 : pads[rank + s];
        if (w->kernel[d] < 1 || w->kernel[d] > INT32_MAX)
            return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the window is empty or too large");
    }
    return TC_OK;
}

static tc_status window_of(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, const int64_t *kernel,
                           tk_window *w) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    const char *auto_pad = tc_attr_string(node, "auto_pad", "NOTSET");
    int rank = inp->rank - 2;
    TC_TRY(read_window(launcher, node, rank, kernel, w));
    for (int s = 0; s < rank; s++) {
        int d = TK_WINDOW_RANK - rank + s;
        w->inp[d] = inp->dims[2 + s];
        w->out[d] = out->dims[2 + s];
        if (strncmp(auto_pad, "SAME_", 5) == 0)
            pad_same(w, d, strcmp(auto_pad, "SAME_UPPER") == 0);
        else if (strcmp(auto_pad, "VALID") == 0)
            w->pad_begin[d] = w->pad_end[d] = 0;
    }
    return TC_OK;
}

/* --- Conv ------------------------------------------------------------------------------------- */

static void run_conv(tk_queue *q, const rt_launch *launch) {
    const rt_arg *bias = rt_in(launch, 2);
    launch->kernels->conv_run(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, bias ? bias->data : NULL,
                              launch->params, launch->in[0].dtype, launch->workspace);
}

/* Element types and ranks of a convolution or a transposed one. */
static tc_status check_operands(rt_launcher *launcher, const tc_node *node, const rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *weight = &launch->in[1], *bias = rt_in(launch, 2);
    if (weight->dtype != inp->dtype || (bias && bias->dtype != inp->dtype))
        return rt_no_kernel(launcher, node, launch);
    if (inp->rank < 3 || weight->rank != inp->rank)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "input of rank %d and weights of rank %d don't fit",
                        inp->rank, weight->rank);
    return TC_OK;
}

tc_status rt_launch_conv(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_conv *p = RT_PARAMS(launcher, tk_conv);
    const rt_arg *inp = &launch->in[0], *weight = &launch->in[1], *bias = rt_in(launch, 2);
    TC_TRY(check_operands(launcher, node, launch));
    *p = (tk_conv){.batch = inp->dims[0],
                   .channels = inp->dims[1],
                   .filters = weight->dims[0],
                   .groups = tc_attr_int(node, "group", 1)};
    if (p->groups < 1 || p->channels % p->groups != 0 || p->filters % p->groups != 0 ||
        p->channels / p->groups != weight->dims[1] || (bias && bias->count != p->filters))
        return tc_error(
            launcher->ctx, TC_BAD_INPUT, node, "%lld channels, %lld filters of %lld channels and %lld groups don't fit",
            (long long)p->channels, (long long)p->filters, (long long)weight->dims[1], (long long)p->groups);
    TC_TRY(window_of(launcher, node, launch, weight->dims + 2, &p->window));
    launch->workspace_bytes = launcher->kernels->conv_workspace(p, inp->dtype, launcher->slots);
    launch->params = p;
    launch->run = run_conv;
    return TC_OK;
}

static void run_conv_transpose(tk_queue *q, const rt_launch *launch) {
    const rt_arg *bias = rt_in(launch, 2);
    launch->kernels->conv_transpose_run(q, launch->out[0].data, launch->in[0].data, launch->in[1].data,
                                        bias ? bias->data : NULL, launch->params, launch->in[0].dtype,
                                        launch->workspace);
}

/* The window slides over the result; padding that its shape leaves open is divided as ONNX says. */
static tc_status transposed_window(rt_launcher *launcher, const tc_node *node, const rt_launch *launch,
                                   const int64_t *kernel, tk_window *w) {
    const char *auto_pad = tc_attr_string(node, "auto_pad", "NOTSET");
    int rank = launch->in[0].rank - 2;
    const int64_t *extra = NULL;
    TC_TRY(window_of(launcher, node, launch, kernel, w));
    TC_TRY(read_list(launcher, node, "output_padding", rank, 0, &extra));
    bool open = strncmp(auto_pad, "SAME_", 5) == 0 || tc_attr_find(node, "output_shape") != NULL;
    for (int d = 0; d < TK_WINDOW_RANK; d++) {
        int s = d - (TK_WINDOW_RANK - rank);
        int64_t narrow = w->inp[d];
        w->inp[d] = w->out[d];
        w->out[d] = narrow;
        if (!open || s < 0)
            continue;
        int64_t total =
            (narrow - 1) * w->stride[d] + (extra ? extra[s] : 0) + (w->kernel[d] - 1) * w->dilation[d] + 1 - w->inp[d];
        total = total > 0 ? total : 0;
        w->pad_begin[d] = strcmp(auto_pad, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
    }
    return TC_OK;
}

tc_status rt_launch_conv_transpose(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_conv *p = RT_PARAMS(launcher, tk_conv);
    const rt_arg *inp = &launch->in[0], *weight = &launch->in[1], *bias = rt_in(launch, 2);
    TC_TRY(check_operands(launcher, node, launch));
    *p = (tk_conv){.batch = inp->dims[0],
                   .channels = launch->out[0].dims[1],
                   .filters = inp->dims[1],
                   .groups = tc_attr_int(node, "group", 1)};
    if (p->groups < 1 || p->filters % p->groups != 0 || p->filters != weight->dims[0] ||
        p->channels != weight->dims[1] * p->groups || (bias && bias->count != p->channels))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                        "%lld channels, weights of %lld by %lld channels and %lld groups don't fit",
                        (long long)p->filters, (long long)weight->dims[0], (long long)weight->dims[1],
                        (long long)p->groups);
    TC_TRY(transposed_window(launcher, node, launch, weight->dims + 2, &p->window));
    launch->workspace_bytes = launcher->kernels->conv_transpose_workspace(p, inp->dtype, launcher->slots);
    launch->params = p;
    launch->run = run_conv_transpose;
    return TC_OK;
}

/* --- pools ------------------------------------------------------------------------------------ */

static void run_pool(tk_queue *q, const rt_launch *launch) {
    const rt_arg *indices = rt_out(launch, 1);
    launch->kernels->pool_run(q, launch->out[0].data, indices ? indices->data : NULL, launch->in[0].data,
                              launch->params, launch->in[0].dtype);
}

static tk_pool_op pool_op(const tc_node *node) {
    return strstr(node->op_type, "Max") ? TK_POOL_MAX : strstr(node->op_type, "Average") ? TK_POOL_AVERAGE : TK_POOL_LP;
}

static tc_status finish_pool(rt_launcher *launcher, const tc_node *node, rt_launch *launch, tk_pool *p) {
    p->op = pool_op(node);
    p->planes = rt_product(&launch->in[0], 0, 2);
    p->p = tc_attr_int(node, "p", 2);
    if (!tk_pool_has(p->op, launch->in[0].dtype))
        return rt_no_kernel(launcher, node, launch);
    launch->params = p;
    launch->run = run_pool;
    return TC_OK;
}

tc_status rt_launch_pool(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_pool *p = RT_PARAMS(launcher, tk_pool);
    const int64_t *kernel = NULL;
    TC_TRY(read_list(launcher, node, "kernel_shape", launch->in[0].rank - 2, 1, &kernel));
    if (!kernel)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "attribute kernel_shape is missing");
    TC_TRY(window_of(launcher, node, launch, kernel, &p->window));
    p->count_pads = tc_attr_int(node, "count_include_pad", 0) != 0;
    p->column_major = tc_attr_int(node, "storage_order", 0) != 0;
    return finish_pool(launcher, node, launch, p);
}

/* One window over all spatial elements, as one dim. */
tc_status rt_launch_global_pool(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_pool *p = RT_PARAMS(launcher, tk_pool);
    const rt_arg *inp = &launch->in[0];
    if (inp->rank < 2)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "operand 0 has rank %d; it has no spatial dims", inp->rank);
    int64_t spatial = rt_product(inp, 2, inp->rank);
    p->window = (tk_window){{1, 1, spatial}, {1, 1, 1}, {1, 1, spatial}, {1, 1, 1}, {1, 1, 1}, {0}, {0}};
    return finish_pool(launcher, node, launch, p);
}

/* --- Col2Im ----------------------------------------------------------------------------------- */

typedef struct fold_params {
    int64_t planes;
    tk_window window;
} fold_params;

static void run_fold(tk_queue *q, const rt_launch *launch) {
    const fold_params *p = launch->params;
    launch->kernels->fold(q, launch->out[0].data, launch->in[0].data, p->planes, &p->window, launch->out[0].dtype);
}

/* Operand 0 is [batch, channels x block, places]; its window slides over the image as Conv's does. */
tc_status rt_launch_col2im(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    fold_params *p = RT_PARAMS(launcher, fold_params);
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    tk_window *w = &p->window;
    const int64_t *block;
    int64_t n;
    TC_TRY(rt_known_ints(launcher, node, 2, &block, &n));
    TC_TRY(rt_expect(launcher, node, inp->rank == 3 && out->rank == n + 2));
    TC_TRY(read_window(launcher, node, (int)n, block, w));
    for (int s = 0; s < n; s++) {
        int d = TK_WINDOW_RANK - (int)n + s;
        w->inp[d] = out->dims[2 + s];
        int64_t room = w->inp[d] + w->pad_begin[d] + w->pad_end[d] - (w->kernel[d] - 1) * w->dilation[d] - 1;
        w->out[d] = room < 0 ? 0 : room / w->stride[d] + 1;
    }
    p->planes = rt_product(out, 0, 2);
    if (inp->dims[2] != tk_volume(w->out) || inp->count != p->planes * tk_volume(w->kernel) * inp->dims[2])
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "operand 0 has %lld places, the image has %lld",
                        (long long)inp->dims[2], (long long)tk_volume(w->out));
    launch->params = p;
    launch->run = run_fold;
    return TC_OK;
}
