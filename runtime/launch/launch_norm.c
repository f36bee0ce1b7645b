/* launch_norm.c: normalizations by channel to the kernels of kernels/norm. */
#include "kernels/norm/norm.h"
#include "launch_util.h"
#include <string.h>

/* Operand 0 seen as [batch, channels, inner]; operands 1 to `last` must have one element for each channel. */
static tc_status prepare_channels(rt_launcher *launcher, const tc_node *node, rt_launch *launch, uint32_t last,
                                  tk_channels *p) {
    const rt_arg *inp = &launch->in[0];
    if (inp->rank < 1)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "operand 0 is a scalar; it has no channels");
    p->batch = inp->dims[0];
    p->channels = inp->rank > 1 ? inp->dims[1] : 1;
    p->inner = rt_product(inp, 2, inp->rank);
    p->dtype = inp->dtype;
    p->epsilon = (double)tc_attr_float(node, "epsilon", 1e-5f);
    for (uint32_t i = 1; i <= last; i++) {
        if (launch->in[i].dtype != inp->dtype)
            return rt_no_kernel(launcher, node, launch);
        if (launch->in[i].count != p->channels)
            return tc_error(launcher->ctx, TC_BAD_INPUT, node,
                            "operand %u has %lld elements, but there are %lld channels", i,
                            (long long)launch->in[i].count, (long long)p->channels);
    }
    launch->params = p;
    return TC_OK;
}

/* rt_data of an operand that is not there is NULL. */
static tk_channel_operands operands_of(const rt_launch *launch) {
    const rt_arg *in = launch->in;
    return (tk_channel_operands){in[0].data, rt_data(rt_in(launch, 1)), rt_data(rt_in(launch, 2)),
                                 rt_data(rt_in(launch, 3)), rt_data(rt_in(launch, 4))};
}

static tk_channel_results results_of(const rt_launch *launch) {
    return (tk_channel_results){launch->out[0].data, rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2))};
}

static void run_batch_norm(tk_queue *q, const rt_launch *launch) {
    launch->kernels->batch_norm(q, results_of(launch), operands_of(launch), launch->params);
}

tc_status rt_launch_batch_norm(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_channels *p = RT_PARAMS(launcher, tk_channels);
    TC_TRY(prepare_channels(launcher, node, launch, 4, p));
    p->train = tc_attr_int(node, "training_mode", 0) != 0;
    p->momentum = (double)tc_attr_float(node, "momentum", 0.9f);
    if (rt_out(launch, 2) && p->batch * p->inner == 1) {
        tc_error(
            launcher->ctx, TC_BAD_INPUT, node,
            "training takes more than one value of each channel: one has no variance, and PyTorch refuses it, too");
        tc_hint(launcher->ctx, "take larger batches; tempo-train --drop-last leaves out a short one at an epoch's end");
        return TC_BAD_INPUT;
    }
    launch->run = run_batch_norm;
    return TC_OK;
}

static void run_group_norm(tk_queue *q, const rt_launch *launch) {
    launch->kernels->group_norm(q, results_of(launch), operands_of(launch), launch->params);
}

tc_status rt_launch_group_norm(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_channels *p = RT_PARAMS(launcher, tk_channels);
    TC_TRY(prepare_channels(launcher, node, launch, 2, p));
    p->groups = strcmp(node->op_type, "InstanceNormalization") == 0 ? p->channels : tc_attr_int(node, "num_groups", 0);
    if (p->groups < 0 || (p->channels > 0 && (p->groups == 0 || p->channels % p->groups != 0)))
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "%lld channels don't make %lld groups",
                        (long long)p->channels, (long long)p->groups);
    p->groups = p->channels == 0 ? 0 : p->groups;
    launch->run = run_group_norm;
    return TC_OK;
}

static void run_lrn(tk_queue *q, const rt_launch *launch) {
    launch->kernels->lrn(q, results_of(launch), operands_of(launch), launch->params);
}

tc_status rt_launch_lrn(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    tk_channels *p = RT_PARAMS(launcher, tk_channels);
    TC_TRY(prepare_channels(launcher, node, launch, 0, p));
    p->size = tc_attr_int(node, "size", 0);
    p->alpha = (double)tc_attr_float(node, "alpha", 0.0001f);
    p->beta = (double)tc_attr_float(node, "beta", 0.75f);
    p->add = (double)tc_attr_float(node, "bias", 1);
    if (p->size < 1)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "size is %lld, not 1 or more", (long long)p->size);
    launch->run = run_lrn;
    return TC_OK;
}
