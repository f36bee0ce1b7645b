/* torch_wrapper.c: a file -> the model of a library in it. An export has often a module around the model, which feeds
 * it and computes the loss: parameters are called "m.model.layers.0..." then. The dynamo exporter lists around each
 * node the modules and their classes, ['', 'm', 'm.model', ..] and ['__main__.W', 'transformers.models.llama...', ..];
 * without that, the names of parameters have to do. */
#include "compiler/onnx/onnx.h"
#include "torch_names.h"
#include <string.h>

/* The next 'text' of a list; its length. NULL: there is none. */
static const char *next_quoted(const char **at, size_t *out_length) {
    const char *begin = *at ? strchr(*at, '\'') : NULL, *end = begin ? strchr(begin + 1, '\'') : NULL;
    if (!end)
        return NULL;
    *at = end + 1;
    *out_length = (size_t)(end - begin) - 1;
    return begin + 1;
}

static bool is_library(const char *class_name, size_t n) {
    static const char *const libraries[] = {"transformers.models.", "timm.models.", "diffusers.models."};
    for (size_t i = 0; i < TC_COUNT(libraries); i++)
        if (n > strlen(libraries[i]) && strncmp(class_name, libraries[i], strlen(libraries[i])) == 0)
            return true;
    return false;
}

/* The outermost module of a library around the node. */
static bool find_module(tc_arena *arena, const tc_node *node, tc_torch_wrapper *out) {
    const char *classes = tc_node_metadata(node, "pkg.torch.onnx.class_hierarchy");
    const char *scopes = tc_node_metadata(node, "pkg.torch.onnx.name_scopes"), *class_name, *scope;
    size_t n, length;
    while ((class_name = next_quoted(&classes, &n)) != NULL && (scope = next_quoted(&scopes, &length)) != NULL) {
        if (!is_library(class_name, n))
            continue;
        const char *name = tc_arena_strndup(arena, class_name, n), *dot = strrchr(name, '.');
        out->prefix = tc_arena_printf(arena, "%.*s%s", (int)length, scope, length ? "." : "");
        out->class_name = dot + 1;
        return true;
    }
    return false;
}

/* Names that transformers gives to the part of a model that others share. */
static bool is_backbone(const char *name, size_t n) {
    static const char *const known[] = {"model",   "transformer", "bert",    "roberta",  "distilbert",
                                        "albert",  "electra",     "deberta", "gpt_neox", "encoder",
                                        "decoder", "vit",         "layers",  "h"};
    for (size_t i = 0; i < TC_COUNT(known); i++)
        if (strlen(known[i]) == n && strncmp(known[i], name, n) == 0)
            return true;
    return false;
}

/* The parts that begin all names, up to one that a model of transformers begins with. */
static const char *shared_prefix(tc_arena *arena, const char *const *names, size_t n) {
    size_t length = 0;
    for (const char *dot; n > 0 && (dot = strchr(names[0] + length, '.')) != NULL;) {
        size_t next = (size_t)(dot - names[0]) + 1;
        if (is_backbone(names[0] + length, next - length - 1))
            break;
        for (size_t i = 1; i < n; i++)
            if (strncmp(names[i], names[0], next) != 0)
                return tc_arena_strndup(arena, names[0], length);
        length = next;
    }
    return tc_arena_strndup(arena, n > 0 ? names[0] : "", length);
}

tc_torch_wrapper tc_torch_find_wrapper(tc_arena *arena, const tc_model *model, const char *const *parameters,
                                       size_t n) {
    tc_torch_wrapper found = {NULL, NULL};
    TC_FOR_NODES(node, model->graph)
        if (find_module(arena, node, &found))
            return found;
    found.prefix = shared_prefix(arena, parameters, n);
    return found;
}
