/* train_begin.c: a run from its beginning to its files: graphs, data, the checkpoint it goes on from, the updates, and
 * the files written at the end. */
#include "train_run.h"
#include <inttypes.h>

enum { USUAL_BATCH = 8 };
#define FIRST_SCALE 65536.0 /* PyTorch's GradScaler begins with it, too */

train_data_options train_data_for(const train_options *o, const char *path, int64_t batch) {
    return (train_data_options){.path = path,
                                .batch = batch,
                                .seed = o->session.seed,
                                .shuffle = o->shuffle,
                                .rank = o->ranks->rank,
                                .ranks = o->ranks->ranks,
                                .pad_multiple = o->pad_multiple,
                                .max_length = o->max_length,
                                .pads = o->pads,
                                .n_pads = o->n_pads,
                                .pack = o->pack,
                                .bucket = o->bucket};
}

static tc_status open_data(train_run *r) {
    size_t n_inputs;
    const train_input *inputs = train_graph_inputs(r->ctx, &r->graph, NULL, &n_inputs);
    train_data_options data = train_data_for(r->o, r->o->data_path, r->batch / r->o->ranks->ranks);
    data.seed = r->progress.seed;
    data.drop_last = r->o->drop_last || r->graph.batch > 0;
    train_ranks_tell(r->ctx, r->o->ranks); /* of the model, so far */
    TC_TRY(train_data_open(r->ctx, &data, inputs, n_inputs, &r->data));
    r->batches = train_data_batches(r->data);
    return TC_OK;
}

/* Where an update has several parts. */
static tc_status open_counts(train_run *r, int64_t batch) {
    const tc_summary *s = &r->graph.summary;
    const char *why = s->uncounted;
    r->factors = TC_NEW_ARRAY(r->ctx->arena, float, s->n_counted + 1);
    if (r->o->options.counting == TC_COUNT_NOT)
        return TC_OK;
    TC_TRY(train_counts_open(r->ctx, r->from, batch, &r->graph, &r->counts));
    if (r->counts.n > 1 && s->n_counted != r->counts.n) {
        r->counts.n = 0;
        why = tc_arena_printf(r->ctx->arena, "'%s': its terms count differently, and the file has its backward pass",
                              tc_quote(r->ctx, r->graph.loss));
    }
    if (why)
        tc_warn(r->ctx, NULL, "%s: %s; batches are weighted by their samples, as if all counted equally",
                r->o->accumulate > 1 ? "--accumulate" : "ranks", why);
    if (why && !s->uncounted)
        tc_hint(r->ctx, "train the file that tempoc compiled");
    return TC_OK;
}

static tc_status open_graphs(train_run *r) {
    int64_t batch = r->o->batch;
    TC_TRY(train_graph_open(r->ctx, r->from, batch, &r->graph));
    if (r->graph.n_states == 0) {
        tc_error(r->ctx, TC_BAD_INPUT, NULL, "nothing in the graph is trained");
        tc_hint(r->ctx, "--train names initializers; tempoc %s -v lists them", r->o->model);
        return TC_BAD_INPUT;
    }
    if (batch > 0 && r->graph.batch > 0 && batch != r->graph.batch) {
        tc_error(r->ctx, TC_USAGE, NULL, "--batch=%" PRId64 ", but the graph takes batches of %" PRId64, batch,
                 r->graph.batch);
        tc_hint(r->ctx, "leave --dim batch out, or --batch");
        return TC_USAGE;
    }
    batch = batch > 0 ? batch : r->graph.batch > 0 ? r->graph.batch : USUAL_BATCH;
    r->batch = batch * r->o->ranks->ranks;
    TC_TRY(train_find_checkpoint(r));
    TC_TRY(open_data(r));
    TC_TRY(open_counts(r, batch));
    return r->o->eval_path ? train_eval_open(r->ctx, r->from, batch, &r->graph, &r->eval) : TC_OK;
}

/* Updates: groups of batches end with the epoch. */
static int64_t updates_per_epoch(const train_run *r) { return (r->batches + r->o->accumulate - 1) / r->o->accumulate; }

static tc_status begin_progress(train_run *r) {
    const train_options *o = r->o;
    r->schedule = (train_schedule){.kind = o->schedule, .rate = o->rate};
    r->schedule.updates = o->steps > 0 ? o->steps : o->epochs * updates_per_epoch(r);
    TC_TRY(train_parse_warmup(r->ctx, o->warmup, r->schedule.updates, &r->schedule.warmup));
    r->progress = (train_progress){.seed = r->progress.seed,
                                   .loss_scale = FIRST_SCALE,
                                   .plan_hash = r->graph.hash,
                                   .data_hash = train_data_hash(r->data),
                                   .ranks = o->ranks->ranks,
                                   .settings = train_settings_text(r->ctx->arena, o)};
    return TC_OK;
}

/* Of weights, or of the optimizer's state for them. */
static int64_t count_elements(const train_run *r, bool weights) {
    int64_t count = 0;
    for (size_t i = 0; i < r->graph.n_states; i++) {
        const rt_input *input = rt_find_input(r->graph.session, r->graph.states[i].input);
        if (r->graph.states[i].is_weight == weights && !r->graph.states[i].is_statistic)
            count += (int64_t)tc_type_elements(input->declared);
    }
    return count;
}

static void tell_plan(train_run *r) {
    const train_schedule *s = &r->schedule;
    int64_t per_epoch = updates_per_epoch(r), samples = train_data_samples(r->data);
    int64_t dropped = samples - (r->batches * r->batch < samples ? r->batches * r->batch : samples);
    const train_ranks *ranks = r->o->ranks;
    train_log_say(&r->log, "trains %" PRId64 " numbers of %s by %s, which keeps %" PRId64 " more",
                  count_elements(r, true), r->o->model, r->o->options.update.optimizer, count_elements(r, false));
    train_log_say(&r->log,
                  "%" PRId64 " samples, %" PRId64 " updates an epoch, %" PRId64 " in all; rate %g, %s, warmup %" PRId64,
                  samples, per_epoch, s->updates, s->rate, r->o->schedule_name, s->warmup);
    const tc_update_summary *u = r->graph.summary.update;
    if (u && u->weight_decay > 0)
        train_log_say(&r->log, "weight decay %g applies to %zu tensors and skips %zu%s", u->weight_decay,
                      u->n_updated - u->n_spared, u->n_spared,
                      u->n_spared > 0 ? ", biases and those of norms: --decay-all does not" : "");
    if (ranks->ranks > 1)
        train_log_say(&r->log, "%d ranks, each with %" PRId64 " samples of a batch of %" PRId64, ranks->ranks,
                      r->batch / ranks->ranks, r->batch);
    if (dropped > 0)
        train_log_say(&r->log, "the last %" PRId64 " samples of each epoch's order are left out%s", dropped,
                      r->o->drop_last ? "" : ": the graph takes whole batches alone");
}

/* Runs all of them, even after a failure: the first failure counts. */
static tc_status write_results(train_run *r) {
    train_log_settle(&r->log);
    tc_status (*const each[])(void *run) = {train_save_model, train_save_inference, train_save_weights,
                                            train_save_adapter};
    tc_status status = TC_OK;
    for (size_t i = 0; i < TC_COUNT(each); i++) {
        tc_status written = tc_attempt_told(r->ctx, each[i], r);
        status = status == TC_OK ? written : status;
    }
    return status;
}

/* Other options of ranks, train_settings.c has refused. */
static tc_status check_data(train_run *r) {
    const train_ranks *ranks = r->o->ranks;
    uint64_t of_first = r->progress.data_hash;
    TC_TRY(train_ranks_take_first(r->ctx, r->o->ranks, &of_first, sizeof of_first));
    if (of_first == r->progress.data_hash)
        return TC_OK;
    tc_error(r->ctx, TC_USAGE, NULL, "rank %d of %d reads other data than rank 0: --data=%s", ranks->rank, ranks->ranks,
             tc_quote(r->ctx, r->o->data_path));
    tc_hint(r->ctx, "all ranks read the same files, and each takes its part of every batch");
    return TC_USAGE;
}

static tc_status go(train_run *r) {
    int64_t epochs;
    int stop;
    TC_TRY(open_graphs(r));
    TC_TRY(train_check_save(r));
    TC_TRY(train_check_adapter(r));
    TC_TRY(begin_progress(r));
    TC_TRY(train_take_checkpoint(r));
    TC_TRY(check_data(r));
    TC_TRY(train_ranks_agree(r->ctx, r->o->ranks, r->progress.step, r->progress.plan_hash, r->progress.data_hash));
    epochs = (r->schedule.updates + updates_per_epoch(r) - 1) / updates_per_epoch(r);
    TC_TRY(train_check_memory(r));
    TC_TRY(train_log_open(r->ctx, r->o, r->schedule.updates, epochs, r->progress.step, &r->log));
    train_ranks_tell(r->ctx, r->o->ranks);
    tell_plan(r);
    train_signals_catch();
    tc_status status = train_updates(r, &stop);
    if (status != TC_OK && !r->trained)
        return status;
    if (stop) {
        train_log_settle(&r->log);
        tc_note(r->ctx, NULL, "stopped after update %" PRId64 " by a signal%s", r->progress.step,
                r->o->checkpoint ? "; --resume goes on from there" : "; nothing is saved then without --checkpoint");
        return (tc_status)(128 + stop);
    }
    tc_status written = write_results(r);
    TC_TRY(status);
    TC_TRY(written);
    return r->unsaved ? tc_error(r->ctx, TC_IO, NULL, "the last checkpoint could not be written") : TC_OK;
}

tc_status train_run_all(tc_ctx *ctx, const train_source *from) {
    train_run *r = TC_NEW(ctx->arena, train_run);
    r->ctx = ctx;
    r->from = from;
    r->o = from->o;
    tc_status status = go(r), closed = train_log_close(ctx, &r->log);
    train_eval_close(&r->eval);
    train_counts_close(&r->counts);
    train_data_close(r->data);
    train_checkpoint_close(&r->found);
    train_unlock_folder(&r->lock);
    train_graph_close(&r->graph);
    return status == TC_OK ? closed : status;
}
