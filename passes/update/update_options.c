/* update_options.c: the options of the pass `update`: the optimizers and their numbers. */
#include "compiler/cli/cli.h"
#include "passes/precision/precision.h"
#include "update.h"
#include <string.h>

static const tc_update_method methods[] = {
    {"adam", "AdamW", 2}, {"adamw", "AdamW", 2}, {"lamb", "Lamb", 2}, {"sgd", "Sgd", 0}};
static const tc_update_method with_momentum = {"sgd", "Momentum", 1};

const tc_update_method *tc_update_method_of(const tc_update_options *o) {
    for (size_t i = 0; i < TC_COUNT(methods); i++)
        if (strcmp(methods[i].name, o->optimizer) == 0)
            return o->momentum > 0 && methods[i].moments == 0 ? &with_momentum : &methods[i];
    return NULL;
}

const char *tc_update_option(const tc_update_options *o) { return o->option ? o->option : "update"; }

static tc_status unknown_method(tc_ctx *ctx, const char *name) {
    tc_nearest nearest;
    const char *list = "";
    tc_nearest_begin(&nearest, name);
    for (size_t i = 0; i < TC_COUNT(methods); i++) {
        tc_nearest_offer(&nearest, methods[i].name);
        list = tc_arena_printf(ctx->arena, "%s%s%s", list, i ? ", " : "", methods[i].name);
    }
    tc_error(ctx, TC_USAGE, NULL, "there is no optimizer '%s'", tc_quote(ctx, name));
    if (nearest.best)
        tc_hint(ctx, "did you mean %s? The optimizers are: %s", nearest.best, list);
    else
        tc_hint(ctx, "the optimizers are: %s", list);
    return TC_USAGE;
}

/* Numbers of the optimizer and their range: from 0, or above it, up to but not including `below`; 0: no upper limit. */
static tc_status check_numbers(tc_ctx *ctx, const tc_update_options *o) {
    const struct {
        const char *option;
        double number;
        bool above;
        double below;
    } rows[] = {{"beta1", o->beta1, false, 1},         {"beta2", o->beta2, false, 1},
                {"epsilon", o->epsilon, true, 0},      {"momentum", o->momentum, false, 1},
                {"clip-norm", o->clip_norm, false, 0}, {"weight-decay", o->weight_decay, false, 0}};
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        bool low = rows[i].above ? rows[i].number <= 0 : rows[i].number < 0;
        if (low || (rows[i].below > 0 && rows[i].number >= rows[i].below))
            return tc_error(ctx, TC_USAGE, NULL, "--%s=%g: expected a number %s", rows[i].option, rows[i].number,
                            rows[i].above       ? "above 0"
                            : rows[i].below > 0 ? "from 0 to below 1"
                                                : "that is not negative");
    }
    return TC_OK;
}

/* An option of the optimizer that is given without --update; NULL: there is none. */
static const char *option_alone(const tc_update_options *o) {
    const struct {
        const char *option;
        bool given;
    } rows[] = {{"momentum", o->momentum > 0},          {"nesterov", o->nesterov},
                {"weight-decay", o->weight_decay > 0},  {"decay-all", o->decay_all},
                {"clip-norm", o->clip_norm > 0},        {"clip-last", o->clip_last},
                {"accumulate-gradients", o->accumulate}};
    for (size_t i = 0; i < TC_COUNT(rows); i++)
        if (rows[i].given)
            return rows[i].option;
    return NULL;
}

tc_status tc_update_refuse_last(tc_ctx *ctx) {
    tc_error(ctx, TC_USAGE, NULL, "--clip-last cannot be combined with --loss-scale");
    tc_hint(ctx,
            "with a loss scale, no weight changes until all gradients are known to be finite; leave --clip-last out");
    return TC_USAGE;
}

tc_status tc_check_update(tc_ctx *ctx, const tc_options *options) {
    const tc_update_options *o = &options->update;
    if (!o->optimizer && option_alone(o))
        return tc_error(ctx, TC_USAGE, NULL, "--%s needs --%s", option_alone(o), tc_update_option(o));
    if (!o->optimizer)
        return TC_OK;
    const tc_update_method *method = tc_update_method_of(o);
    if (!method)
        return unknown_method(ctx, o->optimizer);
    TC_TRY(check_numbers(ctx, o));
    if (o->clip_last && o->clip_norm <= 0)
        return tc_error(ctx, TC_USAGE, NULL, "--clip-last needs --clip-norm, above 0");
    if (o->clip_last && tc_scales_loss(options))
        return tc_update_refuse_last(ctx);
    if (o->momentum > 0 && method->moments != 1)
        return tc_error(ctx, TC_USAGE, NULL, "--momentum needs --%s=sgd", tc_update_option(o));
    if (o->nesterov && o->momentum <= 0)
        return tc_error(ctx, TC_USAGE, NULL, "--nesterov needs --momentum, above 0");
    return tc_pipeline_need(ctx, options, tc_arena_printf(ctx->arena, "--%s", tc_update_option(o)), "update",
                            "take a recipe with a backward pass; in --passes, put it last, or before bodies");
}
