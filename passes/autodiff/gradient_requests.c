/* gradient_requests.c: turns Gradient(y, xs..., zs...) of ai.tempo into the nodes that compute it. y is a function
 * of the variables xs and zs. If a node makes one of them, the nodes before it do not count, so until the gradient
 * is built its readers read it through a StopGradient. */
#include "gradient_requests.h"
#include "compiler/memory/memory.h"
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "stop_gradient.h"

enum { MOST_REQUESTS = 512, MOST_GROWTH = 16384, MOST_TIMES = 16 };

static bool is_request(const tc_node *node) { return tc_node_is(node, TC_TEMPO_DOMAIN, "Gradient"); }

bool tc_has_requests(const tc_graph *graph) {
    TC_FOR_NODES(node, graph)
        if (is_request(node))
            return true;
    return false;
}

typedef struct request {
    tc_pass_env *env;
    tc_node *node;
    uint32_t n_xs;
    tc_value **xs;    /* [n_xs] the values themselves */
    tc_value **stops; /* StopGradients of this request */
    size_t n_stops;
} request;

/* The value that other nodes read from here on; the request reads it, too. */
static void cut_before(request *r, tc_value *value) {
    uint32_t known = r->env->summary->stops;
    if (!value->producer || tc_node_is(value->producer, TC_TEMPO_DOMAIN, "StopGradient"))
        return;
    tc_value *stopped = tc_stop_readers(r->env, value);
    if (r->env->summary->stops > known)
        r->stops[r->n_stops++] = stopped;
    r->env->summary->stops = known; /* slopes of the loss keep the names of the file: this value gives way */
}

static void drop_cuts(const request *r) {
    for (size_t i = 0; i < r->n_stops; i++) {
        tc_node *stop = r->stops[i]->producer;
        tc_value_replace(r->stops[i], tc_input(stop, 0));
        tc_node_erase(stop);
    }
}

static request begin(tc_pass_env *env, tc_node *node) {
    tc_arena *arena = env->ctx->arena;
    request r = {.env = env, .node = node, .n_xs = (uint32_t)tc_attr_int(node, "xs", 0)};
    r.xs = TC_NEW_ARRAY(arena, tc_value *, r.n_xs);
    r.stops = TC_NEW_ARRAY(arena, tc_value *, node->n_inputs);
    for (uint32_t i = 0; i < r.n_xs; i++)
        r.xs[i] = tc_input(node, 1 + i);
    for (uint32_t i = 1; i < node->n_inputs; i++)
        cut_before(&r, tc_input(node, i));
    return r;
}

/* The gradient gets the name that the file has for it. */
static void name_result(const request *r, uint32_t i, tc_value *gradient) {
    tc_node *identity = tc_node_create(r->node->graph, "", "Identity", 1, 1);
    tc_node_set_input(identity, 0, gradient);
    tc_node_insert_before(identity, r->node);
    tc_value *result = tc_node_take_output(r->node, i);
    result->type = gradient->type;
    tc_node_set_output(identity, 0, result);
    bool of_leaf = !r->xs[i]->producer;
    result->role = of_leaf && result->n_graph_outputs ? TC_ROLE_GRADIENT : TC_ROLE_BACKWARD;
    result->gradient_of = of_leaf ? r->xs[i] : NULL;
}

static tc_status append(const request *r, tc_rule_set *rules) {
    tc_graph *graph = r->node->graph;
    tc_value **wanted = TC_NEW_ARRAY(r->env->ctx->arena, tc_value *, (size_t)r->n_xs + 1),
             **gradients = TC_NEW_ARRAY(r->env->ctx->arena, tc_value *, (size_t)r->n_xs + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < r->node->n_outputs; i++)
        if (r->node->outputs[i])
            wanted[n++] = tc_input(r->node, 1 + i);
    tc_node *end = graph->last;
    TC_TRY(tc_gradients_of(r->env, rules, graph, tc_input(r->node, 0), wanted, n, gradients));
    for (tc_node *node = end->next, *next; node; node = next) {
        next = node->next;
        tc_node_move_before(node, r->node);
    }
    n = 0;
    for (uint32_t i = 0; i < r->node->n_outputs; i++)
        if (r->node->outputs[i])
            name_result(r, i, gradients[n++]);
    return TC_OK;
}

/* The report calls the first y that is an output the loss. */
static void mark_loss(tc_value *y) {
    const tc_graph *graph = y->graph;
    bool any = !y->n_graph_outputs || y->role == TC_ROLE_BACKWARD || y->role == TC_ROLE_GRADIENT;
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        any = any || graph->outputs[i]->role == TC_ROLE_LOSS;
    if (!any)
        y->role = TC_ROLE_LOSS;
}

static void note_trained(const request *r) {
    tc_summary *summary = r->env->summary;
    const char **names = TC_NEW_ARRAY(r->env->ctx->arena, const char *, summary->n_trained + r->n_xs);
    size_t n = summary->n_trained;
    for (size_t i = 0; i < n; i++)
        names[i] = summary->trained[i];
    for (uint32_t i = 0; i < r->n_xs; i++)
        if (r->xs[i]->init && tc_output(r->node, i))
            names[n++] = tc_arena_strdup(r->env->ctx->arena, r->xs[i]->name);
    summary->trained = names;
    summary->n_trained = n;
}

static tc_status answer(tc_pass_env *env, tc_rule_set *rules, tc_node *node) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const tc_value *x = tc_input(node, 1 + i);
        if (node->outputs[i] && !tc_dtype_is_float(tc_value_dtype(x)))
            return tc_error(env->ctx, TC_BAD_INPUT, node, "%s is %s, which has no gradient",
                            tc_quote(env->ctx, x->name), tc_type_text(env->ctx->arena, x->type));
    }
    request r = begin(env, node);
    note_trained(&r); /* while the node still has its outputs */
    TC_TRY(append(&r, rules));
    drop_cuts(&r);
    mark_loss(tc_input(node, 0));
    tc_node_erase(node);
    return TC_OK;
}

/* New weights and moments: everything that depends on a gradient belongs to the backward pass. */
static void mark_dependents(tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        bool after = false;
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const tc_value *value = tc_input(node, i);
            after = after || (value && (value->role == TC_ROLE_BACKWARD || value->role == TC_ROLE_GRADIENT));
        }
        for (uint32_t i = 0; after && i < node->n_outputs; i++)
            if (node->outputs[i] && node->outputs[i]->role == TC_ROLE_NONE)
                node->outputs[i]->role = TC_ROLE_BACKWARD;
    }
}

/* Each derivative has at least twice as many nodes as the one before, and each request walks over the graph. */
static tc_status check_growth(tc_ctx *ctx, const tc_node *node, uint32_t n, uint32_t nodes_before) {
    if (n < MOST_REQUESTS && node->graph->n_nodes <= MOST_GROWTH + MOST_TIMES * nodes_before)
        return TC_OK;
    tc_error(ctx, TC_LIMIT, node, "the file asks for too many gradients: this is number %u, after %u nodes", n + 1,
             node->graph->n_nodes);
    tc_hint(ctx,
            "the limit is %d gradients, or %d nodes and %d times those of the file, because gradients "
            "of gradients grow",
            MOST_REQUESTS, MOST_GROWTH, MOST_TIMES);
    return TC_LIMIT;
}

tc_status tc_answer_requests(tc_pass_env *env, tc_rule_set *rules, tc_graph *graph) {
    uint32_t n = 0, nodes_before = graph->n_nodes;
    if (env->options->n_selection > 0 || env->options->train_list)
        tc_warn(env->ctx, NULL,
                "--train, --train-list and --freeze have no effect: the file itself names its gradients");
    for (tc_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (!is_request(node))
            continue;
        TC_TRY(check_growth(env->ctx, node, n, nodes_before));
        TC_TRY(answer(env, rules, node));
        n++;
    }
    TC_TRY(tc_infer_graph(env->ctx, graph));
    mark_dependents(graph);
    tc_note(env->ctx, NULL, "gradients are those of the file's %u Gradient node%s; no others are appended", n,
            n > 1 ? "s" : "");
    return TC_OK;
}
