/* lean.c: the pass that keeps less of the forward pass for the backward pass. First it applies rules/lean.rules:
 * pairs of a forward and a backward op that keep a smaller tensor between them. (LayerNormalization comes before
 * GELU, because then GELU's result is often no longer kept.) Then lean/recompute.c recomputes saved values by copies
 * of the cheap nodes that made them. The pass works on any graph with a backward pass, from any tool. If the pass
 * `lower` has replaced ops of ai.tempo by standard ones, no rule matches, and only the second step saves bytes.
 * Gradients do not change by a bit, except for variants that the option or the recipe chooses (lean/ways.def):
 * values recomputed from y are equal up to rounding. No pass after this one may merge equal nodes, because copies
 * are equal to their originals. */
#include "compiler/memory/memory.h"
#include "compiler/shape/shape.h"
#include "ways.h"
#include "lean.h"
#include "passes/rules/side_channels.h"
#include "passes/weights/weights.h"
#include "passes/rules/rules.h"
#include <string.h>

tc_dim tc_kept_bytes(const tc_graph *graph, void *loss) {
    tc_arena *scratch = tc_arena_create();
    tc_ledger ledger;
    tc_ledger_make(scratch, graph, loss, &ledger);
    tc_arena_destroy(scratch);
    return ledger.bytes;
}

/* Safe, because forward nodes read no backward value. */
const tc_node *tc_forward_first(tc_graph *graph, const tc_value *loss) {
    tc_arena *scratch = tc_arena_create();
    uint32_t size;
    const bool *forward = tc_forward_nodes(scratch, graph, loss, &size);
    tc_node *end = NULL, *rest = NULL;
    TC_FOR_NODES_SAFE(node, graph) {
        if (!forward[node->id]) {
            rest = rest ? rest : node;
            continue;
        }
        if (rest)
            tc_node_move_before(node, rest);
        end = node;
    }
    tc_arena_destroy(scratch);
    return end;
}

static bool is_named(const void *name, const char *rule) { return strcmp(name, rule) == 0; }

static bool is_chosen(const void *options, const char *rule) { return tc_is_chosen(options, rule); }

/* `only`: apply this rule alone; NULL: all chosen rules. */
static tc_status apply_rules(tc_pass_env *env, tc_graph *graph, const tc_value *loss, const char *only) {
    tc_rule_set *rules = tc_rules_create();
    tc_status status = tc_rules_load(env, "lean.rules", false, rules);
    tc_rules_keep(rules, only ? is_named : is_chosen, only ? (const void *)only : env->options);
    tc_rules_set_forward_end(rules, tc_forward_first(graph, loss));
    if (status == TC_OK)
        status = tc_rules_apply_each(env, graph, rules, tc_kept_bytes, (void *)loss);
    tc_rules_destroy(rules);
    return status;
}

tc_status tc_lean_begin(tc_pass_env *env, tc_graph *graph, const tc_value **out_loss) {
    tc_remove_dead(graph);
    TC_TRY(tc_infer_graph(env->ctx, graph));
    tc_settle_loss(env, graph);
    *out_loss = tc_made_loss(env->options, graph);
    return TC_OK;
}

tc_status tc_lean_rule(tc_pass_env *env, tc_model *model, const char *name) {
    const tc_value *loss;
    TC_TRY(tc_lean_begin(env, model->graph, &loss));
    return loss ? apply_rules(env, model->graph, loss, name) : TC_OK;
}

tc_status tc_pass_lean(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    const tc_value *loss;
    if (tc_chooses_first(env->options) && tc_defer_to_budget(env, TC_DEFER_LEAN))
        return TC_OK;
    TC_TRY(tc_lean_begin(env, graph, &loss));
    if (!loss)
        return TC_OK;
    TC_TRY(apply_rules(env, graph, loss, NULL));
    tc_note_side_channels(env->ctx, graph);
    return tc_recompute_cheap(env, graph, tc_forward_first(graph, loss));
}
