/* budget_begin.c: the start of a search. The search replaces the passes of a recipe that make a graph keep less,
 * because it may choose better for this budget. So it gets the graph before them, and their variants to choose from. */
#include "passes/bodies/bodies.h"
#include "budget_begin.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "passes/lean/lean.h"
#include <string.h>

/* --- the recipe --------------------------------------------------------------------------------- */

static tc_status run_deferred(tc_pass_env *env, tc_model *model) {
    tc_options options = *env->options;
    tc_pass_env own = *env;
    const char *pass = env->ctx->pass;
    tc_status status = TC_OK;
    options.memory_budget = NULL;
    own.options = &options;
    if (env->deferred & TC_DEFER_TILE) {
        env->ctx->pass = "tile";
        status = tc_pass_tile(&own, model);
    }
    if (status == TC_OK && env->deferred & TC_DEFER_LEAN) {
        env->ctx->pass = "lean";
        status = tc_pass_lean(&own, model);
    }
    if (status == TC_OK)
        env->ctx->pass = pass;
    return status;
}

tc_status tc_budget_begin(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_beginning_kind kind,
                          tc_beginning *out_begin) {
    *out_begin = (tc_beginning){.model = model, .kind = kind};
    if (kind == TC_BEGIN_RECIPE)
        TC_TRY(run_deferred(env, model));
    else if (env->deferred & TC_DEFER_LEAN)
        TC_TRY(tc_lean_rule(env, model, "attention_signed"));
    TC_TRY(tc_infer_graph(env->ctx, model->graph));
    return tc_budget_estimate(env, arena, model, &out_begin->memories, &out_begin->footprint);
}

/* --- a graph that can be planned ---------------------------------------------------------------- */

static bool runs_as_it_is(const tc_node_memories *memories, const tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_node_memory *m = node->outputs[i] ? tc_map_get(memories->by_result, node->outputs[i]->name) : NULL;
        if (m)
            return strcmp(m->op_type, node->op_type) == 0 && strcmp(m->domain, node->domain) == 0;
    }
    return true;
}

static tc_status inline_node(tc_pass_env *env, tc_model *model, tc_node *node) {
    tc_function *function = tc_model_function(model, node->domain, node->op_type, node->overload);
    if (!function)
        TC_TRY(tc_body_for(env->ctx, model, node, &function));
    return function ? tc_inline_call(env->ctx, node, function) : TC_OK;
}

static tc_status settle(tc_pass_env *env, tc_model *model, const tc_node_memories *memories, bool *out_changed) {
    tc_graph *graph = model->graph;
    *out_changed = tc_remove_dead(graph) > 0;
    TC_FOR_NODES_SAFE(node, graph) {
        if (!runs_as_it_is(memories, node)) {
            TC_TRY(inline_node(env, model, node));
            *out_changed = true;
        } else if (node->n_outputs > 0 && !node->outputs[0]) {
            tc_node_add_output(node, 0, "unused", NULL);
            *out_changed = true;
        }
    }
    return *out_changed ? tc_infer_graph(env->ctx, graph) : TC_OK;
}

/* --- variants ----------------------------------------------------------------------------------- */

/* The runtime's estimate for a clone in which the variants' results have readers. */
static tc_status ask_for_variants(tc_pass_env *env, tc_arena *arena, tc_beginning *b) {
    tc_footprint ignored;
    tc_model *probe = tc_model_clone(b->model);
    for (uint32_t i = 0; i < b->n_variants; i++)
        for (uint32_t k = 0; k < b->variants[i].variant->n_outputs; k++) {
            const tc_value *value = b->variants[i].variant->outputs[k];
            if (value)
                tc_graph_add_output(probe->graph, tc_graph_find(probe->graph, value->name));
        }
    tc_status status = tc_budget_estimate(env, arena, probe, &b->memories, &ignored);
    tc_model_destroy(probe);
    return status;
}

tc_status tc_budget_prepare(tc_pass_env *env, tc_arena *arena, tc_beginning *b) {
    bool changed = false;
    TC_TRY(settle(env, b->model, &b->memories, &changed));
    if (changed)
        TC_TRY(tc_budget_estimate(env, arena, b->model, &b->memories, &b->footprint));
    if (b->kind == TC_BEGIN_VARIANTS)
        b->variants = tc_variants_add(env, arena, b->model->graph, &b->n_variants);
    return b->n_variants > 0 ? ask_for_variants(env, arena, b) : TC_OK;
}
