/* torch_signature.c: lines of metadata -> kinds and names. */
#include "torch_signature.h"
#include "compiler/onnx/onnx.h"
#include <string.h>

static const struct {
    const char *word;
    tc_torch_kind kind;
} kinds[] = {
    {"PARAMETER", TC_TORCH_PARAMETER},       {"BUFFER", TC_TORCH_BUFFER},  {"CONSTANT_TENSOR", TC_TORCH_CONSTANT},
    {"CUSTOM_OBJ", TC_TORCH_CONSTANT},       {"TOKEN", TC_TORCH_CONSTANT}, {"USER_INPUT", TC_TORCH_INPUT},
    {"USER_INPUT_MUTATION", TC_TORCH_INPUT},
};

static tc_torch_kind kind_of_word(const char *word, size_t n) {
    for (size_t i = 0; i < TC_COUNT(kinds); i++)
        if (strlen(kinds[i].word) == n && strncmp(kinds[i].word, word, n) == 0)
            return kinds[i].kind;
    return TC_TORCH_UNKNOWN;
}

/* The text between the quotes after "target="; NULL: none. The search ends with the line. */
static const char *target_of(tc_arena *arena, const char *line, size_t n) {
    static const char key[] = "target='";
    const char *copy = tc_arena_strndup(arena, line, n), *at = strstr(copy, key),
               *from = at ? at + sizeof key - 1 : NULL;
    const char *end = from ? strchr(from, '\'') : NULL;
    return end && end > from ? tc_arena_strndup(arena, from, (size_t)(end - from)) : NULL;
}

typedef struct lines {
    tc_arena *arena;
    tc_torch_signature *signature;
    size_t cap, cap_outputs, cap_changes;
    bool outputs; /* the line is below "# outputs", after all inputs */
} lines;

static void read_output(lines *l, const char *token, const char *word, size_t length, const char *target) {
    tc_torch_signature *s = l->signature;
    tc_torch_input *input = target ? tc_map_get(s->by_target, target) : NULL;
    if (length > 9 && strncmp(word + length - 9, "_MUTATION", 9) == 0) {
        if (input)
            input->changed = true;
        s->changes = tc_arena_grow(l->arena, s->changes, sizeof *s->changes, &l->cap_changes, s->n_changes + 1);
        s->changes[s->n_changes++] = token;
    }
    if (length != 11 || strncmp(word, "USER_OUTPUT", 11) != 0)
        return;
    s->outputs = tc_arena_grow(l->arena, s->outputs, sizeof *s->outputs, &l->cap_outputs, s->n_outputs + 1);
    s->outputs[s->n_outputs++] = token;
}

/* "token: KIND target='...'" */
static void read_line(lines *l, const char *line, size_t n) {
    tc_torch_signature *s = l->signature;
    const char *colon = memchr(line, ':', n);
    if (n > 0 && line[0] == '#')
        l->outputs = l->outputs || (n >= 9 && strncmp(line, "# outputs", 9) == 0);
    if (!colon || line[0] == '#')
        return;
    const char *word = colon + 1 + strspn(colon + 1, " "), *target = target_of(l->arena, line, n);
    const char *token = tc_arena_strndup(l->arena, line, (size_t)(colon - line));
    size_t length = strcspn(word, " \n");
    if (l->outputs)
        return read_output(l, token, word, length, target);
    s->inputs = tc_arena_grow(l->arena, s->inputs, sizeof *s->inputs, &l->cap, s->n + 1);
    s->inputs[s->n++] = (tc_torch_input){.kind = kind_of_word(word, length), .token = token, .target = target};
}

/* The maps point into the list, which no longer grows: they are made after the last input. */
static void index_inputs(tc_torch_signature *s) {
    for (size_t i = 0; i < s->n; i++) {
        tc_map_set(s->by_token, s->inputs[i].token, &s->inputs[i]);
        if (s->inputs[i].target)
            tc_map_set(s->by_target, s->inputs[i].target, &s->inputs[i]);
    }
}

const tc_torch_signature *tc_torch_signature_read(tc_arena *arena, const tc_graph *graph) {
    const char *text = tc_graph_metadata(graph, "pkg.torch.export.ExportedProgram.graph_signature");
    if (!text)
        return NULL;
    tc_torch_signature *s = TC_NEW(arena, tc_torch_signature);
    s->by_token = tc_map_create(arena);
    s->by_target = tc_map_create(arena);
    lines l = {.arena = arena, .signature = s};
    while (*text) {
        size_t n = strcspn(text, "\n");
        bool before = l.outputs;
        read_line(&l, text, n);
        if (l.outputs && !before)
            index_inputs(s);
        text += text[n] ? n + 1 : n;
    }
    if (!l.outputs)
        index_inputs(s);
    return s;
}

tc_torch_kind tc_torch_kind_of(const tc_torch_signature *signature, const tc_value *initializer) {
    const char *word = tc_value_metadata(initializer, "pkg.torch.export.graph_signature.InputSpec.kind");
    const tc_torch_input *input = signature ? tc_map_get(signature->by_target, initializer->name) : NULL;
    if (word)
        return kind_of_word(word, strlen(word));
    return input ? input->kind : TC_TORCH_UNKNOWN;
}

const char **tc_torch_folded_from(tc_arena *arena, const tc_value *initializer, size_t *out_n) {
    const char *text = tc_value_metadata(initializer, "pkg.onnxscript.optimizer.folded_from"), **names = NULL;
    size_t n = 0, cap = 0;
    for (const char *at = text ? strchr(text, '\'') : NULL, *end; at; at = strchr(end + 1, '\'')) {
        end = strchr(at + 1, '\'');
        if (!end)
            break;
        names = tc_arena_grow(arena, names, sizeof *names, &cap, n + 1);
        names[n++] = tc_arena_strndup(arena, at + 1, (size_t)(end - at) - 1);
    }
    *out_n = n;
    return names;
}
