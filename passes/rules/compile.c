/* compile.c: checks a parsed rule and plans its match. The last statement of the match block is the anchor.
 * Statements that it reaches through operands are found from it upwards. Every other statement is found downwards,
 * among the users of a bound value (`down`, in order). Rules are then sorted by the possible ops of their anchor, so
 * that a node of the graph is tried only with rules that could begin there. */
#include "rule_ir.h"
#include <stdio.h>
#include <string.h>

tc_rule_set *tc_rules_create(void) {
    tc_arena *arena = tc_arena_create();
    tc_rule_set *set = TC_NEW(arena, tc_rule_set);
    set->arena = arena;
    set->anchors = tc_map_create(arena);
    set->gradients = tc_map_create(arena);
    set->by_name = tc_map_create(arena);
    return set;
}

void tc_rules_destroy(tc_rule_set *set) {
    if (set)
        tc_arena_destroy(set->arena);
}

/* --- buckets ---------------------------------------------------------------------------------- */

const rule_bucket *rule_bucket_of(const tc_map *buckets, const char *domain, const char *op_type) {
    char key[256];
    int n = snprintf(key, sizeof key, "%s.%s", domain, op_type);
    return n > 0 && (size_t)n < sizeof key ? tc_map_get(buckets, key) : NULL;
}

/* By falling benefit; equal ones in the order of the text. */
static void file_under(tc_rule_set *set, tc_map *buckets, const rule_op *op, tc_rule *rule) {
    const char *key = tc_arena_printf(set->arena, "%s.%s", op->domain, op->name);
    rule_bucket *bucket = tc_map_get(buckets, key);
    if (!bucket) {
        bucket = TC_NEW(set->arena, rule_bucket);
        tc_map_set(buckets, key, bucket);
    }
    bucket->rules = tc_arena_grow(set->arena, bucket->rules, sizeof *bucket->rules, &bucket->cap, bucket->n + 1);
    size_t at = bucket->n++;
    for (; at > 0 && bucket->rules[at - 1]->benefit < rule->benefit; at--)
        bucket->rules[at] = bucket->rules[at - 1];
    bucket->rules[at] = rule;
}

/* --- the order of matching -------------------------------------------------------------------- */

typedef struct walk {
    const tc_rule *rule;
    bool reached[RULE_MAX_NODES], bound[RULE_MAX_NAMES];
} walk;

static void reach(walk *w, uint16_t index);

static void reach_operand(walk *w, const rule_operand *operand) {
    if (operand->kind == OPERAND_NODE)
        reach(w, operand->index);
    for (uint16_t i = 0; operand->kind == OPERAND_CHOICE && i < operand->n_choices; i++)
        reach_operand(w, &operand->choices[i]);
    if (operand->kind != OPERAND_NAME)
        return;
    w->bound[operand->index] = true;
    if (w->rule->names[operand->index].node != RULE_NONE)
        reach(w, w->rule->names[operand->index].node);
}

/* Marks a pattern node and everything above it. */
static void reach(walk *w, uint16_t index) {
    const rule_node *node = &w->rule->match[index];
    if (w->reached[index])
        return;
    w->reached[index] = true;
    for (uint16_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] != RULE_NONE)
            w->bound[node->outputs[i]] = true;
    for (uint16_t i = 0; i < node->n_operands; i++)
        reach_operand(w, &node->operands[i]);
    for (uint16_t i = 2; node->product && i < node->n_operands; i++)
        w->reached[node->spare + i - 2] = true;
}

/* The number of known operands of an unreached node: the more, the fewer users have to be tried. */
static unsigned known_operands(const walk *w, const rule_node *node) {
    unsigned n = 0;
    for (uint16_t i = 0; i < node->n_operands; i++) {
        const rule_operand *operand = &node->operands[i];
        n += operand->kind == OPERAND_NODE && w->reached[operand->index];
        n += operand->kind == OPERAND_NAME && w->bound[operand->index];
    }
    return n;
}

static tc_status lay_out(tc_lexer *lx, tc_rule_set *set, tc_rule *rule) {
    walk w = {.rule = rule};
    rule->anchor = (uint16_t)(rule->n_match - 1);
    if (rule->match[rule->anchor].optional)
        return rule_error(lx, rule->match[rule->anchor].loc,
                          "matching starts at the last statement, so it cannot be optional");
    rule->down = TC_NEW_ARRAY(set->arena, uint16_t, rule->n_match);
    reach(&w, rule->anchor);
    for (;;) {
        uint16_t best = RULE_NONE, left = RULE_NONE;
        unsigned best_known = 0;
        for (uint16_t i = 0; i < rule->n_match; i++) {
            if (w.reached[i])
                continue;
            left = i;
            unsigned known = known_operands(&w, &rule->match[i]);
            if (known && known >= best_known) {
                best = i;
                best_known = known;
            }
        }
        if (left == RULE_NONE)
            return TC_OK;
        if (best == RULE_NONE)
            return rule_error(lx, rule->match[left].loc, "'%s' is not connected to the last statement",
                              rule->match[left].label);
        rule->down[rule->n_down++] = best;
        reach(&w, best);
    }
}

/* --- checks ----------------------------------------------------------------------------------- */

static tc_status check_match(tc_lexer *lx, tc_rule *rule) {
    if (rule->n_match == 0)
        return rule_error(lx, rule->loc, "rule '%s' matches nothing", rule->name);
    for (uint16_t n = 0; n < rule->n_match; n++) /* if the node is absent, all results but the first are unbound */
        for (uint16_t i = 1; rule->match[n].optional && i < rule->match[n].n_outputs; i++)
            if (rule->match[n].outputs[i] != RULE_NONE)
                rule->names[rule->match[n].outputs[i]].optional = true;
    for (uint16_t i = 0; i < rule->n_params; i++)
        if (rule->params[i] != RULE_NONE && !rule->names[rule->params[i]].matched)
            return rule_error(lx, rule->names[rule->params[i]].loc, "parameter '%s' is not used by the match",
                              rule->names[rule->params[i]].text);
    for (uint16_t i = 0; i < rule->n_outs; i++)
        if (rule->outs[i] == RULE_NONE || rule->names[rule->outs[i]].node == RULE_NONE)
            return rule_error(lx, rule->loc, "result %u of rule '%s' is not defined by the match", i + 1u, rule->name);
    if (rule->n_outs == 0)
        return rule_error(lx, rule->loc, "rule '%s' has no results", rule->name);
    return TC_OK;
}

/* A name on the right side must be a parameter, a kept result, or defined above. */
static tc_status check_build_name(tc_lexer *lx, const tc_rule *rule, const rule_operand *operand, uint16_t user) {
    const rule_name *name = &rule->names[operand->index];
    if (name->build != RULE_NONE && name->build >= user)
        return rule_error(lx, operand->loc, "'%s' is used before the right side defines it", name->text);
    if (name->build == RULE_NONE && name->node != RULE_NONE && !name->is_out)
        return rule_error(lx, operand->loc,
                          "'%s' is inside the match and removed by it: make it a result, or compute it on "
                          "the right side",
                          name->text);
    return TC_OK;
}

static void mark_root(tc_rule *rule, uint16_t node, uint16_t root) {
    if (rule->build[node].root != RULE_NONE)
        return;
    rule->build[node].root = root;
    for (uint16_t i = 0; i < rule->build[node].n_operands; i++) {
        const rule_operand *operand = &rule->build[node].operands[i];
        if (operand->kind == OPERAND_NODE)
            mark_root(rule, operand->index, root);
        else if (operand->kind == OPERAND_NAME && rule->names[operand->index].build != RULE_NONE)
            mark_root(rule, rule->names[operand->index].build, root);
    }
}

static tc_status check_build(tc_lexer *lx, tc_rule *rule) {
    const uint16_t *outs = rule->gradient ? rule->results : rule->outs;
    uint16_t n_outs = rule->gradient ? rule->n_results : rule->n_outs, defined = 0;
    for (uint16_t n = 0; n < rule->n_build; n++)
        for (uint16_t i = 0; i < rule->build[n].n_operands; i++)
            if (rule->build[n].operands[i].kind == OPERAND_NAME)
                TC_TRY(check_build_name(lx, rule, &rule->build[n].operands[i], n));
    for (uint16_t i = 0; i < n_outs; i++) {
        uint16_t node = outs[i] == RULE_NONE ? RULE_NONE : rule->names[outs[i]].build;
        if (node != RULE_NONE) {
            defined++;
            mark_root(rule, node, outs[i]);
        } else if (rule->gradient && outs[i] != RULE_NONE) {
            return rule_error(lx, rule->names[outs[i]].loc, "'%s' is not defined", rule->names[outs[i]].text);
        }
    }
    if (defined == 0 && !rule->gradient)
        return rule_error(lx, rule->loc, "rule '%s' replaces none of its results", rule->name);
    for (uint16_t n = 0; n < rule->n_build; n++)
        if (rule->build[n].root == RULE_NONE)
            return rule_error(lx, rule->build[n].loc, "no result depends on '%s'", rule->build[n].label);
    return TC_OK;
}

tc_status rule_compile(tc_lexer *lx, tc_rule_set *set, tc_rule *rule) {
    if (!rule->gradient) {
        TC_TRY(check_match(lx, rule));
        TC_TRY(lay_out(lx, set, rule));
        if (rule->benefit < 0)
            rule->benefit = rule->n_match;
    }
    TC_TRY(check_build(lx, rule));
    if (set->last)
        set->last->next = rule;
    else
        set->first = rule;
    set->last = rule;
    rule->serial = set->n_rules++;
    rule->set = set;
    if (rule->gradient) {
        rule->benefit = set->of_user;
        file_under(set, set->gradients, &rule->op, rule);
        return TC_OK;
    }
    tc_map_set(set->by_name, rule->name, rule);
    const rule_node *anchor = &rule->match[rule->anchor];
    for (uint16_t i = 0; i < anchor->n_ops; i++)
        file_under(set, set->anchors, &anchor->ops[i], rule);
    return TC_OK;
}
