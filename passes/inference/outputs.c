/* outputs.c: predictions and scores. In training nothing may read the predictions: the pass `outputs` then drops them,
 * so that logits do not live to the end of a run, and may go unmade. A model that was trained needs no scores. */
#include "outputs.h"
#include "compiler/memory/memory.h"
#include "compiler/text/marks.h"
#include "passes/pass/pass.h"

/* What a file keeps from run to run is no prediction. */
static bool is_kept(tc_arena *arena, const tc_value *output) {
    return tc_model_metadata(output->graph->model, tc_arena_printf(arena, TC_KEEP_KEY "%s", output->name)) != NULL;
}

static bool has_score(const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (tc_is_scalar_float(graph->outputs[i]))
            return true;
    return false;
}

tc_status tc_pass_outputs(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    if (!env->options->drop_predictions || model->is_step || !has_score(graph) || tc_has_backward(graph, false))
        return TC_OK;
    for (uint32_t i = graph->n_outputs; i-- > 0;)
        if (!tc_is_scalar_float(graph->outputs[i]) && !is_kept(env->ctx->arena, graph->outputs[i]))
            tc_graph_remove_output(graph, i);
    tc_remove_dead(graph);
    return TC_OK;
}

bool tc_keep_predictions(tc_graph *graph) {
    uint32_t scores = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        scores += tc_is_scalar_float(graph->outputs[i]);
    if (scores == graph->n_outputs)
        return false;
    bool *read = TC_NEW_ARRAY(graph->model->arena, bool, graph->n_inputs + 1);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        read[i] = tc_value_is_used(graph->inputs[i]);
    for (uint32_t i = graph->n_outputs; i-- > 0;)
        if (tc_is_scalar_float(graph->outputs[i]))
            tc_graph_remove_output(graph, i);
    tc_remove_dead(graph);
    for (uint32_t i = graph->n_inputs; i-- > 0;) {
        tc_value *input = graph->inputs[i];
        if (!read[i] || tc_value_is_used(input))
            continue;
        if (input->init)
            tc_graph_remove_initializer(graph, input);
        tc_graph_remove_input(graph, input);
    }
    return true;
}
