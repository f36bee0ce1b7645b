/* launch_loss.c: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss and the latter's gradient to the kernels of
 * kernels/loss.
 */
#include "kernels/loss/loss.h"
#include "launch_util.h"
#include <string.h>

/* Reads the node; operand scores_at is [batch, classes, ...], labels_at [batch, ...], weights_at [classes] or absent.
 */
static tc_status prepare_loss(rt_launcher *launcher, const tc_node *node, rt_launch *launch, uint32_t scores_at,
                              uint32_t labels_at, uint32_t weights_at) {
    tk_loss *p = RT_PARAMS(launcher, tk_loss);
    const rt_arg *scores = &launch->in[scores_at], *labels = &launch->in[labels_at],
                 *weights = rt_in(launch, weights_at);
    const char *reduction = tc_attr_string(node, "reduction", "mean");
    const tc_attr *ignored = tc_attr_find(node, "ignore_index");
    if ((labels->dtype != TK_I32 && labels->dtype != TK_I64) || (weights && weights->dtype != scores->dtype))
        return rt_no_kernel(launcher, node, launch);
    if (scores->rank < 2)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "scores have rank %d, not [batch, classes, ...]",
                        scores->rank);
    *p = (tk_loss){.batch = scores->dims[0],
                   .classes = scores->dims[1],
                   .inner = rt_product(scores, 2, scores->rank),
                   .has_ignored = ignored != NULL,
                   .ignored = ignored ? ignored->i : 0,
                   .dtype = scores->dtype,
                   .label_dtype = labels->dtype};
    if (labels->count != p->batch * p->inner || (weights && weights->count != p->classes))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                        "labels or weights don't fit scores of %lld x %lld classes x %lld", (long long)p->batch,
                        (long long)p->classes, (long long)p->inner);
    p->reduction = strcmp(reduction, "none") == 0  ? TK_LOSS_NONE
                   : strcmp(reduction, "sum") == 0 ? TK_LOSS_SUM
                                                   : TK_LOSS_MEAN;
    if (p->reduction == TK_LOSS_MEAN && strcmp(reduction, "mean") != 0)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "reduction is '%s', not 'none', 'sum' or 'mean'",
                        tc_quote(launcher->ctx, reduction));
    launch->params = p;
    return TC_OK;
}

static void run_nll(tk_queue *q, const rt_launch *launch) {
    launch->kernels->nll_loss(q, launch->out[0].data, launch->in[0].data, launch->in[1].data, rt_data(rt_in(launch, 2)),
                              launch->params, launch->workspace);
}

tc_status rt_launch_nll_loss(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(prepare_loss(launcher, node, launch, 0, 1, 2));
    launch->workspace_bytes = launcher->kernels->cross_entropy_workspace(launch->params);
    launch->run = run_nll;
    return TC_OK;
}

static void run_cross_entropy(tk_queue *q, const rt_launch *launch) {
    const rt_arg *log_prob = rt_out(launch, 1);
    launch->kernels->cross_entropy(q, launch->out[0].data, log_prob ? log_prob->data : NULL, launch->in[0].data,
                                   launch->in[1].data, rt_data(rt_in(launch, 2)), launch->params, launch->workspace);
}

tc_status rt_launch_cross_entropy(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(prepare_loss(launcher, node, launch, 0, 1, 2));
    launch->workspace_bytes = launcher->kernels->cross_entropy_workspace(launch->params);
    launch->run = run_cross_entropy;
    launch->inplace[1] = 1;
    return TC_OK;
}

static void run_cross_entropy_grad(tk_queue *q, const rt_launch *launch) {
    launch->kernels->cross_entropy_grad(q, launch->out[0].data, launch->in[0].data, launch->in[1].data,
                                        launch->in[2].data, rt_data(rt_in(launch, 3)), launch->params,
                                        launch->workspace);
}

/* (dLoss, log_prob, labels, weights) -> dscores */
tc_status rt_launch_cross_entropy_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(prepare_loss(launcher, node, launch, 1, 2, 3));
    const tk_loss *p = launch->params;
    int64_t wanted = p->reduction == TK_LOSS_NONE ? p->batch * p->inner : 1;
    if (launch->in[0].dtype != p->dtype || launch->in[0].count != wanted)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "the loss's gradient has %lld elements, not %lld",
                        (long long)launch->in[0].count, (long long)wanted);
    launch->workspace_bytes = launcher->kernels->cross_entropy_grad_workspace(p);
    launch->run = run_cross_entropy_grad;
    launch->inplace[0] = 2;
    return TC_OK;
}
