/* update.c: the pass that appends the optimizer to a graph with a backward pass. The outputs W_grad of trained
 * initializers go; each such W becomes a graph input with that default, and the graph gets the output W.new, which
 * takes the place of W in the next run (tempo.keep, compiler/marks.h); what the optimizer keeps of W likewise,
 * beginning as zeros (tempo.zero). Learning rate and number of the update are graph inputs (ops.h), so that whoever
 * trains decides them run by run.
 *
 * One node updates one weight, right behind its gradient and the last reader of the old weight (update_place.c): no two
 * gradients live longer than they must, and the runtime writes new elements over old ones. The pass stands behind
 * `budget`: what it appends takes no memory beyond that of weights and state, and lets gradients go that a plan without
 * it holds to the end. */
#include "update.h"
#include "../compiler/marks.h"
#include "../compiler/memory/roles.h"
#include "../compiler/ops.h"
#include "../compiler/options.h"
#include "gradients/gradient.h"
#include "pass.h"
#include <string.h>

#define MOST_MOMENTS 2

typedef struct method {
    const char *name, *op;
    uint32_t moments; /* tensors that are kept of each weight */
} method;

static const method methods[] = {{"adam", "AdamW", 2}, {"adamw", "AdamW", 2}, {"sgd", "Sgd", 0}};
static const method with_momentum = {"sgd", "Momentum", 1};

static const method *method_of(const tc_update_options *o) {
    for (size_t i = 0; i < TC_COUNT(methods); i++)
        if (strcmp(methods[i].name, o->optimizer) == 0)
            return o->momentum > 0 && methods[i].moments == 0 ? &with_momentum : &methods[i];
    return NULL;
}

/* --- options ---------------------------------------------------------------------------------- */

static tc_status unknown_method(tc_ctx *ctx, const char *name) {
    tc_nearest nearest;
    const char *list = "";
    tc_nearest_begin(&nearest, name);
    for (size_t i = 0; i < TC_COUNT(methods); i++) {
        tc_nearest_offer(&nearest, methods[i].name);
        list = tc_arena_printf(ctx->arena, "%s%s%s", list, i ? ", " : "", methods[i].name);
    }
    tc_error(ctx, TC_USAGE, NULL, "there is no optimizer '%s'", tc_quote(ctx, name));
    if (nearest.best)
        tc_hint(ctx, "did you mean %s? The optimizers are: %s", nearest.best, list);
    else
        tc_hint(ctx, "the optimizers are: %s", list);
    return TC_USAGE;
}

/* Numbers of the optimizer and where they may lie: from 0, or above it, up to `below`, or below it. */
static tc_status check_numbers(tc_ctx *ctx, const tc_update_options *o) {
    const struct {
        const char *option;
        double number;
        bool above;
        double below;
    } rows[] = {{"beta1", o->beta1, false, 1},
                {"beta2", o->beta2, false, 1},
                {"epsilon", o->epsilon, true, 0},
                {"momentum", o->momentum, false, 1},
                {"weight-decay", o->weight_decay, false, 0}};
    for (size_t i = 0; i < TC_COUNT(rows); i++) {
        bool low = rows[i].above ? rows[i].number <= 0 : rows[i].number < 0;
        if (low || (rows[i].below > 0 && rows[i].number >= rows[i].below))
            return tc_error(ctx, TC_USAGE, NULL, "--%s=%g: expected a number %s 0%s", rows[i].option, rows[i].number,
                            rows[i].above ? "above" : "from", rows[i].below > 0 ? " to below 1" : " on");
    }
    return TC_OK;
}

/* An option that says how, without --update, which says what. */
static const char *option_alone(const tc_update_options *o) {
    return o->momentum > 0       ? "momentum"
           : o->nesterov         ? "nesterov"
           : o->weight_decay > 0 ? "weight-decay"
           : o->decay_all        ? "decay-all"
                                 : NULL;
}

tc_status tc_update_check_options(tc_ctx *ctx, const tc_options *options) {
    const tc_update_options *o = &options->update;
    if (!o->optimizer && option_alone(o))
        return tc_error(ctx, TC_USAGE, NULL, "--%s goes with --update", option_alone(o));
    if (!o->optimizer)
        return TC_OK;
    if (!method_of(o))
        return unknown_method(ctx, o->optimizer);
    TC_TRY(check_numbers(ctx, o));
    if (o->momentum > 0 && method_of(o)->moments != 1)
        return tc_error(ctx, TC_USAGE, NULL, "--momentum goes with --update=sgd");
    if (o->nesterov && o->momentum <= 0)
        return tc_error(ctx, TC_USAGE, NULL, "--nesterov needs --momentum, above 0");
    if (tc_pipeline_has(options, "update"))
        return TC_OK;
    tc_error(ctx, TC_USAGE, NULL, "--update goes with the pass 'update', which does not run here");
    tc_hint(ctx, "recipes that have it append a backward pass; with --passes, put it behind all but bodies");
    return TC_USAGE;
}

/* --- what is updated -------------------------------------------------------------------------- */

typedef struct trained {
    tc_value *weight, *gradient;
} trained;

typedef struct update {
    tc_pass_env *env;
    tc_graph *graph;
    tc_grad g;
    const method *method;
    const tc_update_options *options;
    trained *list;
    size_t n;
    tc_value *rate, *number;
    tc_pair *pairs; /* metadata */
    size_t n_pairs, cap_pairs;
} update;

/* PyTorch's layout, which --names=pytorch of an earlier call gave it. */
static bool has_other_layout(tc_ctx *ctx, const tc_value *weight, const tc_value *gradient) {
    const char *parameter =
        tc_model_metadata(weight->graph->model, tc_arena_printf(ctx->arena, "tempo.parameter.%s", weight->name));
    const size_t n = parameter ? strcspn(parameter, " ") : 0;
    return parameter && parameter[n] == ' ' && strncmp(gradient->name, parameter, n) == 0 &&
           strcmp(gradient->name + n, "_grad") == 0;
}

static tc_status check_trained(tc_ctx *ctx, const tc_value *weight, const tc_value *gradient) {
    tc_dtype dtype = tc_value_dtype(weight);
    if (has_other_layout(ctx, weight, gradient) || !tc_same_shape(weight, gradient)) {
        tc_error(ctx, TC_UNSUPPORTED, gradient->producer,
                 "--update: the gradient '%s' (%s) has not the layout of '%s' (%s)", tc_quote(ctx, gradient->name),
                 tc_type_text(ctx->arena, gradient->type), tc_quote(ctx, weight->name),
                 tc_type_text(ctx->arena, weight->type));
        tc_hint(ctx, "compile the model without --names=pytorch");
        return TC_UNSUPPORTED;
    }
    if (dtype == TC_FLOAT || (dtype == TC_DOUBLE && tc_value_dtype(gradient) == TC_DOUBLE))
        return TC_OK;
    tc_error(ctx, TC_UNSUPPORTED, NULL, "--update: the weight '%s' is %s: updates are of float, which small ones need",
             tc_quote(ctx, weight->name), tc_dtype_name(dtype));
    tc_hint(ctx, "export the model in float32, or leave the weight as it is (--freeze=GLOB)");
    return TC_UNSUPPORTED;
}

/* Takes the gradients of initializers off the outputs. Those of data stay. */
static tc_status take_gradients(update *u) {
    tc_ctx *ctx = u->env->ctx;
    uint32_t others = 0;
    u->list = TC_NEW_ARRAY(ctx->arena, trained, (size_t)u->graph->n_outputs + 1);
    for (uint32_t i = 0; i < u->graph->n_outputs;) {
        tc_value *gradient = u->graph->outputs[i], *weight = gradient->gradient_of;
        bool is_gradient = gradient->role == TC_ROLE_GRADIENT;
        if (!is_gradient || !weight || !weight->init || tc_map_get(u->graph->names, weight->name) != weight) {
            others += is_gradient;
            i++;
            continue;
        }
        TC_TRY(check_trained(ctx, weight, gradient));
        tc_graph_remove_output(u->graph, i);
        gradient->role = TC_ROLE_BACKWARD;
        gradient->gradient_of = NULL;
        u->list[u->n++] = (trained){weight, gradient};
    }
    if (others > 0)
        tc_note(ctx, NULL, "%u gradients of what is no initializer stay outputs", others);
    if (u->n > 0)
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL,
             "--update: the graph has no gradient of an initializer: there is nothing to update");
    tc_hint(ctx, "the backward pass comes before it; --loss says of what, --train for which initializers");
    return TC_BAD_INPUT;
}

/* --- values ----------------------------------------------------------------------------------- */

static tc_status free_name(update *u, const char *name) {
    if (!tc_graph_find(u->graph, name))
        return TC_OK;
    tc_error(u->env->ctx, TC_BAD_INPUT, NULL, "--update: the name '%s' is taken in the graph",
             tc_quote(u->env->ctx, name));
    tc_hint(u->env->ctx, "rename it");
    return TC_BAD_INPUT;
}

static tc_status add_input(update *u, const char *name, const tc_type *type, tc_value **out_input) {
    TC_TRY(free_name(u, name));
    *out_input = tc_value_create_exact(u->graph, tc_arena_strdup(u->graph->model->arena, name), type);
    tc_graph_add_input(u->graph, *out_input);
    return TC_OK;
}

static void add_pair(update *u, const char *prefix, const char *name, const char *text) {
    tc_arena *arena = u->env->ctx->arena;
    u->pairs = tc_arena_grow(arena, u->pairs, sizeof *u->pairs, &u->cap_pairs, u->n_pairs + 1);
    u->pairs[u->n_pairs++] = (tc_pair){tc_arena_printf(arena, "%s%s", prefix, name), text};
}

/* Result `index` of the node becomes the output `input`.new, which takes the input's place. */
static tc_status renew(update *u, tc_node *node, uint32_t index, tc_value *input) {
    const char *name = tc_arena_printf(u->graph->model->arena, "%s.new", input->name);
    TC_TRY(free_name(u, name));
    tc_value *made = tc_value_create_exact(u->graph, name, input->type);
    tc_node_set_output(node, index, made);
    made->role = TC_ROLE_BACKWARD;
    tc_graph_add_output(u->graph, made);
    add_pair(u, TC_KEEP_KEY, made->name, input->name);
    return TC_OK;
}

static tc_status add_state(update *u, const char *name, const tc_type *type, tc_value **out_state) {
    TC_TRY(add_input(u, name, type, out_state));
    add_pair(u, TC_ZERO_KEY, name, "");
    return TC_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* A norm scales by it, or adds it, or by a view of it. */
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

/* As recipes of training have it. */
static bool is_spared(const update *u, const tc_value *weight) {
    return !u->options->decay_all && (weight->type->rank < 2 || is_of_norm(weight));
}

static void set_attributes(const update *u, tc_node *node, double decay) {
    const tc_update_options *o = u->options;
    bool decoupled = strcmp(o->optimizer, "adamw") == 0;
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
}

/* R, T, X, G and states to X and states. */
static tc_status update_weight(update *u, const trained *t, double decay) {
    const uint32_t moments = u->method->moments;
    tc_value *state[MOST_MOMENTS] = {NULL};
    if (!t->weight->is_input)
        tc_graph_add_input(u->graph, t->weight);
    tc_node *node = tc_node_create(u->graph, TC_TEMPO_DOMAIN, u->method->op, 4 + moments, 1 + moments);
    tc_value *const operands[] = {u->rate, u->number, t->weight, t->gradient};
    for (uint32_t i = 0; i < TC_COUNT(operands); i++)
        tc_node_set_input(node, i, operands[i]);
    for (uint32_t i = 0; i < moments; i++) {
        const char *name = tc_arena_printf(u->env->ctx->arena, "%s.moment%u", t->weight->name, i + 1);
        TC_TRY(add_state(u, name, t->weight->type, &state[i]));
        tc_node_set_input(node, TC_COUNT(operands) + i, state[i]);
    }
    set_attributes(u, node, decay);
    tc_node_append(node);
    TC_TRY(renew(u, node, 0, t->weight));
    for (uint32_t i = 0; i < moments; i++)
        TC_TRY(renew(u, node, 1 + i, state[i]));
    return tc_infer_node(u->env->ctx, node);
}

static tc_status update_all(update *u) {
    tc_model *model = u->graph->model;
    tc_update_summary *s = u->env->summary->update = TC_NEW(u->env->ctx->arena, tc_update_summary);
    *s = (tc_update_summary){.optimizer = u->options->optimizer,
                             .weight_decay = u->options->weight_decay,
                             .updated = TC_NEW_ARRAY(u->env->ctx->arena, const char *, u->n),
                             .spared = TC_NEW_ARRAY(u->env->ctx->arena, const char *, u->n)};
    TC_TRY(add_input(u, TC_RATE_INPUT, tc_type_tensor_static(model, TC_FLOAT, 0, NULL), &u->rate));
    TC_TRY(add_input(u, TC_UPDATE_INPUT, tc_type_tensor_static(model, TC_INT64, 0, NULL), &u->number));
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

/* Of a graph that has its updates; passes may have put readers of weights behind them. */
static void place_again(tc_arena *arena, tc_graph *graph) {
    tc_node **nodes = TC_NEW_ARRAY(arena, tc_node *, (size_t)graph->n_nodes + 1);
    const tc_value *rate = tc_map_get(graph->names, TC_RATE_INPUT);
    size_t n = 0;
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
    if (rate && rate->is_input) {
        if (env->options->update.optimizer)
            tc_note(env->ctx, NULL, "the graph updates its weights already: --update is skipped");
        place_again(env->ctx->arena, graph);
        return TC_OK;
    }
    if (!env->options->update.optimizer)
        return TC_OK;
    if (model->is_step)
        return tc_error(env->ctx, TC_USAGE, NULL, "--update: the file describes updates of its own (training_info)");
    update u = {.env = env, .graph = graph, .options = &env->options->update};
    tc_node *last = graph->last;
    u.method = method_of(u.options);
    TC_TRY(tc_infer_graph(env->ctx, graph));
    TC_TRY(take_gradients(&u));
    TC_TRY(update_all(&u));
    place_from(env->ctx->arena, graph, last ? last->next : graph->first);
    return TC_OK;
}
