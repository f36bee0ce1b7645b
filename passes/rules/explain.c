/* explain.c: reports about rules: how far a rule matched at a node (--explain=RULE), how often rules were tried and
 * matched (--stats). */
#include "rules.h"
#include "rule_ir.h"
#include <string.h>

bool tc_is_disabled(const tc_options *options, const char *name) {
    for (size_t i = 0; i < options->n_disabled; i++)
        if (strcmp(options->disabled[i], name) == 0)
            return true;
    return false;
}

bool tc_is_explained(const tc_options *options, const char *name) {
    return options->explain && (!strcmp(options->explain, "all") || !strcmp(options->explain, name));
}

/* Whether the rule matched far enough for the user to care: half of the nodes that it needs, and more than its
 * anchor if it needs three. Each bias of a layer begins like a normalization, each product like attention. */
static bool is_candidate(const match_failure *failure, const tc_rule *rule) {
    unsigned needed = 0;
    for (uint16_t i = 0; i < rule->n_match; i++)
        needed += !rule->match[i].optional;
    return failure->depth == 0 || failure->depth > (needed < 3 ? needed - 1 : (needed + 1) / 2);
}

void rule_explain(tc_ctx *ctx, const rule_match *match, const tc_node *anchor) {
    const tc_rule *rule = match->rule;
    const match_failure *failure = &match->failure;
    const char *op = anchor->op_type, *label = tc_node_label(anchor);
    if (!is_candidate(failure, rule))
        return;
    if (failure->depth == 0) {
        tc_note(ctx, NULL, "rule %s at %s \"%s\" gave up: too many alternatives", rule->name, op, label);
        return;
    }
    if (failure->node && failure->node != anchor)
        tc_note(ctx, NULL, "rule %s at %s \"%s\" stopped at '%s' (%s:%u): %s \"%s\": %s", rule->name, op, label,
                failure->step, rule->file, failure->loc.line, failure->node->op_type, tc_node_label(failure->node),
                failure->why);
    else
        tc_note(ctx, NULL, "rule %s at %s \"%s\" stopped at '%s' (%s:%u): %s", rule->name, op, label, failure->step,
                rule->file, failure->loc.line, failure->why);
}

tc_rule_stat *tc_summary_rule(tc_pass_env *env, const char *name) {
    tc_summary *summary = env->summary;
    tc_arena *arena = env->ctx->arena;
    if (!summary->rules_by_name)
        summary->rules_by_name = tc_map_create(arena);
    size_t at = (size_t)(uintptr_t)tc_map_get(summary->rules_by_name, name);
    if (at)
        return &summary->rules[at - 1];
    summary->rules =
        tc_arena_grow(arena, summary->rules, sizeof *summary->rules, &summary->cap_rules, summary->n_rules + 1);
    tc_rule_stat *stat = &summary->rules[summary->n_rules++];
    *stat = (tc_rule_stat){.name = tc_arena_strdup(arena, name)};
    tc_map_set(summary->rules_by_name, stat->name, (void *)(uintptr_t)summary->n_rules);
    return stat;
}

void tc_rules_stats(tc_pass_env *env, tc_rule_set *set) {
    for (tc_rule *rule = set->first; rule && env->summary; rule = rule->next) {
        tc_rule_stat *stat = tc_summary_rule(env, rule->name);
        stat->matched += rule->matched;
        stat->tried += rule->tried;
        rule->matched = rule->tried = 0;
    }
}

static void check_name(tc_pass_env *env, const char *option, const char *name) {
    if (tc_map_get(env->summary->rules_by_name, name))
        return;
    tc_warn(env->ctx, NULL, "%s=%s: there is no rule with this name", option, tc_quote(env->ctx, name));
    tc_hint(env->ctx, "--list-rules prints the built-in rules");
}

void tc_rules_check_names(tc_pass_env *env) {
    if (!env->summary->n_rules)
        return;
    for (size_t i = 0; i < env->options->n_disabled; i++)
        check_name(env, "--disable", env->options->disabled[i]);
    if (env->options->explain && strcmp(env->options->explain, "all") != 0)
        check_name(env, "--explain", env->options->explain);
}
