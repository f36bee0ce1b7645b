/* torch_names.c: kinds and names of initializers, from the file's signature (torch_signature.h). In a file with a
 * signature, an initializer that is neither listed nor folded from listed ones is a constant of the exporter if it
 * has one element. A larger one has lost its name, and its uses decide (guess_learned.h). */
#include "torch_names.h"
#include "torch_calls.h"
#include <string.h>

static const tc_torch_input *parameter_named(const tc_torch_signature *signature, const char *name) {
    const tc_torch_input *input = tc_map_get(signature->by_target, name);
    return input && input->kind == TC_TORCH_PARAMETER ? input : NULL;
}

/* The kind of a folded initializer: learned if a parameter went into it, with that parameter's name if it is the
 * only one. */
static tc_learned learned_of_fold(tc_pass_env *env, const tc_torch_signature *signature, const tc_value *value,
                                  const char **from, size_t n) {
    const tc_torch_input *only = NULL;
    size_t parameters = 0;
    for (size_t i = 0; i < n; i++) {
        const tc_torch_input *parameter = parameter_named(signature, from[i]);
        only = parameter ? parameter : only;
        parameters += parameter != NULL;
    }
    if (parameters == 1)
        tc_torch_set_name(env, value->name, only->target, TC_TORCH_OTHER);
    return parameters ? TC_LEARNED_YES : TC_LEARNED_NO;
}

const tc_torch_input *tc_torch_tied_name(tc_arena *arena, const tc_torch_signature *signature, const tc_graph *graph,
                                         const char *module, const tc_torch_input *own) {
    const char *dot = module ? strrchr(own->target, '.') : NULL;
    const tc_torch_input *other = dot ? parameter_named(signature, tc_arena_printf(arena, "%s%s", module, dot)) : NULL;
    return other && other != own && !tc_map_get(graph->names, other->target) ? other : NULL;
}

typedef struct ties {
    tc_pass_env *env;
    const tc_torch_signature *signature;
    const tc_graph *graph;
    tc_map *read; /* names that calls read */
} ties;

static void name_tied(const ties *t, const char *module, const char *token) {
    const tc_torch_input *own = tc_map_get(t->signature->by_token, token);
    if (!own || own->kind != TC_TORCH_PARAMETER || !own->target)
        return;
    const tc_torch_input *other = tc_torch_tied_name(t->env->ctx->arena, t->signature, t->graph, module, own);
    const tc_torch_name *known = tc_map_get(t->env->summary->torch_names, own->target);
    const tc_torch_input *first = known ? parameter_named(t->signature, known->name) : own;
    if (other && first && other < first && !tc_map_get(t->read, other->token))
        tc_torch_set_name(t->env, own->target, other->target, TC_TORCH_AS_IT_IS);
}

static void visit_names(const ties *t, const tc_node *node, bool first) {
    tc_torch_call call;
    size_t n = 0;
    if (!tc_torch_call_read(t->env->ctx->arena, node, &call))
        return;
    const char **names = tc_torch_call_names(t->env->ctx->arena, &call, &n);
    const char *module = first ? NULL : tc_torch_module(t->env->ctx->arena, node);
    for (size_t i = 0; i < n; i++) {
        if (first)
            tc_map_set(t->read, names[i], t->read);
        else
            name_tied(t, module, names[i]);
    }
}

/* For a tied parameter the exporter keeps the last name, and named_parameters() the first. */
static void name_all_tied(tc_pass_env *env, const tc_torch_signature *signature, const tc_graph *graph) {
    const ties t = {env, signature, graph, tc_map_create(env->ctx->arena)};
    TC_FOR_NODES(node, graph)
        visit_names(&t, node, true);
    TC_FOR_NODES(node, graph)
        visit_names(&t, node, false);
}

static tc_learned learned_of(tc_pass_env *env, const tc_torch_signature *signature, const tc_value *value) {
    tc_torch_kind kind = tc_torch_kind_of(signature, value);
    size_t n = 0;
    if (kind != TC_TORCH_UNKNOWN)
        return kind == TC_TORCH_PARAMETER ? TC_LEARNED_YES : TC_LEARNED_NO;
    const char **from = signature ? tc_torch_folded_from(env->ctx->arena, value, &n) : NULL;
    if (n)
        return learned_of_fold(env, signature, value, from, n);
    return signature && value->init->count < 2 ? TC_LEARNED_NO : TC_LEARNED_UNKNOWN;
}

void tc_torch_record(tc_pass_env *env, const tc_model *model) {
    const tc_torch_signature *signature = tc_torch_signature_read(env->ctx->arena, model->graph);
    env->summary->torch_names = tc_map_create(env->ctx->arena);
    if (signature)
        name_all_tied(env, signature, model->graph);
    for (uint32_t i = 0; i < model->graph->n_initializers; i++) {
        tc_value *value = model->graph->initializers[i];
        if (tc_dtype_is_float(value->init->dtype))
            value->learned = learned_of(env, signature, value);
    }
}

const tc_torch_name *tc_torch_name_of(const tc_summary *summary, const char *initializer) {
    return summary->torch_names ? tc_map_get(summary->torch_names, initializer) : NULL;
}

static const char *const layout_words[] = {
    [TC_TORCH_AS_IT_IS] = "",           [TC_TORCH_TRANSPOSED] = "transposed",
    [TC_TORCH_FLATTENED] = "flattened", [TC_TORCH_RESHAPED] = "reshaped",
    [TC_TORCH_ROWS] = "part",           [TC_TORCH_SHIFTED] = "shifted",
    [TC_TORCH_OTHER] = "reordered",
};

const char *tc_torch_full_name(tc_arena *arena, const tc_summary *summary, const char *initializer) {
    const tc_torch_name *name = tc_torch_name_of(summary, initializer);
    if (!name)
        return initializer;
    const char *word = layout_words[name->layout];
    return tc_arena_printf(arena, "%s (%s%s%s)", initializer, name->name, *word ? ", " : "", word);
}

void tc_torch_keep_names(tc_pass_env *env, tc_model *model, tc_value *const *initializers, size_t n) {
    tc_arena *arena = env->ctx->arena;
    tc_pair *pairs = TC_NEW_ARRAY(arena, tc_pair, n + 1);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const tc_torch_name *name = tc_torch_name_of(env->summary, initializers[i]->name);
        if (!name)
            continue;
        const char *word = layout_words[name->layout];
        pairs[count++] = (tc_pair){tc_arena_printf(arena, TC_PARAMETER_KEY "%s", initializers[i]->name),
                                   tc_arena_printf(arena, "%s%s%s", name->name, *word ? " " : "", word)};
    }
    tc_model_add_metadata(model, pairs, count);
}

bool tc_torch_kept_name(tc_arena *arena, const tc_model *model, const char *initializer, tc_torch_name *out_name) {
    const char *told = tc_model_metadata(model, tc_arena_printf(arena, TC_PARAMETER_KEY "%s", initializer));
    const char *blank = told ? strchr(told, ' ') : NULL;
    if (!told)
        return false;
    *out_name = (tc_torch_name){told, TC_TORCH_AS_IT_IS};
    for (size_t i = 0; blank && i < TC_COUNT(layout_words); i++)
        if (strcmp(layout_words[i], blank + 1) == 0)
            *out_name = (tc_torch_name){tc_arena_strndup(arena, told, (size_t)(blank - told)), (tc_torch_layout)i};
    return true;
}

bool tc_torch_find_name(tc_arena *arena, const tc_summary *summary, const tc_value *initializer,
                        tc_torch_name *out_name) {
    const tc_torch_name *recorded = tc_torch_name_of(summary, initializer->name);
    if (recorded)
        *out_name = *recorded;
    return recorded || tc_script_name(arena, initializer, out_name) ||
           tc_torch_kept_name(arena, initializer->graph->model, initializer->name, out_name);
}

const char *tc_torch_name_or_own(const tc_summary *summary, const char *initializer) {
    const tc_torch_name *name = tc_torch_name_of(summary, initializer);
    return name ? name->name : initializer;
}

void tc_torch_set_name(tc_pass_env *env, const char *initializer, const char *name, tc_torch_layout layout) {
    tc_torch_name *entry = TC_NEW(env->ctx->arena, tc_torch_name);
    const tc_torch_name *first = tc_map_get(env->summary->torch_names, name);
    *entry = (tc_torch_name){tc_arena_strdup(env->ctx->arena, first ? first->name : name), layout};
    tc_map_set(env->summary->torch_names, tc_arena_strdup(env->ctx->arena, initializer), entry);
}
