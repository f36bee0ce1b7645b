/* tempoc_auto.h: `tempoc --recipe=auto`: of the rewrites that keep less, those without which a run would take more
 * memory. What each does is measured: the arena of the plan, and the time by the costs of nodes. Of tempoc alone. */
#ifndef TEMPOC_AUTO_H
#define TEMPOC_AUTO_H
#include "passes/pass/pass.h"

/* What came of compiling with some rewrites left out. */
typedef struct tempoc_outcome {
    uint64_t arena, cost; /* bytes; nanoseconds, or what the costs count in */
    const tc_summary *summary;
} tempoc_outcome;

/* Compiles; `disabled` NULL: by recipe `none`. */
typedef tc_status (*tempoc_attempt)(void *user, const char *const *disabled, size_t n_disabled,
                                    tempoc_outcome *out_outcome);

/* Begins with all rewrites and leaves out, the dearest first, each without which the arena is smaller, or the same in
 * no more time. *out_disabled (in the context's arena) are those; a table of all goes to `out` (NULL: no). */
tc_status tempoc_auto(tc_ctx *ctx, tempoc_attempt attempt, void *user, FILE *out, const char ***out_disabled,
                      size_t *out_n);
#endif
