/* launch_determinant.c: Det and its gradient to kernels/determinant. */
#include "kernels/determinant/determinant.h"
#include "launch_util.h"

typedef struct determinant_params {
    int64_t batch, n;
} determinant_params;

static void run_determinant(tk_queue *q, const rt_launch *launch) {
    const determinant_params *p = launch->params;
    launch->kernels->determinant(q, launch->out[0].data, launch->in[0].data, p->batch, p->n, launch->out[0].dtype,
                                 launch->workspace);
}

static void run_gradient(tk_queue *q, const rt_launch *launch) {
    const determinant_params *p = launch->params;
    launch->kernels->determinant_grad(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, p->batch, p->n,
                                      launch->out[0].dtype, launch->workspace);
}

/* Det(X), DetGrad(dY, X): X is [batch..., n, n]. */
tc_status rt_launch_determinant(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    determinant_params *p = RT_PARAMS(launcher, determinant_params);
    bool forward = tc_node_is(node, "", "Det");
    const rt_arg *x = &launch->in[forward ? 0 : 1], *y = forward ? &launch->out[0] : &launch->in[0];
    int64_t rows = x->rank < 2 ? 0 : x->dims[x->rank - 2];
    if (x->rank < 2 || rows != x->dims[x->rank - 1])
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "its operand is no matrix of as many rows as columns");
    *p = (determinant_params){rt_product(x, 0, x->rank - 2), rows};
    TC_TRY(rt_expect(launcher, node,
                     y->count == p->batch && y->dtype == x->dtype && (forward || launch->out[0].count == x->count)));
    launch->workspace_bytes = launcher->kernels->determinant_workspace(p->batch, p->n, launcher->slots);
    launch->params = p;
    launch->run = forward ? run_determinant : run_gradient;
    launch->inplace[0] = forward ? 0 : UINT64_C(1) << 1;
    return TC_OK;
}
