/* tempoc_rules_try.c: one instance of a rewrite: the graph is made, the matcher must find the rule at its anchor with
 * the nodes that it was made from, the rule is applied, and both graphs run on the same inputs. A rule must give the
 * same bits, NaN aside, unless it says `rounds` or `inexact`. For a rule with a forward and a backward half the ledger
 * must show that no more is kept than before. */
#include "compiler/memory/memory.h"
#include "passes/upgrade/upgrade.h"
#include "passes/bodies/bodies.h"
#include "tempoc_rules.h"
#include "passes/lean/lean.h"
#include "passes/lean/ways.h"
#include "compiler/text/text.h"
#include "compiler/ir/verify.h"
#include "runtime/compile/verify_compiled.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the largest element. Constants in rules have eight digits or so; floats are summed in other orders. */
static double tolerance(tempo_dtype dtype) {
    switch (dtype) {
    case TEMPO_DOUBLE: return 1e-7;
    case TEMPO_FLOAT: return 1e-4;
    case TEMPO_FLOAT16: return 1e-2;
    case TEMPO_BFLOAT16: return 5e-2;
    default: return 0;
    }
}

void trial_say(trial *t, verdict v, const char *fmt, ...) {
    va_list args;
    t->verdict = v;
    va_start(args, fmt);
    vsnprintf(t->text, sizeof t->text, fmt, args);
    va_end(args);
}

/* --- running ---------------------------------------------------------------------------------- */

tempo_session *trial_run(trial *t, rule_instance *inst, const char *what) {
    static const rt_hooks hooks = {tc_upgrade_model, tc_body_for};
    tempo_session *session = NULL;
    tempo_status status = rt_open_model(inst->model, t->rule->name, &(tempo_options){.threads = 1}, &hooks, &session);
    inst->model = NULL;
    for (unsigned i = 0; i < inst->n_inputs && status == TEMPO_OK; i++) {
        const rule_input *input = &inst->inputs[i];
        tempo_tensor tensor = {(tempo_dtype)input->dtype, input->rank, input->dims, input->data,
                               tc_tensor_bytes(input->dtype, input->count)};
        status = tempo_bind(session, input->value->name, &tensor);
    }
    if (status == TEMPO_OK)
        status = tempo_run(session);
    if (status == TEMPO_OK)
        return session;
    trial_say(t, VERDICT_NONE, "%s does not run: %s", what, session ? tempo_message(session) : "out of memory");
    tempo_close(session);
    return NULL;
}

/* --- comparing -------------------------------------------------------------------------------- */

static double difference(double got, double want, bool exact) {
    if (isnan(got) && isnan(want))
        return 0;
    if (got == want)
        return exact && signbit(got) != signbit(want) ? INFINITY : 0;
    return isfinite(got) && isfinite(want) ? fabs(got - want) : INFINITY;
}

static double largest(const tc_tensor *tensor) {
    double most = 0;
    for (uint64_t i = 0; i < tensor->count; i++) {
        double x = fabs(tc_tensor_get(tensor, i));
        most = isfinite(x) && x > most ? x : most;
    }
    return most;
}

/* Of the parameter that the rule says it rounds by. */
static double largest_operand(const rule_instance *inst) {
    const tc_value *by = inst->rule->rounds_of == RULE_NONE ? NULL : inst->values[inst->rule->rounds_of];
    for (unsigned i = 0; by && i < inst->n_inputs; i++) {
        const rule_input *input = &inst->inputs[i];
        if (input->value == by)
            return largest(&(tc_tensor){.dtype = input->dtype, .count = input->count, .data = input->data});
    }
    return 0;
}

/* least: the least reference for relative errors. */
static void compare_output(trial *t, const char *name, const tempo_tensor *before, const tempo_tensor *after,
                           double least) {
    bool exact = !t->rule->rounds && !t->rule->inexact,
         same = before->dtype == after->dtype && before->rank == after->rank;
    for (int i = 0; same && i < before->rank; i++)
        same = before->dims[i] == after->dims[i];
    if (!same) {
        trial_say(t, VERDICT_WRONG, "output '%s' has another type or shape", name);
        return;
    }
    tc_tensor want = tc_view_tensor(before), got = tc_view_tensor(after);
    double scale = fmax(largest(&want), least);
    for (uint64_t i = 0; i < want.count; i++) {
        double x = tc_tensor_get(&got, i), y = tc_tensor_get(&want, i);
        double far = t->rule->mends && isnan(y) ? 0 : difference(x, y, exact);
        double part = far == 0 ? 0 : scale > 0 ? far / scale : INFINITY;
        t->error = part > t->error ? part : t->error;
        if (part > (exact ? 0 : tolerance(before->dtype)) && t->verdict != VERDICT_WRONG)
            trial_say(t, VERDICT_WRONG,
                      "output '%s', element %llu: %.9g, before the rule %.9g: apart by %.2g of %.3g%s", name,
                      (unsigned long long)i, x, y, part, scale,
                      exact && part < 1e-4 ? "; a rule that is meant to round says `rounds` in front of `match`" : "");
    }
}

static void compare(trial *t, tempo_session *before, tempo_session *after, const rule_instance *inst) {
    const double least = largest_operand(inst);
    tempo_info info;
    tempo_tensor want, got;
    trial_say(t, VERDICT_RIGHT, "%s", "");
    for (size_t i = 0; tempo_output_info(before, i, &info) && t->verdict != VERDICT_WRONG; i++) {
        if (tempo_output(before, info.name, &want) != TEMPO_OK || tempo_output(after, info.name, &got) != TEMPO_OK)
            trial_say(t, VERDICT_WRONG, "output '%s' is gone", info.name);
        else
            compare_output(t, info.name, &want, &got, least);
    }
}

/* --- applying --------------------------------------------------------------------------------- */

/* An optional name whose presence a guard decides. */
static bool is_excluded(const rule_instance *inst) {
    for (uint16_t i = 0; i < inst->rule->n_guards; i++) {
        const rule_guard *guard = &inst->rule->guards[i];
        bool absent = !strcmp(guard->row->name, "absent"), present = !strcmp(guard->row->name, "present");
        if ((absent || present) && ((inst->values[guard->args[0].name] != NULL) == present) == guard->negated)
            return true;
    }
    return false;
}

/* Whether the rule has matched the nodes made from the pattern, not another reading of them. */
static bool is_reading(const rule_instance *inst, const rule_match *m) {
    bool inner[RULE_MAX_NODES] = {false};
    for (uint16_t i = 0; i < inst->rule->n_match; i++)
        for (uint16_t k = 2; inst->rule->match[i].product && k < inst->rule->match[i].n_operands; k++)
            inner[inst->rule->match[i].spare + k - 2] = true;
    for (uint16_t i = 0; i < inst->rule->n_match; i++)
        if (!inner[i] && m->nodes[i] != inst->nodes[i])
            return false;
    return true;
}

static const char *first_message(const tc_ctx *ctx) { return ctx->n_diags ? ctx->diags[0].message : "no message"; }

/* Makes the instance and applies the rule; false: no hit, or its result is no valid graph. */
static bool apply(trial *t, tc_ctx *ctx, rule_instance *inst) {
    rule_match *m = TC_NEW(ctx->arena, rule_match);
    bool done = false;
    rule_instance_make(ctx, t->rule, &t->choices, t->seed, t->unknown, t->edges, t->careless, inst);
    ctx->n_diags = 0;
    if (inst->why) {
        trial_say(t, VERDICT_NONE, "no instance: %s", inst->why);
        return false;
    }
    if (is_excluded(inst)) {
        trial_say(t, VERDICT_EXCLUDED, "%s", "");
        return false;
    }
    t->rule->set->forward_end = inst->n_late ? tc_forward_first(inst->graph, inst->loss) : NULL;
    if (!rule_match_at(m, t->rule, inst->nodes[t->rule->anchor], true)) {
        trial_say(t, VERDICT_NONE, "it does not match at '%s': %s", m->failure.step ? m->failure.step : "?",
                  m->failure.why);
        return false;
    }
    if (!is_reading(inst, m)) {
        trial_say(t, VERDICT_NONE, "it matches, but reads the graph in another way");
        return false;
    }
    if (rule_replace(ctx, m, &done) != TC_OK) {
        trial_say(t, VERDICT_WRONG, "the right side cannot be built: %s", first_message(ctx));
        return false;
    }
    if (!done) {
        trial_say(t, VERDICT_NONE, "it is refused: %s", m->failure.why);
        return false;
    }
    if (tc_verify(ctx, inst->model) != TC_OK) {
        trial_say(t, VERDICT_WRONG, "the graph after it is invalid: %s", first_message(ctx));
        return false;
    }
    return true;
}

/* --- bytes ------------------------------------------------------------------------------------ */

bool trial_is_pair(const tc_rule *rule) {
    bool early = false, late = false;
    for (uint16_t i = 0; i < rule->n_match && !rule->gradient; i++) {
        size_t n = strlen(rule->match[i].ops[0].name);
        bool is_grad = n > 4 && strcmp(rule->match[i].ops[0].name + n - 4, "Grad") == 0;
        early |= !is_grad;
        late |= is_grad;
    }
    return early && late;
}

/* The bytes kept after cheap nodes recompute their results, as the pass `lean` does next, and the cost of that
 * (cheap.def). Rules of the other variants of an idea keep a result that cheap nodes could recompute, and are measured
 * without them. */
typedef struct keeping {
    int64_t bytes; /* -1: not known */
    unsigned cost;
} keeping;

static tc_status again(tc_ctx *ctx, rule_instance *inst, const tc_value *loss) {
    tc_summary summary = {0};
    tc_options options = {0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = &summary};
    return tc_makes_first(inst->rule->name) ? tc_recompute_cheap(&env, inst->graph, tc_forward_first(inst->graph, loss))
                                            : TC_OK;
}

static keeping measure(tc_ctx *ctx, rule_instance *inst, const char *loss_name) {
    const tc_value *loss = tc_graph_find(inst->graph, loss_name);
    tc_ledger ledger;
    keeping k = {-1, 0};
    tc_remove_dead(inst->graph);
    if (!loss || !loss->producer || again(ctx, inst, loss) != TC_OK)
        return k;
    tc_ledger_make(ctx->arena, inst->graph, loss, &ledger);
    k.bytes = tc_dim_is_const(ledger.bytes) ? ledger.bytes.value : -1;
    for (const tc_node *node = tc_forward_first(inst->graph, loss)->next; node; node = node->next)
        k.cost += tc_cheap_cost(node) == TC_NEVER ? 0 : tc_cheap_cost(node);
    return k;
}

static void compare_bytes(trial *t) {
    tc_ctx ctx;
    rule_instance before = {0}, after = {0};
    trial copy = *t;
    tc_ctx_init(&ctx, "tempoc");
    copy.unknown = UNKNOWN_NOTHING;
    rule_instance_make(&ctx, copy.rule, &copy.choices, copy.seed, copy.unknown, copy.edges, copy.careless, &before);
    if (!before.why && apply(&copy, &ctx, &after)) {
        const char *loss = before.loss->name;
        keeping had = measure(&ctx, &before, loss), has = measure(&ctx, &after, loss);
        t->saves = has.bytes >= 0 && (has.bytes < had.bytes || (has.bytes == had.bytes && has.cost < had.cost));
        if (has.bytes < 0 || has.bytes > had.bytes)
            trial_say(t, VERDICT_WRONG, "%lld bytes are kept for the backward pass, before the rule %lld",
                      (long long)has.bytes, (long long)had.bytes);
    }
    tc_model_destroy(before.model);
    tc_model_destroy(after.model);
    tc_ctx_fini(&ctx);
}

/* --- one trial -------------------------------------------------------------------------------- */

void trial_rewrite(trial *t) {
    tc_ctx ctx;
    rule_instance before = {0}, after = {0};
    tempo_session *was = NULL, *is = NULL;
    tc_ctx_init(&ctx, "tempoc");
    t->error = 0;
    t->saves = false;
    if (apply(t, &ctx, &after)) {
        rule_instance_make(&ctx, t->rule, &t->choices, t->seed, t->unknown, t->edges, t->careless, &before);
        TC_ASSERT(!before.why);
        was = trial_run(t, &before, "the graph");
        is = was ? trial_run(t, &after, "the graph after the rule") : NULL;
        if (was && !is)
            t->verdict = VERDICT_WRONG;
        if (is)
            compare(t, was, is, &before);
        if (is && t->verdict == VERDICT_RIGHT && trial_is_pair(t->rule))
            compare_bytes(t);
    }
    tempo_close(was);
    tempo_close(is);
    tc_model_destroy(before.model);
    tc_model_destroy(after.model);
    tc_ctx_fini(&ctx);
}

static void print_graph(trial *t, tc_ctx *ctx, const char *what, bool applied, FILE *out) {
    rule_instance inst = {0};
    if (applied && !t->rule->gradient)
        apply(t, ctx, &inst);
    else if (t->rule->gradient)
        rule_instance_forward(ctx, t->rule, &t->choices, t->seed, t->unknown, &inst);
    else
        rule_instance_make(ctx, t->rule, &t->choices, t->seed, t->unknown, t->edges, t->careless, &inst);
    fprintf(out, "# %s\n", what);
    ctx->n_diags = 0;
    tc_print_model(ctx, inst.model, out);
    fputc('\n', out);
    tc_model_destroy(inst.model);
}

void trial_print(const trial *t, FILE *out) {
    tc_ctx ctx;
    trial copy = *t;
    tc_ctx_init(&ctx, "tempoc");
    print_graph(&copy, &ctx, "before", false, out);
    copy = *t;
    if (!t->rule->gradient)
        print_graph(&copy, &ctx, "after the rule", true, out);
    tc_ctx_fini(&ctx);
}
