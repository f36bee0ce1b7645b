/* update_scale.c: gradients between the backward pass and the update. Several runs add up to one update; gradients
 * are clipped by their norm; those of a scaled loss are unscaled, or, if one is not finite, the update is skipped.
 *
 *     sum W.sum of several runs:  W.sum' = (first of them? 0 : W.sum) + tempo.share / tempo.loss_scale G
 *     norm:                       sqrt (sum of all G^2), of unscaled gradients; tempo.grad_norm
 *     scale:                      min(1, clip_norm / (norm + 1e-6)), and / tempo.loss_scale if G is not a sum
 *     finite:                     the norm is a finite number; tempo.finite, with a loss scale
 *     number:                     tempo.update; -1 if this run makes no update */
#include "update.h"
#include "compiler/ir/ops.h"
#include <string.h>

static tc_value *number(tc_update *u, double x) { return tc_build_scalar(&u->g, TC_FLOAT, x); }

tc_status tc_update_keep(tc_update *u, tc_value *value, const char *name, tc_value *state) {
    TC_TRY(u->g.status);
    tc_node *identity = tc_node_create(u->graph, "", "Identity", 1, 0);
    tc_node_set_input(identity, 0, value);
    tc_node_append(identity);
    return tc_update_renew(u, identity, 0, name, state);
}

/* --- sums over runs --------------------------------------------------------------------------- */

/* tempo.summed: runs since the last update, 0 before the first of a group. */
static tc_status count_runs(tc_update *u, tc_value *apply, tc_value **out_summed) {
    const tc_type *type = tc_type_tensor_static(u->graph->model, TC_INT64, 0, NULL);
    TC_TRY(tc_update_state(u, TC_SUMMED_INPUT, type, out_summed));
    tc_value *more = TC_OP(&u->g, "Add", *out_summed, tc_build_scalar(&u->g, TC_INT64, 1));
    tc_value *next = TC_OP(&u->g, "Where", apply, tc_build_scalar(&u->g, TC_INT64, 0), more);
    return tc_update_keep(u, next, NULL, *out_summed);
}

/* Sums replace gradients. */
static tc_status add_up(tc_update *u, tc_value *apply, tc_value *loss_scale) {
    tc_value *share, *summed;
    TC_TRY(tc_update_input(u, TC_SHARE_INPUT, TC_FLOAT, &share));
    if (loss_scale)
        share = TC_OP(&u->g, "Div", share, loss_scale);
    TC_TRY(u->g.status);
    TC_TRY(count_runs(u, apply, &summed));
    for (size_t i = 0; i < u->n; i++) {
        tc_value *sum, *weight = u->list[i].weight;
        const char *name = tc_arena_printf(u->env->ctx->arena, "%s.sum", weight->name);
        TC_TRY(tc_update_state(u, name, weight->type, &sum));
        tc_value *const operands[] = {share, summed, sum, u->list[i].gradient};
        tc_node *node = tc_node_create(u->graph, TC_TEMPO_DOMAIN, "Accumulate", TC_COUNT(operands), 1);
        for (uint32_t k = 0; k < TC_COUNT(operands); k++)
            tc_node_set_input(node, k, operands[k]);
        tc_node_append(node);
        TC_TRY(tc_update_renew(u, node, 0, NULL, sum));
        TC_TRY(tc_infer_node(u->env->ctx, node));
        u->list[i].gradient = tc_output(node, 0);
    }
    return TC_OK;
}

/* --- the norm --------------------------------------------------------------------------------- */

static tc_value *norm_of(tc_update *u, size_t n, tc_value *const *values) {
    return tc_build_finish(&u->g, tc_build_node(&u->g, TC_TEMPO_DOMAIN, "GlobalNorm", n, values, 1));
}

/* Of all gradients. If no update waits for it, each gradient is read on its own, as soon as it is computed. */
static tc_value *norm_of_all(tc_update *u) {
    tc_value **values = TC_NEW_ARRAY(u->env->ctx->arena, tc_value *, u->n);
    for (size_t i = 0; i < u->n; i++)
        values[i] = u->options->clip_last ? norm_of(u, 1, &u->list[i].gradient) : u->list[i].gradient;
    return tc_build_cast(&u->g, norm_of(u, u->n, values), TC_FLOAT);
}

static tc_value *clipping_by(tc_update *u, tc_value *norm) {
    tc_value *below = TC_OP(&u->g, "Add", norm, number(u, 1e-6));
    return TC_OP(&u->g, "Min", TC_OP(&u->g, "Div", number(u, u->options->clip_norm), below), number(u, 1));
}

/* The state tempo.last_norm: 0 before the first update, which is not clipped. */
static tc_status clip_by_last(tc_update *u, tc_value *apply, tc_value *norm) {
    tc_value *last;
    TC_TRY(tc_update_state(u, TC_LAST_NORM_INPUT, norm->type, &last));
    tc_value *kept = apply ? TC_OP(&u->g, "Where", apply, norm, last) : norm;
    u->scale = clipping_by(u, last);
    return tc_update_keep(u, kept, TC_GRAD_NORM_OUTPUT, last);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The norm of all gradients shows whether each is finite. */
static tc_status show_finite(tc_update *u, tc_value *norm, tc_value **out_finite) {
    tc_value *other = TC_OP(&u->g, "Or", TC_OP(&u->g, "IsNaN", norm), TC_OP(&u->g, "IsInf", norm));
    *out_finite = TC_OP(&u->g, "Not", other);
    TC_TRY(u->g.status);
    return tc_update_show(u, *out_finite, TC_FINITE_OUTPUT);
}

/* `made`: whether this run makes an update. */
static void wait_unless(tc_update *u, tc_value *made) {
    u->number = TC_OP(&u->g, "Where", made, u->number, tc_build_scalar(&u->g, TC_INT64, -1));
    u->waits = true;
}

static tc_status scale_by_norm(tc_update *u, tc_value *apply, tc_value *loss_scale) {
    tc_value *norm = norm_of_all(u), *factor = u->options->accumulate ? NULL : loss_scale, *finite = NULL;
    if (factor)
        norm = TC_OP(&u->g, "Div", norm, factor);
    TC_TRY(u->g.status);
    if (u->options->clip_last)
        return clip_by_last(u, apply, norm);
    if (u->options->clip_norm > 0)
        u->scale = clipping_by(u, norm);
    if (factor)
        u->scale = TC_OP(&u->g, "Div", u->scale ? u->scale : number(u, 1), factor);
    if (loss_scale) {
        TC_TRY(show_finite(u, norm, &finite));
        wait_unless(u, finite);
    }
    TC_TRY(u->g.status);
    return tc_update_show(u, norm, TC_GRAD_NORM_OUTPUT);
}

tc_status tc_update_scale(tc_update *u) {
    tc_value *apply = NULL, *loss_scale = tc_map_get(u->graph->names, TC_LOSS_SCALE_INPUT);
    if (u->options->clip_last && loss_scale)
        return tc_update_refuse_last(u->env->ctx);
    if (u->options->accumulate) {
        TC_TRY(tc_update_input(u, TC_APPLY_INPUT, TC_BOOL, &apply));
        TC_TRY(add_up(u, apply, loss_scale));
        wait_unless(u, apply);
    }
    if (u->options->clip_norm > 0 || loss_scale)
        TC_TRY(scale_by_norm(u, apply, loss_scale));
    return u->g.status;
}
