/* launch_linear_loss.c: LinearCrossEntropy to its kernel of kernels/loss. */
#include "kernels/loss/linear_loss.h"
#include "launch_util.h"
#include <string.h>

enum { X, W, LABELS, BIAS, WEIGHTS, DLOSS };
enum { LOSS, DX, DW, DB };

static void run_linear_loss(tk_queue *q, const rt_launch *launch) {
    const tk_linear_loss *p = launch->params;
    tk_linear_loss_operands in = {launch->in[X].data,
                                  launch->in[W].data,
                                  launch->in[LABELS].data,
                                  rt_data(rt_in(launch, BIAS)),
                                  rt_data(rt_in(launch, WEIGHTS)),
                                  rt_data(rt_in(launch, DLOSS))};
    tk_linear_loss_results out = {launch->out[LOSS].data, rt_data(rt_out(launch, DX)), rt_data(rt_out(launch, DW)),
                                  rt_data(rt_out(launch, DB))};
    launch->kernels->linear_loss_run(q, out, in, p, launch->workspace);
}

static tk_reduction_kind reduction_of(const tc_node *node) {
    const char *reduction = tc_attr_string(node, "reduction", "mean");
    return strcmp(reduction, "none") == 0 ? TK_LOSS_NONE : strcmp(reduction, "sum") == 0 ? TK_LOSS_SUM : TK_LOSS_MEAN;
}

static bool has_types(const rt_launch *launch, tk_dtype dtype, tk_dtype loss) {
    const rt_arg *bias = rt_in(launch, BIAS), *weights = rt_in(launch, WEIGHTS), *dloss = rt_in(launch, DLOSS);
    tk_dtype labels = launch->in[LABELS].dtype;
    return tk_is_float(dtype) && tk_is_float(loss) && launch->in[W].dtype == dtype &&
           (labels == TK_I32 || labels == TK_I64) && (!bias || bias->dtype == dtype) &&
           (!weights || weights->dtype == loss) && (!dloss || dloss->dtype == loss);
}

static tc_status check_sizes(rt_launcher *launcher, const tc_node *node, const rt_launch *launch,
                             const tk_linear_loss *p) {
    const rt_arg *bias = rt_in(launch, BIAS), *weights = rt_in(launch, WEIGHTS), *dloss = rt_in(launch, DLOSS);
    int64_t each = p->reduction == TK_LOSS_NONE ? p->rows : 1;
    if (launch->in[LABELS].count != p->rows || (dloss && dloss->count != each))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "there are %lld labels for %lld rows",
                        (long long)launch->in[LABELS].count, (long long)p->rows);
    return rt_expect(launcher, node,
                     launch->in[W].count == p->hidden * p->classes && (!bias || bias->count == p->classes) &&
                         (!weights || weights->count == p->classes));
}

tc_status rt_launch_linear_loss(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_linear_loss *p = RT_PARAMS(launcher, tk_linear_loss);
    const rt_arg *x = &launch->in[X], *w = &launch->in[W];
    const tc_attr *ignored = tc_attr_find(node, "ignore_index");
    bool trans = tc_attr_int(node, "transB", 0) != 0;
    double smoothing = (double)tc_attr_float(node, "label_smoothing", 0);
    const tc_attr *share = tc_attr_find(node, "label_share");
    TC_TRY(rt_expect(launcher, node, x->rank >= 2 && w->rank == 2));
    *p = (tk_linear_loss){.rows = rt_product(x, 0, x->rank - 1),
                          .hidden = x->dims[x->rank - 1],
                          .classes = w->dims[!trans],
                          .trans_w = trans,
                          .reduction = reduction_of(node),
                          .has_ignored = ignored != NULL,
                          .ignored = ignored ? ignored->i : 0,
                          .share = share ? (double)share->f : 1 - smoothing,
                          .smoothing = smoothing,
                          .square = (double)tc_attr_float(node, "z_loss", 0),
                          .wants_dw = rt_out(launch, DW) != NULL,
                          .wants_db = rt_out(launch, DB) != NULL,
                          .dtype = x->dtype,
                          .loss_dtype = launch->out[LOSS].dtype,
                          .label_dtype = launch->in[LABELS].dtype};
    if (!has_types(launch, p->dtype, p->loss_dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(check_sizes(launcher, node, launch, p));
    launch->params = p;
    launch->workspace_bytes = launcher->kernels->linear_loss_workspace(p, launcher->slots);
    launch->run = run_linear_loss;
    launch->inplace[DX] = 1 << X;
    return TC_OK;
}
