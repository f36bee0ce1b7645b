/* launch_softmax.c: Softmax, LogSoftmax, Hardmax and the gradients of the first two to their kernels. */
#include "kernels/softmax/softmax.h"
#include "launch_util.h"
#include <string.h>

typedef void (*softmax_fn)(tk_queue *q, void *out, const void *inp, tk_softmax_shape shape, tk_dtype dtype);
typedef void (*softmax_grad_fn)(tk_queue *q, void *dinp, const void *dout, const void *out, tk_softmax_shape shape,
                                tk_dtype dtype);
typedef struct softmax_params {
    tk_softmax_shape shape;
    softmax_fn fn;
    softmax_grad_fn grad;
} softmax_params;

static void run_softmax(tk_queue *q, const rt_launch *launch) {
    const softmax_params *p = launch->params;
    if (p->fn)
        p->fn(q, launch->out[0].data, launch->in[0].data, p->shape, launch->out[0].dtype);
    else
        p->grad(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, p->shape, launch->out[0].dtype);
}

tc_status rt_launch_softmax(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    softmax_params *p = RT_PARAMS(launcher, softmax_params);
    const rt_arg *inp = &launch->in[0];
    const tk_table *k = launcher->kernels;
    const struct {
        const char *op;
        softmax_fn fn;
        softmax_grad_fn grad;
    } kinds[] = {
        {"Softmax", k->softmax, NULL},
        {"LogSoftmax", k->log_softmax, NULL},
        {"Hardmax", k->hardmax, NULL},
        {"SoftmaxGrad", NULL, k->softmax_grad},
        {"LogSoftmaxGrad", NULL, k->log_softmax_grad},
    };
    int axis = 0;
    if (inp->rank > 0) /* a scalar is a row of one */
        TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", -1), inp->rank, false, &axis));
    p->shape = (tk_softmax_shape){rt_product(inp, 0, axis), inp->rank > 0 ? inp->dims[axis] : 1,
                                  rt_product(inp, axis + 1, inp->rank)};
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        if (strcmp(kinds[i].op, node->op_type) == 0) {
            p->fn = kinds[i].fn;
            p->grad = kinds[i].grad;
        }
    if (p->grad && (launch->in[1].dtype != inp->dtype || launch->in[1].count != inp->count))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the two operands differ in type or shape");
    launch->params = p;
    launch->run = run_softmax;
    launch->inplace[0] = p->fn == k->hardmax ? 0 : 1;
    return TC_OK;
}
