/* launch_activation.c: Gelu, Swish and their gradients to their kernels: elementwise, with one parameter each. */
#include "../../kernels/gelu/gelu.h"
#include "../../kernels/swish/swish.h"
#include "launch_util.h"
#include <string.h>

/* (X) -> Y or (dY, X) -> dX, which may lie over any operand. */
static tc_status prepare_activation(rt_launcher *launcher, const tc_node *node, rt_launch *launch, rt_run_fn run,
                                    const void *params) {
    bool is_gradient = launch->n_in > 1;
    if (is_gradient && (launch->in[1].dtype != launch->in[0].dtype || launch->in[1].count != launch->in[0].count))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the two operands differ in type or shape");
    launch->params = params;
    launch->run = run;
    launch->inplace[0] = is_gradient ? 3 : 1;
    return TC_OK;
}

static void run_gelu(tk_queue *q, const rt_launch *launch) {
    bool tanh_form = *(const bool *)launch->params;
    const rt_arg *out = &launch->out[0];
    if (launch->n_in == 1)
        launch->kernels->gelu(q, out->data, launch->in[0].data, out->count, tanh_form, out->dtype);
    else
        launch->kernels->gelu_grad(q, out->data, launch->in[0].data, launch->in[1].data, out->count, tanh_form,
                                   out->dtype);
}

tc_status rt_launch_gelu(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    bool *tanh_form = RT_PARAMS(launcher, bool);
    const char *approximate = tc_attr_string(node, "approximate", "none");
    *tanh_form = strcmp(approximate, "tanh") == 0;
    if (!*tanh_form && strcmp(approximate, "none") != 0)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "approximate is '%s', not 'none' or 'tanh'",
                        tc_quote(launcher->ctx, approximate));
    return prepare_activation(launcher, node, launch, run_gelu, tanh_form);
}

static void run_swish(tk_queue *q, const rt_launch *launch) {
    double alpha = *(const double *)launch->params;
    const rt_arg *out = &launch->out[0];
    if (launch->n_in == 1)
        launch->kernels->swish(q, out->data, launch->in[0].data, out->count, alpha, out->dtype);
    else
        launch->kernels->swish_grad(q, out->data, launch->in[0].data, launch->in[1].data, out->count, alpha,
                                    out->dtype);
}

tc_status rt_launch_swish(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    double *alpha = RT_PARAMS(launcher, double);
    *alpha = (double)tc_attr_float(node, "alpha", 1);
    return prepare_activation(launcher, node, launch, run_swish, alpha);
}
