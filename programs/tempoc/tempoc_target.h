/* tempoc_target.h: where a compiled graph is to run, and what such a run will allocate or stumble over, asked of the
 * runtime. Of tempoc alone: here passes and runtime meet. */
#ifndef TEMPOC_TARGET_H
#define TEMPOC_TARGET_H
#include "passes/pass/pass.h"
#include "runtime/device/device.h"

/* What --target names. */
typedef struct tempoc_target {
    const char *name;
    const rt_device *device; /* that tempo-run has; NULL: another runtime, of which nothing is known */
} tempoc_target;

/* TC_USAGE, with the names that there are. */
tc_status tempoc_target_find(tc_ctx *ctx, const char *name, const tempoc_target **out_target);

/* TC_UNSUPPORTED, with an error for each node, where the target has no kernel for an op of the model or its element
 * type, or cannot plan it since the data decides a shape. Dims without value are tried with several: what comes about
 * under one of them passes. NULL: nothing is refused. *out_known: the declared shapes decide what a run allocates, and
 * *out_footprint tells it (of a run on the CPU where the target is another runtime's). */
tc_status tempoc_target_check(tc_ctx *ctx, const tempoc_target *target, tc_model *model, tc_footprint *out_footprint,
                              bool *out_known);
/* What a run of the model takes on the CPU (tempoc_foresee.c, which tempo-train has, too), and its nodes one by one
 * (`nodes` may be NULL); `threads` as in --threads. *out_planned: its shapes are known, and so it could be told. */
tc_status tempoc_foresee(tc_ctx *ctx, tc_model *model, int64_t threads, const tc_node_memories *nodes,
                         tc_footprint *out_footprint, bool *out_planned);
/* Cuts errors about nodes, those from `n_diags` on, to the first few; TC_UNSUPPORTED. tempoc_foresee.c, too */
tc_status tempoc_tell_few(tc_ctx *ctx, size_t n_diags);
#endif
