/* fit_batch.h: `--fit`: the largest batch whose training step fits in an amount of memory. The sizes come from
 * the plan of each batch that is tried, so that they are those of a run. */
#ifndef TC_FIT_BATCH_H
#define TC_FIT_BATCH_H
#include "passes/report/report.h"
#include "compile.h"

/* What --fit, --fit-dim and --optimizer say. */
typedef struct tc_fitting {
    const char *dim, *optimizer;
    uint64_t memory; /* 0: --fit is not there */
    int64_t threads; /* --threads: 0: as many as this machine has cores */
} tc_fitting;

/* Compiles at that batch. TC_LIMIT: it fits in no machine; anything else but TC_OK ends the search. */
typedef tc_status (*tc_fit_trial)(void *user, int64_t batch, tc_need *out_need);

/* The options make sense: TC_USAGE else, before any file is touched. `given`: [n_dims] what --dim says. */
tc_status tc_fit_check(tc_ctx *ctx, const tc_fitting *f, const char *const *dims, size_t n_dims);
/* What a step of a compiled model takes, whose shapes are known. */
tc_need tc_measure_need(const tc_fitting *f, const tc_model *model, const tc_summary *summary,
                        const tc_footprint *footprint);
/* Looks for the largest batch and prints those tried to `out` (NULL: no); *out_fit, in the context's arena, has them.
 * TC_LIMIT names the largest parts where not even a batch of 1 fits; TC_USAGE: the memory does not grow with that
 * dimension. */
tc_status tc_fit_batch(tc_ctx *ctx, const tc_fitting *f, const tc_watcher *watcher, tc_fit_trial trial, void *user,
                       FILE *out, const tc_fit **out_fit);
#endif
