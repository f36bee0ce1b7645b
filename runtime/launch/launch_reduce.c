/* launch_reduce.c: Reduce*, ArgMax, ArgMin and CumSum nodes to the kernels of kernels/reduce. */
#include "kernels/reduce/reduce.h"
#include "launch_util.h"
#include <string.h>

static const struct {
    const char *op;
    tk_reduce_op reduce;
} reduce_ops[] = {
    {"ReduceSum", TK_REDUCE_SUM},
    {"ReduceMean", TK_REDUCE_MEAN},
    {"ReduceL1", TK_REDUCE_L1},
    {"ReduceL2", TK_REDUCE_L2},
    {"ReduceSumSquare", TK_REDUCE_SUM_SQUARE},
    {"ReduceLogSum", TK_REDUCE_LOG_SUM},
    {"ReduceLogSumExp", TK_REDUCE_LOG_SUM_EXP},
    {"ReduceProd", TK_REDUCE_PROD},
    {"ReduceMax", TK_REDUCE_MAX},
    {"ReduceMin", TK_REDUCE_MIN},
};

typedef struct reduce_params {
    tk_reduction shape;
    tk_reduce_op op;
} reduce_params;

static void run_reduce(tk_queue *q, const rt_launch *launch) {
    const reduce_params *p = launch->params;
    launch->kernels->reduce(q, launch->out[0].data, launch->in[0].data, &p->shape, p->op, launch->in[0].dtype,
                            launch->workspace);
}

static void run_copy(tk_queue *q, const rt_launch *launch) {
    launch->kernels->copy(q, launch->out[0].data, launch->in[0].data,
                          (size_t)launch->out[0].count * tk_size(launch->out[0].dtype));
}

/* Which axes are reduced: those of operand 1; without any, all of them, or none where the node says so. */
static tc_status read_axes(rt_launcher *launcher, const tc_node *node, const rt_launch *launch, bool *is_reduced,
                           bool *out_none) {
    const int64_t *axes = NULL;
    int64_t count = 0;
    int rank = launch->in[0].rank;
    if (rt_in(launch, 1))
        TC_TRY(rt_known_ints(launcher, node, 1, &axes, &count));
    bool noop = tc_attr_int(node, "noop_with_empty_axes", 0) != 0;
    *out_none = count == 0 && noop;
    for (int i = 0; i < rank; i++)
        is_reduced[i] = count == 0 && !noop;
    for (int64_t i = 0; i < count; i++) {
        int axis = 0;
        TC_TRY(rt_axis(launcher, node, axes[i], rank, false, &axis));
        is_reduced[axis] = true;
    }
    return TC_OK;
}

tc_status rt_launch_reduce(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    reduce_params *p = RT_PARAMS(launcher, reduce_params);
    const rt_arg *inp = &launch->in[0];
    bool is_reduced[TK_MAX_RANK], none = false;
    size_t i = 0;
    while (i < TC_COUNT(reduce_ops) - 1 && strcmp(reduce_ops[i].op, node->op_type) != 0)
        i++;
    p->op = reduce_ops[i].reduce;
    if (!tk_reduce_has(p->op, inp->dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(read_axes(launcher, node, launch, is_reduced, &none));
    tk_reduction_init(&p->shape, inp->rank, inp->dims, is_reduced);
    launch->workspace_bytes = launcher->kernels->reduce_workspace(&p->shape);
    launch->params = p;
    launch->run = none ? run_copy : run_reduce;
    return TC_OK;
}

typedef struct along_params {
    int64_t outer, n, inner;
    bool first, second;
} along_params;

static void along(const rt_arg *inp, int axis, along_params *p) {
    p->outer = rt_product(inp, 0, axis);
    p->n = inp->dims[axis];
    p->inner = rt_product(inp, axis + 1, inp->rank);
}

static void run_arg(tk_queue *q, const rt_launch *launch) {
    const along_params *p = launch->params;
    launch->kernels->arg(q, launch->out[0].data, launch->in[0].data, p->outer, p->n, p->inner, p->first, p->second,
                         launch->in[0].dtype);
}

tc_status rt_launch_arg(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    along_params *p = RT_PARAMS(launcher, along_params);
    int axis = 0;
    if (!tk_arg_has(launch->in[0].dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_axis(launcher, node, tc_attr_int(node, "axis", 0), launch->in[0].rank, false, &axis));
    along(&launch->in[0], axis, p);
    if (p->n == 0 && launch->out[0].count > 0)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "axis %d has no elements to choose from", axis);
    p->first = strcmp(node->op_type, "ArgMax") == 0;
    p->second = tc_attr_int(node, "select_last_index", 0) != 0;
    launch->params = p;
    launch->run = run_arg;
    return TC_OK;
}

static void run_cumsum(tk_queue *q, const rt_launch *launch) {
    const along_params *p = launch->params;
    launch->kernels->cumsum(q, launch->out[0].data, launch->in[0].data, p->outer, p->n, p->inner, p->first, p->second,
                            launch->in[0].dtype, launch->workspace);
}

tc_status rt_launch_cumsum(rt_launcher *launcher, const tc_node *node, rt_launch *launch) {
    along_params *p = RT_PARAMS(launcher, along_params);
    const int64_t *axes = NULL;
    int64_t count = 0;
    int axis = 0;
    if (!tk_cumsum_has(launch->in[0].dtype))
        return rt_no_kernel(launcher, node, launch);
    TC_TRY(rt_known_ints(launcher, node, 1, &axes, &count));
    if (count != 1)
        return tc_error(launcher->ctx, TC_BAD_INPUT, node, "operand 1, the axis, has %lld elements, not one",
                        (long long)count);
    TC_TRY(rt_axis(launcher, node, axes[0], launch->in[0].rank, false, &axis));
    along(&launch->in[0], axis, p);
    p->first = tc_attr_int(node, "exclusive", 0) != 0;
    p->second = tc_attr_int(node, "reverse", 0) != 0;
    launch->params = p;
    launch->workspace_bytes = launcher->kernels->cumsum_workspace(p->outer * p->inner, p->n, launch->in[0].dtype);
    launch->run = run_cumsum;
    return TC_OK;
}
