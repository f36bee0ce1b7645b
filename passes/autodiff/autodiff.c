/* autodiff.c: appends the backward pass. Every trained initializer W gets the graph output W_grad, the gradient of the
 * loss. The pass visits nodes from the loss to the first one. Each node adds the gradients of its operands to what
 * other users of these values have contributed (`partial`), by a gradient rule or by its row of gradients.def. A
 * value's users all come after its producer, so its gradient is complete when the pass reaches the producer. Only nodes
 * on a path to a trained initializer get gradients (trainable.h). A file may ask for gradients itself, by Gradient
 * nodes. Then the pass builds these and no others (gradient_requests.c). Outputs are marked: the loss, each gradient,
 * and the value that a gradient belongs to (tc_value.role). A graph that holds a backward pass already stays as it is.
 * An op without a gradient but with a function body is replaced by the body first. Gradients through nested graphs (If,
 * Loop and Scan that unroll.c could not unroll) are refused. */
#include "passes/draws/draws.h"
#include "passes/bodies/bodies.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "compiler/cli/cli.h"
#include "passes/gradients/gradients.h"
#include "passes/weights/weights.h"
#include "gradient_requests.h"
#include "loss_scale.h"
#include "passes/rules/rules.h"
#include "stop_gradient.h"
#include "passes/torch/metadata/metadata.h"
#include <string.h>

/* --- function bodies for ops without gradient ------------------------------------------------- */
static tc_status body_of(tc_ctx *ctx, tc_model *model, const tc_node *node, tc_function **out_function) {
    *out_function = tc_model_function(model, node->domain, node->op_type, node->overload);
    if (*out_function || strcmp(node->domain, TC_TEMPO_DOMAIN) != 0)
        return TC_OK;
    return tc_body_for(ctx, model, node, out_function);
}

static bool may_have_body(const tc_rule_set *rules, const tc_node *node) {
    bool may = !node->op || strcmp(node->domain, TC_TEMPO_DOMAIN) == 0;
    return may && !tc_node_has(node, TC_NO_GRADIENT) && !tc_gradient_exists(rules, node);
}

static bool any_output_in(const tc_node *node, const bool *set) {
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && set[node->outputs[i]->id])
            return true;
    return false;
}

/* Values by id: whether the loss depends on them in any way. */
static bool *ancestors(tc_arena *arena, const tc_graph *graph, const tc_value *loss) {
    bool *is = TC_NEW_ARRAY(arena, bool, graph->model->next_id);
    is[loss->id] = true;
    for (const tc_node *node = graph->last; node; node = node->prev) {
        if (!any_output_in(node, is))
            continue;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (tc_input(node, i))
                is[tc_input(node, i)->id] = true;
    }
    return is;
}

/* The depth is bounded: the reader refuses functions that call themselves. */
static tc_status inline_bodies(tc_ctx *ctx, tc_graph *graph, const tc_rule_set *rules, const tc_value *loss) {
    for (bool changed = true; changed;) {
        changed = false;
        bool *on_path = ancestors(ctx->arena, graph, loss);
        TC_FOR_NODES_SAFE(node, graph) {
            tc_function *body = NULL;
            if (!any_output_in(node, on_path) || !may_have_body(rules, node))
                continue;
            TC_TRY(body_of(ctx, graph->model, node, &body));
            if (!body)
                continue;
            TC_TRY(tc_inline_call(ctx, node, body));
            changed = true;
        }
        if (changed)
            TC_TRY(tc_infer_graph(ctx, graph));
    }
    return TC_OK;
}

/* --- refused nodes ---------------------------------------------------------------------------- */
static void refuse_node(tc_ctx *ctx, const tc_node *node) {
    if (tc_node_has(node, TC_CONTROL)) {
        tc_error(ctx, TC_UNSUPPORTED, node, "gradients through nested graphs are not supported");
        tc_hint_way_around(ctx, node);
        return;
    }
    const char *domain = *node->domain ? tc_arena_printf(ctx->arena, " of domain %s", tc_quote(ctx, node->domain)) : "";
    tc_error(ctx, TC_UNSUPPORTED, node, "no gradient is known for the op %s%s", tc_quote(ctx, node->op_type), domain);
    tc_hint_way_around(ctx, node);
}

/* The op has gradient rules, but none of them fits this node's attributes, types or shapes. */
static tc_status refuse_form(tc_ctx *ctx, const tc_node *node) {
    tc_error(ctx, TC_UNSUPPORTED, node, "no gradient rule of the op fits this node");
    tc_hint(ctx, "freeze the weights before it (--freeze=GLOB), or add a rule that fits (--rules=FILE)");
    return TC_UNSUPPORTED;
}

/* Reports every op on the way that has no gradient, each kind once, before the graph changes. */
static tc_status check_ops(tc_ctx *ctx, const tc_graph *graph, const tc_rule_set *rules, const tc_flow *flow) {
    tc_map *refused = tc_map_create(ctx->arena);
    TC_FOR_NODES(node, graph) {
        bool on_path = false; /* a StopGradient passes nothing on, but the file may ask for its result's gradient */
        for (uint32_t i = 0; i < node->n_outputs && !tc_node_has(node, TC_NO_GRADIENT); i++)
            on_path = on_path || tc_flow_has(flow, tc_output(node, i), TC_FLOW_NEEDED);
        if (!on_path || tc_gradient_exists(rules, node))
            continue;
        const char *kind = tc_arena_printf(ctx->arena, "%s.%s", node->domain, node->op_type);
        if (tc_map_count(refused) < 20 && !tc_map_get(refused, kind))
            refuse_node(ctx, node);
        tc_map_set(refused, kind, node);
    }
    return tc_map_count(refused) ? TC_UNSUPPORTED : TC_OK;
}

/* --- the backward pass ------------------------------------------------------------------------ */
typedef struct partial { /* the contributions to one value's gradient */
    tc_value **values;
    size_t n, cap;
} partial;

typedef struct backward {
    tc_pass_env *env;
    tc_graph *graph;
    tc_rule_set *rules;
    const tc_flow *flow;
    tc_build_pool pool;
    partial *partials; /* by value id */
} backward;

static tc_build new_grad(backward *b) {
    return (tc_build){.ctx = b->env->ctx, .model = b->graph->model, .graph = b->graph, .pool = &b->pool};
}

static const char *grad_label(backward *b, const char *name) { return tc_arena_printf(b->pool.arena, "%s_grad", name); }

static void contribute(backward *b, const tc_value *value, tc_value *gradient) {
    partial *p = &b->partials[value->id];
    p->values = tc_arena_grow(b->pool.arena, p->values, sizeof(*p->values), &p->cap, p->n + 1);
    p->values[p->n++] = gradient;
}

/* The sum of the contributions, or NULL. A sum without a name of its own becomes <value>_grad. */
static tc_status collect(backward *b, tc_value *value, tc_value **out_gradient) {
    *out_gradient = NULL;
    if (!value || value->id >= b->flow->n || b->partials[value->id].n == 0)
        return TC_OK;
    partial *p = &b->partials[value->id];
    tc_build g = new_grad(b);
    g.label = grad_label(b, value->name);
    *out_gradient = tc_build_sum(&g, p->n, p->values);
    return g.status;
}

static bool reads_needed(const backward *b, const tc_node *node, bool *out_needed) {
    bool any = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        out_needed[i] = tc_gradient_flows(b->rules, node, i) && tc_flow_has(b->flow, tc_input(node, i), TC_FLOW_NEEDED);
        any = any || out_needed[i];
    }
    return any;
}

static tc_status node_backward(backward *b, tc_node *node) {
    tc_arena *arena = b->pool.arena;
    tc_build g = new_grad(b);
    bool *needed = TC_NEW_ARRAY(arena, bool, node->n_inputs + 1), any = false;
    tc_value **douts = TC_NEW_ARRAY(arena, tc_value *, node->n_outputs + 4); /* builders may add results */
    if (!reads_needed(b, node, needed))
        return TC_OK;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        TC_TRY(collect(b, tc_output(node, i), &douts[i]));
        any = any || douts[i];
    }
    if (!any)
        return TC_OK;
    tc_gradient task = {.node = node,
                        .douts = douts,
                        .needed = needed,
                        .dins = TC_NEW_ARRAY(arena, tc_value *, node->n_inputs + 1),
                        .train_padding = b->env->options->train_padding};
    g.label = grad_label(b, tc_node_label(node));
    g.of = &task;
    bool found = false;
    TC_TRY(tc_gradient_apply(b->env, b->rules, &g, &found));
    if (!found)
        return refuse_form(b->env->ctx, node);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (needed[i] && task.dins[i])
            contribute(b, tc_input(node, i), task.dins[i]);
    return TC_OK;
}

static tc_status all_nodes_backward(backward *b, tc_value *loss) {
    tc_build g = new_grad(b);
    tc_value *seed;
    TC_TRY(tc_loss_seed(b->env, &g, loss, &seed));
    contribute(b, loss, seed);
    for (tc_node *node = loss->producer; node; node = node->prev)
        TC_TRY(node_backward(b, node));
    return TC_OK;
}

/* --- outputs ---------------------------------------------------------------------------------- */
/* A value that can take the output's name: the backward pass makes it, and it is not an output yet. */
static bool can_be_output(const backward *b, const tc_value *value) {
    return value->id >= b->flow->n && value->producer && value->n_graph_outputs == 0;
}

/* The name and layout that --names=pytorch gives the weight's gradient; NULL: the file's own. A part of a parameter
 * keeps the file's name, because its shape is not the parameter's. */
static const tc_torch_name *torch_name_of(const backward *b, const tc_value *weight) {
    bool asked = b->env->options->torch_names &&
                 !b->env->options->update.optimizer; /* gradients of these stay inside the graph */
    const tc_torch_name *name = asked ? tc_torch_name_of(b->env->summary, weight->name) : NULL;
    return name && name->layout != TC_TORCH_ROWS ? name : NULL;
}

static tc_value *in_layout(tc_build *g, tc_torch_layout layout, tc_value *gradient) {
    if (layout == TC_TORCH_TRANSPOSED)
        return TC_OP(g, "Transpose", gradient);
    if (layout == TC_TORCH_FLATTENED)
        return TC_OP(g, "Reshape", gradient, tc_build_ints(g, (int64_t[]){-1}, 1));
    return gradient;
}

/* Zeros where the value does not influence the loss. */
static tc_status gradient_of(backward *b, tc_build *g, tc_value *value, tc_value **out_gradient) {
    TC_TRY(collect(b, value, out_gradient));
    if (!*out_gradient)
        *out_gradient = tc_build_zeros(g, tc_build_shape(g, value), tc_value_dtype(value));
    return g->status;
}

static tc_status add_gradient_output(backward *b, tc_value *weight) {
    tc_ctx *ctx = b->env->ctx;
    tc_build g = new_grad(b);
    tc_value *gradient;
    const tc_torch_name *torch = torch_name_of(b, weight);
    const char *wanted = tc_arena_printf(b->pool.arena, "%s_grad", torch ? torch->name : weight->name);
    g.label = grad_label(b, weight->name);
    TC_TRY(gradient_of(b, &g, weight, &gradient));
    if (torch)
        gradient = in_layout(&g, torch->layout, gradient);
    if (!can_be_output(b, gradient))
        gradient = TC_OP(&g, "Identity", gradient);
    if (strcmp(gradient->name, wanted) != 0) {
        const char *name = tc_graph_unique_name(b->graph, wanted);
        tc_value_rename(gradient, name);
        if (strcmp(name, wanted) != 0)
            tc_warn(ctx, NULL, "the name %s is taken: the gradient of %s is the output %s", tc_quote(ctx, wanted),
                    tc_quote(ctx, weight->name), tc_quote(ctx, name));
    }
    gradient->role = TC_ROLE_GRADIENT;
    gradient->gradient_of = weight;
    tc_graph_add_output(b->graph, gradient);
    return g.status;
}

/* `node`: the first node of the backward pass. */
static void mark_backward(const tc_node *node) {
    for (; node; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                node->outputs[i]->role = TC_ROLE_BACKWARD;
}

/* A file that lost its backward pass may call another output the loss. */
static void mark_loss(tc_value *loss) {
    const tc_graph *graph = loss->graph;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i]->role == TC_ROLE_LOSS)
            graph->outputs[i]->role = TC_ROLE_FORWARD;
    loss->role = TC_ROLE_LOSS;
}

/* The caller destroys the pool's arena. */
static backward begin(tc_pass_env *env, tc_graph *graph, const tc_flow *flow, tc_rule_set *rules) {
    tc_arena *scratch = tc_arena_create();
    backward b = {.env = env, .graph = graph, .rules = rules, .flow = flow, .pool = {scratch, tc_map_create(scratch)}};
    b.partials = TC_NEW_ARRAY(scratch, partial, flow->n);
    return b;
}

static tc_status run_backward(tc_pass_env *env, tc_graph *graph, tc_value *loss, const tc_flow *flow,
                              tc_rule_set *rules) {
    backward b = begin(env, graph, flow, rules);
    const tc_node *end = graph->last;
    tc_status status = all_nodes_backward(&b, loss);
    mark_loss(loss);
    mark_backward(end ? end->next : graph->first);
    for (size_t i = 0; i < flow->n_trained && status == TC_OK; i++)
        status = add_gradient_output(&b, flow->trained[i]);
    tc_torch_keep_names(env, graph->model, flow->trained, flow->n_trained);
    tc_arena_destroy(b.pool.arena);
    return status;
}

tc_status tc_gradients_of(tc_pass_env *env, tc_rule_set *rules, tc_graph *graph, tc_value *y, tc_value *const *xs,
                          size_t n_xs, tc_value **out_gradients) {
    tc_flow flow;
    TC_TRY(inline_bodies(env->ctx, graph, rules, y));
    tc_flow_between(env->ctx->arena, rules, graph, y, xs, n_xs, &flow);
    TC_TRY(check_ops(env->ctx, graph, rules, &flow));
    backward b = begin(env, graph, &flow, rules);
    const tc_node *end = graph->last;
    tc_status status = all_nodes_backward(&b, y);
    for (size_t i = 0; i < n_xs && status == TC_OK; i++) {
        tc_build g = new_grad(&b);
        g.label = grad_label(&b, xs[i]->name);
        status = gradient_of(&b, &g, xs[i], &out_gradients[i]);
    }
    mark_backward(end ? end->next : graph->first);
    tc_arena_destroy(b.pool.arena);
    return status;
}

static void warn_dropout(tc_ctx *ctx, const tc_graph *graph, const tc_flow *flow) {
    TC_FOR_NODES(node, graph) {
        if (!tc_node_is(node, "", "Dropout") || tc_input(node, 2) ||
            !tc_flow_has(flow, tc_output(node, 0), TC_FLOW_NEEDED))
            continue;
        tc_warn(ctx, node, "Dropout without training_mode drops nothing, probably by mistake");
        tc_hint_dropout(ctx);
        return;
    }
}

static tc_status differentiate(tc_pass_env *env, tc_graph *graph, tc_value *loss, tc_rule_set *rules) {
    tc_flow flow;
    TC_TRY(inline_bodies(env->ctx, graph, rules, loss));
    TC_TRY(tc_trainable_select(env, rules, graph, loss, &flow));
    warn_dropout(env->ctx, graph, &flow);
    if (flow.n_trained == 0)
        tc_warn(env->ctx, NULL, "the loss '%s' depends on no initializer that is trained",
                tc_quote(env->ctx, loss->name));
    TC_TRY(check_ops(env->ctx, graph, rules, &flow));
    return flow.n_trained == 0 ? TC_OK : run_backward(env, graph, loss, &flow, rules);
}

/* The graph's own backward pass stays, so --loss may only name its loss. */
static tc_status keep_backward(tc_pass_env *env, tc_graph *graph) {
    tc_settle_loss(env, graph);
    TC_TRY(tc_check_loss(env, graph));
    TC_TRY(tc_loss_scale_kept(env));
    tc_note(env->ctx, NULL, "the graph holds a backward pass already: autodiff is skipped");
    tc_drop_stops(graph);
    return TC_OK;
}

/* `loss` NULL: the file's own Gradient nodes say which gradients to build. */
static tc_status differentiate_or_answer(tc_pass_env *env, tc_graph *graph, tc_value *loss, tc_rule_set *rules) {
    if (loss)
        return differentiate(env, graph, loss, rules);
    TC_TRY(tc_answer_requests(env, rules, graph));
    return tc_check_loss(env, graph);
}

tc_status tc_pass_autodiff(tc_pass_env *env, tc_model *model) {
    tc_graph *graph = model->graph;
    tc_value *loss = NULL;
    TC_TRY(tc_infer_graph(env->ctx, graph));
    bool asked = tc_has_requests(graph);
    if (!asked && env->options->only_requests)
        return tc_drop_stops(graph), TC_OK;
    if (!asked && (model->is_step || tc_has_backward(graph, tc_names_loss(env->options))))
        return keep_backward(env, graph);
    if (!asked)
        TC_TRY(tc_choose_loss(env, graph, &loss));
    tc_rule_set *rules = tc_rules_create();
    tc_status status = tc_rules_load(env, NULL, true, rules);
    if (status == TC_OK)
        status = differentiate_or_answer(env, graph, loss, rules);
    tc_drop_stops(graph);
    tc_rules_stats(env, rules);
    tc_rules_destroy(rules);
    return status;
}
