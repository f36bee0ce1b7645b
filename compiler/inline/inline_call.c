/* inline_call.c: replaces calls of model-local functions by the functions' bodies. An op without a kernel in the
 * runtime, or without a gradient in autodiff, is replaced by its body. Results of the call stay the same values: graph
 * outputs keep their names. Inlined nodes get new ordinals: two calls of one function must not draw the same dropout
 * mask. */
#include "compiler/ir/clone.h"
#include <inttypes.h>
#include <string.h>

enum {
    MAX_DEPTH = 128,  /* of calls in bodies of calls; readers refuse cycles, this is a second guard */
    MAX_LEVELS = 512, /* of nested graphs */
    MAX_NODES =
        10 << 20, /* new nodes of one tc_inline_all: chains of bodies with two calls each double at every link */
};

/* --- ordinals --------------------------------------------------------------------------------- */

static void count_ordinals(tc_model *model, const tc_graph *graph) {
    for (const tc_node *node = graph->first; node; node = node->next) {
        if (node->ordinal != UINT32_MAX && node->ordinal >= model->next_ordinal)
            model->next_ordinal = node->ordinal + 1;
        TC_FOR_NESTED(nested, node)
            count_ordinals(model, nested);
    }
}

void tc_new_ordinals(tc_graph *graph, tc_node *first, const tc_node *stop) {
    tc_model *model = graph->model;
    if (model->next_ordinal == 0) {
        model->next_ordinal = 1;
        count_ordinals(model, model->graph);
        for (size_t i = 0; i < model->n_functions; i++)
            count_ordinals(model, model->functions[i]->body);
    }
    for (tc_node *node = first; node != stop; node = node->next) {
        node->ordinal = model->next_ordinal++;
        TC_FOR_NESTED(nested, node)
            tc_new_ordinals(nested, nested->first, NULL);
    }
}

/* --- one call --------------------------------------------------------------------------------- */

static const char *default_domain(const char *domain) { return strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

/* A body is written for its function's opset imports. Inlined nodes follow the imports of the model, so both must
 * agree. A domain that only the function imports is added to the model's imports. */
static tc_status check_opsets(tc_ctx *ctx, const tc_node *node, const tc_function *function) {
    for (size_t i = 0; i < function->n_opsets; i++) {
        const tc_opset *opset = &function->opsets[i];
        int64_t version = tc_model_opset(node->graph->model, opset->domain);
        if (version == 0 || version == opset->version)
            continue;
        tc_status status = tc_error(
            ctx, TC_UNSUPPORTED, node,
            "its function body is written for opset %" PRId64 " of \"%s\", the model for %" PRId64, opset->version,
            *default_domain(opset->domain) ? tc_quote(ctx, opset->domain) : "ai.onnx", version);
        tc_hint(ctx, "the pass upgrade brings both to one opset");
        return status;
    }
    return TC_OK;
}

/* The operand that is output `j` of the call unchanged, because the body's output is one of its inputs; else NULL. */
static tc_value *passed_input(const tc_node *node, const tc_graph *body, uint32_t j) {
    for (uint32_t i = 0; i < body->n_inputs; i++)
        if (body->outputs[j] == body->inputs[i])
            return tc_input(node, i);
    return NULL;
}

static tc_status check_call(tc_ctx *ctx, const tc_node *node, const tc_function *function) {
    const tc_graph *body = function->body;
    if (node->graph == body)
        return tc_error(ctx, TC_BAD_INPUT, node, "a function calls itself");
    if (node->n_inputs > body->n_inputs)
        return tc_error(ctx, TC_BAD_INPUT, node, "%" PRIu32 " inputs are given, its function has %" PRIu32,
                        node->n_inputs, body->n_inputs);
    if (node->n_outputs > body->n_outputs)
        return tc_error(ctx, TC_BAD_INPUT, node, "%" PRIu32 " outputs are wanted, its function has %" PRIu32,
                        node->n_outputs, body->n_outputs);
    for (uint32_t j = 0; j < node->n_outputs; j++)
        if (node->outputs[j] && !body->outputs[j]->producer && !passed_input(node, body, j))
            return tc_error(ctx, TC_BAD_INPUT, node,
                            "output \"%s\" is an input of its function that the call leaves out",
                            tc_quote(ctx, node->outputs[j]->name));
    return check_opsets(ctx, node, function);
}

/* For an output without a node of its own in the body: it is a second name of the value `to`. */
void tc_alias_output(tc_node *node, uint32_t j, tc_value *to) {
    tc_value *from = node->outputs[j];
    if (from->n_graph_outputs == 0) {
        tc_value_replace(from, to);
        return;
    }
    tc_node *identity = tc_node_create(node->graph, "", "Identity", 1, 1);
    identity->name = node->name;
    tc_node_set_input(identity, 0, to);
    tc_node_set_output(identity, 0, tc_node_take_output(node, j));
    tc_node_insert_before(identity, node);
}

tc_status tc_inline_call(tc_ctx *ctx, tc_node *node, const tc_function *function) {
    TC_TRY(check_call(ctx, node, function));
    tc_graph *graph = node->graph;
    tc_model *model = graph->model;
    const tc_graph *body = function->body;
    tc_cloner cloner = {
        .values = tc_map_create(model->arena), .call = node, .function = function, .prefix = tc_node_label(node)};
    for (uint32_t i = 0; i < body->n_inputs; i++) {
        tc_value *operand = tc_input(node, i);
        if (operand)
            tc_map_set_ptr(cloner.values, body->inputs[i], operand);
        else
            tc_cloner_set_absent(&cloner, body->inputs[i]);
    }
    for (uint32_t j = 0; j < node->n_outputs; j++)
        if (node->outputs[j] && body->outputs[j]->producer && !tc_map_get_ptr(cloner.values, body->outputs[j]))
            tc_map_set_ptr(cloner.values, body->outputs[j], tc_node_take_output(node, j));
    const tc_node *before = node->prev;
    for (const tc_node *inner = body->first; inner; inner = inner->next)
        tc_node_insert_before(tc_cloner_node(&cloner, graph, inner), node);
    tc_new_ordinals(graph, before ? before->next : graph->first, node);
    for (uint32_t j = 0; j < node->n_outputs; j++)
        if (node->outputs[j])
            tc_alias_output(node, j, tc_cloner_value(&cloner, body->outputs[j]));
    for (size_t i = 0; i < function->n_opsets; i++)
        if (tc_model_opset(model, function->opsets[i].domain) == 0)
            tc_model_set_opset(model, function->opsets[i].domain, function->opsets[i].version);
    tc_node_erase(node);
    return TC_OK;
}

/* --- all calls -------------------------------------------------------------------------------- */

typedef struct inliner {
    tc_ctx *ctx;
    tc_arena *scratch;
    tc_map *functions; /* by function_key */
    tc_inline_want want;
    void *user;
    uint32_t calls;
    uint64_t nodes;
} inliner;

/* Each name is preceded by its length: names stay distinct whatever characters they have. */
static const char *function_key(tc_arena *arena, const char *domain, const char *name, const char *overload) {
    domain = default_domain(domain);
    return tc_arena_printf(arena, "%zu %zu %s%s%s", strlen(domain), strlen(name), domain, name, overload);
}

static const tc_function *called(const inliner *in, const tc_node *node) {
    const tc_function *f =
        tc_map_get(in->functions, function_key(in->scratch, node->domain, node->op_type, node->overload));
    return f && (!in->want || in->want(in->user, node, f)) ? f : NULL;
}

static tc_status inline_graph(inliner *in, tc_graph *graph, size_t depth, size_t level);

static tc_status inline_nested(inliner *in, const tc_node *node, size_t depth, size_t level) {
    TC_FOR_NESTED(nested, node)
        TC_TRY(inline_graph(in, nested, depth, level + 1));
    return TC_OK;
}

/* `ends[d]` is the node after the body that was opened at depth d (NULL: the graph ends with it). */
static tc_status inline_graph(inliner *in, tc_graph *graph, size_t depth, size_t level) {
    const tc_node *ends[MAX_DEPTH];
    size_t open = 0;
    if (level > MAX_LEVELS)
        return tc_error(in->ctx, TC_LIMIT, NULL, "graphs nest deeper than %d levels when functions are inlined",
                        MAX_LEVELS);
    for (tc_node *node = graph->first; node;) {
        while (open && ends[open - 1] == node)
            open--;
        const tc_function *function = called(in, node);
        if (!function) {
            TC_TRY(inline_nested(in, node, depth + open, level));
            node = node->next;
            continue;
        }
        in->nodes += function->body->n_nodes;
        if (depth + open >= MAX_DEPTH)
            return tc_error(in->ctx, TC_LIMIT, node, "functions call each other deeper than %d levels", MAX_DEPTH);
        if (in->nodes > MAX_NODES)
            return tc_error(in->ctx, TC_LIMIT, node, "inlining its function makes more than %d nodes", MAX_NODES);
        tc_node *before = node->prev, *after = node->next;
        TC_TRY(tc_inline_call(in->ctx, node, function));
        in->calls++;
        ends[open++] = after;
        node = before ? before->next : graph->first;
    }
    return TC_OK;
}

tc_status tc_inline_all(tc_ctx *ctx, tc_graph *graph, tc_inline_want want, void *user, uint32_t *out_calls) {
    if (out_calls)
        *out_calls = 0;
    const tc_model *model = graph->model;
    if (model->n_functions == 0)
        return TC_OK;
    inliner in = {.ctx = ctx, .scratch = tc_arena_create(), .want = want, .user = user};
    in.functions = tc_map_create(in.scratch);
    for (size_t i = 0; i < model->n_functions; i++) {
        tc_function *f = model->functions[i];
        tc_map_set(in.functions, function_key(in.scratch, f->domain, f->name, f->overload), f);
    }
    tc_status status = inline_graph(&in, graph, 0, 0);
    if (out_calls)
        *out_calls = in.calls;
    tc_arena_destroy(in.scratch);
    return status;
}
