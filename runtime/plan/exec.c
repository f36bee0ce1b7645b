/* exec.c: one loop over launches, or a recording of it. Nothing is allocated here but the words of an error. */
#include "kernels/common/types.h"
#include "plan.h"
#include <math.h>
#include <string.h>
#include <time.h>

static bool runs(const rt_launch *launch) { return launch->view_of < 0 && !launch->constant; }

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

/* The elements of operand `i` when the launch ran, where the host can read them; NULL: other launches have run since,
 * and may have written over it. */
static const void *operand_bytes(const rt_plan *plan, const rt_launch *launch, uint32_t i) {
    const rt_storage *s = rt_plan_storage(plan, tc_input(launch->node, i));
    if (plan->shared->device->host_memory)
        return launch->in[i].data;
    return s->home == RT_ARENA ? NULL : rt_download(plan, s, launch->in[i].data);
}

/* Training has made more channels unsuitable for taking x-hat from y than the node was compiled for. */
static tc_status tell_sides(tc_ctx *ctx, const tc_node *node) {
    tc_error(ctx, TC_BAD_INPUT, node,
             "the backward pass cannot take x-hat from this result: in more than %lld channels the scale '%s' is 0 or "
             "tiny, or the bias is more than %g times as large",
             (long long)tc_attr_int(node, "capacity", 0), tc_quote(ctx, tc_input(node, 1)->name),
             (double)tc_attr_float(node, "limit", 2));
    tc_hint(ctx, "compile with --layernorm=xhat, which keeps x-hat itself");
    return TC_BAD_INPUT;
}

/* The first element of a float operand that is not finite, and its value; false: all are finite. */
static bool find_not_finite(const rt_arg *arg, const void *data, int64_t *out_at, double *out_value) {
    for (int64_t i = 0; data && tk_is_float(arg->dtype) && i < arg->count; i++) {
        *out_value = tk_get(data, arg->dtype, i);
        *out_at = i;
        if (!isfinite(*out_value))
            return true;
    }
    return false;
}

/* Of an optimizer's operands, its weights stand before their gradients, in the same order. */
static tc_status tell_not_finite(tc_ctx *ctx, const rt_plan *plan, const rt_launch *launch) {
    const tc_node *node = launch->node;
    uint32_t first;
    const uint32_t n = rt_gradient_operands(node, &first);
    const char *gradient = "?", *weight = "?", *what = "no number";
    for (uint32_t i = first; i < first + n; i++) {
        const rt_arg *g = rt_in(launch, i);
        int64_t at;
        double value;
        if (!g || !find_not_finite(g, operand_bytes(plan, launch, i), &at, &value))
            continue;
        gradient = tc_input(node, i)->name;
        weight = tc_input(node, i - n)->name;
        what = tc_arena_printf(ctx->arena, "%g at element %lld of %lld", value, (long long)at, (long long)g->count);
        break;
    }
    tc_error(ctx, TC_NUMERIC, node, "the gradient '%s' of '%s' is not finite: it has %s", tc_quote(ctx, gradient),
             tc_quote(ctx, weight), what);
    tc_hint(ctx, "a smaller learning rate, or clipping, may help; with a loss scale such updates are left out");
    return TC_NUMERIC;
}

/* A kernel knows that an operand is wrong, not its name. The range of each integer operand shows whether an index was
 * wrong, the value of a scalar whether that was. */
tc_status rt_explain(tc_ctx *ctx, const rt_plan *plan, const rt_launch *launch, tk_status status) {
    const rt_device *device = plan->shared->device;
    const tc_node *node = launch ? launch->node : NULL;
    if (status == TK_DEVICE_FAILED && device->peer_lost && device->peer_lost(plan->shared->queue))
        return rt_tell_deserted(ctx, plan);
    if (status == TK_DEVICE_FAILED)
        return tc_error(ctx, TC_BUG, node, "device '%s' failed: %s", device->name,
                        device->failure(plan->shared->queue));
    if (status == TK_NO_MEMORY || !launch)
        return tc_error(ctx, TC_LIMIT, node, "out of memory");
    if (status == TK_MANY_SIDES)
        return tell_sides(ctx, node);
    if (status == TK_NOT_FINITE)
        return tell_not_finite(ctx, plan, launch);
    tc_error(ctx, TC_BAD_INPUT, node,
             status == TK_BAD_INDEX ? "an index is out of range" : "an operand has a value that is not allowed");
    if (status == TK_BAD_INDEX)
        tc_hint(ctx, "%s",
                strstr(node->op_type, "CrossEntropy") || strstr(node->op_type, "LogLikelihood")
                    ? "labels go from 0 to the number of classes - 1, but for the one that is ignored"
                    : "indices go up to the size of the axis that they pick from - 1");
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

/* --- the host -------------------------------------------------------------------------------- */

/* Kernels have run when their call returns: a fault ends the run there, while operands are as they were. */
static tc_status run_on_host(tc_ctx *ctx, const rt_plan *plan, rt_event_fn event, void *user) {
    const rt_device *device = plan->shared->device;
    const rt_collective *collective = plan->shared->collective;
    tk_queue *q = plan->shared->queue;
    double began = event ? now() : 0;
    const rt_checks *checks = plan->checks;
    uint32_t at = 0, averages = 0;
    if (checks)
        rt_begin_checks(plan);
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const rt_launch *launch = &plan->launches[i];
        if (checks)
            TC_TRY(rt_check_step(ctx, plan, i));
        if (!rt_queue_averages(plan, i, &averages))
            return rt_tell_deserted(ctx, plan);
        if (!runs(launch))
            continue;
        if (collective)
            collective->alive(collective->user, tc_node_label(launch->node));
        double start = event ? now() : 0;
        tk_queue_begin(q, i);
        launch->run(q, launch);
        tk_status status = device->wait(q, &at);
        if (status != TK_OK)
            return rt_explain(ctx, plan, &plan->launches[at], status);
        if (event)
            event(user, launch, start - began, now() - start);
    }
    if (checks)
        TC_TRY(rt_check_step(ctx, plan, plan->n_launches));
    return rt_queue_averages(plan, plan->n_launches, &averages) ? TC_OK : rt_tell_deserted(ctx, plan);
}

/* --- devices with memory of their own: waited for once, at the end ------------------------------- */

static void queue_all(const rt_plan *plan, bool marks) {
    const rt_device *device = plan->shared->device;
    tk_queue *q = plan->shared->queue;
    uint32_t moment = 0, averages = 0;
    if (marks)
        device->mark(q, moment++);
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        const rt_launch *launch = &plan->launches[i];
        (void)rt_queue_averages(plan, i, &averages);
        if (!runs(launch))
            continue;
        tk_queue_begin(q, i);
        if (device->begin)
            device->begin(q, plan, i);
        launch->run(q, launch);
        if (marks)
            device->mark(q, moment++);
    }
    (void)rt_queue_averages(plan, plan->n_launches, &averages);
}

/* A number that differs where an address differs: of those that change from run to run. */
static uint64_t where_all_is(const rt_plan *plan) {
    uint64_t sum = (uint64_t)(uintptr_t)plan->memory;
    for (size_t i = 0; i < plan->n_input_places; i++)
        sum = (sum ^ (uint64_t)(uintptr_t)plan->places[i].arg->data) * UINT64_C(0x9E3779B97F4A7C15);
    return sum;
}

static void forget(rt_plan *plan, rt_recording *recording) {
    if (recording->work)
        plan->shared->device->forget(plan->shared->queue, recording->work);
    *recording = (rt_recording){0};
}

void rt_forget_recordings(rt_plan *plan) {
    for (int i = 0; i < RT_RECORDINGS; i++)
        forget(plan, &plan->recordings[i]);
}

/* The recording for the current addresses; it replaces the older one. NULL: it cannot be made, and the wait says
 * why. */
static void *recording_of(rt_plan *plan) {
    const rt_device *device = plan->shared->device;
    tk_queue *q = plan->shared->queue;
    uint64_t where = where_all_is(plan);
    for (int i = 0; i < RT_RECORDINGS; i++)
        if (plan->recordings[i].work && plan->recordings[i].where == where)
            return plan->recordings[i].work;
    forget(plan, &plan->recordings[RT_RECORDINGS - 1]);
    memmove(plan->recordings + 1, plan->recordings, (RT_RECORDINGS - 1) * sizeof *plan->recordings);
    plan->recordings[0] = (rt_recording){.where = where};
    if (!device->record(q))
        return NULL;
    queue_all(plan, false);
    return plan->recordings[0].work = device->recorded(q);
}

static void tell_events(const rt_plan *plan, rt_event_fn event, void *user) {
    const rt_device *device = plan->shared->device;
    tk_queue *q = plan->shared->queue;
    uint32_t moment = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        if (!runs(&plan->launches[i]))
            continue;
        double start = device->marked(q, moment++);
        event(user, &plan->launches[i], start, device->marked(q, moment) - start);
    }
}

/* The first run goes launch by launch: kernels then choose by device, for example the algorithm of a product. From the
 * second on, a run is one recording. */
static tc_status run_on_device(tc_ctx *ctx, rt_plan *plan, rt_event_fn event, void *user) {
    const rt_device *device = plan->shared->device;
    tk_queue *q = plan->shared->queue;
    uint32_t at = 0;
    bool marks = event && device->mark;
    void *recording = plan->ran && !marks && device->record ? recording_of(plan) : NULL;
    rt_upload_inputs(plan);
    if (recording)
        device->replay(q, recording);
    else
        queue_all(plan, marks);
    tk_status status = device->wait(q, &at);
    plan->ran = status == TK_OK;
    if (status != TK_OK)
        return rt_explain(ctx, plan, at < plan->n_launches ? &plan->launches[at] : NULL, status);
    if (marks)
        tell_events(plan, event, user);
    return TC_OK;
}

tc_status rt_execute(tc_ctx *ctx, rt_plan *plan, rt_event_fn event, void *user) {
    if (!plan->shared->device->host_memory)
        return run_on_device(ctx, plan, event, user);
    tc_status status = run_on_host(ctx, plan, event, user);
    if (plan->shared->collective)
        plan->shared->collective->alive(plan->shared->collective->user, NULL);
    return status;
}
