/* target.h: where a compiled graph is to run, and the memory and missing kernels of such a run, from the runtime. */
#ifndef TC_TARGET_H
#define TC_TARGET_H
#include "passes/pass/pass.h"
#include "runtime/device/device.h"

/* The value of --target. */
typedef struct tc_target {
    const char *name;
    const rt_device *device; /* that tempo-run has; NULL: another, unknown runtime */
} tc_target;

/* TC_USAGE, with the names that there are. */
tc_status tc_target_find(tc_ctx *ctx, const char *name, const tc_target **out_target);

/* TC_UNSUPPORTED, with an error for each node, where the target has no kernel for an op of the model or its element
 * type, or cannot plan it since the data decides a shape. Dims without value are tried with several values: a node
 * passes if it works under one of them. NULL: nothing is refused. *out_known: the declared shapes decide a run's
 * memory, and *out_footprint holds it (of a run on the CPU where the target is another runtime's). */
tc_status tc_target_check(tc_ctx *ctx, const tc_target *target, tc_model *model, tc_footprint *out_footprint,
                          bool *out_known);
#endif
