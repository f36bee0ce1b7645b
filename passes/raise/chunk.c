/* chunk.c: replaces the last product of a classifier and its cross-entropy by LinearCrossEntropy, whose kernel
 * computes loss and gradients chunk by chunk of rows. The rules are in rules/loss.rules. If scores are an output of
 * the graph, they have to exist as a whole: a note says so. The scores that --add-loss took a loss of are an output of
 * the file for another purpose, and leave the graph. */
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

/* Takes the scores of the added loss off the outputs; NULL: they are none. *out_at: their place. */
static tc_value *hide_scores(const tc_pass_env *env, tc_graph *graph, uint32_t *out_at) {
    const tc_value *shown = NULL;
    TC_FOR_NODES(node, graph)
        if (env->options->add_loss && !shown && tc_node_is(node, "", "SoftmaxCrossEntropyLoss"))
            shown = shown_scores(node);
    for (uint32_t i = 0; shown && i < graph->n_outputs; i++) {
        tc_value *value = graph->outputs[i];
        if (value != shown)
            continue;
        tc_graph_remove_output(graph, i);
        *out_at = i;
        return value;
    }
    return NULL;
}

/* Where no rule fused the product, scores are an output again. */
static void show_scores(tc_ctx *ctx, tc_graph *graph, tc_value *scores, uint32_t at) {
    if (scores->producer && tc_value_is_used(scores)) {
        tc_graph_add_output(graph, scores);
        for (uint32_t i = graph->n_outputs - 1; i > at; i--)
            graph->outputs[i] = graph->outputs[i - 1];
        graph->outputs[at] = scores;
        return;
    }
    tc_note(ctx, NULL, "the loss is computed in chunks: '%s' is no output of the training graph",
            tc_quote(ctx, scores->name));
    tc_hint(ctx, "--recipe=tiled keeps it; evaluation and --save have it in any case");
}

tc_status tc_pass_chunk(tc_pass_env *env, tc_model *model) {
    tc_rule_set *rules = tc_rules_create();
    uint32_t at = 0;
    tc_value *hidden = hide_scores(env, model->graph, &at);
    tc_status status = tc_rules_load(env, "loss.rules", false, rules);
    tc_rules_from_end(rules);
    if (status == TC_OK)
        status = tc_rules_apply(env, model->graph, rules, NULL);
    tc_rules_destroy(rules);
    if (hidden)
        show_scores(env->ctx, model->graph, hidden, at);
    tc_remove_dead(model->graph);
    if (status == TC_OK)
        tell_shown(env->ctx, model->graph);
    return status;
}
