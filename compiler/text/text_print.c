/* text_print.c: the IR as ONNX text, with the spelling of onnx.printer (blanks and line breaks too): a dump can be
 * compared with onnx's own. It prints more than onnx.printer where that drops parts that the parser could read:
 * defaults of function attributes, types inside functions, complex and 4-bit tensors, empty lists of strings. It quotes
 * names that the parser would misread: names that look like types, domains and attribute names that are no
 * identifiers. */
#include "marks.h"
#include "text.h"
#include "text_words.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct printer {
    FILE *out;
    tc_ctx *ctx;       /* NULL: no warnings about parts that text cannot hold */
    uint64_t elide;    /* tensors with more elements have no data; UINT64_MAX: none */
    tc_arena *scratch; /* names of dims */
    const tc_node *node;
    int indent;
} printer;

/* --- words ------------------------------------------------------------------------------------ */

static void put(const printer *p, const char *text) { fputs(text, p->out); }

static void put_quoted(const printer *p, tc_bytes s) {
    putc('"', p->out);
    for (size_t i = 0; i < s.size; i++) {
        if (s.data[i] == '\\' || s.data[i] == '"')
            putc('\\', p->out);
        putc(s.data[i], p->out);
    }
    putc('"', p->out);
}

static void put_string(const printer *p, const char *s) { put_quoted(p, (tc_bytes){s, strlen(s)}); }

static bool is_identifier(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool letter = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_';
        if (!letter && (i == 0 || s[i] < '0' || s[i] > '9'))
            return false;
    }
    return n > 0;
}

static void put_name(const printer *p, const char *name) {
    if (is_identifier(name, strlen(name)))
        put(p, name);
    else
        put_string(p, name);
}

/* Where a type or a number may stand too, names that look like one are quoted. */
static void put_plain_name(const printer *p, const char *name) {
    if (tc_text_is_type_word(name) || tc_text_is_special_float(name))
        put_string(p, name);
    else
        put_name(p, name);
}

/* com.microsoft, or quoted where a part is no identifier. */
static void put_domain(const printer *p, const char *domain) {
    for (const char *part = domain;; part++) {
        size_t n = strcspn(part, ".");
        if (!is_identifier(part, n)) {
            put_string(p, domain);
            return;
        }
        part += n;
        if (!*part)
            break;
    }
    put(p, domain);
}

static void put_indent(const printer *p, int width) { fprintf(p->out, "%*s", width, ""); }

static void put_ids(const printer *p, const char *open, tc_value *const *values, uint32_t n, const char *close) {
    put(p, open);
    for (uint32_t i = 0; i < n; i++) {
        put(p, i ? ", " : "");
        put_name(p, values[i] ? values[i]->name : "");
    }
    put(p, close);
}

/* --- types ------------------------------------------------------------------------------------ */

static void put_dims(const printer *p, const tc_type *type) {
    if (type->rank == TC_RANK_UNKNOWN)
        put(p, "[]");
    for (int i = 0; i < type->rank; i++) {
        tc_dim dim = type->dims[i];
        putc(i ? ',' : '[', p->out);
        if (tc_dim_is_unknown(dim))
            putc('?', p->out);
        else if (tc_dim_is_const(dim))
            fprintf(p->out, "%" PRId64, dim.value);
        else
            put_name(p, tc_dim_text(p->scratch, dim));
    }
    put(p, type->rank > 0 ? "]" : "");
}

static void put_type(const printer *p, const tc_type *type) {
    if (!type)
        return;
    switch (type->kind) {
    case TC_TENSOR:
        put(p, tc_dtype_name(type->dtype));
        put_dims(p, type);
        return;
    case TC_SPARSE_TENSOR:
        fprintf(p->out, "sparse_tensor(%s", tc_dtype_name(type->dtype));
        put_dims(p, type);
        break;
    case TC_MAP:
        fprintf(p->out, "map(%s, ", tc_dtype_name(type->dtype));
        put_type(p, type->elem);
        break;
    case TC_SEQUENCE:
    case TC_OPTIONAL:
        put(p, type->kind == TC_SEQUENCE ? "seq(" : "optional(");
        put_type(p, type->elem);
        break;
    case TC_OPAQUE:
        put(p, "opaque(");
        if (type->domain && *type->domain) {
            put_domain(p, type->domain);
            putc(',', p->out);
            put_name(p, type->name ? type->name : "");
        } else if (type->name && *type->name) {
            put_domain(p, type->name);
        }
        break;
    }
    putc(')', p->out);
}

static void put_value_info(const printer *p, const tc_value *value) {
    put_type(p, value->type);
    putc(' ', p->out);
    if (value->type)
        put_name(p, value->name);
    else
        put_plain_name(p, value->name);
}

static void put_value_infos(const printer *p, tc_value *const *values, uint32_t n) {
    putc('(', p->out);
    for (uint32_t i = 0; i < n; i++) {
        put(p, i ? ", " : "");
        put_value_info(p, values[i]);
    }
    putc(')', p->out);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static void put_number(const printer *p, const void *item, tc_dtype dtype) {
    char text[TC_NUMBER_TEXT];
#define TC_PUT(type, format)                                                                                           \
    do {                                                                                                               \
        type x;                                                                                                        \
        memcpy(&x, item, sizeof x);                                                                                    \
        fprintf(p->out, "%" format, x);                                                                                \
        return;                                                                                                        \
    } while (0)
    switch ((int)dtype) {
    case TC_FLOAT: {
        float x;
        memcpy(&x, item, sizeof x);
        fwrite(text, 1, tc_float_text(x, text), p->out);
        return;
    }
    case TC_DOUBLE: {
        double x;
        memcpy(&x, item, sizeof x);
        fwrite(text, 1, tc_double_text(x, text), p->out);
        return;
    }
    case TC_INT8: TC_PUT(int8_t, PRId8);
    case TC_INT16: TC_PUT(int16_t, PRId16);
    case TC_INT32: TC_PUT(int32_t, PRId32);
    case TC_INT64: TC_PUT(int64_t, PRId64);
    case TC_UINT16:
    case TC_FLOAT16:
    case TC_BFLOAT16: TC_PUT(uint16_t, PRIu16);
    case TC_UINT32: TC_PUT(uint32_t, PRIu32);
    case TC_UINT64: TC_PUT(uint64_t, PRIu64);
    default: TC_PUT(uint8_t, PRIu8); /* bytes; types below 8 bits are packed */
    }
#undef TC_PUT
}

static void put_items(const printer *p, const tc_tensor *t) {
    size_t size = tc_text_item_bytes(t->dtype);
    tc_dtype item = t->dtype == TC_COMPLEX64 ? TC_FLOAT : t->dtype == TC_COMPLEX128 ? TC_DOUBLE : t->dtype;
    put(p, " {");
    for (size_t at = 0; at < t->bytes; at += size) {
        if (at)
            putc(',', p->out);
        put_number(p, (const char *)t->data + at, item);
    }
    putc('}', p->out);
}

static void put_external(const printer *p, const tc_external *e) {
    put(p, "[\"location\": ");
    put_string(p, e->location);
    if (e->has_offset || e->offset)
        fprintf(p->out, ", \"offset\": \"%" PRIu64 "\"", e->offset);
    if (e->has_length)
        fprintf(p->out, ", \"length\": \"%" PRIu64 "\"", e->length);
    putc(']', p->out);
}

static void put_tensor(const printer *p, const tc_tensor *t, const char *name, bool is_initializer) {
    put(p, tc_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        fprintf(p->out, "%c%" PRId64, i ? ',' : '[', t->dims[i]);
    put(p, t->rank ? "]" : "");
    if (name && *name) {
        putc(' ', p->out);
        put_name(p, name);
    }
    put(p, is_initializer ? " = " : "");
    if (t->external)
        put_external(p, t->external);
    else if (t->count > p->elide || (!t->data && !t->strings && t->count))
        put(p, "...");
    else if (t->dtype != TC_STRING)
        put_items(p, t);
    else {
        putc('{', p->out);
        for (uint64_t i = 0; i < t->count; i++) {
            put(p, i ? ", " : "");
            put_quoted(p, t->strings[i]);
        }
        putc('}', p->out);
    }
}

/* --- attributes ------------------------------------------------------------------------------- */

static void put_graph(printer *p, const tc_graph *graph, bool is_nested);

/* One item: between the brackets of a list, or alone where the attribute is a single value. */
static void put_item(printer *p, const tc_attr *a, size_t i) {
    char text[TC_NUMBER_TEXT];
    bool plural = tc_text_is_plural(a->kind);
    switch (a->kind) {
    case TC_ATTR_FLOAT:
    case TC_ATTR_FLOATS: fwrite(text, 1, tc_float_text(plural ? a->floats[i] : a->f, text), p->out); return;
    case TC_ATTR_INT:
    case TC_ATTR_INTS: fprintf(p->out, "%" PRId64, plural ? a->ints[i] : a->i); return;
    case TC_ATTR_STRING:
    case TC_ATTR_STRINGS: put_quoted(p, plural ? a->strings[i] : a->s); return;
    case TC_ATTR_TENSOR:
    case TC_ATTR_TENSORS: {
        const tc_tensor *t = plural ? a->tensors[i] : a->t;
        put_tensor(p, t, t->name, false);
        return;
    }
    case TC_ATTR_GRAPH:
    case TC_ATTR_GRAPHS:
        p->indent += 3;
        put_graph(p, plural ? a->graphs[i] : a->g, true);
        p->indent -= 3;
        return;
    case TC_ATTR_TYPE:
    case TC_ATTR_TYPES: put_type(p, plural ? a->types[i] : a->type); return;
    default:
        put(p, "...");
        if (p->ctx)
            tc_warn(p->ctx, p->node, "attribute '%s' is a sparse tensor, which text cannot hold",
                    tc_quote(p->ctx, a->name));
    }
}

static void put_attr(printer *p, const tc_attr *a) {
    const char *kind = tc_text_attr_kind_name(a->kind);
    put_name(p, a->name);
    put(p, kind ? ": " : "");
    put(p, kind ? kind : "");
    put(p, " = ");
    if (a->ref) {
        putc('@', p->out);
        put_name(p, a->ref);
        return;
    }
    bool plural = tc_text_is_plural(a->kind);
    put(p, plural ? "[" : "");
    for (size_t i = 0; i < (plural ? a->count : 1); i++) {
        put(p, i ? ", " : "");
        put_item(p, a, i);
    }
    put(p, plural ? "]" : "");
}

static void put_attrs(printer *p, const tc_node *node) {
    if (node->n_attrs == 0)
        return;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        put(p, i ? ", " : " <");
        put_attr(p, &node->attrs[i]);
    }
    putc('>', p->out);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static void put_node(printer *p, const tc_node *node) {
    bool has_graph = tc_has_nested(node); /* then attributes come last */
    p->node = node;
    if (*node->name) {
        putc('[', p->out);
        put_name(p, node->name);
        put(p, "] ");
    }
    put_ids(p, "", node->outputs, node->n_outputs, " = ");
    if (*node->domain) {
        put_domain(p, node->domain);
        putc('.', p->out);
    }
    put_name(p, node->op_type);
    if (*node->overload) {
        putc(':', p->out);
        put_name(p, node->overload);
    }
    if (!has_graph)
        put_attrs(p, node);
    put(p, " (");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = node->inputs[i].value;
        put(p, i ? ", " : "");
        put_name(p, value ? value->name : "");
    }
    putc(')', p->out);
    if (has_graph)
        put_attrs(p, node);
    putc('\n', p->out);
}

static void put_nodes(printer *p, const tc_graph *graph) {
    put(p, "{\n");
    for (const tc_node *node = graph->first; node; node = node->next) {
        put_indent(p, p->indent);
        put_node(p, node);
    }
    if (p->indent > 3)
        put_indent(p, p->indent - 3);
    putc('}', p->out);
}

/* A listed value that the graph still has. */
static bool is_live(const tc_graph *graph, const tc_value *value) {
    return tc_map_get(graph->names, value->name) == value;
}

static bool put_listed(const printer *p, const tc_graph *graph, const char *separator) {
    for (uint32_t i = 0; i < graph->n_listed; i++) {
        if (!is_live(graph, graph->listed[i]))
            continue;
        put(p, separator);
        put_value_info(p, graph->listed[i]);
        separator = ", ";
    }
    return *separator == ',';
}

static void put_graph(printer *p, const tc_graph *graph, bool is_nested) {
    if (is_nested)
        put_plain_name(p, graph->name);
    else
        put_name(p, graph->name);
    putc(' ', p->out);
    put_value_infos(p, graph->inputs, graph->n_inputs);
    put(p, " => ");
    put_value_infos(p, graph->outputs, graph->n_outputs);
    putc(' ', p->out);
    bool listed = false;
    for (uint32_t i = 0; i < graph->n_listed; i++)
        listed |= is_live(graph, graph->listed[i]);
    if (graph->n_initializers || listed) {
        putc('\n', p->out);
        put_indent(p, p->indent);
        putc('<', p->out);
        for (uint32_t i = 0; i < graph->n_initializers; i++) {
            put(p, i ? ", " : "");
            put_tensor(p, graph->initializers[i]->init, graph->initializers[i]->name, true);
        }
        put_listed(p, graph, graph->n_initializers ? ", " : "");
        put(p, ">\n");
    }
    put_nodes(p, graph);
}

static void put_opsets(const printer *p, const tc_opset *opsets, size_t n, const char *separator) {
    put(p, "opset_import: [");
    for (size_t i = 0; i < n; i++) {
        put(p, i ? separator : "");
        put_string(p, opsets[i].domain);
        fprintf(p->out, " : %" PRId64, opsets[i].version);
    }
    putc(']', p->out);
}

static void put_function(printer *p, const tc_function *f) {
    const tc_graph *body = f->body;
    put(p, "\n<\n  domain: ");
    put_string(p, f->domain);
    if (*f->overload) {
        put(p, ",\n  overload: ");
        put_string(p, f->overload);
    }
    put(p, ",\n  ");
    put_opsets(p, f->opsets, f->n_opsets, ",");
    put(p, "\n>\n");
    put_name(p, f->name);
    putc(' ', p->out);
    const char *separator = "<";
    for (size_t i = 0; i < f->n_attrs; i++, separator = ",") {
        put(p, separator);
        put_name(p, f->attrs[i]);
    }
    for (size_t i = 0; i < f->n_defaults; i++, separator = ",") {
        put(p, separator);
        put_attr(p, &f->defaults[i]);
    }
    put(p, *separator == ',' ? ">" : "");
    tc_value *const *const lists[] = {body->inputs, body->outputs};
    const uint32_t counts[] = {body->n_inputs, body->n_outputs};
    for (int k = 0; k < 2; k++) {
        put(p, k ? " => (" : "(");
        for (uint32_t i = 0; i < counts[k]; i++) {
            put(p, i ? ", " : "");
            put_plain_name(p, lists[k][i]->name);
        }
        putc(')', p->out);
    }
    put(p, put_listed(p, body, " <") ? ">\n" : "\n");
    put_nodes(p, body);
}

static void put_info(const printer *p, const char *key, const char *value) {
    if (!value)
        return;
    fprintf(p->out, ",\n   %s: ", key);
    put_string(p, value);
}

/* Marks are among them. */
static void put_metadata(printer *p, const tc_model *model) {
    size_t n;
    const tc_pair *pairs = tc_marks_metadata(p->scratch, model, &n);
    for (size_t i = 0; i < n; i++) {
        put(p, i ? ", " : ",\n   metadata_props: [");
        put_string(p, pairs[i].key);
        put(p, ": ");
        put_string(p, pairs[i].value);
    }
    put(p, n ? "]\n>\n" : "\n>\n");
}

static void put_model(printer *p, const tc_model *model) {
    const tc_model_info *info = &model->info;
    fprintf(p->out, "<\n   ir_version: %" PRId64 ",\n   ", model->ir_version);
    put_opsets(p, model->opsets, model->n_opsets, ", ");
    put_info(p, "producer_name", info->producer_name);
    put_info(p, "producer_version", info->producer_version);
    put_info(p, "domain", info->domain);
    if (info->has_version)
        fprintf(p->out, ",\n   model_version: %" PRId64, info->version);
    put_info(p, "doc_string", info->doc_string);
    put_metadata(p, model);
    put_graph(p, model->graph, false);
    for (size_t i = 0; i < model->n_functions; i++)
        put_function(p, model->functions[i]);
}

/* --- entries ---------------------------------------------------------------------------------- */

static printer begin(tc_ctx *ctx, FILE *out, uint64_t elide) {
    return (printer){.out = out, .ctx = ctx, .elide = elide, .scratch = tc_arena_create(), .indent = 3};
}

tc_status tc_print_model_elided(tc_ctx *ctx, const tc_model *model, uint64_t max_elements, FILE *out) {
    printer p = begin(ctx, out, max_elements);
    tc_text_locale locale;
    tc_text_enter_locale(&locale);
    put_model(&p, model);
    tc_text_leave_locale(&locale);
    tc_arena_destroy(p.scratch);
    return ferror(out) ? tc_error(ctx, TC_IO, NULL, "cannot write the model's text") : TC_OK;
}

tc_status tc_print_model(tc_ctx *ctx, const tc_model *model, FILE *out) {
    return tc_print_model_elided(ctx, model, UINT64_MAX, out);
}

void tc_print_graph(const tc_graph *graph, FILE *out) {
    printer p = begin(NULL, out, UINT64_MAX);
    put_graph(&p, graph, false);
    putc('\n', out);
    tc_arena_destroy(p.scratch);
}

void tc_print_node(const tc_node *node, FILE *out) {
    printer p = begin(NULL, out, UINT64_MAX);
    put_node(&p, node);
    tc_arena_destroy(p.scratch);
}

typedef struct text_stream {
    FILE *file;
    char *text;
    size_t size;
} text_stream;

static void close_stream(void *user) {
    const text_stream *stream = user;
    fclose(stream->file);
    free(stream->text);
}

const char *tc_function_text(tc_arena *arena, const tc_function *function) {
    text_stream stream = {0};
    stream.file = open_memstream(&stream.text, &stream.size);
    if (!stream.file)
        tc_out_of_memory(1);
    tc_held held;
    tc_hold(&held, close_stream, &stream);
    printer p = begin(NULL, stream.file, UINT64_MAX);
    tc_text_locale locale;
    tc_text_enter_locale(&locale);
    put_function(&p, function);
    tc_text_leave_locale(&locale);
    tc_arena_destroy(p.scratch);
    if (fflush(stream.file) != 0)
        tc_out_of_memory(stream.size);
    const char *copy = tc_arena_strndup(arena, stream.text, stream.size);
    tc_let_go(&held);
    close_stream(&stream);
    return copy;
}

void tc_print_type(const tc_type *type, FILE *out) {
    printer p = begin(NULL, out, UINT64_MAX);
    put_type(&p, type);
    tc_arena_destroy(p.scratch);
}
