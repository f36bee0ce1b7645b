/* launch_gather.c: nodes that pick elements by index or put them back, to kernels/embedding. Shapes become the few
 * sizes that the kernels walk by; indices themselves are checked by the kernels, each time they run. */
#include "kernels/embedding/embedding.h"
#include "kernels/movement/cast.h"
#include "launch_util.h"
#include <string.h>

static tc_status check_indices(rt_launcher *launcher, const tc_node *node, const rt_arg *indices) {
    if (indices->dtype == TK_I64 || indices->dtype == TK_I32)
        return TC_OK;
    return tc_error(launcher->ctx, TC_BAD_INPUT, node, "indices are of type %s, not int32 or int64",
                    tc_dtype_name((tc_dtype)indices->dtype));
}

static tk_indices indices_of(const rt_arg *arg) { return (tk_indices){arg->data, arg->dtype}; }

/* The operand whose copy the results begin as, unless the plan has put one over the other. */
static void copy_data(tk_queue *q, const rt_launch *launch) {
    const rt_arg *to = &launch->out[0];
    launch->kernels->copy(q, to->data, launch->in[0].data, (size_t)to->count * tk_size(to->dtype));
}

/* --- along one axis --------------------------------------------------------------------------- */

typedef struct axis_params {
    int64_t outer, axis, inner;
    int at;
    tk_scatter_kind reduction;
} axis_params;

static tc_status split_at_axis(rt_launcher *launcher, const tc_node *node, const rt_arg *arg, int64_t otherwise,
                               axis_params **out) {
    axis_params *p = RT_PARAMS(launcher, axis_params);
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", otherwise), arg->rank, false, &p->at));
    p->outer = rt_product(arg, 0, p->at);
    p->axis = arg->dims[p->at];
    p->inner = rt_product(arg, p->at + 1, arg->rank);
    *out = p;
    return TC_OK;
}

static void run_gather(tk_queue *q, const rt_launch *launch) {
    const axis_params *p = launch->params;
    const rt_arg *inp = &launch->in[0], *indices = &launch->in[1];
    launch->kernels->gather(q, launch->out[0].data, inp->data, indices_of(indices), p->outer, p->axis, p->inner,
                            indices->count, tk_size(inp->dtype));
}

tc_status rt_launch_gather(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    axis_params *p;
    TC_TRY(check_indices(launcher, node, &launch->in[1]));
    TC_TRY(split_at_axis(launcher, node, &launch->in[0], 0, &p));
    TC_TRY(rt_expect(launcher, node, launch->out[0].count == p->outer * launch->in[1].count * p->inner));
    launch->params = p;
    launch->run = run_gather;
    return TC_OK;
}

static void run_gather_grad(tk_queue *q, const rt_launch *launch) {
    const axis_params *p = launch->params;
    const rt_arg *indices = &launch->in[1], *grad = &launch->in[2];
    launch->kernels->gather_grad(q, launch->out[0].data, grad->data, indices_of(indices), p->outer, p->axis, p->inner,
                                 indices->count, grad->dtype, launch->workspace);
}

tc_status rt_launch_gather_grad(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *indices = &launch->in[1], *grad = &launch->in[2], *out = &launch->out[0];
    axis_params *p;
    TC_TRY(check_indices(launcher, node, indices));
    if (!tk_is_float(grad->dtype) || out->dtype != grad->dtype)
        return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "there is no kernel for gradients of type %s",
                        tc_dtype_name((tc_dtype)grad->dtype));
    TC_TRY(split_at_axis(launcher, node, out, 0, &p));
    TC_TRY(rt_expect(launcher, node, grad->count == p->outer * indices->count * p->inner));
    launch->workspace_bytes = launcher->kernels->gather_grad_workspace(p->outer, p->axis, p->inner, indices->count,
                                                                       out->dtype, launcher->slots);
    launch->params = p;
    launch->run = run_gather_grad;
    return TC_OK;
}

/* --- element by element ----------------------------------------------------------------------- */

static void run_gather_elements(tk_queue *q, const rt_launch *launch) {
    const axis_params *p = launch->params;
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    launch->kernels->gather_elements(q, out->data, inp->data, indices_of(&launch->in[1]), inp->rank, out->dims,
                                     inp->dims, p->at, tk_size(inp->dtype));
}

/* indices may be smaller than the data in the other dims, never larger. */
static bool fits_but_axis(const rt_arg *small, const rt_arg *big, int axis) {
    for (int d = 0; d < small->rank; d++)
        if (d != axis && small->dims[d] > big->dims[d])
            return false;
    return small->rank == big->rank;
}

static bool same_shape(const rt_arg *a, const rt_arg *b) {
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

tc_status rt_launch_gather_elements(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    axis_params *p;
    TC_TRY(check_indices(launcher, node, &launch->in[1]));
    TC_TRY(split_at_axis(launcher, node, &launch->in[0], 0, &p));
    TC_TRY(
        rt_expect(launcher, node,
                  same_shape(&launch->in[1], &launch->out[0]) && fits_but_axis(&launch->in[1], &launch->in[0], p->at)));
    launch->params = p;
    launch->run = run_gather_elements;
    return TC_OK;
}

static tc_status read_reduction(rt_launcher *launcher, const tc_node *node, const rt_launch *launch,
                                tk_scatter_kind *out_reduction) {
    static const struct {
        const char *name;
        tk_scatter_kind reduction;
    } names[] = {{"none", TK_PUT}, {"add", TK_ADD}, {"mul", TK_MUL}, {"min", TK_MIN}, {"max", TK_MAX}};
    const char *name = tc_attr_string(node, "reduction", "none");
    for (size_t i = 0; i < TC_COUNT(names); i++) {
        if (strcmp(names[i].name, name) != 0)
            continue;
        *out_reduction = names[i].reduction;
        tk_dtype dtype = launch->in[0].dtype;
        bool can = tk_can_reduce(names[i].reduction, tk_wide(dtype));
        return can ? TC_OK : rt_no_kernel(launcher, node, launch);
    }
    return tc_error(launcher->ctx, TC_BAD_INPUT, node, "reduction is '%s', not none, add, mul, min or max",
                    tc_quote(launcher->ctx, name));
}

/* The target of updates: the result, a copy of the data; for 16-bit floats that are combined, a copy in float. */
typedef struct target {
    void *data;
    const void *updates;
    tk_dtype dtype;
    void *workspace; /* of the kernel */
} target;

static bool is_widened(const rt_launch *launch, tk_scatter_kind reduction) {
    return reduction != TK_PUT && tk_is_half(launch->out[0].dtype);
}

/* Bytes of the copies in float; the kernel's workspace follows. */
static size_t widened_bytes(const rt_launch *launch, tk_scatter_kind reduction) {
    size_t bytes = (size_t)(launch->out[0].count + launch->in[2].count) * sizeof(float);
    return is_widened(launch, reduction) ? (bytes + 63) / 64 * 64 : 0;
}

static size_t scatter_workspace(const rt_launcher *launcher, const rt_launch *launch, tk_scatter_kind reduction,
                                int64_t n) {
    return widened_bytes(launch, reduction) + launcher->kernels->scatter_workspace(n);
}

static target begin_scatter(tk_queue *q, const rt_launch *launch, tk_scatter_kind reduction) {
    const rt_arg *data = &launch->in[0], *updates = &launch->in[2], *out = &launch->out[0];
    float *sums = launch->workspace;
    void *rest = sums ? (char *)launch->workspace + widened_bytes(launch, reduction) : NULL;
    if (!is_widened(launch, reduction)) {
        copy_data(q, launch);
        return (target){out->data, updates->data, out->dtype, rest};
    }
    launch->kernels->cast(q, sums, data->data, out->count, TK_F32, data->dtype);
    launch->kernels->cast(q, sums + out->count, updates->data, updates->count, TK_F32, updates->dtype);
    return (target){sums, sums + out->count, TK_F32, rest};
}

static void end_scatter(tk_queue *q, const rt_launch *launch, const target *to) {
    const rt_arg *out = &launch->out[0];
    if (to->data != out->data)
        launch->kernels->cast(q, out->data, to->data, out->count, out->dtype, TK_F32);
}

static void run_scatter_elements(tk_queue *q, const rt_launch *launch) {
    const axis_params *p = launch->params;
    const rt_arg *updates = &launch->in[2], *out = &launch->out[0];
    target to = begin_scatter(q, launch, p->reduction);
    launch->kernels->scatter_elements(q, to.data, indices_of(&launch->in[1]), to.updates, out->rank, updates->dims,
                                      out->dims, p->at, p->reduction, to.dtype, to.workspace);
    end_scatter(q, launch, &to);
}

tc_status rt_launch_scatter_elements(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *indices = &launch->in[1], *updates = &launch->in[2], *out = &launch->out[0];
    axis_params *p;
    TC_TRY(check_indices(launcher, node, indices));
    TC_TRY(split_at_axis(launcher, node, out, 0, &p));
    TC_TRY(read_reduction(launcher, node, launch, &p->reduction));
    TC_TRY(rt_expect(launcher, node,
                     same_shape(&launch->in[0], out) && same_shape(indices, updates) && updates->dtype == out->dtype &&
                         fits_but_axis(indices, out, p->at)));
    launch->params = p;
    launch->workspace_bytes = scatter_workspace(launcher, launch, p->reduction, updates->count);
    launch->run = run_scatter_elements;
    launch->inplace[0] = 1;
    return TC_OK;
}

/* --- by tuples -------------------------------------------------------------------------------- */

typedef struct nd_params {
    tk_nd nd;
    tk_scatter_kind reduction;
} nd_params;

/* The data seen as [batch, the `depth` dims that a tuple points into, inner]. */
static tc_status read_nd(rt_launcher *launcher, const tc_node *node, const rt_arg *data, const rt_arg *indices,
                         int64_t batch_dims, nd_params **out) {
    TC_TRY(check_indices(launcher, node, indices));
    TC_TRY(rt_expect(launcher, node,
                     indices->rank >= 1 && batch_dims >= 0 && batch_dims < indices->rank && batch_dims <= data->rank));
    int batch = (int)batch_dims;
    int64_t depth = indices->dims[indices->rank - 1];
    TC_TRY(rt_expect(launcher, node, depth <= data->rank - batch));
    for (int d = 0; d < batch; d++)
        TC_TRY(rt_expect(launcher, node, data->dims[d] == indices->dims[d]));
    nd_params *p = RT_PARAMS(launcher, nd_params);
    p->nd = (tk_nd){rt_product(data, 0, batch), rt_product(indices, batch, indices->rank - 1),
                    rt_product(data, batch + (int)depth, data->rank), (int)depth, data->dims + batch};
    *out = p;
    return TC_OK;
}

static void run_gather_nd(tk_queue *q, const rt_launch *launch) {
    const nd_params *p = launch->params;
    launch->kernels->gather_nd(q, launch->out[0].data, launch->in[0].data, indices_of(&launch->in[1]), &p->nd,
                               tk_size(launch->in[0].dtype));
}

tc_status rt_launch_gather_nd(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    nd_params *p;
    TC_TRY(read_nd(launcher, node, &launch->in[0], &launch->in[1], tc_attr_int(node, "batch_dims", 0), &p));
    TC_TRY(rt_expect(launcher, node, launch->out[0].count == p->nd.batch * p->nd.n * p->nd.inner));
    launch->params = p;
    launch->run = run_gather_nd;
    return TC_OK;
}

static void run_scatter_nd(tk_queue *q, const rt_launch *launch) {
    const nd_params *p = launch->params;
    target to = begin_scatter(q, launch, p->reduction);
    launch->kernels->scatter_nd(q, to.data, indices_of(&launch->in[1]), to.updates, &p->nd, p->reduction, to.dtype,
                                to.workspace);
    end_scatter(q, launch, &to);
}

tc_status rt_launch_scatter_nd(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    nd_params *p;
    TC_TRY(read_nd(launcher, node, &launch->in[0], &launch->in[1], 0, &p));
    TC_TRY(read_reduction(launcher, node, launch, &p->reduction));
    TC_TRY(rt_expect(launcher, node,
                     same_shape(&launch->in[0], &launch->out[0]) && launch->in[2].count == p->nd.n * p->nd.inner &&
                         launch->in[2].dtype == launch->out[0].dtype));
    launch->params = p;
    launch->workspace_bytes = scatter_workspace(launcher, launch, p->reduction, p->nd.n);
    launch->run = run_scatter_nd;
    launch->inplace[0] = 1;
    return TC_OK;
}

/* --- caches ----------------------------------------------------------------------------------- */

static void run_tensor_scatter(tk_queue *q, const rt_launch *launch) {
    const rt_arg *starts = rt_in(launch, 2);
    copy_data(q, launch);
    launch->kernels->tensor_scatter(q, launch->out[0].data, launch->in[1].data, starts ? starts->data : NULL,
                                    launch->params, tk_size(launch->out[0].dtype));
}

tc_status rt_launch_tensor_scatter(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *cache = &launch->in[0], *updates = &launch->in[1], *starts = rt_in(launch, 2);
    int axis;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", -2), cache->rank, false, &axis));
    TC_TRY(rt_expect(launcher, node,
                     axis > 0 && fits_but_axis(updates, cache, axis) && fits_but_axis(cache, updates, axis) &&
                         updates->dtype == cache->dtype && same_shape(cache, &launch->out[0])));
    TC_TRY(rt_expect(launcher, node, !starts || (starts->dtype == TK_I64 && starts->count == cache->dims[0])));
    tk_cache_dims *p = RT_PARAMS(launcher, tk_cache_dims);
    *p = (tk_cache_dims){cache->dims[0],
                         rt_product(cache, 1, axis),
                         cache->dims[axis],
                         updates->dims[axis],
                         rt_product(cache, axis + 1, cache->rank),
                         strcmp(tc_attr_string(node, "mode", "linear"), "circular") == 0};
    launch->params = p;
    launch->run = run_tensor_scatter;
    launch->inplace[0] = 1;
    return TC_OK;
}
