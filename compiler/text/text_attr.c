/* text_attr.c: attributes of ONNX text: `name = value`, or `name: kind = value` where the value does not show its kind
 * (an empty list, a float without point). A value is a number, a string, a type, a tensor (a type and data), a graph, a
 * reference `@name` to an attribute of the function, or a list of values of one kind. */
#include "text_parse.h"
#include <string.h>

/* One value on its way into an attribute; the union of tc_attr is its union. */
typedef tc_attr item;

static tc_status parse_reference(tc_text_parser *p, item *out) {
    tc_token token = p->lx.token;
    TC_TRY(tc_lexer_name(&p->lx, "the name of an attribute of the function", &out->ref));
    const tc_function *f = p->function;
    if (!f)
        return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "only bodies of functions may refer to attributes");
    for (size_t i = 0; i < f->n_attrs; i++)
        if (strcmp(f->attrs[i], out->ref) == 0)
            return TC_OK;
    for (size_t i = 0; i < f->n_defaults; i++)
        if (strcmp(f->defaults[i].name, out->ref) == 0)
            return TC_OK;
    return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "function \"%s\" has no attribute \"%s\"",
                             tc_quote(p->ctx, f->name), tc_quote(p->ctx, out->ref));
}

/* A type is a value of its own, or begins a tensor: `float[2] {1,2}`, `float[2] name = {1,2}`. */
static tc_status parse_type_or_tensor(tc_text_parser *p, tc_attr_kind wanted, item *out) {
    tc_token where = p->lx.token;
    const tc_type *type;
    const char *name = NULL;
    TC_TRY(tc_text_type(p, &type));
    tc_token token = p->lx.token;
    bool is_named = token.kind == TC_TOKEN_IDENT || token.kind == TC_TOKEN_STRING;
    bool is_tensor = token.mark == '{' || token.mark == '=' || token.mark == '[' || token.mark == '.' ||
                     (token.mark == '}' && wanted == TC_ATTR_TENSOR); /* as tc_text_tensor says */
    if (!is_named && !is_tensor) {
        out->kind = TC_ATTR_TYPE;
        out->type = type;
        return TC_OK;
    }
    out->kind = TC_ATTR_TENSOR;
    if (is_named)
        TC_TRY(tc_lexer_name(&p->lx, "a name", &name));
    tc_lexer_accept(&p->lx, '=');
    return tc_text_tensor(p, type, where, name, &out->t);
}

static tc_status parse_number(tc_text_parser *p, tc_attr_kind wanted, item *out) {
    bool is_int = p->lx.token.kind == TC_TOKEN_INT && wanted != TC_ATTR_FLOAT;
    out->kind = is_int ? TC_ATTR_INT : TC_ATTR_FLOAT;
    return is_int ? tc_lexer_int(&p->lx, "a number", &out->i) : tc_lexer_float(&p->lx, "a number", &out->f);
}

/* `wanted`: the singular kind that the value must have; TC_ATTR_NONE: any. */
static tc_status parse_item(tc_text_parser *p, tc_graph *graph, tc_attr_kind wanted, item *out) {
    tc_token token = p->lx.token, next = tc_lexer_peek(&p->lx);
    *out = (item){.count = 1};
    bool graph_follows = next.mark == '('; /* a graph's name, if this is no type that takes parentheses */
    if (token.kind == TC_TOKEN_IDENT) {
        const char *word = tc_arena_strndup(p->scratch, token.start, token.size);
        bool primitive = tc_dtype_from_name(word) != TC_UNDEFINED;
        if (tc_text_is_type_word(word) && !(primitive && graph_follows))
            return parse_type_or_tensor(p, wanted, out);
        if (tc_lexer_is_number(&p->lx) && !graph_follows)
            return parse_number(p, wanted, out);
    } else if (tc_lexer_is_number(&p->lx)) {
        return parse_number(p, wanted, out);
    } else if (tc_lexer_accept(&p->lx, '@')) {
        out->kind = wanted;
        return parse_reference(p, out);
    }
    if (token.kind == TC_TOKEN_STRING && !graph_follows) {
        out->kind = TC_ATTR_STRING;
        return tc_lexer_string(&p->lx, "a string", &out->s);
    }
    if (token.kind != TC_TOKEN_IDENT && token.kind != TC_TOKEN_STRING)
        return tc_lexer_error(&p->lx, "an attribute's value was expected, found %s", tc_token_text(&p->lx, token));
    out->kind = TC_ATTR_GRAPH;
    return tc_text_graph(p, graph, &out->g);
}

static tc_status check_kind(tc_text_parser *p, tc_token token, tc_attr_kind wanted, tc_attr_kind found) {
    if (wanted == TC_ATTR_NONE || wanted == found)
        return TC_OK;
    return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "a value of kind %s was expected, found one of kind %s",
                             tc_text_attr_kind_name(wanted), tc_text_attr_kind_name(found));
}

static size_t item_size(tc_attr_kind kind) {
    return kind == TC_ATTR_FLOAT    ? sizeof(float)
           : kind == TC_ATTR_INT    ? sizeof(int64_t)
           : kind == TC_ATTR_STRING ? sizeof(tc_bytes)
                                    : sizeof(void *);
}

/* The address of the item's value in the union, and of a list's. */
static const void *item_value(const item *x) {
    switch (x->kind) {
    case TC_ATTR_FLOAT: return &x->f;
    case TC_ATTR_INT: return &x->i;
    case TC_ATTR_STRING: return &x->s;
    case TC_ATTR_TENSOR: return &x->t;
    case TC_ATTR_GRAPH: return &x->g;
    default: return &x->type;
    }
}

static void set_list(tc_attr *attr, tc_attr_kind kind, const void *values) {
    switch (kind) {
    case TC_ATTR_FLOAT: attr->floats = values; return;
    case TC_ATTR_INT: attr->ints = values; return;
    case TC_ATTR_STRING: attr->strings = values; return;
    case TC_ATTR_TENSOR: attr->tensors = values; return;
    case TC_ATTR_GRAPH: attr->graphs = values; return;
    default: attr->types = values; return;
    }
}

/* After the opening bracket. The first value decides the kind of all where the attribute does not. */
static tc_status parse_list(tc_text_parser *p, tc_graph *graph, tc_token where, tc_attr *attr) {
    tc_attr_kind kind = tc_text_singular(attr->kind);
    char *values = NULL;
    size_t cap = 0, size = item_size(kind);
    if (tc_lexer_is(&p->lx, ']')) {
        if (!tc_text_is_plural(attr->kind))
            return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "an empty list needs its kind: %s: ints = []",
                                     tc_quote(p->ctx, attr->name));
        return tc_lexer_next(&p->lx);
    }
    do {
        item x;
        tc_token token = p->lx.token;
        TC_TRY(parse_item(p, graph, kind, &x));
        if (x.ref)
            return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "a reference cannot stand in a list");
        TC_TRY(check_kind(p, token, kind, x.kind));
        kind = x.kind;
        size = item_size(kind);
        values = tc_arena_grow(p->scratch, values, size, &cap, attr->count + 1);
        memcpy(values + attr->count++ * size, item_value(&x), size);
    } while (tc_lexer_accept(&p->lx, ','));
    char *copy = tc_arena_alloc(p->model->arena, attr->count, size);
    memcpy(copy, values, attr->count * size);
    attr->kind = tc_text_plural(kind);
    set_list(attr, kind, copy);
    return tc_lexer_expect(&p->lx, ']');
}

/* The kind after a colon. */
static tc_status parse_kind(tc_text_parser *p, tc_attr_kind *out_kind) {
    tc_token token = p->lx.token;
    const char *name;
    TC_TRY(tc_lexer_ident(&p->lx, "an attribute's kind", &name));
    *out_kind = tc_text_attr_kind(name);
    if (*out_kind == TC_ATTR_NONE && strcmp(name, "undefined") != 0)
        return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT,
                                 "'%s' is no kind of attribute: int, float, string, tensor, graph, "
                                 "type_proto, or ints and so on are",
                                 tc_quote(p->ctx, name));
    return TC_OK;
}

tc_status tc_text_attr_value(tc_text_parser *p, tc_graph *graph, const char *name, tc_attr *out_attr) {
    tc_attr *attr = out_attr;
    *attr = (tc_attr){.name = name};
    if (tc_lexer_accept(&p->lx, ':'))
        TC_TRY(parse_kind(p, &attr->kind));
    TC_TRY(tc_lexer_expect(&p->lx, '='));
    tc_token token = p->lx.token;
    tc_attr_kind wanted = attr->kind;
    if (tc_lexer_accept(&p->lx, '['))
        return parse_list(p, graph, token, attr);
    if (wanted == TC_ATTR_STRINGS && tc_lexer_accept(&p->lx, ']'))
        return TC_OK; /* onnx.printer prints an empty list of strings this way */
    TC_TRY(parse_item(p, graph, wanted, attr));
    attr->name = name;
    return attr->ref ? TC_OK : check_kind(p, token, wanted, attr->kind);
}

tc_status tc_text_attr_name(tc_text_parser *p, const char **out_name) {
    tc_token token = p->lx.token;
    TC_TRY(tc_lexer_name(&p->lx, "an attribute's name", out_name));
    return **out_name ? TC_OK : tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "an attribute has no name");
}

tc_status tc_text_attr(tc_text_parser *p, tc_graph *graph, tc_attr *out_attr) {
    const char *name;
    TC_TRY(tc_text_attr_name(p, &name));
    return tc_text_attr_value(p, graph, name, out_attr);
}
