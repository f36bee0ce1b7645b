/* train_loop.c: the run: updates, one after the other, and the work between them. The position of a run is a
 * train_progress after an update. An update depends only on it, on the file and on the options: a run that goes on from
 * a checkpoint computes the same bits. */
#include "compiler/base/base.h"
#include "compiler/ir/ops.h"
#include "train_run.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { COMPARED = 100 }; /* updates between two comparisons of ranks' weights, which read all of them */
/* No loss overflows this way: values that are not finite at smaller scales have another cause. */
#define LEAST_SCALE (1 / 65536.0)

/* --- one update ----------------------------------------------------------------------------------- */

static tempo_tensor scalar(tempo_dtype dtype, void *value, size_t bytes) {
    return (tempo_tensor){.dtype = dtype, .data = value, .bytes = bytes};
}

/* The inputs that the loop gives, at addresses that stay. */
tc_status train_bind_own(train_run *r) {
    const train_graph *g = &r->graph;
    const struct {
        const char *name;
        bool is_there;
        tempo_tensor tensor;
    } own[] = {
        {TC_RATE_INPUT, true, scalar(TEMPO_FLOAT, &r->own.rate, sizeof r->own.rate)},
        {TC_UPDATE_INPUT, g->takes_update, scalar(TEMPO_INT64, &r->own.update, sizeof r->own.update)},
        {TC_APPLY_INPUT, g->takes_apply, scalar(TEMPO_BOOL, &r->own.apply, sizeof r->own.apply)},
        {TC_SHARE_INPUT, g->takes_share, scalar(TEMPO_FLOAT, &r->own.share, sizeof r->own.share)},
        {TC_LOSS_SCALE_INPUT, g->takes_scale, scalar(TEMPO_FLOAT, &r->own.scale, sizeof r->own.scale)},
    };
    for (size_t i = 0; i < TC_COUNT(own); i++) {
        tempo_status status = own[i].is_there ? tempo_bind(g->session, own[i].name, &own[i].tensor) : TEMPO_OK;
        if (status != TEMPO_OK)
            return train_failed(r->ctx, g->session, status);
    }
    for (size_t i = 0; i < g->summary.n_counted; i++) {
        const tempo_tensor factor = scalar(TEMPO_FLOAT, &r->factors[i], sizeof *r->factors);
        tempo_status status = tempo_bind(g->session, g->summary.counted[i].factor, &factor);
        if (status != TEMPO_OK)
            return train_failed(r->ctx, g->session, status);
    }
    return TC_OK;
}

static tc_status read_output(train_run *r, const char *name, void *value, size_t bytes) {
    tempo_tensor tensor;
    tempo_status status = tempo_output(r->graph.session, name, &tensor);
    if (status != TEMPO_OK)
        return train_failed(r->ctx, r->graph.session, status);
    TC_ASSERT(tensor.bytes == bytes);
    memcpy(value, tensor.data, bytes);
    return TC_OK;
}

/* Samples of a batch of an epoch, of all ranks. */
static int64_t samples_of(const train_run *r, int64_t index) {
    int64_t left = train_data_samples(r->data) - index * r->batch;
    return left < r->batch ? left : r->batch;
}

/* Batches of the update that begins at `index`: groups end with the epoch. */
static int64_t group_at(const train_run *r, int64_t index) {
    int64_t left = r->batches - index;
    return left < r->o->accumulate ? left : r->o->accumulate;
}

/* Each rank drops by a seed of its own. */
static uint64_t seed_of(const train_run *r) {
    return r->progress.seed + (uint64_t)r->o->ranks->rank * UINT64_C(0x9E3779B97F4A7C15);
}

/* Whether an update consists of parts that count differently. */
static bool has_parts(const train_run *r) { return r->o->accumulate > 1 || r->o->ranks->ranks > 1; }

/* The batch's share of an update: by its samples, or by the labels that the loss counts in them. Terms of the loss that
 * count differently have factors. Gradients that add up in the graph are weighted there, such that a plain mean over
 * ranks is right at the update; others are weighted by that mean. */
static double share_out(train_run *r, int64_t index, const train_batch *batch, bool last, int64_t group_samples) {
    const bool adds_up = r->graph.takes_share;
    const double ranks = (double)r->o->ranks->ranks;
    const tc_summary *factors = &r->graph.summary;
    double share = (double)batch->samples / (double)group_samples;
    if (has_parts(r)) /* else the batch is the whole update, whatever it counts */
        train_counts_share(&r->counts, index - r->progress.batch, batch);
    for (size_t i = 0; i < factors->n_counted; i++)
        r->factors[i] = share > 0 ? (float)(r->counts.shares[i] / share) : 0;
    if (has_parts(r) && factors->n_counted == 0 && r->counts.n > 0)
        share = r->counts.shares[0];
    r->own.apply = last;
    r->own.share = (float)(ranks * share);
    train_ranks_share(r->o->ranks, adds_up ? 1 / ranks : share);
    train_ranks_hold(r->o->ranks, adds_up && !last);
    return share;
}

static tc_status run_batch(train_run *r, int64_t index, bool last, int64_t group_samples, train_record *record) {
    train_progress *p = &r->progress;
    train_batch batch;
    double loss;
    TC_TRY(train_data_batch(r->ctx, r->data, p->epoch, index, &batch));
    TC_TRY(train_bind_batch(r->ctx, r->graph.session, &batch));
    const double share = share_out(r, index, &batch, last, group_samples);
    TC_TRY(train_bind_own(r));
    tempo_seed(r->graph.session, seed_of(r), (uint64_t)(p->epoch * r->batches + index));
    tempo_status status = tempo_run(r->graph.session);
    if (status != TEMPO_OK)
        return train_run_failed(r, status);
    TC_TRY(train_read_number(r->ctx, r->graph.session, r->graph.loss, &loss));
    if (share > 0)
        record->loss += loss * share;
    record->samples += batch.all_samples;
    record->tokens += batch.all_tokens;
    /* As long as the batch that has it is there: after the last one of the group it would not be found. */
    return share > 0 && !last && !isfinite(loss) && !r->graph.takes_scale ? train_not_finite(r) : TC_OK;
}

/* As PyTorch's GradScaler: halved where gradients overflowed, doubled after so many updates without. */
static void adapt_scale(train_progress *p, bool finite) {
    enum { GOOD_UPDATES = 2000 };
    if (!finite) {
        p->loss_scale *= 0.5;
        p->scale_good_steps = 0;
        p->skipped++;
    } else if (++p->scale_good_steps == GOOD_UPDATES) {
        p->loss_scale *= 2;
        p->scale_good_steps = 0;
    }
}

/* Values that the graph reports after an update. */
static tc_status read_outcome(train_run *r, train_record *record) {
    const train_graph *g = &r->graph;
    bool finite = true;
    float norm = -1;
    if (g->tells_norm)
        TC_TRY(read_output(r, TC_GRAD_NORM_OUTPUT, &norm, sizeof norm));
    if (g->reports_finite)
        TC_TRY(read_output(r, TC_FINITE_OUTPUT, &finite, sizeof finite));
    record->grad_norm = (double)norm;
    record->loss_scale = g->takes_scale ? r->progress.loss_scale : -1;
    record->skipped = !finite;
    if (g->takes_scale && g->reports_finite)
        adapt_scale(&r->progress, finite);
    return TC_OK;
}

/* The loss of all ranks, and the requests of signals on any of them. */
static tc_status meet(train_run *r, train_record *record) {
    double all[1 + TRAIN_SIGNALS] = {record->loss};
    train_signals_tell(all + 1);
    TC_TRY(train_ranks_sum(r->ctx, r->o->ranks, all, TC_COUNT(all)));
    record->loss = all[0];
    r->stop = train_signals_heard(all + 1, &r->save);
    return TC_OK;
}

/* Where all labels are ignored, the loss is NaN and its gradients are 0, as in PyTorch: no reason to end. */
static tc_status check_finite(train_run *r, int64_t batches, train_record *record) {
    bool fine = record->skipped ? r->progress.loss_scale >= LEAST_SCALE : isfinite(record->loss);
    bool counts = has_parts(r) || (!fine && !record->skipped);
    if (!counts || !train_counted_nothing(r, batches))
        return fine ? TC_OK : train_not_finite(r);
    if (r->counts.n == 1)
        record->loss = NAN;
    if (!r->reported_nothing) {
        train_log_settle(&r->log);
        tc_note(r->ctx, NULL,
                "update %" PRId64 ": the loss has nothing to count in it, no label that is not ignored: "
                "its gradients are 0",
                record->step);
        train_ranks_tell(r->ctx, r->o->ranks);
    }
    r->reported_nothing = true;
    return TC_OK;
}

static tc_status update(train_run *r) {
    train_progress *p = &r->progress;
    int64_t n = group_at(r, p->batch), samples = 0;
    train_record record = {.step = p->step + 1, .epoch = p->epoch + 1};
    double begun = tc_seconds();
    for (int64_t i = 0; i < n; i++)
        samples += samples_of(r, p->batch + i);
    record.rate = train_rate(&r->schedule, record.step);
    r->own.rate = (float)record.rate;
    r->own.update = record.step - p->skipped;
    r->own.scale = (float)p->loss_scale;
    if (has_parts(r))
        TC_TRY(train_counts_total(r->ctx, &r->counts, r->o->ranks, r->data, p->epoch, p->batch, n));
    for (int64_t i = 0; i < n; i++)
        TC_TRY(run_batch(r, p->batch + i, i + 1 == n, samples, &record));
    TC_TRY(read_outcome(r, &record));
    TC_TRY(meet(r, &record));
    TC_TRY(check_finite(r, n, &record));
    p->step++;
    p->batch += n;
    if (p->batch == r->batches) {
        p->batch = 0;
        p->epoch++;
    }
    record.seconds = tc_seconds() - begun;
    train_log_step(&r->log, &record);
    return TC_OK;
}

/* --- between updates ------------------------------------------------------------------------------ */

static tc_status evaluate(train_run *r) {
    double begun = tc_seconds();
    int64_t samples;
    if (!r->o->eval_path)
        return TC_OK;
    TC_TRY(train_eval_run(r->ctx, r->o->ranks, &r->eval, &r->graph, &samples));
    tc_arena *arena = tc_arena_create();
    train_score *scores = TC_NEW_ARRAY(arena, train_score, r->eval.n + TRAIN_METRICS);
    for (size_t i = 0; i < r->eval.n; i++)
        scores[i] = (train_score){r->eval.scores[i], r->eval.means[i]};
    for (size_t i = 0; i < r->eval.metrics.n; i++)
        scores[r->eval.n + i] = (train_score){r->eval.metrics.names[i], train_metrics_value(&r->eval.metrics, i)};
    train_log_eval(&r->log, r->progress.step, r->progress.epoch, scores, r->eval.n + r->eval.metrics.n, samples,
                   tc_seconds() - begun);
    tc_arena_destroy(arena);
    return TC_OK;
}

static bool every(int64_t n, int64_t step) { return n > 0 && step % n == 0; }

/* Ranks have the same bits of all weights. */
static tc_status compare_weights(train_run *r) {
    rt_array *weights;
    size_t n;
    uint64_t hash = 0;
    if (r->o->ranks->ranks == 1)
        return TC_OK;
    tc_arena *arena = tc_arena_create();
    tc_status status = train_list_states(r, arena, true, &weights, &n);
    for (size_t i = 0; status == TC_OK && i < n; i++)
        hash = tc_hash_bytes(weights[i].tensor.data, weights[i].tensor.bytes, hash);
    tc_arena_destroy(arena);
    TC_TRY(status);
    return train_ranks_agree(r->ctx, r->o->ranks, r->progress.step, r->progress.plan_hash, hash);
}

/* Evaluations, checkpoints and requests of signals; *out_stop: the signal that ends the run, or 0. */
static tc_status between(train_run *r, int *out_stop) {
    const train_progress *p = &r->progress;
    bool last = p->step == r->schedule.updates, epoch_ends = p->batch == 0;
    *out_stop = last ? 0 : r->stop;
    bool saves = last || epoch_ends || *out_stop || r->save || every(r->o->checkpoint_every, p->step);
    bool compares = saves || every(COMPARED, p->step);
    bool evaluates = !*out_stop && (last || epoch_ends || every(r->o->eval_every, p->step));
    if (compares || evaluates)
        TC_TRY(train_share_statistics(r));
    if (compares)
        TC_TRY(compare_weights(r));
    if (saves) /* first of all: the trained weights are safe then */
        TC_TRY(train_checkpoint_now(r));
    r->trained = last;
    return evaluates ? evaluate(r) : TC_OK;
}

tc_status train_updates(train_run *r, int *out_stop) {
    *out_stop = 0;
    while (r->progress.step < r->schedule.updates && !*out_stop) {
        TC_TRY(update(r));
        TC_TRY(between(r, out_stop));
    }
    return TC_OK;
}
