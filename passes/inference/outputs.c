/* outputs.c: predictions and scores. In training nothing may read the predictions: the pass `outputs` then drops them,
 * so that logits do not live to the end of a run, and may go unmade. A model that was trained needs no scores. */
#include "outputs.h"
#include "compiler/memory/memory.h"
#include "compiler/text/marks.h"
#include "passes/pass/pass.h"

/* --- predictions ------------------------------------------------------------------------------- */

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

/* --- inputs of scores ------------------------------------------------------------------------- */

static bool only_shape_is_read(const tc_value *input) {
    TC_FOR_USES(use, input)
        if (!tc_node_is(use->user, "", "Shape"))
            return false;
    return input->n_graph_outputs == 0;
}

/* The axes of a Shape's result, from the first to before the last. */
static void axes_of(const tc_node *shape, int rank, int64_t *out_from, int64_t *out_to) {
    int64_t from = tc_attr_int(shape, "start", 0), to = tc_attr_int(shape, "end", rank);
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    *out_from = from < 0 ? 0 : from < rank ? from : rank;
    *out_to = to < *out_from ? *out_from : to < rank ? to : rank;
}

/* Has the node read the same sizes, by their symbols, from another input that stays. */
static bool read_elsewhere(tc_node *shape, const bool *stays) {
    const tc_graph *graph = shape->graph;
    const tc_type *type = tc_input(shape, 0)->type;
    int64_t from, to;
    axes_of(shape, type->rank, &from, &to);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *other = graph->inputs[i];
        for (int64_t at = 0; stays[i] && at + to - from <= tc_value_rank(other); at++) {
            bool same = to > from;
            for (int64_t axis = from; same && axis < to; axis++)
                same = !tc_dim_is_unknown(type->dims[axis]) &&
                       tc_dim_equal(type->dims[axis], other->type->dims[at + axis - from]);
            bool whole = at == 0 && to - from == other->type->rank;
            if (!same || (!whole && tc_model_opset(graph->model, "") < 15))
                continue;
            tc_node_set_input(shape, 0, graph->inputs[i]);
            tc_attr_remove(shape, "start");
            tc_attr_remove(shape, "end");
            if (!whole) {
                tc_attr_set_int(shape, "start", at);
                tc_attr_set_int(shape, "end", at + to - from);
            }
            return true;
        }
    }
    return false;
}

/* PyTorch's dynamo exporter asks any input for the size of the batch, labels, too. */
static void read_sizes_elsewhere(tc_graph *graph, const size_t *uses) {
    bool *stays = TC_NEW_ARRAY(graph->model->arena, bool, graph->n_inputs + 1);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        stays[i] = !only_shape_is_read(graph->inputs[i]);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        tc_value *input = graph->inputs[i];
        bool lost = tc_value_use_count(input) < uses[i] && tc_value_rank(input) >= 0 && !stays[i];
        for (tc_use *use = lost ? input->uses : NULL, *next; use; use = next) {
            next = use->next;
            (void)read_elsewhere(use->user, stays);
        }
    }
}

static void drop_scores(tc_graph *graph) {
    for (uint32_t i = graph->n_outputs; i-- > 0;)
        if (tc_is_scalar_float(graph->outputs[i]))
            tc_graph_remove_output(graph, i);
    tc_remove_dead(graph);
}

bool tc_keep_predictions(tc_graph *graph) {
    uint32_t scores = 0;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        scores += tc_is_scalar_float(graph->outputs[i]);
    if (scores == graph->n_outputs)
        return false;
    size_t *uses = TC_NEW_ARRAY(graph->model->arena, size_t, graph->n_inputs + 1);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        uses[i] = tc_value_use_count(graph->inputs[i]);
    drop_scores(graph);
    read_sizes_elsewhere(graph, uses);
    for (uint32_t i = graph->n_inputs; i-- > 0;) {
        tc_value *input = graph->inputs[i];
        if (uses[i] == 0 || tc_value_is_used(input))
            continue;
        if (input->init)
            tc_graph_remove_initializer(graph, input);
        tc_graph_remove_input(graph, input);
    }
    return true;
}
