/* train_list.c: a list of names -> the initializers that they mean. A parameter that several modules share has one
 * name in PyTorch's named_parameters() and may have another in the file; the calls of a dynamo export show both. */
#include "train_list.h"
#include "compiler/base/base.h"
#include "compiler/cli/cli.h"
#include "parameter_uses.h"
#include "passes/torch/metadata/metadata.h"
#include <string.h>

typedef struct listed {
    const char *name;
    size_t line;
    bool found;
} listed;

enum { MOST_BYTES = 16 << 20 }; /* of a list in metadata */

struct tc_train_list {
    const char *path; /* or the key of the metadata */
    bool by_option;
    tc_map *by_name; /* -> listed, in the order of the file */
    tc_map *aliases; /* initializer -> entry under another name of the parameter that it holds */
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void add_line(tc_arena *arena, tc_train_list *list, const char *begin, const char *end, size_t line) {
    while (begin < end && is_blank(*begin))
        begin++;
    while (begin < end && is_blank(end[-1]))
        end--;
    if (begin == end || *begin == '#')
        return;
    listed *entry = TC_NEW(arena, listed);
    *entry = (listed){.name = tc_arena_strndup(arena, begin, (size_t)(end - begin)), .line = line};
    if (!tc_map_get(list->by_name, entry->name))
        tc_map_set(list->by_name, entry->name, entry);
}

/* "--train-list: FILE", or the key. */
static const char *place_of(tc_ctx *ctx, const tc_train_list *list, const char *quotes) {
    if (!list->by_option)
        return list->path;
    return tc_arena_printf(ctx->arena, "--train-list: %s%s%s", quotes, tc_quote(ctx, list->path), quotes);
}

static tc_status read_lines(tc_ctx *ctx, const char *at, size_t size, tc_train_list *list) {
    const char *end = at + size;
    if (size && memchr(at, '\0', size))
        return tc_error(ctx, TC_BAD_INPUT, NULL, "%s holds a NUL byte: it is not a list of names",
                        place_of(ctx, list, "'"));
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        add_line(ctx->arena, list, at, stop, line);
        at = stop + 1;
    }
    if (tc_map_count(list->by_name))
        return TC_OK;
    tc_error(ctx, TC_BAD_INPUT, NULL, "%s has no names", place_of(ctx, list, "'"));
    tc_hint(ctx, "write one name per line, such as those of PyTorch's named_parameters()");
    return TC_BAD_INPUT;
}

static tc_status read_file(tc_ctx *ctx, tc_train_list *list) {
    tc_file file;
    TC_TRY(tc_file_open(ctx, list->path, &file));
    tc_held held;
    tc_file_hold(&file, &held);
    tc_status status = read_lines(ctx, file.data, file.size, list);
    tc_let_go(&held);
    tc_file_close(&file);
    return status;
}

static tc_status read_metadata(tc_ctx *ctx, const char *text, tc_train_list *list) {
    size_t size = strlen(text);
    if (size <= MOST_BYTES)
        return read_lines(ctx, text, size, list);
    tc_error(ctx, TC_LIMIT, NULL,
             "the list of trained parameters in the model's metadata (%s) has %zu bytes; the limit is %d", list->path,
             size, MOST_BYTES);
    tc_hint(ctx, "use --train-list=FILE, which has no limit");
    return TC_LIMIT;
}

/* The initializer holds the parameter of that name. */
static void add_alias(tc_arena *arena, tc_train_list *list, const tc_value *initializer, const char *name) {
    listed *entry = tc_map_get(list->by_name, name);
    if (!entry)
        return;
    entry->found = true;
    tc_map_set(list->aliases, tc_arena_strdup(arena, initializer->name), entry);
}

/* The other names of a tied parameter. */
static void add_tied(tc_arena *arena, const tc_torch_signature *signature, tc_train_list *list,
                     const tc_value *initializer) {
    const tc_torch_input *own = signature ? tc_map_get(signature->by_target, initializer->name) : NULL;
    TC_FOR_USES(use, initializer) {
        const tc_torch_input *other =
            own ? tc_torch_tied_name(arena, signature, initializer->graph, tc_torch_module(arena, use->user), own)
                : NULL;
        if (other)
            add_alias(arena, list, initializer, other->target);
    }
}

static void find_aliases(tc_arena *arena, const tc_graph *graph, tc_train_list *list) {
    tc_torch_program *program = tc_torch_program_read(arena, graph);
    const tc_torch_signature *signature = tc_torch_signature_read(arena, graph);
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        if (!tc_dtype_is_float(value->init->dtype))
            continue;
        tc_use_groups groups = tc_group_uses(arena, program, value, false);
        tc_torch_name recorded;
        if (groups.recorded && groups.n == 1 && groups.groups[0].name)
            add_alias(arena, list, value, groups.groups[0].name);
        else if (tc_script_name(arena, value, &recorded))
            add_alias(arena, list, value, recorded.name);
        if (groups.n == 1)
            add_tied(arena, signature, list, value);
    }
}

tc_status tc_train_list_read(tc_pass_env *env, const tc_model *model) {
    tc_ctx *ctx = env->ctx;
    const char *path = env->options->train_list, *recorded = path ? NULL : tc_model_metadata(model, TC_TRAIN_KEY);
    if (!path && !recorded)
        return TC_OK;
    tc_train_list *list = TC_NEW(ctx->arena, tc_train_list);
    *list =
        (tc_train_list){path ? path : TC_TRAIN_KEY, path != NULL, tc_map_create(ctx->arena), tc_map_create(ctx->arena)};
    TC_TRY(path ? read_file(ctx, list) : read_metadata(ctx, recorded, list));
    find_aliases(ctx->arena, model->graph, list);
    env->summary->train_list = list;
    return TC_OK;
}

bool tc_train_list_is_option(const tc_train_list *list) { return list->by_option; }

const char *tc_train_list_origin(const tc_train_list *list) { return list->by_option ? "--train-list" : list->path; }

bool tc_train_list_has(const tc_train_list *list, const char *name, const char *torch) {
    listed *entries[] = {tc_map_get(list->by_name, name), tc_map_get(list->by_name, torch),
                         tc_map_get(list->aliases, name)};
    bool found = false;
    for (size_t i = 0; i < TC_COUNT(entries); i++)
        if (entries[i])
            entries[i]->found = found = true;
    return found;
}

static void hint_for(tc_pass_env *env, const tc_graph *graph, const listed *entry) {
    const tc_torch_signature *signature = tc_torch_signature_read(env->ctx->arena, graph);
    const tc_torch_input *lost = signature ? tc_map_get(signature->by_target, entry->name) : NULL;
    tc_nearest nearest;
    tc_nearest_begin(&nearest, entry->name);
    const void *name;
    void *tensor;
    size_t cursor = 0;
    while (env->summary->initializers && tc_map_next(env->summary->initializers, &cursor, &name, &tensor))
        tc_nearest_offer(&nearest, tc_torch_name_or_own(env->summary, name));
    if (lost)
        tc_hint(env->ctx, "PyTorch has it. Either the loss does not use it, or the file has it under another "
                          "of its names (see named_parameters(remove_duplicate=False)), or the exporter "
                          "dropped it, which optimize=False avoids");
    else if (nearest.best)
        tc_hint(env->ctx, "did you mean %s?", tc_quote(env->ctx, nearest.best));
    else
        tc_hint(env->ctx, "it takes names of initializers, and PyTorch's names if the file has them");
}

tc_status tc_train_list_check(tc_pass_env *env, const tc_graph *graph) {
    const tc_train_list *list = env->summary->train_list;
    const listed *first = NULL;
    const void *name;
    void *entry;
    size_t cursor = 0, lost = 0;
    while (list && tc_map_next(list->by_name, &cursor, &name, &entry))
        if (!((const listed *)entry)->found) {
            first = first ? first : entry;
            lost++;
        }
    if (!lost)
        return TC_OK;
    const char *more =
        lost > 1 ? tc_arena_printf(env->ctx->arena, ", and none for %zu more names of the list", lost - 1) : "";
    tc_error(env->ctx, TC_BAD_INPUT, NULL, "%s:%zu: the file has no parameter '%s'%s", place_of(env->ctx, list, ""),
             first->line, tc_quote(env->ctx, first->name), more);
    if (list->by_option)
        hint_for(env, graph, first);
    else
        tc_hint(env->ctx, "the model's metadata list it as trained; --train-list=FILE replaces that list");
    return TC_BAD_INPUT;
}
