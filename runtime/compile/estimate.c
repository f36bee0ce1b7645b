/* estimate.c: from a model to the memory that a run of it takes on the CPU. A session of a copy is opened as tempo-run
 * opens it, planned, and closed. For programs that compile under a memory budget. */
#include "passes/bodies/bodies.h"
#include "passes/upgrade/upgrade.h"
#include "runtime/session/session.h"
#include "compile.h"

#define NODES_TOLD 10

tc_status tc_report_few(tc_ctx *ctx, size_t n_diags) {
    if (ctx->n_diags > n_diags + NODES_TOLD) {
        size_t more = ctx->n_diags - n_diags - NODES_TOLD;
        ctx->n_diags -= more;
        tc_error(ctx, TC_UNSUPPORTED, NULL, "%zu more nodes cannot be run", more);
    }
    return TC_UNSUPPORTED;
}

tc_status tc_estimate(tc_ctx *ctx, tc_model *model, int64_t threads, const tc_node_memories *nodes,
                      tc_footprint *out_footprint, bool *out_planned) {
    const rt_hooks hooks = {tc_upgrade_model, tc_body_for, &rt_device_cpu};
    const tempo_options options = {.threads = 1};
    tempo_session *session;
    rt_foreseen seen = {0};
    tc_model *copy = tc_model_clone(model);
    if (threads > 0)
        tc_model_set_metadata(copy, TC_THREADS_KEY, tc_arena_printf(ctx->arena, "%lld", (long long)threads));
    bool known = rt_open_model(copy, ctx->file ? ctx->file : "", &options, &hooks, &session) == TEMPO_OK &&
                 rt_foresee(session, false, nodes, &seen) == TEMPO_OK;
    tc_status status = TC_OK;
    size_t n_diags = ctx->n_diags;
    if (known && seen.n_missing > 0) {
        tc_diags_add(ctx, seen.missing, seen.n_missing);
        status = tc_report_few(ctx, n_diags);
    }
    *out_planned = known && seen.planned;
    *out_footprint = (tc_footprint){.arena = seen.arena, .bound = seen.bound, .work = seen.work};
    rt_close_or_fail(session);
    return status;
}
