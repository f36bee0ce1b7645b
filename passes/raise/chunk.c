/* chunk.c: replaces the last product of a classifier and its cross-entropy by LinearCrossEntropy, whose kernel
 * computes loss and gradients chunk by chunk of rows. The rules are in rules/loss.rules. If scores are an output of
 * the graph, they have to exist as a whole: a note says so. */
#include "compiler/base/base.h"
#include "compiler/ir/ops.h"
#include "passes/rules/rules.h"

/* The first value between a product and the loss that is an output of the graph; NULL: there is no product, or no
 * such value. */
static const tc_value *shown_scores(const tc_node *loss) {
    static const char *const between[] = {"Add", "Cast", "Reshape", "Transpose"};
    const tc_value *shown =
        loss->n_outputs > 1 && loss->outputs[1] && loss->outputs[1]->n_graph_outputs ? loss->outputs[1] : NULL;
    for (const tc_value *value = tc_input(loss, 0); value && value->producer; value = tc_input(value->producer, 0)) {
        const tc_node *maker = value->producer;
        bool passes = false;
        shown = value->n_graph_outputs ? value : shown;
        if (tc_node_is(maker, "", "MatMul") || tc_node_is(maker, "", "Gemm"))
            return shown;
        for (size_t i = 0; i < TC_COUNT(between); i++)
            passes = passes || tc_node_is(maker, "", between[i]);
        if (!passes)
            return NULL;
    }
    return NULL;
}

static void tell_shown(tc_ctx *ctx, const tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        const tc_value *shown = tc_node_is(node, "", "SoftmaxCrossEntropyLoss") ? shown_scores(node) : NULL;
        if (!shown)
            continue;
        tc_note(ctx, node, "the loss is not computed in chunks: its scores '%s' are an output of the graph",
                tc_quote(ctx, shown->name));
        tc_hint(ctx, "--drop-predictions leaves such outputs out");
    }
}

tc_status tc_pass_chunk(tc_pass_env *env, tc_model *model) {
    tc_rule_set *rules = tc_rules_create();
    tc_status status = tc_rules_load(env, "loss.rules", false, rules);
    tc_rules_from_end(rules);
    if (status == TC_OK)
        status = tc_rules_apply(env, model->graph, rules, NULL);
    tc_rules_destroy(rules);
    tc_remove_dead(model->graph);
    if (status == TC_OK)
        tell_shown(env->ctx, model->graph);
    return status;
}
