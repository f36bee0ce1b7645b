/* train_nonfinite.c: a run that met NaN or infinity -> the update, the node and the tensor where it began. */
#include "train_run.h"
#include <inttypes.h>

static tc_status tell(train_run *r) {
    rt_nonfinite found = {0};
    (void)rt_find_nonfinite(r->graph.session, &found);
    tc_error(r->ctx, TC_NUMERIC, NULL, "update %" PRId64 ", epoch %" PRId64 ": %s", r->progress.step + 1,
             r->progress.epoch + 1,
             found.found ? rt_nonfinite_text(r->ctx, &found)
                         : "something is not finite, and a second run did not show what");
    tc_hint(r->ctx, "a smaller --lr and a --warmup help; %s",
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
