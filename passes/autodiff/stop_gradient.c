/* stop_gradient.c: inserts StopGradient before readers of a value, and removes it again. */
#include "stop_gradient.h"
#include "compiler/ir/clone.h"
#include "compiler/ir/ops.h"
#include "compiler/cli/cli.h"

static bool is_stop(const tc_node *node) { return tc_node_is(node, TC_TEMPO_DOMAIN, "StopGradient"); }

static tc_value *known_stop(const tc_value *value) {
    TC_FOR_USES(use, value)
        if (is_stop(use->user))
            return use->user->outputs[0];
    return NULL;
}

tc_value *tc_stopped(tc_pass_env *env, tc_value *value) {
    tc_graph *graph = value->graph;
    tc_value *known = known_stop(value);
    if (known)
        return known;
    tc_node *node = tc_node_create(graph, TC_TEMPO_DOMAIN, "StopGradient", 1, 1);
    tc_node_set_input(node, 0, value);
    tc_value *stopped =
        tc_node_add_output(node, 0, tc_arena_printf(graph->model->arena, "%s_stopped", value->name), value->type);
    node->name = stopped->name;
    if (value->producer)
        tc_node_insert_after(node, value->producer);
    else if (graph->first)
        tc_node_insert_before(node, graph->first);
    else
        tc_node_append(node);
    if (tc_model_opset(graph->model, TC_TEMPO_DOMAIN) == 0)
        tc_model_set_opset(graph->model, TC_TEMPO_DOMAIN, TC_TEMPO_DOMAIN_VERSION);
    env->summary->stops++;
    return stopped;
}

static tc_status unknown(tc_ctx *ctx, const tc_graph *graph, const char *name) {
    tc_nearest nearest;
    const void *known;
    void *value;
    size_t cursor = 0;
    tc_nearest_begin(&nearest, name);
    while (tc_map_next(graph->names, &cursor, &known, &value))
        tc_nearest_offer(&nearest, known);
    tc_error(ctx, TC_USAGE, NULL, "--stop: the graph has no value named '%s'", tc_quote(ctx, name));
    if (nearest.best)
        tc_hint(ctx, "did you mean %s?", tc_quote(ctx, nearest.best));
    else
        tc_hint(ctx, "it takes the name of a node's output, an input or an initializer of the file");
    return TC_USAGE;
}

tc_value *tc_stop_readers(tc_pass_env *env, tc_value *value) {
    tc_value *stopped = tc_stopped(env, value);
    for (tc_use *use = value->uses, *next = NULL; use; use = next) {
        next = use->next;
        if (use->user != stopped->producer)
            tc_node_set_input(use->user, use->index, stopped);
    }
    return stopped;
}

tc_status tc_stop_named(tc_pass_env *env, tc_graph *graph) {
    const tc_options *options = env->options;
    for (size_t i = 0; i < options->n_stops; i++) {
        tc_value *value = tc_map_get(graph->names, options->stops[i]);
        if (!value)
            return unknown(env->ctx, graph, options->stops[i]);
        if (tc_pipeline_has(options, "autodiff"))
            tc_stop_readers(env, value);
    }
    return TC_OK;
}

void tc_drop_stops(tc_graph *graph) {
    TC_FOR_NODES_SAFE(node, graph) {
        if (!is_stop(node))
            continue;
        tc_alias_output(node, 0, tc_input(node, 0)); /* an output of the graph keeps its name */
        tc_node_erase(node);
    }
}
