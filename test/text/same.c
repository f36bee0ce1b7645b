/* same.c: two models compared part by part. */
#include "same.h"
#include <string.h>

typedef struct comparison {
    tc_arena *arena;
    const char *path, *difference;
} comparison;

static bool differ(comparison *c, const char *what, const char *a, const char *b) {
    if (!c->difference)
        c->difference = tc_arena_printf(c->arena, "%s/%s: '%s' and '%s'", c->path, what, a, b);
    return false;
}

static const char *number(comparison *c, uint64_t n) {
    return tc_arena_printf(c->arena, "%llu", (unsigned long long)n);
}

static bool same_number(comparison *c, const char *what, uint64_t a, uint64_t b) {
    return a == b || differ(c, what, number(c, a), number(c, b));
}

/* NULL and "" are the same. */
static bool same_string(comparison *c, const char *what, const char *a, const char *b) {
    a = a ? a : "";
    b = b ? b : "";
    return strcmp(a, b) == 0 || differ(c, what, a, b);
}

static bool same_presence(comparison *c, const char *what, const void *a, const void *b) {
    return !a == !b || differ(c, what, a ? "there" : "none", b ? "there" : "none");
}

static bool same_bytes(comparison *c, const char *what, const void *a, const void *b, size_t n) {
    return n == 0 || a == b || memcmp(a, b, n) == 0 || differ(c, what, "bytes", "other bytes");
}

static bool same_blob(comparison *c, const char *what, tc_bytes a, tc_bytes b) {
    return same_number(c, what, a.size, b.size) && same_bytes(c, what, a.data, b.data, a.size);
}

static bool same_type(comparison *c, const char *what, const tc_type *a, const tc_type *b) {
    if (!a || !b)
        return same_presence(c, what, a, b);
    bool same = same_number(c, what, (uint64_t)a->kind, (uint64_t)b->kind) &&
                same_number(c, what, (uint64_t)a->dtype, (uint64_t)b->dtype) &&
                same_number(c, what, (uint64_t)(a->rank + 1), (uint64_t)(b->rank + 1)) &&
                same_string(c, what, a->domain, b->domain) && same_string(c, what, a->name, b->name);
    for (int i = 0; same && i < a->rank; i++) /* two pools: symbols are compared by their text */
        same = same_string(c, what, tc_dim_text(c->arena, a->dims[i]), tc_dim_text(c->arena, b->dims[i]));
    return same && same_type(c, what, a->elem, b->elem);
}

static bool same_external(comparison *c, const tc_external *a, const tc_external *b) {
    if (!a || !b)
        return same_presence(c, "external", a, b);
    return same_string(c, "location", a->location, b->location) && same_number(c, "offset", a->offset, b->offset) &&
           same_number(c, "length", a->length, b->length) &&
           same_number(c, "has_offset", a->has_offset, b->has_offset) &&
           same_number(c, "has_length", a->has_length, b->has_length);
}

static bool same_tensor(comparison *c, const char *what, const tc_tensor *a, const tc_tensor *b) {
    if (!a || !b)
        return same_presence(c, what, a, b);
    bool same = same_string(c, "tensor name", a->name, b->name) &&
                same_number(c, what, (uint64_t)a->dtype, (uint64_t)b->dtype) &&
                same_number(c, what, (uint64_t)a->rank, (uint64_t)b->rank) &&
                same_number(c, what, a->count, b->count) &&
                same_bytes(c, what, a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) &&
                same_external(c, a->external, b->external) && same_number(c, what, a->bytes, b->bytes);
    if (!same || a->external)
        return same;
    if (a->dtype != TC_STRING)
        return same_presence(c, what, a->data, b->data) && same_bytes(c, what, a->data, b->data, a->bytes);
    for (uint64_t i = 0; same && i < a->count; i++)
        same = same_blob(c, what, a->strings[i], b->strings[i]);
    return same;
}

static bool same_graph(comparison *c, const tc_graph *a, const tc_graph *b);

static bool same_graph_below(comparison *c, const char *what, const tc_graph *a, const tc_graph *b) {
    const char *path = c->path;
    c->path = tc_arena_printf(c->arena, "%s/%s", path, what);
    bool same = same_graph(c, a, b);
    c->path = path;
    return same;
}

static bool same_attr(comparison *c, const tc_attr *a, const tc_attr *b) {
    const char *what = tc_arena_printf(c->arena, "attr %s", a->name);
    bool same = same_string(c, what, a->name, b->name) && same_number(c, what, (uint64_t)a->kind, (uint64_t)b->kind) &&
                same_presence(c, what, a->ref, b->ref) && same_string(c, what, a->ref, b->ref);
    if (!same || a->ref)
        return same;
    same = same_number(c, what, a->count, b->count);
    switch (a->kind) {
    case TC_ATTR_FLOAT: return same && same_bytes(c, what, &a->f, &b->f, sizeof a->f);
    case TC_ATTR_INT: return same && same_bytes(c, what, &a->i, &b->i, sizeof a->i);
    case TC_ATTR_STRING: return same && same_blob(c, what, a->s, b->s);
    case TC_ATTR_TENSOR: return same && same_tensor(c, what, a->t, b->t);
    case TC_ATTR_GRAPH: return same && same_graph_below(c, what, a->g, b->g);
    case TC_ATTR_TYPE: return same && same_type(c, what, a->type, b->type);
    case TC_ATTR_FLOATS: return same && same_bytes(c, what, a->floats, b->floats, a->count * sizeof *a->floats);
    case TC_ATTR_INTS: return same && same_bytes(c, what, a->ints, b->ints, a->count * sizeof *a->ints);
    default: break;
    }
    for (size_t i = 0; same && i < a->count; i++) {
        if (a->kind == TC_ATTR_STRINGS)
            same = same_blob(c, what, a->strings[i], b->strings[i]);
        else if (a->kind == TC_ATTR_TENSORS)
            same = same_tensor(c, what, a->tensors[i], b->tensors[i]);
        else if (a->kind == TC_ATTR_GRAPHS)
            same = same_graph_below(c, what, a->graphs[i], b->graphs[i]);
        else if (a->kind == TC_ATTR_TYPES)
            same = same_type(c, what, a->types[i], b->types[i]);
        else
            same = differ(c, what, "a kind that text cannot hold", "?");
    }
    return same;
}

static const char *name_of(const tc_value *value) { return value ? value->name : ""; }

static bool same_node(comparison *c, const tc_node *a, const tc_node *b) {
    bool same = same_string(c, "name", a->name, b->name) && same_string(c, "domain", a->domain, b->domain) &&
                same_string(c, "op", a->op_type, b->op_type) && same_string(c, "overload", a->overload, b->overload) &&
                same_presence(c, "row", a->op, b->op) && same_number(c, "ordinal", a->ordinal, b->ordinal) &&
                same_number(c, "inputs", a->n_inputs, b->n_inputs) &&
                same_number(c, "outputs", a->n_outputs, b->n_outputs) &&
                same_number(c, "attributes", a->n_attrs, b->n_attrs);
    for (uint32_t i = 0; same && i < a->n_inputs; i++)
        same = same_string(c, "input", name_of(tc_input(a, i)), name_of(tc_input(b, i)));
    for (uint32_t i = 0; same && i < a->n_outputs; i++)
        same = same_string(c, "output", name_of(a->outputs[i]), name_of(b->outputs[i])) &&
               (!a->outputs[i] || same_type(c, a->outputs[i]->name, a->outputs[i]->type, b->outputs[i]->type));
    for (uint32_t i = 0; same && i < a->n_attrs; i++)
        same = same_attr(c, &a->attrs[i], &b->attrs[i]);
    return same;
}

static bool same_values(comparison *c, const char *what, tc_value *const *a, uint32_t n, tc_value *const *b,
                        uint32_t m) {
    bool same = same_number(c, what, n, m);
    for (uint32_t i = 0; same && i < n; i++)
        same = same_string(c, what, a[i]->name, b[i]->name) && same_type(c, a[i]->name, a[i]->type, b[i]->type) &&
               same_tensor(c, a[i]->name, a[i]->init, b[i]->init) &&
               same_number(c, a[i]->name, a[i]->is_input, b[i]->is_input) &&
               same_number(c, a[i]->name, a[i]->n_graph_outputs, b[i]->n_graph_outputs) &&
               same_number(c, a[i]->name, tc_value_use_count(a[i]), tc_value_use_count(b[i]));
    return same;
}

static bool same_graph(comparison *c, const tc_graph *a, const tc_graph *b) {
    bool same =
        same_string(c, "name", a->name, b->name) && same_number(c, "nodes", a->n_nodes, b->n_nodes) &&
        same_values(c, "inputs", a->inputs, a->n_inputs, b->inputs, b->n_inputs) &&
        same_values(c, "outputs", a->outputs, a->n_outputs, b->outputs, b->n_outputs) &&
        same_values(c, "initializers", a->initializers, a->n_initializers, b->initializers, b->n_initializers) &&
        same_values(c, "listed", a->listed, a->n_listed, b->listed, b->n_listed);
    const char *path = c->path;
    const tc_node *x = a->first, *y = b->first;
    for (uint32_t i = 0; same && x && y; x = x->next, y = y->next, i++) {
        c->path = tc_arena_printf(c->arena, "%s/node %u %s", path, i, x->op_type);
        same = same_node(c, x, y);
    }
    c->path = path;
    return same;
}

static bool same_opsets(comparison *c, const tc_opset *a, size_t n, const tc_opset *b, size_t m) {
    bool same = same_number(c, "opsets", n, m);
    for (size_t i = 0; same && i < n; i++)
        same = same_string(c, "opset", a[i].domain, b[i].domain) &&
               same_number(c, "opset", (uint64_t)a[i].version, (uint64_t)b[i].version);
    return same;
}

static bool same_function(comparison *c, const tc_function *a, const tc_function *b) {
    bool same = same_string(c, "domain", a->domain, b->domain) && same_string(c, "name", a->name, b->name) &&
                same_string(c, "overload", a->overload, b->overload) &&
                same_opsets(c, a->opsets, a->n_opsets, b->opsets, b->n_opsets) &&
                same_number(c, "attributes", a->n_attrs, b->n_attrs) &&
                same_number(c, "defaults", a->n_defaults, b->n_defaults);
    for (size_t i = 0; same && i < a->n_attrs; i++)
        same = same_string(c, "attribute", a->attrs[i], b->attrs[i]);
    for (size_t i = 0; same && i < a->n_defaults; i++)
        same = same_attr(c, &a->defaults[i], &b->defaults[i]);
    return same && same_graph(c, a->body, b->body);
}

static bool same_info(comparison *c, const tc_model_info *a, const tc_model_info *b) {
    const char *const x[] = {a->producer_name, a->producer_version, a->domain, a->doc_string};
    const char *const y[] = {b->producer_name, b->producer_version, b->domain, b->doc_string};
    bool same = same_number(c, "has_version", a->has_version, b->has_version) &&
                same_number(c, "version", (uint64_t)a->version, (uint64_t)b->version) &&
                same_number(c, "metadata", a->n_metadata, b->n_metadata);
    for (size_t i = 0; same && i < TC_COUNT(x); i++)
        same = same_presence(c, "info", x[i], y[i]) && same_string(c, "info", x[i], y[i]);
    for (size_t i = 0; same && i < a->n_metadata; i++)
        same = same_string(c, "key", a->metadata[i].key, b->metadata[i].key) &&
               same_string(c, "value", a->metadata[i].value, b->metadata[i].value);
    return same;
}

const char *same_models(tc_arena *arena, const tc_model *a, const tc_model *b) {
    comparison c = {.arena = arena, .path = "graph"};
    bool same = same_number(&c, "ir_version", (uint64_t)a->ir_version, (uint64_t)b->ir_version) &&
                same_opsets(&c, a->opsets, a->n_opsets, b->opsets, b->n_opsets) && same_info(&c, &a->info, &b->info) &&
                same_graph(&c, a->graph, b->graph) && same_number(&c, "functions", a->n_functions, b->n_functions);
    for (size_t i = 0; same && i < a->n_functions; i++) {
        c.path = tc_arena_printf(arena, "function %s", a->functions[i]->name);
        same = same_function(&c, a->functions[i], b->functions[i]);
    }
    return c.difference;
}
