/* launch_row_norm.c: LayerNormalization, RMSNormalization, their variants that keep x-hat, and their gradients to the
 * kernels of kernels/norm, with the chains that the runtime has put around them (fuse_chains.h). One table says where
 * each op has its statistics. */
#include "compiler/ir/ops.h"
#include "kernels/movement/movement.h"
#include "kernels/norm/norm.h"
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

/* A scale or bias that broadcasting repeats is written out first, to this place of the workspace. */
typedef struct repeated {
    bool is_due;
    tk_strided box;
    size_t at;
} repeated;

typedef struct row_params {
    tk_norm_rows rows;
    const form *form;
    repeated scale, bias;    /* of forward ops */
    const rt_chains *chains; /* NULL: there are none */
} row_params;

/* Operand `inp_at` seen as [rows, n], split at the node's axis; operands scale_at .. last have its element type. */
static tc_status prepare_rows(rt_launcher *launcher, const tc_node *node, rt_launch *launch, uint32_t inp_at,
                              uint32_t scale_at, uint32_t last, row_params *p, int *out_axis) {
    const rt_arg *inp = &launch->in[inp_at];
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", -1), inp->rank, false, out_axis));
    int axis = *out_axis;
    p->rows = (tk_norm_rows){.rows = rt_product(inp, 0, axis),
                             .n = rt_product(inp, axis, inp->rank),
                             .dtype = inp->dtype,
                             .stat_dtype = TK_F32,
                             .epsilon = (double)tc_attr_float(node, "epsilon", 1e-5f)};
    for (uint32_t i = scale_at; i <= last; i++) {
        const rt_arg *arg = rt_in(launch, i);
        if (arg && arg->dtype != inp->dtype)
            return rt_no_kernel(launcher, node, launch);
    }
    launch->params = p;
    return TC_OK;
}

/* Operand `index`, a scale or bias, is repeated to the normalized dims, or to all dims where it differs by row. */
static tc_status prepare_repeated(rt_launcher *launcher, const tc_node *node, rt_launch *launch, uint32_t index,
                                  int axis, repeated *out, int64_t *out_step) {
    const rt_arg *inp = &launch->in[0], *arg = rt_in(launch, index);
    int lead = arg ? inp->rank - arg->rank : 0;
    if (!arg)
        return TC_OK;
    TC_TRY(rt_expect(launcher, node, lead >= 0));
    bool by_row = rt_product(arg, 0, axis > lead ? axis - lead : 0) != 1;
    int first = by_row ? 0 : axis;
    int64_t from = 1, to = 1; /* strides */
    out->box.rank = inp->rank - first;
    for (int d = inp->rank - 1; d >= 0; d--) {
        int64_t size = d < lead ? 1 : arg->dims[d - lead];
        TC_TRY(rt_expect(launcher, node, size == 1 || size == inp->dims[d]));
        if (d < first)
            continue;
        out->is_due = out->is_due || size != inp->dims[d];
        out->box.dims[d - first] = inp->dims[d];
        out->box.out_strides[d - first] = to;
        out->box.inp_strides[d - first] = size == 1 ? 0 : from;
        from *= size;
        to *= inp->dims[d];
    }
    *out_step = by_row ? rt_product(inp, axis, inp->rank) : 0;
    if (out->is_due) {
        out->at = launch->workspace_bytes;
        launch->workspace_bytes += (size_t)to * tk_size(arg->dtype);
        tk_strided_simplify(&out->box);
    }
    return TC_OK;
}

/* (X or XHat, Scale, Bias?) of a forward op. */
static tc_status prepare_forward(rt_launcher *launcher, const tc_node *node, rt_launch *launch, row_params *p) {
    int axis = 0;
    TC_TRY(prepare_rows(launcher, node, launch, 0, 1, 2, p, &axis));
    TC_TRY(prepare_repeated(launcher, node, launch, 1, axis, &p->scale, &p->rows.scale_step));
    return prepare_repeated(launcher, node, launch, 2, axis, &p->bias, &p->rows.bias_step);
}

static const void *repeated_data(tk_queue *q, const rt_launch *launch, uint32_t index, const repeated *s) {
    const rt_arg *arg = rt_in(launch, index);
    if (!s->is_due)
        return rt_data(arg);
    char *out = (char *)launch->workspace + s->at;
    launch->kernels->copy_strided(q, out, arg->data, &s->box, tk_size(arg->dtype));
    return out;
}

static void find_form(row_params *p, const tc_node *node, const form *forms, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(forms[i].op, node->op->name) == 0)
            p->form = &forms[i];
    p->rows.centered = p->form->centered;
}

/* The chains around the node. */
static tc_status find_chains(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, row_params *p) {
    p->chains = launcher->chains ? tc_map_get_ptr(launcher->chains, node) : NULL;
    if (!p->chains)
        return TC_OK;
    TC_TRY(rt_expect_chain(launcher, node, launch, &p->chains->before));
    return rt_expect_chain(launcher, node, launch, &p->chains->after);
}

static const rt_arg *result(const rt_launch *launch, uint32_t index) {
    return index > 0 ? rt_out(launch, index) : NULL;
}
static const rt_arg *operand(const rt_launch *launch, uint32_t index) {
    return index > 0 ? rt_in(launch, index) : NULL;
}

static void run_norm(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    const void *scale = repeated_data(q, launch, 1, &p->scale), *bias = repeated_data(q, launch, 2, &p->bias);
    void *out = launch->out[0].data, *xhat = rt_data(result(launch, p->form->xhat)),
         *mean = rt_data(result(launch, p->form->mean)), *inv_std = rt_data(result(launch, p->form->inv_std));
    if (!p->chains) {
        launch->kernels->norm(q, out, xhat, mean, inv_std, launch->in[0].data, scale, bias, &p->rows);
        return;
    }
    const tk_chain before = rt_chain_of(launch, &p->chains->before, launch->in[0].data);
    launch->kernels->norm_chain(q, out, xhat, mean, inv_std, &before, scale, bias, &p->rows);
}

tc_status rt_launch_row_norm(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    row_params *p = RT_PARAMS(launcher, row_params);
    TC_TRY(prepare_forward(launcher, node, launch, p));
    find_form(p, node, forward_forms, TC_COUNT(forward_forms));
    TC_TRY(find_chains(launcher, node, launch, p));
    const rt_arg *mean = result(launch, p->form->mean), *inv_std = result(launch, p->form->inv_std),
                 *stat = mean ? mean : inv_std;
    if (stat && stat->dtype != TK_F32 && stat->dtype != TK_F64)
        return rt_no_kernel(launcher, node, launch);
    p->rows.stat_dtype = stat ? stat->dtype : TK_F32;
    launch->run = run_norm;
    launch->inplace[0] = p->chains ? rt_chain_inplace(launch, &p->chains->before, p->chains->before.n_links - 1) : 1;
    return TC_OK;
}

static void run_scale_bias(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    const void *scale = repeated_data(q, launch, 1, &p->scale), *bias = repeated_data(q, launch, 2, &p->bias);
    launch->kernels->scale_bias(q, launch->out[0].data, launch->in[0].data, scale, bias, &p->rows);
}

tc_status rt_launch_scale_bias(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(prepare_forward(launcher, node, launch, RT_PARAMS(launcher, row_params)));
    launch->run = run_scale_bias;
    launch->inplace[0] = 1;
    return TC_OK;
}

static void run_norm_grad_chain(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    const rt_arg *in = launch->in;
    const tk_chain before = rt_chain_of(launch, &p->chains->before, in[0].data),
                   after = rt_chain_of(launch, &p->chains->after, NULL);
    const rt_arg *dinp = after.n_links == 0        ? &launch->out[0]
                         : p->chains->between >= 0 ? rt_out(launch, (uint32_t)p->chains->between)
                                                   : NULL;
    launch->kernels->norm_grad_chain(q, rt_data(dinp), rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2)), &before,
                                     p->form->xhat ? NULL : in[1].data, p->form->xhat ? in[1].data : NULL, in[2].data,
                                     rt_data(operand(launch, p->form->mean)), in[p->form->inv_std].data, &after,
                                     &p->rows, launch->workspace);
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
    int axis = 0;
    TC_TRY(prepare_rows(launcher, node, launch, 1, 2, 2, p, &axis));
    find_form(p, node, gradient_forms, TC_COUNT(gradient_forms));
    TC_TRY(find_chains(launcher, node, launch, p));
    const rt_arg *mean = operand(launch, p->form->mean), *inv_std = &in[p->form->inv_std];
    if (in[0].dtype != in[1].dtype || (inv_std->dtype != TK_F32 && inv_std->dtype != TK_F64) ||
        (mean && mean->dtype != inv_std->dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_expect(launcher, node,
                     in[0].count == in[1].count && in[2].count == p->rows.n && inv_std->count == p->rows.rows &&
                         (!mean || mean->count == p->rows.rows)));
    p->rows.stat_dtype = inv_std->dtype;
    launch->workspace_bytes =
        rt_out(launch, 1) || rt_out(launch, 2) ? launcher->kernels->norm_grad_workspace(&p->rows) : 0;
    launch->run = p->chains ? run_norm_grad_chain : run_norm_grad;
    launch->inplace[0] = 3;
    if (p->chains && p->chains->before.n_links > 0)
        launch->inplace[0] = rt_chain_inplace(launch, &p->chains->before, p->chains->before.n_links - 1);
    return TC_OK;
}

/* --- from y ----------------------------------------------------------------------------------- */

typedef struct y_params {
    row_params norm;
    tk_norm_sides sides;
} y_params;

static const float LEAST_NORMAL = 1.17549435e-38f; /* FLT_MIN: of float */

static void run_norm_from_y(tk_queue *q, const rt_launch *launch) {
    const y_params *p = launch->params;
    const rt_arg *in = launch->in, *out = launch->out;
    launch->kernels->norm_from_y(q, out[0].data, rt_data(rt_out(launch, 1)), out[2].data, rt_data(rt_out(launch, 3)),
                                 in[0].data, in[1].data, rt_data(rt_in(launch, 2)), &p->sides, &p->norm.rows);
}

/* Results that are recomputed for Y alone. */
static void run_norm_without_sides(tk_queue *q, const rt_launch *launch) {
    const y_params *p = launch->params;
    const rt_arg *in = launch->in;
    launch->kernels->norm(q, launch->out[0].data, NULL, NULL, rt_data(rt_out(launch, 1)), in[0].data, in[1].data,
                          rt_data(rt_in(launch, 2)), &p->norm.rows);
}

/* (X, Scale, Bias?) -> Y, InvStdDev?, Channels?, Kept?. */
tc_status rt_launch_norm_from_y(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    y_params *p = RT_PARAMS(launcher, y_params);
    const rt_arg *bias = rt_in(launch, 2), *inv_std = rt_out(launch, 1);
    int axis = 0;
    TC_TRY(prepare_rows(launcher, node, launch, 0, 1, 2, &p->norm, &axis));
    TC_TRY(
        rt_expect(launcher, node, launch->in[1].count == p->norm.rows.n && (!bias || bias->count == p->norm.rows.n)));
    p->norm.rows.centered = strcmp(node->op->name, "LayerNormalizationFromY") == 0;
    if ((rt_out(launch, 3) && !rt_out(launch, 2)) || (inv_std && inv_std->dtype != TK_F32 && inv_std->dtype != TK_F64))
        return rt_no_kernel(launcher, node, launch);
    p->norm.rows.stat_dtype = inv_std ? inv_std->dtype : TK_F32;
    p->sides = (tk_norm_sides){.capacity = rt_out(launch, 2) ? launch->out[2].count : 0,
                               .least = (double)tc_attr_float(node, "least", LEAST_NORMAL),
                               .limit = (double)tc_attr_float(node, "limit", 2)};
    launch->params = p;
    launch->run = rt_out(launch, 2) ? run_norm_from_y : run_norm_without_sides;
    launch->inplace[0] = 1;
    return TC_OK;
}

static void run_norm_from_y_grad(tk_queue *q, const rt_launch *launch) {
    const row_params *p = launch->params;
    const rt_arg *in = launch->in;
    launch->kernels->norm_from_y_grad(q, launch->out[0].data, rt_data(rt_out(launch, 1)), rt_data(rt_out(launch, 2)),
                                      in[0].data, in[1].data, in[2].data, rt_data(rt_in(launch, 6)), in[3].data,
                                      in[4].data, in[5].data, in[4].count, &p->rows, launch->workspace);
}

/* (dY, Y, Scale, InvStdDev, Channels, Kept, Bias?) */
tc_status rt_launch_norm_from_y_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    row_params *p = RT_PARAMS(launcher, row_params);
    const rt_arg *in = launch->in, *bias = rt_in(launch, 6);
    int axis = 0;
    TC_TRY(prepare_rows(launcher, node, launch, 1, 2, 2, p, &axis));
    p->rows.centered = strcmp(node->op->name, "LayerNormalizationFromYGrad") == 0;
    p->rows.stat_dtype = in[3].dtype;
    if (in[0].dtype != in[1].dtype || in[5].dtype != in[1].dtype || (bias && bias->dtype != in[1].dtype) ||
        (in[3].dtype != TK_F32 && in[3].dtype != TK_F64))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_expect(launcher, node,
                     in[0].count == in[1].count && in[2].count == p->rows.n && in[3].count == p->rows.rows &&
                         in[5].count == p->rows.rows * in[4].count && (!bias || bias->count == p->rows.n)));
    launch->workspace_bytes = launcher->kernels->norm_from_y_grad_workspace(&p->rows);
    launch->run = run_norm_from_y_grad;
    launch->inplace[0] = 3;
    return TC_OK;
}
