/* launch_create.c: nodes whose results are made from shapes, attributes or a few numbers, to kernels/create. Where a
 * result's shape depends on values (Range, NonZero, Compress), the plan was made for those values, and kernels check
 * that the count still holds. */
#include "kernels/create/create.h"
#include "kernels/movement/cast.h"
#include "kernels/movement/movement.h"
#include "kernels/queue.h"
#include "launch_util.h"
#include <string.h>

/* Constants of numbers are operands, never launches: a Constant that comes here holds no numbers. */
tc_status rt_launch_constant(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    (void)launch;
    return tc_error(launcher->ctx, TC_UNSUPPORTED, node, "the runtime has no constants of this kind");
}

/* --- Shape and Size --------------------------------------------------------------------------- */

tc_status rt_launch_shape(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    int64_t rank = launch->in[0].rank, first = tc_attr_int(node, "start", 0);
    first += first < 0 ? rank : 0;
    first = first < 0 ? 0 : first > rank ? rank : first;
    TC_TRY(rt_expect(launcher, node, launch->out[0].dtype == TK_I64 && launch->out[0].count <= rank - first));
    launch->constant = launch->in[0].dims + first;
    return TC_OK;
}

tc_status rt_launch_size(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    launch->constant = &launch->in[0].count;
    return rt_expect(launcher, node, launch->out[0].dtype == TK_I64 && launch->out[0].count == 1);
}

/* --- filled results --------------------------------------------------------------------------- */

static void run_fill(tk_queue *q, const rt_launch *launch) {
    launch->kernels->fill(q, launch->out[0].data, launch->params, launch->out[0].count, tk_size(launch->out[0].dtype));
}

tc_status rt_launch_constant_of_shape(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const tc_attr *attr = tc_attr_find(node, "value");
    uint64_t *value = RT_PARAMS(launcher, uint64_t);
    if (attr && attr->kind == TC_ATTR_TENSOR) {
        TC_TRY(rt_expect(launcher, node,
                         attr->t->count == 1 && attr->t->data && (int)attr->t->dtype == (int)launch->out[0].dtype));
        memcpy(value, attr->t->data, tk_size(launch->out[0].dtype));
    }
    launch->params = value;
    launch->run = run_fill;
    return TC_OK;
}

static void run_range(tk_queue *q, const rt_launch *launch) {
    launch->kernels->range(q, launch->out[0].data, launch->in[0].data, launch->in[2].data, launch->out[0].count,
                           launch->out[0].dtype);
}

tc_status rt_launch_range(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    TC_TRY(rt_expect(launcher, node,
                     launch->in[0].count == 1 && launch->in[2].count == 1 &&
                         launch->in[0].dtype == launch->out[0].dtype && launch->in[2].dtype == launch->out[0].dtype));
    launch->run = run_range;
    return TC_OK;
}

typedef struct eye_params {
    uint64_t one;
    int64_t k;
} eye_params;

static void run_eye(tk_queue *q, const rt_launch *launch) {
    const eye_params *p = launch->params;
    const rt_arg *out = &launch->out[0];
    launch->kernels->eye(q, out->data, &p->one, out->dims[0], out->dims[1], p->k, tk_size(out->dtype));
}

tc_status rt_launch_eye_like(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    eye_params *p = RT_PARAMS(launcher, eye_params);
    static const int64_t one = 1;
    TC_TRY(rt_expect(launcher, node, launch->out[0].rank == 2));
    tk_cast(tk_queue_serial(), &p->one, &one, 1, launch->out[0].dtype, TK_I64);
    p->k = tc_attr_int(node, "k", 0);
    launch->params = p;
    launch->run = run_eye;
    return TC_OK;
}

typedef struct one_hot_params {
    int64_t outer, depth, inner;
} one_hot_params;

static void run_one_hot(tk_queue *q, const rt_launch *launch) {
    const one_hot_params *p = launch->params;
    const rt_arg *indices = &launch->in[0], *values = &launch->in[2];
    launch->kernels->one_hot(q, launch->out[0].data, values->data, indices->data, indices->dtype, p->outer, p->depth,
                             p->inner, tk_size(values->dtype));
}

tc_status rt_launch_one_hot(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *out = &launch->out[0], *values = &launch->in[2];
    one_hot_params *p = RT_PARAMS(launcher, one_hot_params);
    int axis;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", -1), out->rank, false, &axis));
    *p = (one_hot_params){rt_product(out, 0, axis), out->dims[axis], rt_product(out, axis + 1, out->rank)};
    TC_TRY(rt_expect(launcher, node,
                     launch->in[0].count == p->outer * p->inner && values->count == 2 && values->dtype == out->dtype));
    launch->params = p;
    launch->run = run_one_hot;
    return TC_OK;
}

/* --- results chosen by value ------------------------------------------------------------------ */

static void run_nonzero(tk_queue *q, const rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    launch->kernels->nonzero(q, out->data, out->dims[1], inp->data, inp->dtype, inp->rank, inp->dims,
                             launch->workspace);
}

tc_status rt_launch_nonzero(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *out = &launch->out[0];
    TC_TRY(rt_expect(launcher, node, out->dtype == TK_I64 && out->rank == 2 && out->dims[0] == launch->in[0].rank));
    launch->workspace_bytes = launcher->kernels->nonzero_workspace(launch->in[0].count);
    launch->run = run_nonzero;
    return TC_OK;
}

typedef struct compress_params {
    int64_t outer, axis, inner, n;
} compress_params;

static void run_compress(tk_queue *q, const rt_launch *launch) {
    const compress_params *p = launch->params;
    const rt_arg *inp = &launch->in[0], *condition = &launch->in[1];
    launch->kernels->compress(q, launch->out[0].data, inp->data, condition->data, condition->count, p->outer, p->axis,
                              p->inner, p->n, tk_size(inp->dtype), launch->workspace);
}

tc_status rt_launch_compress(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    compress_params *p = RT_PARAMS(launcher, compress_params);
    *p = (compress_params){1, inp->count, 1, out->count};
    if (tc_attr_find(node, "axis")) {
        int axis;
        TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", 0), inp->rank, false, &axis));
        TC_TRY(rt_expect(launcher, node, out->rank == inp->rank));
        *p = (compress_params){rt_product(inp, 0, axis), inp->dims[axis], rt_product(inp, axis + 1, inp->rank),
                               out->dims[axis]};
    }
    TC_TRY(rt_expect(launcher, node, launch->in[1].dtype == TK_BOOL && out->count == p->outer * p->n * p->inner));
    launch->params = p;
    launch->workspace_bytes = launcher->kernels->compress_workspace(launch->in[1].count, p->n);
    launch->run = run_compress;
    return TC_OK;
}

typedef struct topk_params {
    int64_t outer, axis, inner, k;
    bool largest;
} topk_params;

static void run_topk(tk_queue *q, const rt_launch *launch) {
    const topk_params *p = launch->params;
    const rt_arg *indices = rt_out(launch, 1);
    launch->kernels->topk(q, launch->out[0].data, indices ? indices->data : NULL, launch->in[0].data,
                          launch->in[0].dtype, p->outer, p->axis, p->inner, p->k, p->largest, launch->workspace);
}

tc_status rt_launch_topk(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    const rt_arg *inp = &launch->in[0], *out = &launch->out[0];
    topk_params *p = RT_PARAMS(launcher, topk_params);
    int axis;
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", -1), inp->rank, false, &axis));
    TC_TRY(rt_expect(launcher, node, out->rank == inp->rank && out->dims[axis] <= inp->dims[axis]));
    *p = (topk_params){rt_product(inp, 0, axis), inp->dims[axis], rt_product(inp, axis + 1, inp->rank), out->dims[axis],
                       tc_attr_int(node, "largest", 1) != 0};
    TC_TRY(rt_expect(launcher, node,
                     out->count == p->outer * p->k * p->inner &&
                         (!rt_out(launch, 1) || launch->out[1].count == out->count)));
    launch->params = p;
    launch->run = run_topk;
    launch->workspace_bytes = launcher->kernels->topk_workspace(p->outer, p->axis, p->inner, p->k) + 1;
    return TC_OK;
}
