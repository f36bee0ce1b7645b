/* shapes.c: the pass that infers types: it binds --dim NAME=VALUE, infers every type and shape, and refuses nodes
 * that later passes could not handle: ops that neither the table nor a function of the model defines, and wrong uses
 * of known ops. */
#include "compiler/shape/shape.h"
#include "compiler/cli/cli.h"
#include "compiler/base/base.h"
#include "compiler/ir/verify.h"
#include "passes/batch/batch.h"
#include "passes/weights/weights.h"
#include "passes/pass/pass.h"
#include "passes/torch/metadata/metadata.h"
#include <string.h>

#define UNKNOWN_LIMIT 20 /* unknown ops in one message */

/* NAME=VALUE of --dim, VALUE >= 0; TC_USAGE else. */
static tc_status dim_option(tc_ctx *ctx, const char *text, const char **out_name, int64_t *out_value) {
    const char *equals = strrchr(text, '=');
    if (equals == NULL || equals == text || !tc_parse_whole(equals + 1, out_value) || *out_value < 0) {
        tc_status status = tc_error(ctx, TC_USAGE, NULL, "--dim=%s: expected NAME=VALUE", tc_quote(ctx, text));
        tc_hint(ctx, "for example --dim batch=32 --dim seq=128");
        return status;
    }
    *out_name = tc_arena_strndup(ctx->arena, text, (size_t)(equals - text));
    return TC_OK;
}

tc_status tc_check_dims(tc_ctx *ctx, const tc_options *options) {
    for (size_t i = 0; i < options->n_dims; i++) {
        const char *name = NULL;
        int64_t value = 0;
        TC_TRY(dim_option(ctx, options->dims[i], &name, &value));
    }
    return TC_OK;
}

typedef struct checker {
    tc_ctx *ctx;
    tc_model *model;
    tc_map *seen; /* op types reported already, and functions visited */
    size_t unknown;
} checker;

static void check_graph(checker *ch, const tc_graph *graph);

static void check_unknown(checker *ch, const tc_node *node) {
    const tc_function *function = tc_model_function(ch->model, node->domain, node->op_type, node->overload);
    const char *key = tc_arena_printf(ch->ctx->arena, "%s:%s:%s", node->domain, node->op_type, node->overload);
    if (tc_map_get(ch->seen, key))
        return;
    tc_map_set(ch->seen, key, ch);
    if (function) {
        check_graph(ch, function->body);
        return;
    }
    if (ch->unknown++ >= UNKNOWN_LIMIT)
        return;
    if (*node->domain == '\0') {
        tc_error(ch->ctx, TC_UNSUPPORTED, node, "no op of this name is known in ai.onnx");
        tc_nearest nearest;
        tc_nearest_begin(&nearest, node->op_type);
        for (size_t i = 0; i < tc_op_count(); i++)
            if (*tc_op_at(i)->domain == '\0')
                tc_nearest_offer(&nearest, tc_op_at(i)->name);
        if (nearest.best)
            tc_hint(ch->ctx, "did you mean %s?", nearest.best);
    } else {
        tc_error(ch->ctx, TC_UNSUPPORTED, node,
                 "no op of this name is known in the domain %s, and the model has no function for it",
                 tc_quote(ch->ctx, node->domain));
        const char *way = tc_way_around(node);
        tc_hint(ch->ctx, "%s", way ? way : "give the model a local function for it, in standard ops");
    }
}

static void check_graph(checker *ch, const tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        if (node->op == NULL)
            check_unknown(ch, node);
        TC_FOR_NESTED(nested, node)
            check_graph(ch, nested);
    }
}

typedef struct symbol_search {
    const char *name;
    bool found;
} symbol_search;

static bool find_symbol(void *user, const char *name, int64_t *value) {
    symbol_search *search = user;
    search->found |= strcmp(name, search->name) == 0;
    *value = 0;
    return false;
}

static bool has_symbol(const tc_model *model, const char *name) {
    symbol_search search = {.name = name};
    for (uint32_t i = 0; i < model->graph->n_inputs; i++) {
        const tc_type *type = model->graph->inputs[i]->type;
        for (int d = 0; type && type->kind == TC_TENSOR && d < type->rank; d++)
            tc_dim_substitute(model->dims, type->dims[d], find_symbol, &search);
    }
    return search.found;
}

/* The pass `batch` handles --dim batch=N for a file with a number as its batch. */
static tc_status miss_symbol(tc_pass_env *env, const tc_model *model, const char *name, int64_t value) {
    tc_ctx *ctx = env->ctx;
    int64_t was = 0;
    const char *inputs = "";
    const tc_value *first, *other;
    bool is_batch = strcmp(name, "batch") == 0 && tc_pipeline_has(env->options, "batch");
    if (is_batch && tc_batch_fixed(model->graph, &was, &first, &other) && value > 0) {
        env->batch = value;
        return TC_OK;
    }
    if (!is_batch || !other) {
        tc_warn(ctx, NULL, "--dim: no dimension of an input is called %s", tc_quote(ctx, name));
        for (uint32_t i = 0; i < model->graph->n_inputs; i++)
            inputs = tc_arena_printf(ctx->arena, "%s%s%s %s", inputs, i ? ", " : "",
                                     tc_quote(ctx, model->graph->inputs[i]->name),
                                     tc_type_text(ctx->arena, model->graph->inputs[i]->type));
        tc_hint(ctx, "inputs are: %s", inputs);
        return TC_OK;
    }
    tc_error(ctx, TC_UNSUPPORTED, NULL,
             "--dim batch: no dimension has this name, and the first dimensions of the inputs differ: '%s' "
             "is %s, '%s' is %s",
             tc_quote(ctx, first->name), tc_type_text(ctx->arena, first->type), tc_quote(ctx, other->name),
             tc_type_text(ctx->arena, other->type));
    tc_hint(ctx, "export the model with dynamic_shapes (torch.onnx.export), so that its batch has a name");
    return TC_UNSUPPORTED;
}

static tc_status bind_dims(tc_pass_env *env, tc_model *model) {
    tc_ctx *ctx = env->ctx;
    tc_map *given = tc_map_create(ctx->arena);
    for (size_t i = 0; i < env->options->n_dims; i++) {
        const char *name = NULL;
        int64_t value = 0;
        TC_TRY(dim_option(ctx, env->options->dims[i], &name, &value));
        const int64_t *before = tc_map_get(given, name);
        if (before && *before != value)
            return tc_error(ctx, TC_USAGE, NULL, "--dim: '%s' is given as %lld and as %lld", tc_quote(ctx, name),
                            (long long)*before, (long long)value);
        if (before)
            continue;
        int64_t *kept = TC_NEW(ctx->arena, int64_t);
        *kept = value;
        tc_map_set(given, name, kept);
        if (!has_symbol(model, name))
            TC_TRY(miss_symbol(env, model, name, value));
        tc_substitute_symbol(model->graph, name, value);
    }
    return TC_OK;
}

tc_status tc_pass_shapes(tc_pass_env *env, tc_model *model) {
    checker ch = {.ctx = env->ctx, .model = model, .seen = tc_map_create(env->ctx->arena)};
    check_graph(&ch, model->graph);
    if (ch.unknown)
        return TC_UNSUPPORTED;
    TC_TRY(tc_verify_ops(env->ctx, model->graph));
    TC_TRY(bind_dims(env, model));
    TC_TRY(tc_infer_graph_with(env->ctx, model->graph, tc_soft_labels, env->ctx));
    tc_settle_loss(env, model->graph); /* now that types are known, and before passes fold the seed away */
    return TC_OK;
}
