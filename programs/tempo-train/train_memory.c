/* train_memory.c: before the first update: compares the memory that a run takes, by its plan, with the memory there is.
 * Where that is not enough, the plans of smaller batches and a memory budget are tried: the refusal then says which
 * would fit. */
#include "train_run.h"
#include "runtime/files/files.h"
#include <inttypes.h>
#include <string.h>

/* Bytes that a run keeps or computes, at one batch. */
typedef struct need {
    uint64_t states, arena, tables;
} need;

static uint64_t total(const need *n) { return n->states + n->arena + n->tables; }

static uint64_t state_bytes(const tempo_session *s) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->shared.n_states; i++) {
        const tc_type *type = s->inputs[s->shared.states[i].input].declared;
        bytes += tc_tensor_bytes(type->dtype, tc_type_elements(type));
    }
    return bytes;
}

/* The shapes of a batch with so many samples. */
static void take_shapes(tempo_session *s, const train_batch *like, int64_t batch) {
    static const uint64_t nothing;
    for (size_t i = 0; i < like->n; i++) {
        rt_input *input = rt_find_input(s, like->arrays[i].name);
        tempo_tensor tensor = like->arrays[i].tensor;
        int64_t dims[TC_MAX_RANK];
        if (!input || input->kept)
            continue;
        for (int axis = 0; axis < tensor.rank; axis++)
            dims[axis] = axis == 0 && tensor.dims[0] == like->samples ? batch : tensor.dims[axis];
        tensor.dims = dims;
        rt_take_shape(s, input, &tensor);
        input->data = &nothing;
    }
}

/* The memory of a run at this batch. False: it is not known. */
static bool foresee(train_run *r, const train_source *from, const train_batch *like, int64_t batch, const char *budget,
                    need *out) {
    tc_summary summary;
    tc_model *model;
    tempo_session *session;
    rt_foreseen seen = {0};
    size_t n_diags = r->ctx->n_diags;
    bool known = train_compile(r->ctx, from, batch, budget, &summary, &model) == TC_OK;
    r->ctx->n_diags = n_diags;
    if (!known)
        return false;
    known = rt_open_model(model, r->o->model, &r->o->session, &r->o->hooks, &session) == TEMPO_OK &&
            rt_keep_as_given(session) == TEMPO_OK;
    if (known) {
        take_shapes(session, like, batch);
        out->states = state_bytes(session);
        known = rt_foresee(session, false, NULL, &seen) == TEMPO_OK && seen.planned;
    }
    tempo_close(session);
    out->arena = seen.arena;
    out->tables = seen.tables;
    return known;
}

/* The largest batch that fits, of those below one that does not; 0: none does. */
static int64_t largest_batch(train_run *r, const train_batch *like, uint64_t usable) {
    int64_t low = 0, high = like->samples;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        need n;
        if (foresee(r, r->from, like, middle, NULL, &n) && total(&n) <= usable)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Plans under a budget need numbers for symbols of shapes: those of this batch, but for the batch itself, as --dim
 * would have them. */
static train_options with_dims(train_run *r, const train_batch *like, const char **out_text) {
    train_options o = *r->o;
    const char **dims = TC_NEW_ARRAY(r->ctx->arena, const char *, o.options.n_dims + like->n * TC_MAX_RANK + 1);
    tc_map *seen = tc_map_create(r->ctx->arena);
    if (o.options.n_dims > 0)
        memcpy(dims, o.options.dims, o.options.n_dims * sizeof *dims);
    *out_text = "";
    for (size_t i = 0; i < like->n; i++) {
        const rt_input *input = rt_find_input(r->graph.session, like->arrays[i].name);
        for (int axis = 1; axis < input->declared->rank; axis++) {
            const tc_dim dim = input->declared->dims[axis];
            const char *name = tc_dim_text(r->ctx->arena, dim);
            if (tc_dim_is_const(dim) || tc_dim_is_unknown(dim) || tc_map_get(seen, name))
                continue;
            tc_map_set(seen, name, dims);
            dims[o.options.n_dims++] =
                tc_arena_printf(r->ctx->arena, "%s=%" PRId64, name, like->arrays[i].tensor.dims[axis]);
            *out_text = tc_arena_printf(r->ctx->arena, "%s --dim %s", *out_text, dims[o.options.n_dims - 1]);
        }
    }
    o.options.dims = dims;
    return o;
}

/* Options under which the batch fits; NULL: none are known. */
static const char *enough_budget(train_run *r, const train_batch *like, const need *n, uint64_t usable) {
    uint64_t others = n->states + n->tables + n->tables / 2;
    uint64_t budget = usable > others ? (usable - others) >> 20 : 0;
    const char *dims, *text = tc_arena_printf(r->ctx->arena, "%" PRIu64 "MiB", budget);
    need less;
    if (budget == 0 || r->o->options.memory_budget)
        return NULL;
    const train_options o = with_dims(r, like, &dims);
    const train_source from = {&o, r->from->file};
    bool fits = foresee(r, &from, like, like->samples, text, &less) && total(&less) <= usable;
    return fits ? tc_arena_printf(r->ctx->arena, "--memory-budget=%s%s", text, dims) : NULL;
}

static tc_status refuse(train_run *r, const train_batch *like, const need *n, uint64_t usable, const char *where) {
    int64_t batch = largest_batch(r, like, usable);
    const char *smaller = batch > 0 ? tc_arena_printf(r->ctx->arena, "--batch=%" PRId64, batch) : NULL;
    const char *less = enough_budget(r, like, n, usable);
    tc_error(r->ctx, TC_LIMIT, NULL,
             "not enough memory: a batch of %" PRId64 " takes %.1f MiB, %.1f of it weights and the optimizer's state, "
             "%.1f results of nodes and %.1f the model as read, but %.1f MiB are usable %s",
             like->samples, (double)total(n) / 0x1p20, (double)n->states / 0x1p20, (double)n->arena / 0x1p20,
             (double)n->tables / 0x1p20, (double)usable / 0x1p20, where);
    if (smaller && less)
        tc_hint(r->ctx, "%s fits (with --accumulate an update still sees as many), and so does %s", smaller, less);
    else if (smaller || less)
        tc_hint(r->ctx, "%s fits", smaller ? smaller : less);
    else
        tc_hint(r->ctx, "not even a batch of 1 fits; %s need less memory",
                n->arena > n->states ? "--recipe=chunked and --freeze"
                                     : "--freeze, and --optimizer=sgd, which keeps no state,");
    return TC_LIMIT;
}

/* The plan of the first run, made and given its memory; *out_fits: there was enough. */
static tc_status prepare(train_run *r, const train_batch *first, uint64_t usable, bool *out_fits) {
    tempo_session *s = r->graph.session;
    *out_fits = state_bytes(s) <= usable; /* otherwise not even these are taken */
    if (!*out_fits)
        return TC_OK;
    TC_TRY(train_bind_batch(r->ctx, s, first));
    TC_TRY(train_bind_own(r));
    tempo_seed(s, r->progress.seed, 0);
    tempo_status status = tempo_prepare(s);
    *out_fits = status != TEMPO_LIMIT;
    return status == TEMPO_OK || status == TEMPO_LIMIT ? TC_OK : train_failed(r->ctx, s, status);
}

/* Memory is taken but not used yet: ranks do not see each other's. */
static bool fits_among_ranks(tempo_session *s, uint64_t usable) {
    tempo_memory memory;
    return tempo_memory_report(s, &memory) != TEMPO_OK || memory.state + memory.arena <= usable;
}

tc_status train_check_memory(train_run *r) {
    const char *where;
    const uint64_t ranks = (uint64_t)r->o->ranks->local;
    uint64_t usable;
    bool fits;
    train_batch first;
    need n;
    TC_TRY(train_data_batch(r->ctx, r->data, r->progress.epoch, r->progress.batch, &first));
    TC_TRY(rt_make_ready(r->ctx, &r->graph.session->shared));
    (void)rt_available_memory("", &usable, &where);
    if (!r->graph.session->shared.device->host_memory)
        usable = UINT64_MAX; /* the device checks this by itself */
    else
        usable /= ranks; /* on one host they take of the same memory */
    TC_TRY(prepare(r, &first, usable, &fits));
    if (fits && ranks > 1)
        fits = fits_among_ranks(r->graph.session, usable);
    if (fits)
        return train_eval_prepare(r->ctx, &r->eval, &r->graph);
    if (usable < UINT64_MAX && foresee(r, r->from, &first, first.samples, NULL, &n))
        return refuse(r, &first, &n, usable, where);
    return train_failed(r->ctx, r->graph.session, TEMPO_LIMIT);
}
