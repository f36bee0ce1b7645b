/* raise.c: the spellings of exporters become one op each: Gelu, Swish, Mish, LogSigmoid, LayerNormalization,
 * RMSNormalization and DotProductAttention, so that gradients, recipes and kernels know the idea and not the nodes it
 * was written with. The rules are text: activation.rules and special.rules first; then maps.rules and scores.rules,
 * which move what stands between the parts of an attention; then norm.rules, attention.rules and mixed.rules, from the
 * end of the graph, so that a normalization is taken whole before its parts are.
 *
 * Attention (opset 23 and later) is replaced by its function body first: the nodes of the body are matched like any
 * other attention, and nodes without a match stay plain nodes, whose gradients are known. */
#include "raise.h"
#include "passes/bodies/bodies.h"
#include "compiler/ir/ops.h"
#include "passes/canonical/canonical.h"
#include "passes/rules/rules.h"
#include <string.h>

static const char *const activation_files[] = {"activation.rules", "special.rules"};
static const char *const move_files[] = {"maps.rules", "scores.rules"};
static const char *const files[] = {"norm.rules", "attention.rules", "mixed.rules"};

static tc_status inline_attention(tc_pass_env *env, tc_graph *graph, bool *changed);

static tc_status inline_nested(tc_pass_env *env, const tc_node *node, bool *changed) {
    TC_FOR_NESTED(nested, node)
        TC_TRY(inline_attention(env, nested, changed));
    return TC_OK;
}

static tc_status inline_attention(tc_pass_env *env, tc_graph *graph, bool *changed) {
    TC_FOR_NODES_SAFE(node, graph) {
        tc_function *body = NULL;
        TC_TRY(inline_nested(env, node, changed));
        if (!node->op || strcmp(node->op->domain, TC_TEMPO_DOMAIN) != 0 || strcmp(node->op->name, "Attention") != 0)
            continue;
        TC_TRY(tc_body_for(env->ctx, graph->model, node, &body));
        if (!body) /* a body needs ranks; without them the node stays */
            continue;
        TC_TRY(tc_inline_call(env->ctx, node, body));
        *changed = true;
    }
    return TC_OK;
}

static tc_status apply_rules(tc_pass_env *env, tc_model *model, const char *const *names, size_t n,
                             uint32_t *out_rewrites) {
    tc_rule_set *rules = tc_rules_create();
    tc_status status = TC_OK;
    for (size_t i = 0; i < n && status == TC_OK; i++)
        status = tc_rules_load(env, names[i], false, rules);
    tc_rules_from_end(rules);
    if (status == TC_OK)
        status = tc_rules_apply(env, model->graph, rules, out_rewrites);
    tc_rules_destroy(rules);
    return status;
}

tc_status tc_pass_raise(tc_pass_env *env, tc_model *model) {
    bool changed = false;
    TC_TRY(inline_attention(env, model->graph, &changed));
    TC_TRY(tc_lower_einsum_products(env, model->graph, &changed));
    if (changed) /* fold the body's arithmetic, give its nodes types, and join Transposes */
        TC_TRY(tc_pass_canonicalize(env, model));
    uint32_t moved = 0;
    TC_TRY(apply_rules(env, model, activation_files, TC_COUNT(activation_files), NULL));
    TC_TRY(apply_rules(env, model, move_files, TC_COUNT(move_files), &moved));
    if (moved) /* adjacent views become one */
        TC_TRY(tc_pass_canonicalize(env, model));
    TC_TRY(apply_rules(env, model, files, TC_COUNT(files), NULL));
    tc_remove_dead(model->graph);
    return TC_OK;
}
