/* calls.c: checks of a model as a whole, from whatever format it was read. No nested graph reuses a name of an
 * enclosing graph; calls fit their functions; no function reaches itself, not even through nested graphs; inlining
 * every call would end at a size that can be handled. Chains of calls can be as long as the file allows, so the walk
 * keeps a stack of its own. */
#include "verify.h"
#include <inttypes.h>
#include <string.h>

#define MAX_EXPANDED ((uint64_t)100000000) /* nodes after inlining */

typedef struct callee {
    size_t function;
    const tc_node *node;
} callee;

/* Calls made by one body, in order. */
typedef struct calls {
    callee *items;
    size_t n, cap;
    uint64_t own_nodes, expanded;
    size_t next; /* where the walk is */
    enum { NEW, OPEN, DONE } state;
} calls;

typedef struct call_graph {
    tc_ctx *ctx;
    const tc_model *model;
    tc_arena *scratch;
    tc_map *index; /* key -> number of the function + 1 */
    calls *functions;
} call_graph;

/* Each part is preceded by its length: no character in a domain or a name can make two functions one. */
static const char *key_of(const call_graph *g, const char *domain, const char *name, const char *overload) {
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    return tc_arena_printf(g->scratch, "%zu %s %zu %s %s", strlen(domain), domain, strlen(name), name, overload);
}

static const char *quote(const call_graph *g, const char *text) { return tc_quote(g->ctx, text); }

static tc_status check_call(const call_graph *g, const tc_node *node, const tc_function *f) {
    if (node->n_inputs > f->body->n_inputs)
        return tc_error(g->ctx, TC_BAD_INPUT, node, "%u operands, but function \"%s\" has %u inputs", node->n_inputs,
                        quote(g, f->name), f->body->n_inputs);
    if (node->n_outputs > f->body->n_outputs)
        return tc_error(g->ctx, TC_BAD_INPUT, node, "%u results, but function \"%s\" has %u outputs", node->n_outputs,
                        quote(g, f->name), f->body->n_outputs);
    return TC_OK;
}

static tc_status collect(const call_graph *g, const tc_graph *graph, calls *out) {
    TC_FOR_NODES(node, graph) {
        out->own_nodes++;
        size_t at = (size_t)(uintptr_t)tc_map_get(g->index, key_of(g, node->domain, node->op_type, node->overload));
        if (at) {
            TC_TRY(check_call(g, node, g->model->functions[at - 1]));
            out->items = tc_arena_grow(g->scratch, out->items, sizeof *out->items, &out->cap, out->n + 1);
            out->items[out->n++] = (callee){at - 1, node};
        }
        TC_FOR_NESTED(nested, node)
            TC_TRY(collect(g, nested, out));
    }
    return TC_OK;
}

static tc_status index_functions(call_graph *g) {
    const tc_model *model = g->model;
    for (size_t i = 0; i < model->n_functions; i++) {
        const tc_function *f = model->functions[i];
        const char *key = key_of(g, f->domain, f->name, f->overload);
        if (tc_map_get(g->index, key))
            return tc_error(g->ctx, TC_BAD_INPUT, NULL, "two functions are named \"%s\" in domain \"%s\"",
                            quote(g, f->name), quote(g, f->domain));
        tc_map_set(g->index, key, (void *)(uintptr_t)(i + 1));
    }
    return TC_OK;
}

/* Everything that function `start` reaches, depth first: a callee that is still open closes a cycle. */
static tc_status walk(const call_graph *g, size_t start, size_t *stack) {
    size_t depth = 0;
    stack[depth++] = start;
    while (depth) {
        calls *c = &g->functions[stack[depth - 1]];
        c->state = OPEN;
        if (c->next == c->n) {
            c->state = DONE;
            c->expanded = c->own_nodes;
            for (size_t i = 0; i < c->n; i++)
                if (__builtin_add_overflow(c->expanded, g->functions[c->items[i].function].expanded, &c->expanded))
                    c->expanded = UINT64_MAX;
            depth--;
            continue;
        }
        const callee *call = &c->items[c->next++];
        calls *target = &g->functions[call->function];
        if (target->state == OPEN)
            return tc_error(g->ctx, TC_BAD_INPUT, call->node, "function \"%s\" calls itself%s",
                            quote(g, g->model->functions[call->function]->name), target == c ? "" : " through others");
        if (target->state == NEW)
            stack[depth++] = call->function;
    }
    return TC_OK;
}

static tc_status check_all(call_graph *g) {
    const tc_model *model = g->model;
    size_t *stack = TC_NEW_ARRAY(g->scratch, size_t, model->n_functions);
    TC_TRY(index_functions(g));
    for (size_t i = 0; i < model->n_functions; i++)
        TC_TRY(collect(g, model->functions[i]->body, &g->functions[i]));
    for (size_t i = 0; i < model->n_functions; i++)
        if (g->functions[i].state == NEW)
            TC_TRY(walk(g, i, stack));
    calls top = {0};
    TC_TRY(collect(g, model->graph, &top));
    uint64_t total = top.own_nodes;
    for (size_t i = 0; i < top.n; i++) {
        uint64_t expanded = g->functions[top.items[i].function].expanded;
        if (expanded > MAX_EXPANDED || (total += expanded) > MAX_EXPANDED)
            return tc_error(g->ctx, TC_LIMIT, top.items[i].node, "function calls expand to more than %" PRIu64 " nodes",
                            MAX_EXPANDED);
    }
    return TC_OK;
}

tc_status tc_check_calls(tc_ctx *ctx, const tc_model *model) {
    if (!model->n_functions)
        return TC_OK;
    call_graph g = {.ctx = ctx, .model = model, .scratch = tc_arena_create()};
    g.index = tc_map_create(g.scratch);
    g.functions = TC_NEW_ARRAY(g.scratch, calls, model->n_functions);
    tc_status status = check_all(&g);
    tc_arena_destroy(g.scratch);
    return status;
}

tc_status tc_check_names(tc_ctx *ctx, const tc_graph *graph) {
    const void *name = NULL;
    void *value = NULL;
    for (size_t cursor = 0; graph->parent && tc_map_next(graph->names, &cursor, &name, &value);)
        if (tc_graph_find(graph->parent, name))
            return tc_error(ctx, TC_BAD_INPUT, NULL, "\"%s\" of graph \"%s\" is also a name of an enclosing graph",
                            tc_quote(ctx, name), tc_quote(ctx, graph->name));
    TC_FOR_NODES(node, graph) {
        TC_FOR_NESTED(nested, node)
            TC_TRY(tc_check_names(ctx, nested));
    }
    return TC_OK;
}
