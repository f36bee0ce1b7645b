/* marks.c: converts roles of inputs and outputs, and the list of functions that tempoc wrote, to pairs of a model's
 * metadata and back. */
#include "marks.h"
#include "compiler/ir/ops.h"
#include "text.h"
#include <inttypes.h>
#include <string.h>

#define LOSS "tempo.loss"
#define GRADIENT "tempo.gradient."
#define BACKWARD "tempo.backward."
#define BODY "tempo.body."

/* The key's part after the prefix; NULL: the key does not begin with the prefix. */
static const char *after_prefix(const char *key, const char *prefix) {
    size_t n = strlen(prefix);
    return strncmp(key, prefix, n) == 0 ? key + n : NULL;
}

static tc_value *own(const tc_model *model, const char *name) {
    tc_value *value = name ? tc_map_get(model->graph->names, name) : NULL;
    return value && (value->is_input || value->n_graph_outputs) ? value : NULL;
}

static bool may_be_body(const tc_function *function) {
    return strcmp(function->domain, TC_TEMPO_DOMAIN) == 0 && !*function->overload;
}

static const char *fingerprint(tc_arena *arena, const tc_function *function) {
    const char *text = tc_function_text(arena, function);
    return tc_arena_printf(arena, "%016" PRIx64, tc_hash_bytes(text, strlen(text), 0));
}

static void read_bodies(tc_model *model) {
    tc_arena *scratch = tc_arena_create();
    tc_map *functions = tc_map_create(scratch);
    for (size_t i = 0; i < model->n_functions; i++)
        if (may_be_body(model->functions[i]))
            tc_map_set(functions, model->functions[i]->name, model->functions[i]);
    for (size_t i = 0; i < model->info.n_metadata; i++) {
        const tc_pair *pair = &model->info.metadata[i];
        const char *name = after_prefix(pair->key, BODY);
        tc_function *function = name ? tc_map_get(functions, name) : NULL;
        if (!function)
            continue;
        function->is_body = strcmp(pair->value, fingerprint(scratch, function)) == 0;
        tc_map_set(functions, name, NULL); /* the first of two pairs counts */
    }
    tc_arena_destroy(scratch);
}

void tc_marks_read(tc_model *model) {
    read_bodies(model);
    for (size_t i = 0; i < model->info.n_metadata; i++) {
        const tc_pair *pair = &model->info.metadata[i];
        tc_value *loss = strcmp(pair->key, LOSS) == 0 ? own(model, pair->value) : NULL,
                 *gradient = own(model, after_prefix(pair->key, GRADIENT)),
                 *backward = own(model, after_prefix(pair->key, BACKWARD));
        if (loss && loss->n_graph_outputs)
            loss->role = TC_ROLE_LOSS;
        if (backward)
            backward->role = TC_ROLE_BACKWARD;
        if (gradient && gradient->n_graph_outputs) {
            gradient->role = TC_ROLE_GRADIENT;
            gradient->gradient_of = *pair->value ? tc_map_get(model->graph->names, pair->value) : NULL;
        }
    }
}

typedef struct pairs {
    tc_arena *arena;
    tc_pair *list;
    size_t n, cap;
    tc_map *wanted, *listed; /* key -> value, from the marks */
} pairs;

static void want(pairs *p, const char *prefix, const char *name, const char *text) {
    tc_map_set(p->wanted, tc_arena_printf(p->arena, "%s%s", prefix, name), (void *)(uintptr_t)text);
}

static void add(pairs *p, const char *key, const char *value) {
    p->list = tc_arena_grow(p->arena, p->list, sizeof *p->list, &p->cap, p->n + 1);
    p->list[p->n++] = (tc_pair){key, value};
    tc_map_set(p->listed, key, p);
}

static void want_all(pairs *p, const tc_model *model) {
    const tc_graph *graph = model->graph;
    for (size_t i = 0; i < model->n_functions; i++)
        if (model->functions[i]->is_body)
            want(p, BODY, model->functions[i]->name, fingerprint(p->arena, model->functions[i]));
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->inputs[i]->role == TC_ROLE_BACKWARD)
            want(p, BACKWARD, graph->inputs[i]->name, "");
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const tc_value *value = graph->outputs[i];
        if (value->role == TC_ROLE_LOSS)
            want(p, LOSS, "", value->name);
        if (value->role == TC_ROLE_BACKWARD)
            want(p, BACKWARD, value->name, "");
        if (value->role == TC_ROLE_GRADIENT)
            want(p, GRADIENT, value->name, value->gradient_of ? value->gradient_of->name : "");
    }
}

static bool is_ours(const char *key) {
    return strcmp(key, LOSS) == 0 || after_prefix(key, GRADIENT) || after_prefix(key, BACKWARD) ||
           after_prefix(key, BODY);
}

const tc_pair *tc_marks_metadata(tc_arena *arena, const tc_model *model, size_t *out_count) {
    pairs p = {.arena = arena, .wanted = tc_map_create(arena), .listed = tc_map_create(arena)};
    want_all(&p, model);
    for (size_t i = 0; i < model->info.n_metadata; i++) {
        const tc_pair *pair = &model->info.metadata[i];
        const char *wanted = tc_map_get(p.wanted, pair->key);
        if (!is_ours(pair->key) || (wanted && strcmp(wanted, pair->value) == 0))
            add(&p, pair->key, pair->value);
    }
    const void *key;
    void *value;
    for (size_t cursor = 0; tc_map_next(p.wanted, &cursor, &key, &value);)
        if (!tc_map_get(p.listed, key))
            add(&p, key, value);
    *out_count = p.n;
    return p.list;
}

bool tc_is_renewal(const tc_value *value) {
    const tc_model_info *info = &value->graph->model->info;
    for (size_t i = 0; value->n_graph_outputs > 0 && i < info->n_metadata; i++) {
        const char *output = after_prefix(info->metadata[i].key, TC_KEEP_KEY);
        if (!output || strcmp(output, value->name) != 0)
            continue;
        const tc_value *input = tc_map_get(value->graph->names, info->metadata[i].value);
        return input && input->is_input && tc_type_equal(input->type, value->type);
    }
    return false;
}

size_t tc_list_states(tc_arena *arena, const tc_model *model, tc_kept_state **out_states) {
    const tc_model_info *info = &model->info;
    tc_kept_state *states = *out_states = TC_NEW_ARRAY(arena, tc_kept_state, info->n_metadata + 1);
    size_t n = 0;
    for (size_t i = 0; i < info->n_metadata; i++) {
        if (!after_prefix(info->metadata[i].key, TC_KEEP_KEY))
            continue;
        const tc_value *output = tc_map_get(model->graph->names, after_prefix(info->metadata[i].key, TC_KEEP_KEY)),
                       *input = tc_map_get(model->graph->names, info->metadata[i].value);
        if (output && output->n_graph_outputs && input && input->is_input)
            states[n++] = (tc_kept_state){input, output, input->init != NULL};
    }
    return n;
}
