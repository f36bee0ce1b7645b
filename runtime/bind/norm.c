/* norm.c: normalizations and the gradient of LayerNormalization to the kernels of kernels/norm. */
#include "../../kernels/norm/norm.h"
#include "util.h"
#include <string.h>

/* --- by rows ------------------------------------------------------------------------------------------------------ */

typedef struct layer_params { int64_t rows, n; double epsilon; } layer_params;

/* `inp` seen as [rows, n], split at the node's axis; scale and bias (operands scale_at and the next) must have n
 * elements. */
static tc_status bind_rows(rt_binder *binder, const tc_node *node, rt_launch *launch, uint32_t inp_at,
                           uint32_t scale_at, uint32_t last, layer_params *p) {
    const rt_arg *inp = &launch->in[inp_at];
    int axis = 0;
    TC_TRY(rt_axis(binder, node, tc_attr_int(node, "axis", -1), inp->rank, false, &axis));
    p->rows = rt_product(inp, 0, axis);
    p->n = rt_product(inp, axis, inp->rank);
    p->epsilon = (double)tc_attr_float(node, "epsilon", 1e-5f);
    for (uint32_t i = scale_at; i <= last; i++) {
        const rt_arg *arg = rt_in(launch, i);
        if (arg && arg->dtype != inp->dtype)
            return rt_no_kernel(binder, node, launch);
        if (arg && arg->count != p->n)
            return tc_error(binder->ctx, TC_UNSUPPORTED, node,
                            "operand %u has %lld elements; there is a kernel for %lld, the normalized dims", i,
                            (long long)arg->count, (long long)p->n);
    }
    launch->params = p;
    return TC_OK;
}

static void *data_of(const rt_arg *arg) { return arg ? arg->data : NULL; }

static tk_status run_layer_norm(const rt_launch *launch) {
    const layer_params *p = launch->params;
    const rt_arg *mean = rt_out(launch, 1), *inv_std = rt_out(launch, 2), *stat = mean ? mean : inv_std;
    tk_layer_norm(launch->out[0].data, data_of(mean), data_of(inv_std), launch->in[0].data, launch->in[1].data,
                  data_of(rt_in(launch, 2)), p->rows, p->n, p->epsilon, launch->in[0].dtype,
                  stat ? stat->dtype : TK_F32);
    return TK_OK;
}

tc_status rt_bind_layer_norm(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    TC_TRY(bind_rows(binder, node, launch, 0, 1, 2, RT_PARAMS(binder, layer_params)));
    launch->run = run_layer_norm;
    launch->inplace = 1;
    return TC_OK;
}

static tk_status run_layer_norm_grad(const rt_launch *launch) {
    const layer_params *p = launch->params;
    const rt_arg *in = launch->in;
    tk_layer_norm_grad(launch->out[0].data, data_of(rt_out(launch, 1)), data_of(rt_out(launch, 2)), in[0].data,
                       in[1].data, in[2].data, in[3].data, in[4].data, p->rows, p->n, in[0].dtype, in[3].dtype,
                       launch->workspace);
    return TK_OK;
}

/* (dY, X, Scale, Mean, InvStdDev) -> dX, dScale, dBias */
tc_status rt_bind_layer_norm_grad(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    layer_params *p = RT_PARAMS(binder, layer_params);
    const rt_arg *in = launch->in;
    TC_TRY(bind_rows(binder, node, launch, 1, 2, 2, p));
    if (in[0].dtype != in[1].dtype || in[3].dtype != in[4].dtype || (in[3].dtype != TK_F32 && in[3].dtype != TK_F64))
        return rt_no_kernel(binder, node, launch);
    if (in[0].count != in[1].count || in[3].count != p->rows || in[4].count != p->rows)
        return tc_error(binder->ctx, TC_BAD_INPUT, node, "the operands' shapes don't agree");
    launch->workspace_bytes = rt_out(launch, 1) || rt_out(launch, 2) ? tk_layer_norm_grad_workspace(p->rows, p->n) : 0;
    launch->run = run_layer_norm_grad;
    return TC_OK;
}

static tk_status run_rms_norm(const rt_launch *launch) {
    const layer_params *p = launch->params;
    tk_rms_norm(launch->out[0].data, launch->in[0].data, launch->in[1].data, p->rows, p->n, p->epsilon,
                launch->in[0].dtype);
    return TK_OK;
}

tc_status rt_bind_rms_norm(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    TC_TRY(bind_rows(binder, node, launch, 0, 1, 1, RT_PARAMS(binder, layer_params)));
    launch->run = run_rms_norm;
    launch->inplace = 1;
    return TC_OK;
}

/* --- by channels -------------------------------------------------------------------------------------------------- */

typedef struct channel_params {
    int64_t batch, channels, inner, groups, size;
    double epsilon, momentum, alpha, beta, bias;
} channel_params;

/* Operand 0 seen as [batch, channels, inner]; operands 1 to `last` must have one element for each channel. */
static tc_status bind_channels(rt_binder *binder, const tc_node *node, rt_launch *launch, uint32_t last,
                               channel_params *p) {
    const rt_arg *inp = &launch->in[0];
    if (inp->rank < 1)
        return tc_error(binder->ctx, TC_BAD_INPUT, node, "operand 0 is a scalar; it has no channels");
    p->batch = inp->dims[0];
    p->channels = inp->rank > 1 ? inp->dims[1] : 1;
    p->inner = rt_product(inp, 2, inp->rank);
    p->epsilon = (double)tc_attr_float(node, "epsilon", 1e-5f);
    for (uint32_t i = 1; i <= last; i++) {
        if (launch->in[i].dtype != inp->dtype)
            return rt_no_kernel(binder, node, launch);
        if (launch->in[i].count != p->channels)
            return tc_error(binder->ctx, TC_BAD_INPUT, node,
                            "operand %u has %lld elements, but there are %lld channels", i,
                            (long long)launch->in[i].count, (long long)p->channels);
    }
    launch->params = p;
    return TC_OK;
}

static tk_status run_batch_norm(const rt_launch *launch) {
    const channel_params *p = launch->params;
    const rt_arg *in = launch->in;
    if (tc_attr_int(launch->node, "training_mode", 0) == 0)
        tk_batch_norm(launch->out[0].data, in[0].data, in[1].data, in[2].data, in[3].data, in[4].data, p->batch,
                      p->channels, p->inner, p->epsilon, in[0].dtype);
    else
        tk_batch_norm_train(launch->out[0].data, data_of(rt_out(launch, 1)), data_of(rt_out(launch, 2)), in[0].data,
                            in[1].data, in[2].data, in[3].data, in[4].data, p->batch, p->channels, p->inner, p->epsilon,
                            p->momentum, in[0].dtype);
    return TK_OK;
}

tc_status rt_bind_batch_norm(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    channel_params *p = RT_PARAMS(binder, channel_params);
    TC_TRY(bind_channels(binder, node, launch, 4, p));
    p->momentum = (double)tc_attr_float(node, "momentum", 0.9f);
    launch->run = run_batch_norm;
    return TC_OK;
}

static tk_status run_group_norm(const rt_launch *launch) {
    const channel_params *p = launch->params;
    tk_group_norm(launch->out[0].data, launch->in[0].data, launch->in[1].data, launch->in[2].data, p->batch,
                  p->channels, p->groups, p->inner, p->epsilon, launch->in[0].dtype);
    return TK_OK;
}

tc_status rt_bind_group_norm(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    channel_params *p = RT_PARAMS(binder, channel_params);
    TC_TRY(bind_channels(binder, node, launch, 2, p));
    p->groups = strcmp(node->op_type, "InstanceNormalization") == 0 ? p->channels : tc_attr_int(node, "num_groups", 0);
    if (p->groups < 0 || (p->channels > 0 && (p->groups == 0 || p->channels % p->groups != 0)))
        return tc_error(binder->ctx, TC_BAD_INPUT, node, "%lld channels don't make %lld groups", (long long)p->channels,
                        (long long)p->groups);
    p->groups = p->channels == 0 ? 0 : p->groups;
    launch->run = run_group_norm;
    return TC_OK;
}

static tk_status run_lrn(const rt_launch *launch) {
    const channel_params *p = launch->params;
    tk_lrn(launch->out[0].data, launch->in[0].data, p->batch, p->channels, p->inner, p->size, p->alpha, p->beta,
           p->bias, launch->in[0].dtype);
    return TK_OK;
}

tc_status rt_bind_lrn(rt_binder *binder, const tc_node *node, rt_launch *launch) {
    channel_params *p = RT_PARAMS(binder, channel_params);
    TC_TRY(bind_channels(binder, node, launch, 0, p));
    p->size = tc_attr_int(node, "size", 0);
    p->alpha = (double)tc_attr_float(node, "alpha", 0.0001f);
    p->beta = (double)tc_attr_float(node, "beta", 0.75f);
    p->bias = (double)tc_attr_float(node, "bias", 1);
    if (p->size < 1)
        return tc_error(binder->ctx, TC_BAD_INPUT, node, "size is %lld, not 1 or more", (long long)p->size);
    launch->run = run_lrn;
    return TC_OK;
}
