/* own_functions.c: model-local functions with the names of ops. Which of the two a node means is decided once, before
 * any pass: afterwards a node of ai.tempo with a row in the table of ops means the op. */
#include "ops.h"
#include <string.h>

#define OWN_DOMAIN TC_TEMPO_DOMAIN ".own"

static bool is_standard(const tc_function *function) {
    return (!*function->domain || strcmp(function->domain, "ai.onnx") == 0) &&
           tc_op_find(function->domain, function->name);
}

static bool is_own(const tc_function *function) {
    return !function->is_body && strcmp(function->domain, TC_TEMPO_DOMAIN) == 0 &&
           tc_op_find(function->domain, function->name);
}

static bool has_domain(const tc_model *model, const char *domain) {
    for (size_t i = 0; i < model->n_functions; i++)
        if (strcmp(model->functions[i]->domain, domain) == 0)
            return true;
    return false;
}

static void drop_standard(tc_ctx *ctx, tc_model *model) {
    size_t kept = 0;
    for (size_t i = 0; i < model->n_functions; i++) {
        tc_function *function = model->functions[i];
        if (is_standard(function)) {
            tc_warn(ctx, NULL,
                    "the model's function %s has the name of an op of ai.onnx: its calls are taken for the op",
                    tc_quote(ctx, function->name));
            tc_hint(ctx, "other runtimes do the same; a function in a domain of its own is called");
        } else
            model->functions[kept++] = function;
    }
    model->n_functions = kept;
}

typedef struct parting {
    const tc_map *own; /* by name and overload */
    const char *domain;
    tc_arena *scratch;
} parting;

static const char *key_of(tc_arena *arena, const char *name, const char *overload) {
    return tc_arena_printf(arena, "%zu %s%s", strlen(name), name, overload);
}

/* Whether a call was among the nodes. */
static bool part_calls(const parting *p, tc_graph *graph) {
    bool found = false;
    TC_FOR_NODES(node, graph) {
        if (strcmp(node->domain, TC_TEMPO_DOMAIN) == 0 &&
            tc_map_get(p->own, key_of(p->scratch, node->op_type, node->overload))) {
            tc_node_set_op(node, p->domain, node->op_type);
            found = true;
        }
        TC_FOR_NESTED(nested, node)
            found |= part_calls(p, nested);
    }
    return found;
}

static void part(tc_model *model, tc_arena *scratch, tc_map *own) {
    const char *domain = OWN_DOMAIN;
    while (has_domain(model, domain))
        domain = tc_arena_printf(model->arena, "%s_", domain);
    const parting p = {own, domain, scratch};
    if (part_calls(&p, model->graph))
        tc_model_set_opset(model, domain, TC_TEMPO_DOMAIN_VERSION);
    for (size_t i = 0; i < model->n_functions; i++) {
        tc_function *function = model->functions[i];
        if (part_calls(&p, function->body))
            tc_function_import(model, function, domain, TC_TEMPO_DOMAIN_VERSION);
        if (is_own(function))
            function->domain = domain;
    }
}

void tc_part_own_functions(tc_ctx *ctx, tc_model *model) {
    drop_standard(ctx, model);
    tc_arena *scratch = tc_arena_create();
    tc_map *own = tc_map_create(scratch);
    for (size_t i = 0; i < model->n_functions; i++) {
        const tc_function *function = model->functions[i];
        if (is_own(function))
            tc_map_set(own, key_of(scratch, function->name, function->overload), (void *)(uintptr_t)function);
    }
    if (tc_map_count(own) > 0)
        part(model, scratch, own);
    tc_arena_destroy(scratch);
}
