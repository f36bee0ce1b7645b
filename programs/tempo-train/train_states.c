/* train_states.c: the states of a session <-> the arrays of a checkpoint. */
#include "train_run.h"
#include <inttypes.h>
#include <string.h>

tc_status train_list_states(train_run *r, tc_arena *arena, bool weights, rt_array **out_arrays, size_t *out_n) {
    const train_graph *g = &r->graph;
    rt_array *arrays = TC_NEW_ARRAY(arena, rt_array, g->n_states + 1);
    *out_arrays = arrays;
    *out_n = 0;
    for (size_t i = 0; i < g->n_states; i++) {
        tempo_tensor tensor;
        if (g->states[i].is_weight != weights || g->states[i].is_sum)
            continue;
        tempo_status status = tempo_get_state(g->session, g->states[i].input, &tensor);
        if (status != TEMPO_OK)
            return train_failed(r->ctx, g->session, status);
        if (!g->session->shared.device->host_memory) { /* the pointer is valid until the next call */
            void *copy = tc_arena_alloc(arena, tensor.bytes + 1, 1);
            memcpy(copy, tensor.data, tensor.bytes);
            tensor.data = copy;
        }
        arrays[(*out_n)++] = (rt_array){.name = g->states[i].input, .tensor = tensor};
    }
    return TC_OK;
}

static tc_status share_statistic(train_run *r, tc_arena *arena, const char *input) {
    tempo_tensor tensor;
    tempo_status status = tempo_get_state(r->graph.session, input, &tensor);
    if (status == TEMPO_OK) {
        void *first = tc_arena_alloc(arena, tensor.bytes + 1, 1);
        memcpy(first, tensor.data, tensor.bytes);
        TC_TRY(train_ranks_take_first(r->ctx, r->o->ranks, first, tensor.bytes));
        tensor.data = first;
        status = tempo_set_state(r->graph.session, input, &tensor);
    }
    return status == TEMPO_OK ? TC_OK : train_failed(r->ctx, r->graph.session, status);
}

tc_status train_share_statistics(train_run *r) {
    tc_arena *arena = tc_arena_create();
    tc_status status = TC_OK;
    for (size_t i = 0; r->o->ranks->ranks > 1 && i < r->graph.n_states && status == TC_OK; i++)
        if (r->graph.states[i].is_statistic)
            status = share_statistic(r, arena, r->graph.states[i].input);
    tc_arena_destroy(arena);
    return status;
}

/* --- saving --------------------------------------------------------------------------------------- */

static tc_status save_states(train_run *r, tc_arena *arena) {
    rt_array *weights, *moments;
    size_t n_weights, n_moments;
    TC_TRY(train_list_states(r, arena, true, &weights, &n_weights));
    TC_TRY(train_list_states(r, arena, false, &moments, &n_moments));
    return train_checkpoint_save(r->ctx, r->o->checkpoint, r->o->keep, &r->progress, weights, n_weights, moments,
                                 n_moments);
}

static tc_status save(void *run) {
    tc_arena *arena = tc_arena_create();
    tc_status status = save_states(run, arena);
    tc_arena_destroy(arena);
    return status;
}

/* A full disk, or a lack of memory, is no reason to lose the trained weights: the run goes on, and ends with TC_IO
 * unless a later checkpoint succeeds. */
tc_status train_checkpoint_now(train_run *r) {
    if (!r->o->checkpoint)
        return TC_OK;
    tc_status status = r->o->ranks->rank == 0 ? tc_attempt_told(r->ctx, save, r) : TC_OK;
    r->unsaved = status == TC_IO || status == TC_LIMIT;
    if (r->unsaved) {
        train_log_settle(&r->log);
        tc_hint(r->ctx, "training goes on, and earlier checkpoints stay");
        tc_diags_print(r->ctx, stderr);
        status = TC_OK;
    }
    TC_TRY(status);
    return train_ranks_barrier(r->ctx, r->o->ranks);
}

/* --- going on ------------------------------------------------------------------------------------- */

static tc_status check_shape(train_run *r, const train_checkpoint *c, const rt_array *array) {
    const tc_type *type = rt_find_input(r->graph.session, array->name)->declared;
    if (!type)
        return TC_OK;
    bool same = (int)type->dtype == (int)array->tensor.dtype && type->rank == array->tensor.rank;
    for (int axis = 0; same && axis < type->rank; axis++)
        same = !tc_dim_is_const(type->dims[axis]) || type->dims[axis].value == array->tensor.dims[axis];
    if (same)
        return TC_OK;
    return tc_error(r->ctx, TC_BAD_INPUT, NULL,
                    "checkpoint %s: tensor '%s' has another type or shape than in the graph, %s",
                    tc_quote(r->ctx, c->path), tc_quote(r->ctx, array->name), tc_type_text(r->ctx->arena, type));
}

static tc_status restore(train_run *r, const train_checkpoint *c, const train_state *state) {
    const rt_array *array = rt_safetensors_find(state->is_weight ? &c->weights : &c->moments, state->input);
    if (!array) {
        tc_error(r->ctx, TC_BAD_INPUT, NULL, "checkpoint %s has no tensor '%s', which the graph trains",
                 tc_quote(r->ctx, c->path), tc_quote(r->ctx, state->input));
        tc_hint(r->ctx, "go on with the model, the optimizer and the selection of weights that it was written with");
        return TC_BAD_INPUT;
    }
    TC_TRY(check_shape(r, c, array));
    tempo_status status = tempo_set_state(r->graph.session, state->input, &array->tensor);
    return status == TEMPO_OK ? TC_OK : train_failed(r->ctx, r->graph.session, status);
}

static tc_status check_seed(train_run *r, const train_checkpoint *c) {
    if (!r->o->seed || c->progress.seed == r->progress.seed)
        return TC_OK;
    tc_error(r->ctx, TC_USAGE, NULL, "--seed=%" PRIu64 ", but checkpoint %s is of a run with %" PRIu64,
             r->progress.seed, tc_quote(r->ctx, c->path), c->progress.seed);
    tc_hint(r->ctx, "leave --seed out: the checkpoint knows its own");
    return TC_USAGE;
}

static tc_status refuse_mixture(train_run *r, int64_t newest) {
    tc_error(r->ctx, TC_USAGE, NULL, "--checkpoint: %s has checkpoints already, up to update %" PRId64,
             tc_quote(r->ctx, r->o->checkpoint), newest);
    tc_hint(r->ctx, "--resume goes on from there; for another run name another folder");
    return TC_USAGE;
}

/* Rank 0 comes first: it clears up what is damaged. */
static tc_status load(train_run *r) {
    train_ranks *ranks = r->o->ranks;
    int64_t newest = 0;
    double found = 0;
    if (ranks->rank == 0) {
        TC_TRY(train_checkpoint_begin(r->ctx, r->o->checkpoint, &r->lock, &newest));
        if (newest >= 0 && !r->o->resume)
            return refuse_mixture(r, newest);
        found = newest >= 0;
        if (newest >= 0)
            TC_TRY(train_checkpoint_load(r->ctx, r->o->checkpoint, &r->found));
    }
    TC_TRY(train_ranks_sum(r->ctx, ranks, &found, 1));
    if (ranks->rank > 0 && found > 0)
        TC_TRY(train_checkpoint_load(r->ctx, r->o->checkpoint, &r->found));
    return TC_OK;
}

tc_status train_find_checkpoint(train_run *r) {
    r->progress.seed = r->o->session.seed;
    if (!r->o->checkpoint)
        return TC_OK;
    TC_TRY(load(r));
    if (!r->found.path)
        return TC_OK;
    TC_TRY(check_seed(r, &r->found));
    r->progress.seed = r->found.progress.seed;
    return TC_OK;
}

static void tell_differences(train_run *r, const train_progress *p, const train_progress *own) {
    const char *path = tc_quote(r->ctx, r->found.path);
    if (p->data_hash != own->data_hash)
        tc_warn(r->ctx, NULL,
                "the data, or its order, differs from that of checkpoint %s: the run goes on, but not as it would "
                "have",
                path);
    if (p->plan_hash != own->plan_hash)
        tc_warn(r->ctx, NULL,
                "the graph is compiled in another way than for checkpoint %s: the run goes on, but not with the same "
                "bits",
                path);
    const char *other = train_settings_differ(r->ctx, own->settings, p->settings, "was");
    if (other)
        tc_note(r->ctx, NULL,
                "other options than those of checkpoint %s: %s; the run goes on, but not as it would have", path,
                other);
    if (p->ranks != own->ranks)
        tc_warn(r->ctx, NULL,
                "checkpoint %s is of %" PRId64 " ranks, and there are %" PRId64 " now: the run goes on, but not with "
                "the same bits",
                path, p->ranks, own->ranks);
}

/* The state of another optimizer is of no use to this one. */
static void tell_left_behind(train_run *r, const train_checkpoint *c) {
    for (size_t i = 0; i < c->moments.n; i++) {
        const char *name = c->moments.arrays[i].name;
        size_t at = 0;
        while (at < r->graph.n_states && strcmp(r->graph.states[at].input, name) != 0)
            at++;
        if (at < r->graph.n_states)
            continue;
        tc_warn(r->ctx, NULL, "checkpoint %s is of another optimizer: its %s, which %s does not keep, is not loaded",
                tc_quote(r->ctx, c->path), tc_quote(r->ctx, name), r->o->options.update.optimizer);
        return;
    }
}

tc_status train_take_checkpoint(train_run *r) {
    const train_checkpoint *c = &r->found;
    const train_progress own = r->progress;
    if (!c->path)
        return TC_OK;
    tell_differences(r, &c->progress, &own);
    tell_left_behind(r, c);
    for (size_t i = 0; i < r->graph.n_states; i++)
        if (!r->graph.states[i].is_sum)
            TC_TRY(restore(r, c, &r->graph.states[i]));
    r->progress = c->progress;
    r->progress.plan_hash = own.plan_hash;
    r->progress.data_hash = own.data_hash;
    r->progress.ranks = own.ranks;
    r->progress.settings = own.settings;
    if (r->progress.batch >= r->batches) { /* of other data */
        r->progress.batch = 0;
        r->progress.epoch++;
    }
    tc_note(r->ctx, NULL, "goes on from %s, after update %" PRId64, tc_quote(r->ctx, c->path), r->progress.step);
    train_checkpoint_close(&r->found);
    r->found.path = NULL;
    if (r->o->ranks->rank == 0)
        train_checkpoint_prune(r->ctx, r->o->checkpoint, r->o->keep, r->progress.step);
    return TC_OK;
}
