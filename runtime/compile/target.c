/* target.c: from a model to the nodes that keep tempo-run from running it, or to the arena that it takes. A
 * session of a copy is opened as tempo-run opens it, planned, and closed. Where dims have no value, or elements of
 * inputs decide shapes, numbers are drawn: a graph that can be planned under one draw is taken for one that runs. */
#include "target.h"
#include "passes/bodies/bodies.h"
#include "passes/upgrade/upgrade.h"
#include "compiler/contents/contents.h"
#include "runtime/session/session.h"
#include "compile.h"
#include "draw_inputs.h"
#include <string.h>

static const tc_target targets[] = {{"cpu", &rt_device_cpu}, {"onnx", NULL}};

tc_status tc_target_find(tc_ctx *ctx, const char *name, const tc_target **out_target) {
    const char *names = "";
    for (size_t i = 0; i < TC_COUNT(targets); i++) {
        *out_target = &targets[i];
        if (strcmp(name, targets[i].name) == 0)
            return TC_OK;
        names = tc_arena_printf(ctx->arena, "%s%s%s", names, i > 0 ? " or " : "", targets[i].name);
    }
    return tc_error(ctx, TC_USAGE, NULL, "--target=%s: expected %s", tc_quote(ctx, name), names);
}

/* --- attempts --------------------------------------------------------------------------------- */

typedef struct attempt {
    int64_t first, step; /* of the values of dims that have none */
    bool elements;       /* inputs have elements, too, */
    uint64_t seed;       /* drawn by this */
} attempt;

/* The first is what the file says, as far as it goes. */
static const attempt attempts[] = {
    {2, 1, false, 0}, {2, 1, true, 0}, {2, 1, true, 1}, {8, 0, true, 2}, {64, 0, true, 3},
};

typedef struct outcome {
    tc_footprint footprint;
    bool known; /* the declared shapes decide the footprint */
    size_t missing;
} outcome;

static bool declares_all(const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (!graph->inputs[i]->init && !tc_type_is_static(graph->inputs[i]->type))
            return false;
    return true;
}

static void take_draw(tempo_session *s, const tc_draw *draw) {
    static const uint64_t nothing;
    for (size_t i = 0; i < draw->n_inputs; i++) {
        rt_input *input = rt_find_input(s, draw->inputs[i].name);
        const tempo_tensor *t = &draw->inputs[i].tensor;
        if (!input)
            continue;
        rt_take_shape(s, input, t);
        input->data = t->data ? t->data : &nothing;
    }
}

/* What cannot be drawn stays open: the runtime says what that means. */
static tc_draw draw_for(tc_ctx *ctx, const tc_model *model, const attempt *t) {
    const tc_drawing how = {
        .seed = t->seed, .first_dim = t->first, .dim_step = t->step, .most = t->elements ? TC_CONTENTS_LIMIT : 0};
    tc_draw draw = {0};
    size_t n_diags = ctx->n_diags;
    if (tc_draw_some(ctx, model, &how, &draw) != TC_OK)
        draw.n_inputs = 0;
    ctx->n_diags = n_diags;
    return draw;
}

/* What is missing is in place of the diagnostics from `n_diags` on. False: nothing can be said under these numbers. */
static bool estimate(tc_ctx *ctx, tc_model *model, const rt_device *device, const attempt *t, size_t n_diags,
                     outcome *out) {
    const rt_hooks hooks = {tc_upgrade_model, tc_body_for, device};
    const tempo_options options = {.threads = 1};
    bool declared = declares_all(model->graph);
    tc_draw draw = declared && !t->elements ? (tc_draw){0} : draw_for(ctx, model, t);
    tempo_session *session;
    rt_foreseen seen;
    const char *path = ctx->file ? ctx->file : "";
    bool known = rt_open_model(tc_model_clone(model), path, &options, &hooks, &session) == TEMPO_OK;
    if (known) {
        take_draw(session, &draw);
        known = rt_foresee(session, t->elements, NULL, &seen) == TEMPO_OK;
    }
    if (known) {
        ctx->n_diags = n_diags;
        tc_diags_add(ctx, seen.missing, seen.n_missing);
        *out = (outcome){{seen.arena, seen.bound, seen.tables, seen.n_missing > 0 ? ctx->diags[n_diags].op : NULL},
                         seen.planned && declared && !t->elements,
                         seen.n_missing};
    }
    rt_close_or_fail(session);
    return known;
}

static tc_status refuse(tc_ctx *ctx, size_t n_diags) {
    for (size_t i = n_diags; i < ctx->n_diags; i++) {
        tc_diag *d = &ctx->diags[i];
        d->hint = tc_arena_printf(ctx->arena, "%s%s--target=onnx writes the model all the same, for another runtime",
                                  d->hint ? d->hint : "", d->hint ? "; " : "");
    }
    return tc_report_few(ctx, n_diags);
}

tc_status tc_target_check(tc_ctx *ctx, const tc_target *target, tc_model *model, tc_footprint *out_footprint,
                          bool *out_known) {
    size_t n_diags = ctx->n_diags;
    const rt_device *device = target ? target->device : NULL;
    outcome o = {0};
    bool runs = estimate(ctx, model, device ? device : &rt_device_cpu, &attempts[0], n_diags, &o) && o.missing == 0;
    *out_known = o.known;
    *out_footprint = o.footprint;
    ctx->n_diags = n_diags; /* elements might have decided what is missing */
    o.missing = 0;
    for (size_t i = 1; device && !runs && i < TC_COUNT(attempts); i++)
        runs = estimate(ctx, model, device, &attempts[i], n_diags, &o) && o.missing == 0;
    return !runs && o.missing > 0 ? refuse(ctx, n_diags) : TC_OK;
}
