/* average.c: values that ranks average (outputs and gradients of optimizers) between the launches of a run. In the
 * order in which launches make them, they are gathered to buckets. The device, or the program's collective, reduces
 * these beside the launches that follow. Readers of an averaged tensor, and the end of the run, wait for its bucket:
 * they read the mean, which replaces the tensor. */
#include "compiler/memory/memory.h"
#include "plan.h"
#include <stdio.h>
#include <string.h>

/* Reduced at once: large enough to keep links busy, small enough that most of it is sent before the backward pass ends.
 * PyTorch's DistributedDataParallel begins with the same number; from 10 to 50 MB its authors found little difference
 * (Li et al., "PyTorch Distributed", VLDB 2020, section 5). */
size_t rt_bucket_bytes = (size_t)25 << 20;

#define NONE UINT32_MAX

/* A tensor that is averaged. */
typedef struct piece {
    const rt_storage *storage;
    uint32_t root;     /* storage that its bytes are in, */
    size_t first;      /* from this one on */
    uint32_t bucket;   /* NONE: not made yet */
    uint32_t neighbor; /* next piece in the same root, or NONE */
} piece;

/* An event before a launch, or, where that is their number, after the last. */
typedef struct moment {
    uint32_t launch, bucket;
    bool waits; /* the launch waits for the bucket; else the bucket's reduction begins */
} moment;

struct rt_averaging {
    piece *pieces; /* [n_pieces] in the order in which they are made */
    rt_piece *places;
    uint32_t n_pieces;
    uint32_t *begins; /* of each bucket: its first piece; ends of the last one */
    moment *moments;
    uint32_t n_moments;
};

/* --- which tensors ---------------------------------------------------------------------------- */

static void list(rt_plan *plan, const tc_value *value, size_t *cap) {
    plan->averaged =
        tc_arena_grow(plan->launcher.arena, plan->averaged, sizeof *plan->averaged, cap, (size_t)plan->n_averaged + 1);
    plan->averaged[plan->n_averaged++] = value;
}

/* A gradient that two optimizers take is listed twice, and averaged once: its storage is. */
void rt_list_averaged(rt_plan *plan) {
    const rt_shared *shared = plan->shared;
    size_t cap = 0;
    for (uint32_t i = 0; i < shared->n_averaged; i++)
        list(plan, plan->graph->outputs[shared->averaged[i]], &cap);
    if (!shared->average_updates)
        return;
    TC_FOR_NODES(node, plan->graph) {
        uint32_t first, n = rt_gradient_operands(node, &first);
        for (uint32_t i = first; i < first + n; i++)
            if (tc_input(node, i))
                list(plan, tc_input(node, i), &cap);
    }
}

tc_map *rt_averaged_values(const rt_plan *plan) {
    tc_map *values = plan->n_averaged > 0 ? tc_map_create(plan->launcher.arena) : NULL;
    for (uint32_t i = 0; i < plan->n_averaged; i++) {
        const tc_value *value = plan->averaged[i];
        tc_map_set_ptr(values, value, values);
        while (value->producer && tc_operand_read(value->producer, 0) == TC_READ_VIEW && tc_input(value->producer, 0)) {
            value = tc_input(value->producer, 0);
            tc_map_set_ptr(values, value, values);
        }
    }
    return values;
}

/* The storage that a launch writes the value's elements to; NULL: none does, in a run. */
static rt_storage *written(const rt_plan *plan, const tc_value *value) {
    for (;;) {
        rt_storage *s = rt_plan_storage(plan, value);
        const rt_launch *launch = s && value->producer ? &plan->launches[s->launch] : NULL;
        if (!launch || launch->node != value->producer || launch->constant)
            return NULL;
        if (launch->view_of < 0 || value != launch->node->outputs[0])
            return s;
        value = tc_input(launch->node, (uint32_t)launch->view_of);
    }
}

tc_status rt_find_averages(tc_ctx *ctx, rt_plan *plan) {
    for (uint32_t i = 0; i < plan->n_averaged; i++) {
        const tc_value *value = plan->averaged[i];
        const char *what = value->n_graph_outputs > 0 ? "output" : "gradient", *name = tc_quote(ctx, value->name);
        rt_storage *made = written(plan, value);
        if (!tc_dtype_is_float(value->type->dtype))
            return tc_error(ctx, TC_UNSUPPORTED, NULL, "%s '%s' is %s: only floats are averaged", what, name,
                            tc_type_text(ctx->arena, value->type));
        if (!made)
            return tc_error(ctx, TC_UNSUPPORTED, NULL, "%s '%s' cannot be averaged: no node computes it in a run", what,
                            name);
        made->averaged = true;
    }
    return TC_OK;
}

/* --- when ------------------------------------------------------------------------------------- */

typedef struct scheduler {
    rt_plan *plan;
    rt_averaging *a;
    uint32_t *pieces_in; /* [n_storages] of roots: the first piece there */
    uint32_t n_made, n_closed, n_awaited;
    size_t open_bytes; /* of the next bucket */
    size_t cap_begins, cap_moments;
} scheduler;

static void add_moment(scheduler *x, moment m) {
    rt_averaging *a = x->a;
    a->moments = tc_arena_grow(x->plan->launcher.arena, a->moments, sizeof *a->moments, &x->cap_moments,
                               (size_t)a->n_moments + 1);
    a->moments[a->n_moments++] = m;
}

/* Closes the open bucket. */
static void close_bucket(scheduler *x, uint32_t launch) {
    rt_averaging *a = x->a;
    if (a->begins[x->n_closed] == x->n_made)
        return;
    add_moment(x, (moment){launch, x->n_closed++, false});
    a->begins =
        tc_arena_grow(x->plan->launcher.arena, a->begins, sizeof *a->begins, &x->cap_begins, (size_t)x->n_closed + 1);
    a->begins[x->n_closed] = x->n_made;
    x->open_bytes = 0;
}

/* Buckets are reduced one after another: waiting for one is waiting for those before. */
static void await(scheduler *x, uint32_t launch, uint32_t bucket) {
    if (bucket == x->n_closed)
        close_bucket(x, launch);
    if (bucket < x->n_awaited)
        return;
    add_moment(x, (moment){launch, bucket, true});
    x->n_awaited = bucket + 1;
}

static size_t first_byte(const rt_plan *plan, const rt_storage *s) {
    size_t at = 0;
    for (; &plan->storages[s->root] != s; s = &plan->storages[s->root])
        at += s->at;
    return at;
}

/* A launch reads or writes these bytes. */
static void touch(scheduler *x, uint32_t launch, const rt_storage *s) {
    const rt_storage *root = rt_storage_root(x->plan, s);
    size_t first = first_byte(x->plan, s);
    for (uint32_t i = x->pieces_in[root - x->plan->storages]; i != NONE; i = x->a->pieces[i].neighbor) {
        const piece *p = &x->a->pieces[i];
        if (p->bucket != NONE && first < p->first + p->storage->bytes && p->first < first + s->bytes)
            await(x, launch, p->bucket);
    }
}

static void touch_all(scheduler *x, uint32_t at) {
    const rt_launch *launch = &x->plan->launches[at];
    for (uint32_t k = 0; k < launch->n_in; k++)
        if (rt_in(launch, k) && tc_operand_read(launch->node, k) != TC_READ_SHAPE)
            touch(x, at, rt_plan_storage(x->plan, tc_input(launch->node, k)));
    for (uint32_t k = 0; k < launch->n_out; k++)
        if (rt_out(launch, k))
            touch(x, at, rt_plan_storage(x->plan, launch->node->outputs[k]));
}

static void add_made(scheduler *x, uint32_t launch) {
    for (; x->n_made < x->a->n_pieces && x->a->pieces[x->n_made].storage->launch == launch; x->n_made++) {
        x->a->pieces[x->n_made].bucket = x->n_closed;
        x->open_bytes += x->a->pieces[x->n_made].storage->bytes;
    }
    if (x->open_bytes >= rt_bucket_bytes || x->n_made == x->a->n_pieces)
        close_bucket(x, launch + 1);
}

/* Storages stand in the order of the launches that make them. */
static void list_pieces(scheduler *x) {
    rt_plan *plan = x->plan;
    rt_averaging *a = x->a;
    x->pieces_in = TC_NEW_ARRAY(plan->launcher.arena, uint32_t, (size_t)plan->n_storages + 1);
    for (uint32_t i = 0; i < plan->n_storages; i++) {
        x->pieces_in[i] = NONE;
        a->n_pieces += plan->storages[i].averaged && plan->storages[i].bytes > 0;
    }
    a->pieces = TC_NEW_ARRAY(plan->launcher.arena, piece, (size_t)a->n_pieces + 1);
    a->places = TC_NEW_ARRAY(plan->launcher.arena, rt_piece, (size_t)a->n_pieces + 1);
    for (uint32_t i = 0, n = 0; n < a->n_pieces; i++) {
        const rt_storage *s = &plan->storages[i];
        if (!s->averaged || s->bytes == 0)
            continue;
        uint32_t root = (uint32_t)(rt_storage_root(plan, s) - plan->storages);
        tk_dtype dtype = (tk_dtype)s->value->type->dtype;
        a->places[n] = (rt_piece){NULL, (int64_t)(s->bytes / tk_size(dtype)), dtype};
        a->pieces[n] = (piece){s, root, first_byte(plan, s), NONE, x->pieces_in[root]};
        x->pieces_in[root] = n++;
    }
}

void rt_schedule_averages(rt_plan *plan) {
    if (plan->n_averaged == 0 || plan->shared->ranks < 2)
        return;
    tc_arena *arena = plan->launcher.arena;
    scheduler x = {.plan = plan, .a = TC_NEW(arena, rt_averaging)};
    list_pieces(&x);
    x.a->begins = tc_arena_grow(arena, NULL, sizeof *x.a->begins, &x.cap_begins, 1);
    x.a->begins[0] = 0;
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        if (plan->launches[i].view_of >= 0 || plan->launches[i].constant)
            continue;
        touch_all(&x, i);
        add_made(&x, i);
    }
    if (x.n_closed > 0)
        await(&x, plan->n_launches, x.n_closed - 1);
    plan->averaging = x.a;
}

/* --- before the first run --------------------------------------------------------------------- */

double rt_averages_digest(const rt_plan *plan) {
    const rt_averaging *a = plan->averaging;
    uint64_t hash = 0;
    for (uint32_t i = 0; a && i < a->n_pieces; i++) {
        const char *name = a->pieces[i].storage->value->name;
        int64_t facts[] = {a->places[i].count, a->places[i].dtype, a->pieces[i].bucket};
        hash = tc_hash_bytes(facts, sizeof facts, tc_hash_bytes(name, strlen(name), hash));
    }
    return 1 + (double)(hash >> 16);
}

/* --- in a run --------------------------------------------------------------------------------- */

static void begin_bucket(const rt_plan *plan, uint32_t bucket) {
    const rt_shared *shared = plan->shared;
    const rt_averaging *a = plan->averaging;
    uint32_t begin = a->begins[bucket], end = a->begins[bucket + 1];
    for (uint32_t i = begin; i < end; i++)
        a->places[i].memory = rt_plan_address(plan, a->pieces[i].storage->value);
    if (shared->collective)
        shared->collective->average(shared->collective->user, bucket, a->places + begin, end - begin);
    else
        shared->device->average(shared->queue, bucket, a->places + begin, end - begin);
}

static bool await_bucket(const rt_shared *shared, uint32_t bucket) {
    if (shared->collective)
        return shared->collective->averaged(shared->collective->user, bucket);
    shared->device->averaged(shared->queue, bucket);
    return true;
}

bool rt_queue_averages(const rt_plan *plan, uint32_t launch, uint32_t *at) {
    const rt_averaging *a = plan->averaging;
    bool comes = true;
    for (; comes && a && *at < a->n_moments && a->moments[*at].launch == launch; ++*at) {
        const moment *m = &a->moments[*at];
        if (m->waits)
            comes = await_bucket(plan->shared, m->bucket);
        else
            begin_bucket(plan, m->bucket);
    }
    return comes;
}

tc_status rt_tell_deserted(tc_ctx *ctx, const rt_plan *plan) {
    const rt_shared *shared = plan->shared;
    char others[32] = "";
    if (plan->n_averaged > 1)
        snprintf(others, sizeof others, " and of %u more", plan->n_averaged - 1);
    tc_error(ctx, TC_IO, NULL, "rank %d of %d: the mean of '%s'%s did not come: %s", shared->rank, shared->ranks,
             plan->n_averaged > 0 ? tc_quote(ctx, plan->averaged[0]->name) : "", others,
             shared->collective ? shared->collective->failure(shared->collective->user)
                                : shared->device->failure(shared->queue));
    tc_hint(ctx,
            "another rank has failed, runs less often or is slow: it may have said why; see docs/howto/processes.md");
    return TC_IO;
}
