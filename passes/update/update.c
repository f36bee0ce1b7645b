/* update.c: the pass that appends the optimizer to a graph with a backward pass. The outputs W_grad of trained
 * initializers are removed. Each such W becomes a graph input with that default, and the graph gets the output
 * W.new, which the next run reads as W (tempo.keep, compiler/text/marks.h). The optimizer's states of W are handled
 * in the same way, and begin as zeros (tempo.zero). Learning rate and number of the update are graph inputs (ops.h),
 * so that the training program sets them run by run.
 * One node updates one weight, right after its gradient and the last reader of the old weight (update_place.c). So
 * gradients are freed early, and the runtime writes new elements over old ones. The pass comes before `budget`,
 * which counts no bytes for new weights and states. The order of updates is settled again after `budget`, and by
 * this pass if others may have added readers. */
#include "update.h"
#include "compiler/text/marks.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "passes/torch/metadata/metadata.h"
#include <string.h>

#define MOST_MOMENTS 2

/* --- weights to update ------------------------------------------------------------------------ */

/* PyTorch's layout, set by --names=pytorch of an earlier call. */
static bool has_other_layout(tc_ctx *ctx, const tc_value *weight, const tc_value *gradient) {
    tc_torch_name parameter;
    return tc_torch_kept_name(ctx->arena, weight->graph->model, weight->name, &parameter) &&
           parameter.layout != TC_TORCH_AS_IT_IS &&
           strcmp(gradient->name, tc_arena_printf(ctx->arena, "%s_grad", parameter.name)) == 0;
}

static tc_status check_trained(const tc_update *u, const tc_value *weight, const tc_value *gradient) {
    tc_ctx *ctx = u->env->ctx;
    const char *option = tc_update_option(u->options);
    tc_dtype dtype = tc_value_dtype(weight);
    if (has_other_layout(ctx, weight, gradient) || !tc_same_shape(weight, gradient)) {
        tc_error(ctx, TC_UNSUPPORTED, gradient->producer,
                 "--%s: the layout of the gradient '%s' (%s) differs from that of '%s' (%s)", option,
                 tc_quote(ctx, gradient->name), tc_type_text(ctx->arena, gradient->type), tc_quote(ctx, weight->name),
                 tc_type_text(ctx->arena, weight->type));
        tc_hint(ctx, "compile the model without --names=pytorch");
        return TC_UNSUPPORTED;
    }
    if (dtype == TC_FLOAT || (dtype == TC_DOUBLE && tc_value_dtype(gradient) == TC_DOUBLE))
        return TC_OK;
    tc_error(ctx, TC_UNSUPPORTED, NULL,
             "--%s: the weight '%s' is %s: the optimizer updates float weights, "
             "because small updates need the precision",
             option, tc_quote(ctx, weight->name), tc_dtype_name(dtype));
    tc_hint(ctx, "export the model in float32, or freeze the weight (--freeze=GLOB)");
    return TC_UNSUPPORTED;
}

/* Removes the gradients of initializers from the outputs. Gradients of data stay. */
static tc_status take_gradients(tc_update *u) {
    tc_ctx *ctx = u->env->ctx;
    uint32_t others = 0;
    u->list = TC_NEW_ARRAY(ctx->arena, tc_trained, (size_t)u->graph->n_outputs + 1);
    for (uint32_t i = 0; i < u->graph->n_outputs;) {
        tc_value *gradient = u->graph->outputs[i], *weight = gradient->gradient_of;
        bool is_gradient = gradient->role == TC_ROLE_GRADIENT;
        if (!is_gradient || !weight || !weight->init || tc_map_get(u->graph->names, weight->name) != weight) {
            others += is_gradient;
            i++;
            continue;
        }
        TC_TRY(check_trained(u, weight, gradient));
        tc_graph_remove_output(u->graph, i);
        gradient->role = TC_ROLE_BACKWARD;
        gradient->gradient_of = NULL;
        u->list[u->n++] = (tc_trained){weight, gradient};
    }
    if (others > 0)
        tc_note(ctx, NULL, "%u gradients that belong to no initializer stay outputs", others);
    if (u->n > 0)
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "--%s: the graph has no gradient of an initializer: there is nothing to update",
             tc_update_option(u->options));
    tc_hint(ctx, "%s",
            others > 0 ? "if the weights are inputs, give them a checkpoint: tempoc FILE --checkpoint=WEIGHTS -o "
                         "TRAIN.onnx"
                       : "--train, --train-list and --freeze select the initializers with gradients, --loss the loss");
    return TC_BAD_INPUT;
}

/* --- values ----------------------------------------------------------------------------------- */

static tc_status free_name(tc_update *u, const char *name) {
    if (!tc_graph_find(u->graph, name))
        return TC_OK;
    tc_error(u->env->ctx, TC_BAD_INPUT, NULL, "--%s: the name '%s' is taken in the graph", tc_update_option(u->options),
             tc_quote(u->env->ctx, name));
    tc_hint(u->env->ctx, "rename it");
    return TC_BAD_INPUT;
}

static tc_status add_input(tc_update *u, const char *name, const tc_type *type, tc_value **out_input) {
    TC_TRY(free_name(u, name));
    *out_input = tc_value_create_exact(u->graph, tc_arena_strdup(u->graph->model->arena, name), type);
    tc_graph_add_input(u->graph, *out_input);
    return TC_OK;
}

tc_status tc_update_input(tc_update *u, const char *name, tc_dtype dtype, tc_value **out_input) {
    return add_input(u, name, tc_type_tensor_static(u->graph->model, dtype, 0, NULL), out_input);
}

static void add_pair(tc_update *u, const char *prefix, const char *name, const char *text) {
    tc_arena *arena = u->env->ctx->arena;
    u->pairs = tc_arena_grow(arena, u->pairs, sizeof *u->pairs, &u->cap_pairs, u->n_pairs + 1);
    u->pairs[u->n_pairs++] = (tc_pair){tc_arena_printf(arena, "%s%s", prefix, name), text};
}

tc_status tc_update_state(tc_update *u, const char *name, const tc_type *type, tc_value **out_state) {
    TC_TRY(add_input(u, name, type, out_state));
    add_pair(u, TC_ZERO_KEY, name, "");
    return TC_OK;
}

tc_status tc_update_renew(tc_update *u, tc_node *node, uint32_t index, const char *name, tc_value *input) {
    name = name ? name : tc_arena_printf(u->graph->model->arena, "%s.new", input->name);
    TC_TRY(free_name(u, name));
    tc_value *made = tc_value_create_exact(u->graph, name, input->type);
    tc_node_set_output(node, index, made);
    made->role = TC_ROLE_BACKWARD;
    tc_graph_add_output(u->graph, made);
    add_pair(u, TC_KEEP_KEY, made->name, input->name);
    return TC_OK;
}

tc_status tc_update_show(tc_update *u, tc_value *value, const char *name) {
    TC_TRY(free_name(u, name));
    tc_value_rename(value, name);
    value->role = TC_ROLE_BACKWARD;
    tc_graph_add_output(u->graph, value);
    return TC_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Whether it is the scale or bias of a norm, perhaps through a view. */
static bool is_of_norm(const tc_value *value) {
    bool found = false;
    TC_FOR_USES(use, value) {
        const tc_node *user = use->user;
        if (!user->op)
            continue;
        found = found || ((use->index == 1 || use->index == 2) && strstr(user->op->name, "Normalization"));
        if (use->index == 0 && (tc_node_has(user, TC_VIEW) || strcmp(user->op->name, "Cast") == 0))
            found = found || is_of_norm(tc_output(user, 0));
    }
    return found;
}

/* As training recipes do. */
static bool is_spared(const tc_update *u, const tc_value *weight) {
    return !u->options->decay_all && (weight->type->rank < 2 || is_of_norm(weight));
}

static void set_attributes(const tc_update *u, tc_node *node, double decay) {
    const tc_update_options *o = u->options;
    bool decoupled = strcmp(o->optimizer, "adamw") == 0 || strcmp(o->optimizer, "lamb") == 0;
    if (u->method->moments == 2) {
        tc_attr_set_float(node, "alpha", (float)o->beta1);
        tc_attr_set_float(node, "beta", (float)o->beta2);
        tc_attr_set_float(node, "epsilon", (float)o->epsilon);
        tc_attr_set_float(node, "weight_decay", decoupled ? (float)decay : 0);
    }
    if (u->method->moments == 1) {
        tc_attr_set_float(node, "alpha", (float)o->momentum);
        tc_attr_set_float(node, "beta", 1);
        tc_attr_set_string(node, "mode", o->nesterov ? "nesterov" : "standard");
    }
    if (!decoupled && (decay > 0 || u->method->moments == 1)) /* Momentum needs it */
        tc_attr_set_float(node, "norm_coefficient", (float)decay);
    if (u->waits)
        tc_attr_set_int(node, "waits", 1);
}

/* From R, T, X, G and states to X and states. */
static tc_status update_weight(tc_update *u, const tc_trained *t, double decay) {
    const uint32_t moments = u->method->moments;
    tc_value *state[MOST_MOMENTS] = {NULL};
    if (!t->weight->is_input)
        tc_graph_add_input(u->graph, t->weight);
    const uint32_t n_operands = 4 + moments + (u->scale != NULL);
    tc_node *node = tc_node_create(u->graph, TC_TEMPO_DOMAIN, u->method->op, n_operands, 1 + moments);
    tc_value *const operands[] = {u->rate, u->number, t->weight, t->gradient};
    for (uint32_t i = 0; i < TC_COUNT(operands); i++)
        tc_node_set_input(node, i, operands[i]);
    for (uint32_t i = 0; i < moments; i++) {
        const char *name = tc_arena_printf(u->env->ctx->arena, "%s.moment%u", t->weight->name, i + 1);
        TC_TRY(tc_update_state(u, name, t->weight->type, &state[i]));
        tc_node_set_input(node, TC_COUNT(operands) + i, state[i]);
    }
    if (u->scale)
        tc_node_set_input(node, n_operands - 1, u->scale);
    set_attributes(u, node, decay);
    tc_node_append(node);
    TC_TRY(tc_update_renew(u, node, 0, NULL, t->weight));
    for (uint32_t i = 0; i < moments; i++)
        TC_TRY(tc_update_renew(u, node, 1 + i, NULL, state[i]));
    return tc_infer_node(u->env->ctx, node);
}

static tc_status update_all(tc_update *u) {
    tc_model *model = u->graph->model;
    tc_update_summary *s = u->env->summary->update = TC_NEW(u->env->ctx->arena, tc_update_summary);
    *s = (tc_update_summary){.optimizer = u->options->optimizer,
                             .weight_decay = u->options->weight_decay,
                             .updated = TC_NEW_ARRAY(u->env->ctx->arena, const char *, u->n),
                             .spared = TC_NEW_ARRAY(u->env->ctx->arena, const char *, u->n)};
    TC_TRY(tc_update_input(u, TC_RATE_INPUT, TC_FLOAT, &u->rate));
    TC_TRY(tc_update_input(u, TC_UPDATE_INPUT, TC_INT64, &u->number));
    TC_TRY(tc_update_statistics(u));
    TC_TRY(tc_update_scale(u));
    for (size_t i = 0; i < u->n; i++) {
        const char *name = tc_arena_strdup(u->env->ctx->arena, u->list[i].weight->name);
        bool spared = u->options->weight_decay > 0 && is_spared(u, u->list[i].weight);
        s->updated[s->n_updated++] = name;
        if (spared)
            s->spared[s->n_spared++] = name;
        TC_TRY(update_weight(u, &u->list[i], spared ? 0 : u->options->weight_decay));
    }
    tc_model_add_metadata(model, u->pairs, u->n_pairs);
    return TC_OK;
}

/* --- the pass --------------------------------------------------------------------------------- */

/* The nodes from `first` on. */
static void place_from(tc_arena *arena, tc_graph *graph, tc_node *first) {
    tc_node **nodes = TC_NEW_ARRAY(arena, tc_node *, (size_t)graph->n_nodes + 1);
    size_t n = 0;
    for (tc_node *node = first; node; node = node->next)
        nodes[n++] = node;
    tc_place_updates(graph, nodes, n);
}

void tc_place_updates_again(tc_arena *arena, tc_graph *graph) {
    tc_node **nodes = TC_NEW_ARRAY(arena, tc_node *, (size_t)graph->n_nodes + 1);
    const tc_value *rate = tc_map_get(graph->names, TC_RATE_INPUT);
    size_t n = 0;
    if (!rate || !rate->is_input)
        return;
    TC_FOR_NODES(node, graph) {
        bool read = false;
        for (uint32_t i = 0; i < node->n_outputs; i++)
            read = read || (node->outputs[i] && node->outputs[i]->uses);
        if (!read && tc_input(node, 0) == rate)
            nodes[n++] = node;
    }
    tc_place_updates(graph, nodes, n);
}

tc_status tc_pass_update(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    const tc_value *rate = tc_map_get(graph->names, TC_RATE_INPUT);
    const char *option = tc_update_option(&env->options->update);
    if (rate && rate->is_input) {
        if (env->options->update.optimizer && !env->summary->update) /* else they are from this call */
            tc_note(env->ctx, NULL, "the graph updates its weights already: --%s is skipped", option);
        tc_place_updates_again(env->ctx->arena, graph);
        return TC_OK;
    }
    if (!env->options->update.optimizer)
        return TC_OK;
    if (model->is_step)
        return tc_error(env->ctx, TC_USAGE, NULL, "--%s: the file describes updates of its own (training_info)",
                        option);
    tc_build_pool pool = {env->ctx->arena, tc_map_create(env->ctx->arena)};
    tc_update u = {.env = env, .graph = graph, .options = &env->options->update};
    tc_node *last = graph->last;
    u.g = (tc_build){.ctx = env->ctx, .model = model, .graph = graph, .pool = &pool, .label = "update_grad"};
    u.method = tc_update_method_of(u.options);
    TC_TRY(tc_infer_graph(env->ctx, graph));
    TC_TRY(take_gradients(&u));
    TC_TRY(update_all(&u));
    place_from(env->ctx->arena, graph, last ? last->next : graph->first);
    return TC_OK;
}
