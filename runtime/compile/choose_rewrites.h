/* choose_rewrites.h: recipe `auto`: of the rewrites that keep less, those without which a run would take more memory.
 * Each is measured: the arena of the plan, and the time by the costs of nodes. */
#ifndef TC_CHOOSE_REWRITES_H
#define TC_CHOOSE_REWRITES_H
#include "compile.h"

/* One compilation with some rewrites left out. */
typedef struct tc_rewrite_outcome {
    uint64_t arena, cost; /* bytes; nanoseconds, or the unit that the costs count in */
    const tc_summary *summary;
} tc_rewrite_outcome;

/* Compiles; `disabled` NULL: by recipe `none`. */
typedef tc_status (*tc_rewrite_trial)(void *user, const char *const *disabled, size_t n_disabled,
                                      tc_rewrite_outcome *out_outcome);

/* Begins with all rewrites and leaves out, the dearest first, each without which the arena is smaller, or the same in
 * no more time. *out_disabled (in the context's arena) are those; a table of all goes to `out` (NULL: no). */
tc_status tc_choose_rewrites(tc_ctx *ctx, const tc_watcher *watcher, tc_rewrite_trial trial, void *user, FILE *out,
                             const char ***out_disabled, size_t *out_n);
#endif
