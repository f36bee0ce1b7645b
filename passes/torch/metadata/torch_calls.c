/* torch_calls.c: one line of metadata -> operation and arguments. */
#include "torch_calls.h"
#include "compiler/onnx/onnx.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char FX_NODE[] = "pkg.torch.onnx.fx_node";

/* The end of one argument: a comma or bracket outside of all brackets and quotes. */
static const char *end_of_item(const char *at) {
    int depth = 0;
    char quote = 0;
    for (; *at; at++) {
        if (quote) {
            quote = *at == quote ? 0 : quote;
        } else if (*at == '\'' || *at == '"') {
            quote = *at;
        } else if (strchr("([{", *at)) {
            depth++;
        } else if (strchr(")]}", *at)) {
            if (depth-- == 0)
                break;
        } else if (*at == ',' && depth == 0) {
            break;
        }
    }
    return at;
}

typedef struct items {
    const char **list;
    size_t n, cap;
} items;

static void add(tc_arena *arena, items *to, const char *from, const char *end) {
    to->list = tc_arena_grow(arena, to->list, sizeof *to->list, &to->cap, to->n + 1);
    to->list[to->n++] = tc_arena_strndup(arena, from, (size_t)(end - from));
}

/* The text between brackets, after the opening one; NULL if the closing one is missing. */
static const char *read_items(tc_arena *arena, const char *at, items *out) {
    for (;;) {
        at += strspn(at, " ,");
        const char *end = end_of_item(at);
        if (*end == '\0')
            return NULL;
        if (end > at)
            add(arena, out, at, end);
        if (*end != ',')
            return end + 1;
        at = end;
    }
}

/* Moves past the next occurrence of the text; NULL stays NULL. */
static const char *after(const char *at, const char *text) {
    at = at ? strstr(at, text) : NULL;
    return at ? at + strlen(text) : NULL;
}

static void split_keys(tc_arena *arena, const items *pairs, tc_torch_call *call) {
    items keys = {0}, values = {0};
    for (size_t i = 0; i < pairs->n; i++) {
        const char *pair = pairs->list[i], *colon = strchr(pair, ':');
        if (!colon)
            continue;
        const char *value = colon + 1 + strspn(colon + 1, " ");
        add(arena, &keys, pair, colon);
        add(arena, &values, value, value + strlen(value));
    }
    call->keys = keys.list, call->values = values.list, call->n_keys = keys.n;
}

bool tc_torch_call_read(tc_arena *arena, const tc_node *node, tc_torch_call *out_call) {
    const char *text = tc_node_metadata(node, FX_NODE);
    if (!text || text[0] != '%')
        return false;
    const char *target = after(text, "[target="), *args = after(target, "](args = (");
    const char *end = args ? args - strlen("](args = (") : NULL;
    const char *users = after(text, "[num_users=");
    items positional = {0}, keywords = {0};
    const char *rest = args ? read_items(arena, args, &positional) : NULL, *kwargs = after(rest, "kwargs = {");
    if (!kwargs || !read_items(arena, kwargs, &keywords))
        return false;
    static const char ops[] = "torch.ops.";
    target += strncmp(target, ops, sizeof ops - 1) == 0 ? sizeof ops - 1 : 0;
    *out_call = (tc_torch_call){.result = tc_arena_strndup(arena, text + 1, strcspn(text + 1, " :")),
                                .target = tc_arena_strndup(arena, target, (size_t)(end - target)),
                                .users = users && users < target ? strtoul(users, NULL, 10) : 0,
                                .args = positional.list,
                                .n_args = positional.n};
    split_keys(arena, &keywords, out_call);
    return true;
}

bool tc_torch_call_is(const tc_torch_call *call, const char *operation) {
    size_t n = strlen(operation);
    return strncmp(call->target, operation, n) == 0 && (call->target[n] == '.' || call->target[n] == '\0');
}

const char *tc_torch_call_argument(const tc_torch_call *call, size_t index, const char *key) {
    if (index < call->n_args)
        return call->args[index];
    for (size_t i = 0; key && i < call->n_keys; i++)
        if (strcmp(call->keys[i], key) == 0)
            return call->values[i];
    return NULL;
}

static void add_names(tc_arena *arena, items *to, const char *text) {
    for (const char *at = strchr(text, '%'); at; at = strchr(at, '%')) {
        const char *end = ++at;
        while (isalnum((unsigned char)*end) || *end == '_')
            end++;
        if (end > at)
            add(arena, to, at, end);
    }
}

const char **tc_torch_call_names(tc_arena *arena, const tc_torch_call *call, size_t *out_n) {
    items names = {0};
    for (size_t i = 0; i < call->n_args; i++)
        add_names(arena, &names, call->args[i]);
    for (size_t i = 0; i < call->n_keys; i++)
        add_names(arena, &names, call->values[i]);
    *out_n = names.n;
    return names.list;
}

/* "slice_12" -> the length of "slice" */
static size_t stem(const char *name) {
    size_t n = strlen(name), digits = n;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    return digits < n && digits > 1 && name[digits - 1] == '_' ? digits - 1 : n;
}

bool tc_torch_same_stem(const char *a, const char *b) { return stem(a) == stem(b) && strncmp(a, b, stem(a)) == 0; }

bool tc_torch_is_constant(const char *name) {
    static const char *const stems[] = {
        "arange", "empty_like", "full", "full_like", "ones", "ones_like", "scalar_tensor_default",
        "zeros",  "zeros_like"};
    for (size_t i = 0; i < TC_COUNT(stems); i++)
        if (tc_torch_same_stem(name, stems[i]))
            return true;
    return false;
}

enum { MOST_OF_MODULE = 4096 }; /* characters of one part of a joined name */

/* Scopes are a list of the modules around the node, then its own name: ['', 'm', 'm.layers.0', 'linear_2']. */
const char *tc_torch_module(tc_arena *arena, const tc_node *node) {
    const char *scopes = tc_node_metadata(node, "pkg.torch.onnx.name_scopes"), *quotes[4] = {0};
    for (const char *at = scopes ? strchr(scopes, '\'') : NULL; at; at = strchr(at + 1, '\'')) {
        memmove(quotes, quotes + 1, 3 * sizeof *quotes);
        quotes[3] = at;
    }
    bool told = quotes[0] && quotes[1] - quotes[0] <= MOST_OF_MODULE;
    return told ? tc_arena_strndup(arena, quotes[0] + 1, (size_t)(quotes[1] - quotes[0] - 1)) : NULL;
}

const char *tc_torch_part_of(tc_arena *arena, const tc_node *node, uint32_t index) {
    const tc_value *value = tc_input(node, index);
    if (value && value->producer && tc_node_is(value->producer, "", "Transpose"))
        value = tc_input(value->producer, 0);
    const tc_node *split = value ? value->producer : NULL;
    const tc_value *whole = split && tc_node_is(split, "", "Split") ? tc_input(split, 0) : NULL;
    const char *dot = whole && whole->init ? strrchr(whole->name, '.') : NULL;
    if (!dot || tc_node_metadata(split, FX_NODE))
        return NULL;
    const char *module = tc_torch_module(arena, node);
    return module ? tc_arena_printf(arena, "%s%s", module, dot) : NULL;
}
