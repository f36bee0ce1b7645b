/* launch_pointwise.c: the ops of pointwise.def and their gradients to the rows' kernels, by the node's attributes; ops
 * that keep their result and a bit instead of their operand to the kernels of kernels/activation. */
#include "compiler/ir/ops.h"
#include "kernels/activation/activation.h"
#include "kernels/dropout/dropout.h"
#include "launch_util.h"
#include "runtime/fuse/fuse.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct pointwise_params {
    tk_pointwise_row row;
    double alpha;
} pointwise_params;

static void run_forward(tk_queue *q, const rt_launch *launch) {
    const pointwise_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    launch->kernels->pointwise(q, p->row, out->data, launch->in[0].data, out->count, p->alpha, out->dtype);
}

static void run_grad(tk_queue *q, const rt_launch *launch) {
    const pointwise_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    launch->kernels->pointwise_grad(q, p->row, out->data, launch->in[0].data, launch->in[1].data, out->count, p->alpha,
                                    out->dtype);
}

static void run_both(tk_queue *q, const rt_launch *launch) {
    const pointwise_params *p = launch->params;
    const rt_arg *out = launch->out;
    launch->kernels->pointwise_both(q, p->row, out[0].data, out[1].data, launch->in[0].data, launch->in[1].data,
                                    out->count, p->alpha, out->dtype);
}

/* With so many operands, the second is the point of the gradient. */
static bool is_gradient(const tc_node *node) { return node->n_inputs > 1; }

/* (X) -> Y or (dY, X) -> dX, which may lie over any operand. */
tc_status rt_launch_pointwise(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    pointwise_params *p = RT_PARAMS(launcher, pointwise_params);
    bool is_grad = is_gradient(node);
    if (is_grad && (launch->in[1].dtype != launch->in[0].dtype || launch->in[1].count != launch->in[0].count))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the two operands differ in type or shape");
    p->row = rt_pointwise_row(node);
    if (p->row == TK_POINTWISE_COUNT)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "approximate is '%s', not 'none' or 'tanh'",
                        tc_quote(launcher->ctx, tc_attr_string(node, "approximate", "none")));
    p->alpha = rt_pointwise_alpha(node, p->row);
    launch->params = p;
    launch->run = is_grad ? run_grad : run_forward;
    launch->inplace[0] = is_grad ? 3 : 1;
    return TC_OK;
}

/* (dY, X) -> dX, Y of a node of fuse_pointwise.h: each may lie over an operand. */
tc_status rt_launch_pointwise_both(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    pointwise_params *p = RT_PARAMS(launcher, pointwise_params);
    const int64_t row = tc_attr_int(node, "row", -1);
    if (!launch->kernels->pointwise_both || row < 0 || row >= TK_POINTWISE_COUNT || !rt_out(launch, 1))
        return rt_no_kernel(launcher, node, launch);
    p->row = (tk_pointwise_row)row;
    p->alpha = (double)tc_attr_float(node, "alpha", 0);
    launch->params = p;
    launch->run = run_both;
    launch->inplace[0] = launch->inplace[1] = 3;
    return TC_OK;
}

/* --- of y and a bit: kernels/activation ------------------------------------------------------- */

static void run_masked(tk_queue *q, const rt_launch *launch) {
    const pointwise_params *p = launch->params;
    const rt_arg *inp = &launch->in[0];
    launch->kernels->activation_masked(q, p->row, launch->out[0].data, rt_data(rt_out(launch, 1)), inp->data,
                                       inp->count, p->alpha, inp->dtype);
}

static void run_from_output(tk_queue *q, const rt_launch *launch) {
    const pointwise_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    launch->kernels->activation_from_output(q, p->row, out->data, launch->in[0].data, launch->in[1].data,
                                            launch->in[2].data, out->count, p->alpha, out->dtype);
}

/* (X) -> Y, Right or (dY, Y, Right) -> dX; Y may lie over X, dX over dY and Y. */
tc_status rt_launch_activation(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    pointwise_params *p = RT_PARAMS(launcher, pointwise_params);
    const char *function = tc_attr_string(node, "function", "");
    const rt_arg *in = launch->in;
    p->row = rt_pointwise_row_of(node, function);
    if (!tk_activation_is_known(p->row))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "function is '%s', not one with a single minimum",
                        tc_quote(launcher->ctx, function));
    if (is_gradient(node))
        TC_TRY(rt_expect(launcher, node,
                         in[1].dtype == in[0].dtype && in[1].count == in[0].count && in[2].dtype == TK_U8 &&
                             in[2].count == tk_bit_bytes(in[1].count)));
    p->alpha = rt_pointwise_alpha(node, p->row);
    launch->params = p;
    launch->run = is_gradient(node) ? run_from_output : run_masked;
    launch->inplace[0] = is_gradient(node) ? 3 : 1;
    return TC_OK;
}
