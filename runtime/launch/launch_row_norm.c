/* launch_row_norm.c: LayerNormalization, RMSNormalization, their forms that keep x-hat, and their gradients to the
 * kernels of kernels/norm. One table says where each op has its statistics. */
#include "../../compiler/ops.h"
#include "../../kernels/norm/norm.h"
#include "launch_util.h"
#include <string.h>

/* Positions among results (forward) or operands (gradient); 0: it has none. */
typedef struct form {
    const char *op;
    bool centered;
    uint32_t xhat, mean, inv_std;
} form;

static const form forward_forms[] = {
    {"LayerNormalization", true, 0, 1, 2},
    {"LayerNormalizationXhat", true, 1, 0, 2},
    {"RMSNormalization", false, 0, 0, 1},
    {"RMSNormalizationXhat", false, 1, 0, 2},
};
static const form gradient_forms[] = {
    /* (dY, X or XHat, Scale, statistics) */
    {"LayerNormalizationGrad", true, 0, 3, 4},
    {"LayerNormalizationXhatGrad", true, 1, 0, 3},
    {"RMSNormalizationGrad", false, 0, 0, 3},
    {"RMSNormalizationXhatGrad", false, 1, 0, 3},
};

typedef struct row_params {
    tk_norm_rows rows;
    const form *form;
} row_params;

/* Operand `inp_at` seen as [rows, n], split at the node's axis; operands scale_at and, but for gradients, bias must
 * have n elements. */
static tc_status prepare_rows(rt_launcher *launcher, const tc_node *node, rt_launch *launch, uint32_t inp_at,
                              uint32_t scale_at, uint32_t last, row_params *p) {
    const rt_arg *inp = &launch->in[inp_at];
    int axis = 0;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", -1), inp->rank, false, &axis));
    p->rows = (tk_norm_rows){.rows = rt_product(inp, 0, axis),
                             .n = rt_product(inp, axis, inp->rank),
                             .dtype = inp->dtype,
                             .stat_dtype = TK_F32,
                             .epsilon = (double)tc_attr_float(node, "epsilon", 1e-5f)};
    for (uint32_t i = scale_at; i <= last; i++) {
        const rt_arg *arg = rt_in(launch, i);
        if (arg && arg->dtype != inp->dtype)
            return rt_no_kernel(launcher, node, launch);
        if (arg && arg->count != p->rows.n)
            return tc_error(launcher->ctx, TC_UNSUPPORTED, node,
                            "operand %u has %lld elements; there is a kernel for %lld, the normalized dims", i,
                            (long long)arg->count, (long long)p->rows.n);
    }
    launch->params = p;
    return TC_OK;
}

static void find_form(row_params *p, const tc_node *node, const form *forms, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(forms[i].op, node->op->name) == 0)
            p->form = &forms[i];
    p->rows.centered = p->form->centered;
}

static const rt_arg *result(const rt_launch *launch, uint32_t index) {
    return index > 0 ? rt_out(launch, index) : NULL;
}
static const rt_arg *operand(const rt_launch *launch, uint32_t index) {
    return index > 0 ? rt_in(launch, index) : NULL;
}

static void run_norm(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    launch->kernels->norm(q, launch->out[0].data, rt_data(result(launch, p->form->xhat)),
                          rt_data(result(launch, p->form->mean)), rt_data(result(launch, p->form->inv_std)),
                          launch->in[0].data, launch->in[1].data, rt_data(rt_in(launch, 2)), &p->rows);
}

tc_status rt_launch_row_norm(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    row_params *p = RT_PARAMS(launcher, row_params);
    TC_TRY(prepare_rows(launcher, node, launch, 0, 1, 2, p));
    find_form(p, node, forward_forms, TC_COUNT(forward_forms));
    const rt_arg *mean = result(launch, p->form->mean), *inv_std = result(launch, p->form->inv_std),
                 *stat = mean ? mean : inv_std;
    if (stat && stat->dtype != TK_F32 && stat->dtype != TK_F64)
        return rt_no_kernel(launcher, node, launch);
    p->rows.stat_dtype = stat ? stat->dtype : TK_F32;
    launch->run = run_norm;
    launch->inplace[0] = 1;
    return TC_OK;
}

static void run_scale_bias(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    launch->kernels->scale_bias(q, launch->out[0].data, launch->in[0].data, launch->in[1].data,
                                rt_data(rt_in(launch, 2)), &p->rows);
}

tc_status rt_launch_scale_bias(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(prepare_rows(launcher, node, launch, 0, 1, 2, RT_PARAMS(launcher, row_params)));
    launch->run = run_scale_bias;
    launch->inplace[0] = 1;
    return TC_OK;
}

static void run_norm_grad(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    const rt_arg *in = launch->in;
    void *dscale = rt_data(rt_out(launch, 1)), *dbias = rt_data(rt_out(launch, 2));
    if (p->form->xhat)
        launch->kernels->norm_xhat_grad(q, launch->out[0].data, dscale, dbias, in[0].data, in[1].data, in[2].data,
                                        in[p->form->inv_std].data, &p->rows, launch->workspace);
    else
        launch->kernels->norm_grad(q, launch->out[0].data, dscale, dbias, in[0].data, in[1].data, in[2].data,
                                   rt_data(operand(launch, p->form->mean)), in[p->form->inv_std].data, &p->rows,
                                   launch->workspace);
}

tc_status rt_launch_row_norm_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    row_params *p = RT_PARAMS(launcher, row_params);
    const rt_arg *in = launch->in;
    TC_TRY(prepare_rows(launcher, node, launch, 1, 2, 2, p));
    find_form(p, node, gradient_forms, TC_COUNT(gradient_forms));
    const rt_arg *mean = operand(launch, p->form->mean), *inv_std = &in[p->form->inv_std];
    if (in[0].dtype != in[1].dtype || (inv_std->dtype != TK_F32 && inv_std->dtype != TK_F64) ||
        (mean && mean->dtype != inv_std->dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_expect(launcher, node,
                     in[0].count == in[1].count && inv_std->count == p->rows.rows &&
                         (!mean || mean->count == p->rows.rows)));
    p->rows.stat_dtype = inv_std->dtype;
    launch->workspace_bytes =
        rt_out(launch, 1) || rt_out(launch, 2) ? launcher->kernels->norm_grad_workspace(&p->rows) : 0;
    launch->run = run_norm_grad;
    launch->inplace[0] = 3;
    return TC_OK;
}
