/* train_nonfinite.c: a run that met NaN or infinity -> the update, the node and the tensor where it began. */
#include "train_run.h"
#include <inttypes.h>
#include <string.h>

static bool is_in_state(const train_run *r, const rt_nonfinite *found) {
    for (size_t i = 0; found->found && i < r->graph.n_states; i++)
        if (strcmp(r->graph.states[i].input, found->value) == 0)
            return true;
    return false;
}

/* Seconds that a rank waits for one that knows better. The rank whose data was wrong sees that; on all others only the
 * weights are NaN, if anything. */
static double doubt(const train_run *r, const rt_nonfinite *found) {
    return !found->found ? 6 : is_in_state(r, found) ? 3 : 0;
}

bool train_counted_nothing(train_run *r, int64_t batches) {
    train_counts *c = &r->counts;
    size_t n_diags = r->ctx->n_diags;
    bool known =
        r->o->options.counting != TC_COUNT_NOT ||
        (train_counts_open(r->ctx, r->from, r->batch, &r->graph, c) == TC_OK &&
         train_counts_total(r->ctx, c, r->o->ranks, r->data, r->progress.epoch, r->progress.batch, batches) == TC_OK);
    r->ctx->n_diags = n_diags;
    return known && train_counts_nothing(c);
}

static const char *what_helps(train_run *r, const rt_nonfinite *found) {
    bool is_state = is_in_state(r, found);
    if (found->found && !found->node && !is_state)
        return "correct the data, or leave such samples out: numpy.isfinite finds them";
    if (found->found && !found->node && r->progress.step == 0)
        return "the weights of the file hold it before any update";
    if (train_counted_nothing(r, 1))
        return "the loss divides by the number of its labels, which is 0 in this update: let the model divide by 1 at "
               "least (clamp(min=1)), or leave such samples out";
    return "a smaller --lr, --warmup and --clip-norm help";
}

static tc_status tell(train_run *r) {
    train_ranks *ranks = r->o->ranks;
    rt_nonfinite found = {0};
    (void)rt_find_nonfinite(r->graph.session, &found);
    train_ranks_give_way(ranks, doubt(r, &found));
    tc_error(r->ctx, TC_NUMERIC, NULL, "%supdate %" PRId64 ", epoch %" PRId64 ": %s",
             ranks->ranks > 1 ? tc_arena_printf(r->ctx->arena, "rank %d of %d: ", ranks->rank, ranks->ranks) : "",
             r->progress.step + 1, r->progress.epoch + 1,
             found.found ? rt_nonfinite_text(r->ctx, &found)
                         : "a value is not finite, and a second run did not show which");
    tc_hint(r->ctx, "%s; %s", what_helps(r, &found),
            r->o->checkpoint ? "checkpoints stay as they are, and --resume goes on from the last"
                             : "nothing was written");
    return TC_NUMERIC;
}

tc_status train_run_failed(train_run *r, tempo_status status) {
    train_log_settle(&r->log);
    if ((tc_status)status != TC_NUMERIC)
        return train_failed(r->ctx, r->graph.session, status);
    return tell(r);
}

tc_status train_not_finite(train_run *r) {
    train_log_settle(&r->log);
    return tell(r);
}
