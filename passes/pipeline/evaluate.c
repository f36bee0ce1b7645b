/* evaluate.c: the pass that turns a model into the graph for its evaluation: dropout drops nothing, batch
 * normalization uses its running statistics, and a backward pass with its updates is removed. All other outputs
 * stay. Weights have the names of the training graph, because the same passes come before. Also the two calls by
 * which a program makes both graphs. */
#include "pipeline.h"
#include "compiler/text/marks.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "passes/draws/draws.h"
#include "passes/variants/variants.h"
#include "passes/pass/pass.h"
#include <string.h>

/* --- differences between training and inference ----------------------------------------------- */

/* Replaces result `index` by `value`. */
static void show(tc_node *node, uint32_t index, tc_value *value) {
    if (!tc_output(node, index))
        return;
    tc_node *identity = tc_node_create(node->graph, "", "Identity", 1, 1);
    tc_value *result = tc_node_take_output(node, index);
    tc_node_insert_after(identity, node);
    tc_node_set_input(identity, 0, value);
    tc_node_set_output(identity, 0, result);
}

/* If the mask has a reader, the node stays a Dropout: outside of training, or with ratio 0. */
static void keep_all(tc_node *node) {
    const tc_value *mask = tc_output(node, 1);
    if (mask && tc_value_is_used(mask) && tc_node_is(node, TC_TEMPO_DOMAIN, "Dropout")) {
        const tc_tensor *zero = tc_tensor_scalar(node->graph->model, tc_value_dtype(tc_input(node, 1)), 0);
        tc_node_set_input(node, 1, tc_constant(node->graph, "ratio", zero));
        return;
    }
    tc_node_resize_inputs(node, 1);
    if (mask && tc_value_is_used(mask))
        return;
    tc_node_resize_outputs(node, 1);
    while (node->n_attrs > 0)
        tc_attr_remove(node, node->attrs[0].name);
    tc_node_set_op(node, "", "Identity");
}

static void keep_all_scores(tc_node *node) {
    enum { RATIO = 5 };
    if (node->n_inputs > RATIO)
        tc_node_resize_inputs(node, RATIO);
    tc_forget_maps(node);
}

static void take_running_statistics(tc_node *node) {
    if (tc_attr_int(node, "training_mode", 0) == 0)
        return;
    tc_attr_set_int(node, "training_mode", 0);
    for (uint32_t i = 1; i < 3; i++)
        show(node, i, tc_input(node, 2 + i));
    tc_node_resize_outputs(node, 1);
}

static const struct {
    const char *domain, *op;
    void (*change)(tc_node *node);
} changes[] = {{"", "Dropout", keep_all},
               {TC_TEMPO_DOMAIN, "Dropout", keep_all},
               {TC_TEMPO_DOMAIN, "DotProductAttention", keep_all_scores},
               {"", "BatchNormalization", take_running_statistics}};

void tc_leave_training(tc_graph *graph, bool idle) {
    TC_FOR_NODES_SAFE(node, graph) {
        TC_FOR_NESTED(nested, node)
            tc_leave_training(nested, idle);
        for (size_t i = 0; i < TC_COUNT(changes); i++) {
            if (tc_node_is(node, changes[i].domain, changes[i].op) && (idle || !tc_drops_nothing(node))) {
                changes[i].change(node);
                break;
            }
        }
    }
}

/* --- parts of training alone ------------------------------------------------------------------ */

static bool has_prefix(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static void drop_backward(tc_graph *graph) {
    const tc_model *model = graph->model;
    tc_arena *scratch = tc_arena_create();
    bool told =
        tc_has_backward(graph, true); /* an output that only looks like a gradient may be one that the user wants */
    if (told)
        tc_roles_settle(graph);
    for (uint32_t i = graph->n_outputs; i-- > 0;) {
        const tc_value *value = graph->outputs[i];
        bool kept = tc_model_metadata(model, tc_arena_printf(scratch, TC_KEEP_KEY "%s", value->name)) != NULL;
        if (kept || (told && (value->role == TC_ROLE_GRADIENT || value->role == TC_ROLE_BACKWARD)))
            tc_graph_remove_output(graph, i);
    }
    tc_arena_destroy(scratch);
}

/* States and numbers of an optimizer, and seeds that no node reads any more. */
static void drop_inputs(tc_graph *graph) {
    tc_arena *scratch = tc_arena_create();
    for (uint32_t i = graph->n_inputs; i-- > 0;) {
        tc_value *input = graph->inputs[i];
        bool is_state =
            tc_model_metadata(graph->model, tc_arena_printf(scratch, TC_ZERO_KEY "%s", input->name)) != NULL;
        if (tc_value_is_used(input) || !(is_state || has_prefix(input->name, "tempo.")))
            continue;
        if (input->init)
            tc_graph_remove_initializer(graph, input);
        tc_graph_remove_input(graph, input);
    }
    tc_arena_destroy(scratch);
}

static void drop_metadata(tc_model *model) {
    tc_pair *pairs = TC_NEW_ARRAY(model->arena, tc_pair, model->info.n_metadata + 1);
    size_t n = 0;
    for (size_t i = 0; i < model->info.n_metadata; i++)
        if (!has_prefix(model->info.metadata[i].key, TC_KEEP_KEY) &&
            !has_prefix(model->info.metadata[i].key, TC_ZERO_KEY))
            pairs[n++] = model->info.metadata[i];
    model->info.metadata = pairs;
    model->info.n_metadata = n;
}

tc_status tc_pass_evaluate(tc_pass_env *env, tc_model *model) {
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    drop_backward(model->graph);
    tc_remove_dead(model->graph);
    tc_leave_training(model->graph, true);
    tc_remove_dead(model->graph);
    drop_inputs(model->graph);
    drop_metadata(model);
    return tc_infer_graph(env->ctx, model->graph);
}

/* --- the graph for scores ------------------------------------------------------------------------------ */

tc_status tc_evaluation_model(tc_pass_env *env, tc_model *model, const char *const *weights, size_t n) {
    tc_options options = *env->options;
    tc_summary summary = {0};
    tc_pass_env own = *env;
    options.recipe = "evaluate";
    options.passes = options.memory_budget = NULL;
    options.precision = NULL; /* scores are computed with the weights, which are floats */
    options.update = (tc_update_options){0};
    options.pareto = 0;
    options.loss_scale = false;
    own.options = &options;
    options.counting = TC_COUNT_OUTPUT;
    own.summary = &summary;
    TC_TRY(tc_pipeline_run(&own, model));
    env->summary->counted = summary.counted;
    env->summary->n_counted = summary.n_counted;
    env->summary->uncounted = summary.uncounted;
    env->summary->metrics = summary.metrics;
    for (size_t i = 0; i < n; i++) {
        tc_value *weight = tc_map_get(model->graph->names, weights[i]);
        if (weight && weight->init && !weight->is_input)
            tc_graph_add_input(model->graph, weight);
    }
    return TC_OK;
}
