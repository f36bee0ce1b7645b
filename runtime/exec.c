/* exec.c: one loop over launches. Nothing is allocated here but the words of an error. */
#include "plan.h"
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A float operand of one element: a ratio, say. */
static bool float_scalar(const rt_arg *arg, double *value) {
    if ((arg->dtype != TK_F32 && arg->dtype != TK_F64) || arg->count != 1)
        return false;
    *value = arg->dtype == TK_F64 ? *(const double *)arg->data : (double)*(const float *)arg->data;
    return true;
}

static bool int_range(const rt_arg *arg, int64_t *low, int64_t *high) {
    if ((arg->dtype != TK_I64 && arg->dtype != TK_I32) || arg->count == 0)
        return false;
    for (int64_t i = 0; i < arg->count; i++) {
        int64_t v = arg->dtype == TK_I64 ? ((const int64_t *)arg->data)[i] : ((const int32_t *)arg->data)[i];
        if (i == 0 || v < *low)
            *low = v;
        if (i == 0 || v > *high)
            *high = v;
    }
    return true;
}

/* A kernel knows that an operand is wrong, not what it is called. The range of each integer operand shows which index
 * it was, the value of a scalar whether it was that. */
static tc_status explain(tc_ctx *ctx, const rt_launch *launch, tk_status status) {
    const tc_node *node = launch->node;
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
        if (int_range(arg, &low, &high))
            tc_note(ctx, node, "operand %u '%s' is %s with values from %lld to %lld", i, tc_quote(ctx, value->name),
                    type, (long long)low, (long long)high);
        else if (float_scalar(arg, &scalar))
            tc_note(ctx, node, "operand %u '%s' is %s with the value %g", i, tc_quote(ctx, value->name), type, scalar);
        else
            tc_note(ctx, node, "operand %u '%s' is %s", i, tc_quote(ctx, value->name), type);
    }
    return TC_BAD_INPUT;
}

tc_status rt_execute(tc_ctx *ctx, tk_queue *q, const rt_plan *plan, rt_event_fn event, void *user) {
    double began = event ? now() : 0;
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const rt_launch *launch = &plan->launches[i];
        if (launch->view_of >= 0 || launch->constant)
            continue;
        double start = event ? now() : 0;
        uint32_t at;
        tk_queue_begin(q, i);
        launch->run(q, launch);
        tk_status status = tk_queue_take_fault(q, &at);
        if (status != TK_OK)
            return explain(ctx, &plan->launches[at], status);
        if (event)
            event(user, launch, start - began, now() - start);
    }
    return TC_OK;
}
