/* explain.c: what rules tell about themselves: how far a rule got at a node (--explain=RULE), how often rules were
 * tried and matched (--stats). */
#include "rule_ir.h"
#include <string.h>

bool rule_is_explained(const tc_options *options, const tc_rule *rule) {
    return options->explain && (!strcmp(options->explain, "all") || !strcmp(options->explain, rule->name));
}

void rule_explain(tc_ctx *ctx, const rule_match *match, const tc_node *anchor, bool matched) {
    const tc_rule *rule = match->rule;
    const match_failure *failure = &match->failure;
    const char *op = anchor->op_type, *label = tc_node_label(anchor);
    if (matched) {
        tc_note(ctx, NULL, "rule %s matched at %s \"%s\"", rule->name, op, label);
        return;
    }
    if (failure->depth == 0) {
        tc_note(ctx, NULL, "rule %s at %s \"%s\" gave up: too many ways to try", rule->name, op, label);
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
    for (size_t i = 0; i < summary->n_rules; i++)
        if (!strcmp(summary->rules[i].name, name))
            return &summary->rules[i];
    tc_rule_stat *grown = TC_NEW_ARRAY(env->ctx->arena, tc_rule_stat, summary->n_rules + 1);
    if (summary->n_rules)
        memcpy(grown, summary->rules, summary->n_rules * sizeof *grown);
    grown[summary->n_rules] = (tc_rule_stat){.name = tc_arena_strdup(env->ctx->arena, name)};
    summary->rules = grown;
    return &grown[summary->n_rules++];
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
    for (size_t i = 0; i < env->summary->n_rules; i++)
        if (!strcmp(env->summary->rules[i].name, name))
            return;
    tc_warn(env->ctx, NULL, "%s=%s: there is no rule of this name", option, tc_quote(env->ctx, name));
    tc_hint(env->ctx, "--list-rules prints those that are built in");
}

void tc_rules_check_names(tc_pass_env *env) {
    if (!env->summary->n_rules)
        return;
    for (size_t i = 0; i < env->options->n_disabled; i++)
        check_name(env, "--disable", env->options->disabled[i]);
    if (env->options->explain && strcmp(env->options->explain, "all") != 0)
        check_name(env, "--explain", env->options->explain);
}
