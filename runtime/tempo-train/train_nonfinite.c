/* train_nonfinite.c: a run that met NaN or infinity -> the update, the node and the tensor where it began. */
#include "train_run.h"
#include <inttypes.h>

static tc_status tell(train_run *r) {
    train_log_settle(&r->log);
    tc_error(r->ctx, TC_NUMERIC, NULL, "update %" PRId64 ", epoch %" PRId64 ": something is not finite",
             r->progress.step + 1, r->progress.epoch + 1);
    tc_hint(r->ctx, "a smaller --lr and a --warmup help; %s",
            r->o->checkpoint ? "checkpoints stay as they are, and --resume goes on from the last"
                             : "nothing was written");
    return TC_NUMERIC;
}

tc_status train_run_failed(train_run *r, tempo_status status) {
    train_log_settle(&r->log);
    (void)train_failed(r->ctx, r->graph.session, status);
    return (tc_status)status == TC_NUMERIC ? tell(r) : (tc_status)status;
}

tc_status train_not_finite(train_run *r, double loss) {
    train_log_settle(&r->log);
    tc_error(r->ctx, TC_NUMERIC, NULL, "the loss is %g", loss);
    return tell(r);
}
