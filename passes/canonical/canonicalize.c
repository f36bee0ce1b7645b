/* canonicalize.c: the pass that leaves one spelling of each thing: known values are folded, nodes without effect and
 * repeated nodes are removed, canonical.rules rewrites idioms. No result changes by a bit, with two exceptions: x *
 * x for x ^ 2, which may be one bit more exact, and rules marked inexact, which are off by default. The pass runs
 * until nothing changes: a second run changes nothing. */
#include "passes/bags/bags.h"
#include "compiler/shape/shape.h"
#include "compiler/inline/inline.h"
#include "canonical.h"
#include "passes/rules/rules.h"

enum { MAX_ROUNDS = 16 };

static tc_status run_rounds(tc_pass_env *env, tc_graph *graph, tc_rule_set *rules, bool merge) {
    for (int round = 0; round < MAX_ROUNDS; round++) {
        uint32_t rewrites = 0, changes = 0;
        changes += tc_fold_constants(graph);
        changes += tc_fold_dims(graph);
        tc_remove_dead(graph);
        changes += tc_simplify(env, graph);
        TC_TRY(tc_rules_apply(env, graph, rules, &rewrites));
        changes += rewrites;
        changes += merge ? tc_merge_equal(graph) : 0;
        changes += tc_remove_dead(graph);
        if (changes == 0)
            return TC_OK;
    }
    return TC_OK;
}

static bool has_nested(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (tc_has_nested(node))
            return true;
    return false;
}

/* Bags come before loops are unrolled: an unrolled loop over many bags would be as many nodes. */
static tc_status infer(tc_pass_env *env, tc_graph *graph) {
    uint32_t bags = 0;
    bool unrolled;
    if (!has_nested(graph))
        return tc_infer_graph(env->ctx, graph);
    TC_TRY(tc_infer_branches(env->ctx, graph, &unrolled));
    TC_TRY(tc_lower_bags(env, graph, &bags));
    return tc_infer_unrolled(env->ctx, graph, &unrolled);
}

tc_status tc_canonicalize(tc_pass_env *env, tc_graph *graph, bool merge) {
    tc_rule_set *rules = tc_rules_create();
    tc_status status = infer(env, graph);
    while (status == TC_OK &&
           tc_lower_sequences(graph) > 0) /* folding a split of known sizes may make the sizes of the next one known */
        status = tc_infer_graph(env->ctx, graph);
    if (status == TC_OK)
        status = tc_rules_load(env, "canonical.rules", true, rules);
    if (status == TC_OK)
        status = run_rounds(env, graph, rules, merge);
    tc_rules_destroy(rules);
    return status;
}

tc_status tc_pass_canonicalize(tc_pass_env *env, tc_model *model) { return tc_canonicalize(env, model->graph, true); }
