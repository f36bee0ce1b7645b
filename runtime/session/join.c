/* join.c: sessions that train together, as ranks of a group: calls of the public API, and how a rank leaves. */
#include "session.h"

_Static_assert(sizeof(tempo_group) == RT_GROUP_BYTES, "a group's id");

/* TC_UNSUPPORTED where the session's device cannot be a rank. */
static tc_status check_device(tempo_session *s) {
    if (!s->inputs)
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model could not be opened");
    if (s->shared.device->join)
        return TC_OK;
    tc_error(&s->ctx, TC_UNSUPPORTED, NULL, "device '%s' of this build cannot train together with others",
             s->shared.device->name);
    tc_hint(&s->ctx, "ranks are GPUs, in a build with CUDA and NCCL: docs/howto/processes.md");
    return TC_UNSUPPORTED;
}

static tc_status new_group(tempo_session *s, tempo_group *out_group) {
    TC_TRY(check_device(s));
    return s->shared.device->make_group(&s->ctx, s->shared.queue, (unsigned char *)out_group->bytes);
}

tempo_status tempo_new_group(tempo_session *s, tempo_group *out_group) { RT_CALL(s, new_group(s, out_group)); }

/* Plans made before know of no ranks. */
static tc_status join(tempo_session *s, const tempo_group *group, int rank, int ranks) {
    rt_shared *shared = &s->shared;
    TC_TRY(check_device(s));
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return tc_error(&s->ctx, TC_USAGE, NULL, "rank %d of %d: ranks are numbered from 0", rank, ranks);
    if (shared->ranks > 0 && !shared->has_left)
        return tc_error(&s->ctx, TC_USAGE, NULL, "this session has joined %d ranks already", shared->ranks);
    rt_drop_plans(s);
    TC_TRY(shared->device->join(&s->ctx, shared->queue, (const unsigned char *)group->bytes, rank, ranks,
                                shared->patience));
    shared->ranks = ranks;
    shared->rank = rank;
    shared->agreed = false;
    shared->has_left = false;
    return TC_OK;
}

tempo_status tempo_join(tempo_session *s, const tempo_group *group, int rank, int ranks) {
    RT_CALL(s, join(s, group, rank, ranks));
}

static tc_status average(tempo_session *s, const char *name) {
    rt_shared *shared = &s->shared;
    uint32_t at;
    if (!rt_find_output(s, name, &at))
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model has no output '%s'", tc_quote(&s->ctx, name));
    for (uint32_t i = 0; i < shared->n_averaged; i++)
        if (shared->averaged[i] == at)
            return TC_OK;
    rt_drop_plans(s);
    shared->averaged = tc_arena_grow(s->arena, shared->averaged, sizeof *shared->averaged, &shared->cap_averaged,
                                     (size_t)shared->n_averaged + 1);
    shared->averaged[shared->n_averaged++] = at;
    shared->agreed = false;
    return TC_OK;
}

tempo_status tempo_average(tempo_session *s, const char *output) { RT_CALL(s, average(s, output)); }

uint32_t rt_average_updates(tempo_session *s) {
    uint32_t n = 0, first;
    TC_FOR_NODES(node, s->model->graph)
        n += rt_gradient_operands(node, &first);
    if (s->shared.average_updates)
        return n;
    rt_drop_plans(s);
    s->shared.average_updates = true;
    s->shared.agreed = false;
    return n;
}

tc_status rt_check_ranks(tempo_session *s) {
    if (!s->shared.has_left)
        return TC_OK;
    tc_error(&s->ctx, TC_USAGE, NULL, "this session left its ranks when a run failed");
    tc_hint(&s->ctx, "join a new group with tempo_join, or close it");
    return TC_USAGE;
}

/* Not this rank's number. */
static tc_status compare(tc_ctx *ctx, const rt_shared *shared, const double *numbers) {
    for (int i = 0; i < shared->ranks; i++)
        if (numbers[i] != numbers[shared->rank]) {
            tc_error(ctx, TC_USAGE, NULL, "rank %d of %d averages other values than rank %d", i, shared->ranks,
                     shared->rank);
            tc_hint(ctx, "all ranks run one graph, and average the same outputs (--average, or tempo_average)");
            return TC_USAGE;
        }
    return TC_OK;
}

/* On a device each rank has a place for its number, and zeros in those of others: the mean has all of them, divided
 * alike. */
static tc_status exchange(tempo_session *s, double *numbers, void *memory, size_t bytes) {
    const rt_shared *shared = &s->shared;
    const rt_device *device = shared->device;
    const rt_piece piece = {memory, shared->ranks, TK_F64};
    uint32_t launch;
    if (shared->collective)
        return shared->collective->exchange(shared->collective->user, numbers[shared->rank], numbers)
                   ? compare(&s->ctx, shared, numbers)
                   : rt_tell_deserted(&s->ctx, rt_current_plan(s));
    device->upload(shared->queue, memory, numbers, bytes);
    device->average(shared->queue, 0, &piece, 1);
    device->averaged(shared->queue, 0);
    tk_status status = device->wait(shared->queue, &launch);
    if (status != TK_OK)
        return rt_explain(&s->ctx, rt_current_plan(s), NULL, status);
    device->download(shared->queue, numbers, memory, bytes);
    return compare(&s->ctx, shared, numbers);
}

tc_status rt_agree(tempo_session *s) {
    rt_shared *shared = &s->shared;
    const size_t bytes = (size_t)shared->ranks * sizeof(double);
    if (shared->agreed || shared->ranks < 2)
        return TC_OK;
    double *numbers = TC_NEW_ARRAY(s->ctx.arena, double, (size_t)shared->ranks);
    numbers[shared->rank] = rt_averages_digest(rt_current_plan(s));
    void *memory = shared->device->alloc(shared->queue, bytes);
    if (!memory)
        return tc_error(&s->ctx, TC_LIMIT, NULL, "out of memory");
    tc_status status = exchange(s, numbers, memory, bytes);
    shared->agreed = status == TC_OK;
    if (status != TC_OK)
        rt_part(s); /* or the memory could not be given back */
    shared->device->free(shared->queue, memory);
    return status;
}

void rt_part(tempo_session *s) {
    if (!s->lost) /* else the current plan may be gone */
        rt_forget_all_recordings(s);
    if (s->shared.ranks > 0 && !s->shared.has_left && !s->shared.collective)
        s->shared.device->part(s->shared.queue);
    s->shared.has_left = s->shared.ranks > 0;
}
