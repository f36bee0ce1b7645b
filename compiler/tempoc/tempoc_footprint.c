/* tempoc_footprint.c: from a model to the arena that tempo-run takes for it: a session of a copy is opened as tempo-run
 * opens it, planned, and closed. */
#include "tempoc_footprint.h"
#include "../../runtime/session.h"

bool tempoc_footprint(void *user, tc_model *model, tc_footprint *out) {
    static const rt_hooks hooks = {tc_upgrade_model, tc_body_for};
    const tempo_options options = {.threads = 1};
    const tc_ctx *ctx = user;
    const char *path = ctx->file ? ctx->file : "";
    tempo_session *session;
    rt_footprint footprint;
    bool known = rt_open_model(tc_model_clone(model), path, &options, &hooks, &session) == TEMPO_OK &&
                 rt_foresee(session, &footprint) == TEMPO_OK;
    if (known)
        *out = (tc_footprint){footprint.arena, footprint.bound,
                              footprint.missing ? tc_arena_strdup(ctx->arena, footprint.missing) : NULL};
    tempo_close(session);
    return known;
}
