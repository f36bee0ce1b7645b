/* tempoc_rules_gradient.c: a gradient rule against central differences: the op alone runs in double precision at x +
 * eps and x - eps for each element of each float operand; its results, weighted by random gradients, are the loss. The
 * rule builds the gradient of the same op for the same weights. Limits are those of PyTorch's gradcheck. */
#include "tempoc_rules.h"
#include "compiler/shape/shape.h"
#include <math.h>
#include <string.h>

#define EPS 1e-6
#define ATOL 1e-5
#define RTOL 1e-3

/* --- the gradient that the rule builds -------------------------------------------------------- */

/* Which operands get a gradient: mostly all, else one. */
static unsigned draw_needed(rule_instance *inst, const tc_node *node, bool *needed) {
    const tc_rule *rule = inst->rule;
    unsigned n = 0,
             only = rule_dice_percent(&inst->dice, 70) ? RULE_NONE : rule_dice_below(&inst->dice, node->n_inputs + 1);
    for (uint16_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        needed[i] = value && i < rule->n_results && rule->results[i] != RULE_NONE &&
                    tc_dtype_is_float(tc_value_dtype(value)) && value->is_input && (only == RULE_NONE || only == i);
        n += needed[i];
    }
    return n;
}

static const char *output_name(tc_arena *arena, uint32_t operand) { return tc_arena_printf(arena, "d%u", operand); }

/* Makes the op and its gradient; the gradient of operand i is output "di". */
static bool build(trial *t, tc_ctx *ctx, rule_instance *inst, bool *needed) {
    tc_summary summary = {0};
    tc_options options = {0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = &summary};
    bool found = false;
    rule_instance_forward(ctx, t->rule, &t->choices, t->seed, t->unknown, inst);
    ctx->n_diags = 0;
    if (inst->why) {
        trial_say(t, VERDICT_NONE, "no instance: %s", inst->why);
        return false;
    }
    tc_node *node = inst->nodes[0];
    tc_value **dins = TC_NEW_ARRAY(ctx->arena, tc_value *, node->n_inputs + 1);
    if (draw_needed(inst, node, needed) == 0) {
        trial_say(t, VERDICT_NONE, "no instance: no gradient is wanted");
        return false;
    }
    tc_status status = tc_gradient_rule_apply(&env, t->rule->set, node, inst->douts, needed, dins, &found);
    if (status != TC_OK || !found) {
        verdict v = status == TC_OK || status == TC_UNSUPPORTED ? VERDICT_NONE : VERDICT_WRONG;
        trial_say(t, v, "%s", found && ctx->n_diags ? ctx->diags[0].message : "its names or guards do not fit");
        return false;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!needed[i])
            continue;
        tc_value *shown =
            dins[i] ? rule_append_node(inst, "Identity", dins[i], NULL, output_name(ctx->arena, i)) : NULL;
        if (!shown) {
            trial_say(t, VERDICT_WRONG, "operand %u has no gradient", i + 1u);
            return false;
        }
        tc_graph_add_output(inst->graph, shown);
    }
    return true;
}

/* --- differences ------------------------------------------------------------------------------ */

/* The sum of the op's results times their gradients, of one run. */
static bool loss_of(tempo_session *session, const rule_instance *inst, const char *const *results, double *out_loss) {
    *out_loss = 0;
    if (tempo_run(session) != TEMPO_OK)
        return false;
    for (uint32_t i = 0; i < RULE_MAX_OPERANDS; i++) {
        tempo_tensor y;
        const double *weight = inst->dout_data[i];
        if (!weight)
            continue;
        if (tempo_output(session, results[i], &y) != TEMPO_OK || y.dtype != TEMPO_DOUBLE)
            return false;
        for (size_t k = 0; k < y.bytes / sizeof(double); k++)
            *out_loss += weight[k] * ((const double *)y.data)[k];
    }
    return true;
}

static void compare_element(trial *t, uint32_t operand, uint64_t index, double got, double want) {
    double far = fabs(got - want) / (ATOL + RTOL * fabs(want));
    far = isfinite(far) ? far : INFINITY;
    t->error = far > t->error ? far : t->error;
    if (far > 1 && t->verdict != VERDICT_WRONG)
        trial_say(t, VERDICT_WRONG, "gradient of operand %u, element %llu: %.9g, by central differences %.9g",
                  operand + 1u, (unsigned long long)index, got, want);
}

/* The gradient of one operand, element by element. */
static void differentiate(trial *t, tempo_session *session, const rule_instance *inst, const char *const *results,
                          uint32_t operand, const rule_input *input, const tempo_tensor *gradient) {
    double *x = input->data;
    bool same = gradient->dtype == TEMPO_DOUBLE && gradient->rank == input->rank;
    for (int i = 0; same && i < input->rank; i++)
        same = gradient->dims[i] == input->dims[i];
    if (!same) {
        trial_say(t, VERDICT_WRONG, "the gradient of operand %u has another type or shape than the operand",
                  operand + 1u);
        return;
    }
    for (uint64_t i = 0; i < input->count && t->verdict != VERDICT_WRONG; i++) {
        double kept = x[i], up = 0, down = 0;
        x[i] = kept + EPS;
        bool ran = loss_of(session, inst, results, &up);
        x[i] = kept - EPS;
        ran = ran && loss_of(session, inst, results, &down);
        x[i] = kept;
        if (!ran) {
            trial_say(t, VERDICT_NONE, "the op does not run: %s", tempo_message(session));
            return;
        }
        compare_element(t, operand, i, ((const double *)gradient->data)[i], (up - down) / (2 * EPS));
    }
}

/* `forward` and `backward` are instances of one trial: their inputs have the same order and data. */
static void compare(trial *t, tc_ctx *ctx, rule_instance *forward, rule_instance *backward, const bool *needed) {
    const char *results[RULE_MAX_OPERANDS] = {NULL};
    tc_node *node = forward->nodes[0];
    uint32_t n_inputs = node->n_inputs;
    const tc_value *operands[RULE_MAX_OPERANDS] = {NULL};
    for (uint32_t i = 0; i < node->n_outputs && i < RULE_MAX_OPERANDS; i++)
        results[i] = tc_output(node, i) ? tc_arena_strdup(ctx->arena, tc_output(node, i)->name) : NULL;
    for (uint32_t i = 0; i < n_inputs && i < RULE_MAX_OPERANDS; i++)
        operands[i] = tc_input(node, i);
    tempo_session *op = trial_run(t, forward, "the op"), *gradient = op ? trial_run(t, backward, "its gradient") : NULL;
    if (op && !gradient)
        t->verdict = VERDICT_WRONG;
    if (gradient)
        trial_say(t, VERDICT_RIGHT, "%s", "");
    for (uint32_t i = 0; gradient && i < n_inputs && t->verdict == VERDICT_RIGHT; i++) {
        tempo_tensor got;
        if (!needed[i] || tempo_output(gradient, output_name(ctx->arena, i), &got) != TEMPO_OK)
            continue;
        for (unsigned k = 0; k < forward->n_inputs; k++)
            if (forward->inputs[k].value == operands[i])
                differentiate(t, op, forward, results, i, &forward->inputs[k], &got);
    }
    tempo_close(op);
    tempo_close(gradient);
}

void trial_gradient(trial *t) {
    tc_ctx ctx;
    rule_instance forward = {0}, backward = {0};
    bool needed[RULE_MAX_OPERANDS] = {false};
    tc_ctx_init(&ctx, "tempoc");
    t->error = 0;
    t->saves = false;
    if (build(t, &ctx, &backward, needed)) {
        rule_instance_forward(&ctx, t->rule, &t->choices, t->seed, UNKNOWN_NOTHING, &forward);
        if (!forward.why)
            compare(t, &ctx, &forward, &backward, needed);
    }
    tc_model_destroy(forward.model);
    tc_model_destroy(backward.model);
    tc_ctx_fini(&ctx);
}
