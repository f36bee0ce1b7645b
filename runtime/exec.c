/* exec.c: one loop over launches. Nothing is allocated here but the words of an error. */
#include "plan.h"
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A float operand of one element: a ratio, say. */
static bool float_scalar(const rt_arg *arg, const void *data, double *value) {
    if ((arg->dtype != TK_F32 && arg->dtype != TK_F64) || arg->count != 1)
        return false;
    *value = arg->dtype == TK_F64 ? *(const double *)data : (double)*(const float *)data;
    return true;
}

static bool int_range(const rt_arg *arg, const void *data, int64_t *low, int64_t *high) {
    if ((arg->dtype != TK_I64 && arg->dtype != TK_I32) || arg->count == 0)
        return false;
    for (int64_t i = 0; i < arg->count; i++) {
        int64_t v = arg->dtype == TK_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i];
        if (i == 0 || v < *low)
            *low = v;
        if (i == 0 || v > *high)
            *high = v;
    }
    return true;
}

/* What operand `i` held when the launch ran, where the host can read it; NULL: other launches have run since, and may
 * have written over it. */
static const void *operand_bytes(const rt_plan *plan, const rt_launch *launch, uint32_t i) {
    const rt_storage *s = rt_plan_storage(plan, tc_input(launch->node, i));
    if (plan->shared->device->host_memory)
        return launch->in[i].data;
    return s->home == RT_ARENA ? NULL : rt_download(plan, s, launch->in[i].data);
}

/* A kernel knows that an operand is wrong, not what it is called. The range of each integer operand shows whether an
 * index was wrong, the value of a scalar whether that was. */
static tc_status explain(tc_ctx *ctx, const rt_plan *plan, const rt_launch *launch, tk_status status) {
    const tc_node *node = launch->node;
    if (status == TK_NO_MEMORY)
        return tc_error(ctx, TC_LIMIT, node, "out of memory");
    tc_error(ctx, TC_BAD_INPUT, node,
             status == TK_BAD_INDEX ? "an index is out of range" : "an operand has a value that is not allowed");
    for (uint32_t i = 0; i < launch->n_in; i++) {
        const rt_arg *arg = rt_in(launch, i);
        int64_t low = 0, high = 0;
        double scalar = 0;
        if (!arg)
            continue;
        const tc_value *value = tc_input(node, i);
        const char *type = tc_type_text(ctx->arena, value->type);
        const void *data = operand_bytes(plan, launch, i);
        if (data && int_range(arg, data, &low, &high))
            tc_note(ctx, node, "operand %u '%s' is %s with values from %lld to %lld", i, tc_quote(ctx, value->name),
                    type, (long long)low, (long long)high);
        else if (data && float_scalar(arg, data, &scalar))
            tc_note(ctx, node, "operand %u '%s' is %s with the value %g", i, tc_quote(ctx, value->name), type, scalar);
        else
            tc_note(ctx, node, "operand %u '%s' is %s", i, tc_quote(ctx, value->name), type);
    }
    return TC_BAD_INPUT;
}

/* The host's own kernels have run when their call returns: a fault ends the run there, while operands are as they were.
 * A device's queue is waited for once, at the end. */
tc_status rt_execute(tc_ctx *ctx, const rt_plan *plan, rt_event_fn event, void *user) {
    const rt_device *device = plan->shared->device;
    tk_queue *q = plan->shared->queue;
    double began = event ? now() : 0;
    const rt_checks *checks = plan->checks;
    tk_status status = TK_OK;
    uint32_t at = 0;
    rt_upload_inputs(plan);
    if (checks)
        rt_begin_checks(plan);
    for (uint32_t i = 0; i < plan->n_launches && status == TK_OK; i++) {
        const rt_launch *launch = &plan->launches[i];
        if (checks)
            TC_TRY(rt_check_step(ctx, plan, i));
        if (launch->view_of >= 0 || launch->constant)
            continue;
        double start = event ? now() : 0;
        tk_queue_begin(q, i);
        launch->run(q, launch);
        if (device->host_memory)
            status = device->wait(q, &at);
        if (event && status == TK_OK)
            event(user, launch, start - began, now() - start);
    }
    if (!device->host_memory)
        status = device->wait(q, &at);
    if (status != TK_OK)
        return explain(ctx, plan, &plan->launches[at], status);
    return checks ? rt_check_step(ctx, plan, plan->n_launches) : TC_OK;
}
