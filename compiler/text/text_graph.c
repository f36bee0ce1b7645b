/* text_graph.c: graphs, bodies of functions and nodes of ONNX text -> IR. It refuses the mistakes that the reader of
 * ONNX files refuses: names that are not defined yet or twice, domains without opset, initializers that do not fit.
 * Types of values stand before the nodes that produce them, so they wait under their names until the value is there. */
#include "text_parse.h"
#include <string.h>

tc_status tc_text_descend(tc_text_parser *p) {
    if (++p->depth > TC_TEXT_DEPTH)
        return tc_lexer_error_at(&p->lx, p->lx.token, TC_LIMIT, "graphs and types nest deeper than %d levels",
                                 TC_TEXT_DEPTH);
    return TC_OK;
}

static const char *quote(const tc_text_parser *p, const char *name) { return tc_quote(p->ctx, name); }

/* --- names and values ------------------------------------------------------------------------- */

/* `type name`, both optional in some places; types are NULL where none stands. */
typedef struct declaration {
    const char *name;
    const tc_type *type;
    tc_token where, type_where;
} declaration;

typedef struct declarations {
    declaration *items;
    size_t n, cap;
} declarations;

/* One graph while it is read. */
typedef struct body {
    tc_text_parser *p;
    tc_graph *graph;
    declarations outputs, infos;
    tc_map *waiting; /* name -> tc_type of outputs, then of infos: the first counts */
} body;

static tc_status parse_declaration(tc_text_parser *p, declaration *out) {
    *out = (declaration){.type_where = p->lx.token};
    if (tc_text_is_type(p))
        TC_TRY(tc_text_type(p, &out->type));
    out->where = p->lx.token;
    return tc_lexer_name(&p->lx, "a value's name", &out->name);
}

static declaration *push(tc_text_parser *p, declarations *list) {
    list->items = tc_arena_grow(p->scratch, list->items, sizeof *list->items, &list->cap, list->n + 1);
    return &list->items[list->n++];
}

/* `(type name, ...)` */
static tc_status parse_declarations(tc_text_parser *p, declarations *out) {
    TC_TRY(tc_lexer_expect(&p->lx, '('));
    if (tc_lexer_accept(&p->lx, ')'))
        return TC_OK;
    do {
        TC_TRY(parse_declaration(p, push(p, out)));
    } while (tc_lexer_accept(&p->lx, ','));
    return tc_lexer_expect(&p->lx, ')');
}

static tc_status define(const body *b, const declaration *d, tc_value **out_value) {
    tc_text_parser *p = b->p;
    if (!*d->name)
        return tc_lexer_error_at(&p->lx, d->where, TC_BAD_INPUT, "a value needs a name");
    const tc_value *known = tc_graph_find(b->graph, d->name);
    if (known)
        return tc_lexer_error_at(&p->lx, d->where, TC_BAD_INPUT, "\"%s\" is already %s%s", quote(p, d->name),
                                 known->is_input ? "an input"
                                 : known->init   ? "an initializer"
                                                 : "a node's result",
                                 known->graph == b->graph ? "" : " of an enclosing graph");
    *out_value = tc_value_create_exact(b->graph, d->name, d->type);
    return TC_OK;
}

/* Types from the lists of outputs and value infos, for the values that have none yet. */
static void wait_for_values(body *b) {
    b->waiting = tc_map_create(b->p->scratch);
    const declarations *lists[] = {&b->infos, &b->outputs};
    for (size_t k = 0; k < TC_COUNT(lists); k++)
        for (size_t i = lists[k]->n; i-- > 0;)
            if (lists[k]->items[i].type)
                tc_map_set(b->waiting, lists[k]->items[i].name, (void *)(uintptr_t)lists[k]->items[i].type);
}

static void describe(const body *b, tc_value *value) {
    if (!value->type)
        value->type = tc_map_get(b->waiting, value->name);
}

/* Values with an entry in the list of value infos, in its order; entries of no value, and second ones, are dropped. */
static void list_values(const body *b) {
    tc_graph *graph = b->graph;
    tc_map *seen = tc_map_create(b->p->scratch);
    graph->listed = TC_NEW_ARRAY(graph->model->arena, tc_value *, b->infos.n);
    for (size_t i = 0; i < b->infos.n; i++) {
        tc_value *value = tc_map_get(graph->names, b->infos.items[i].name);
        if (!value || tc_map_get_ptr(seen, value))
            continue;
        tc_map_set_ptr(seen, value, value);
        graph->listed[graph->n_listed++] = value;
    }
}

/* --- inputs and initializers ------------------------------------------------------------------ */

/* `name = data`, read up to the data; the declaration's type is the tensor's. */
typedef struct initializer {
    declaration d;
    const tc_tensor *tensor;
} initializer;

static tc_status parse_data(tc_text_parser *p, initializer *x) {
    if (!x->d.type)
        return tc_lexer_error_at(&p->lx, x->d.where, TC_BAD_INPUT,
                                 "initializer \"%s\" needs a type in front of its name", quote(p, x->d.name));
    return tc_text_tensor(p, x->d.type, x->d.type_where, x->d.name, &x->tensor);
}

/* An input's type and its default's must agree. */
static bool fits(const tc_type *type, const tc_tensor *tensor) {
    bool same = type->kind == TC_TENSOR && (type->dtype == TC_UNDEFINED || type->dtype == tensor->dtype) &&
                (type->rank == TC_RANK_UNKNOWN || type->rank == tensor->rank);
    for (int i = 0; same && i < type->rank; i++)
        same = !tc_dim_is_const(type->dims[i]) || type->dims[i].value == tensor->dims[i];
    return same;
}

static tc_status add_initializer(const body *b, const initializer *x) {
    tc_lexer *lx = &b->p->lx;
    tc_value *value = tc_map_get(b->graph->names, x->d.name);
    if (value && value->init)
        return tc_lexer_error_at(lx, x->d.where, TC_BAD_INPUT, "\"%s\" is already an initializer",
                                 quote(b->p, x->d.name));
    if (!value) {
        TC_TRY(define(b, &x->d, &value));
        value->type = NULL;
        describe(b, value);
    }
    if (!value->type)
        value->type = x->d.type;
    if (!fits(value->type, x->tensor))
        return tc_lexer_error_at(lx, x->d.where, TC_BAD_INPUT, "initializer \"%s\" is declared as %s elsewhere",
                                 quote(b->p, x->d.name), tc_type_text(b->p->ctx->arena, value->type));
    tc_graph_add_initializer(b->graph, value, x->tensor);
    return TC_OK;
}

typedef struct initializers {
    initializer *items;
    size_t n, cap;
} initializers;

static initializer *push_initializer(tc_text_parser *p, initializers *list, const declaration *d) {
    list->items = tc_arena_grow(p->scratch, list->items, sizeof *list->items, &list->cap, list->n + 1);
    initializer *x = &list->items[list->n++];
    *x = (initializer){.d = *d};
    return x;
}

/* `(type name, type name = data, ...)`: defaults are initializers with their input's name. */
static tc_status parse_inputs(body *b, initializers *defaults) {
    tc_text_parser *p = b->p;
    if (!tc_lexer_accept(&p->lx, '('))
        return TC_OK;
    if (tc_lexer_accept(&p->lx, ')'))
        return TC_OK;
    do {
        declaration d;
        tc_value *value;
        TC_TRY(parse_declaration(p, &d));
        TC_TRY(define(b, &d, &value));
        tc_graph_add_input(b->graph, value);
        if (tc_lexer_accept(&p->lx, '='))
            TC_TRY(parse_data(p, push_initializer(p, defaults, &d)));
    } while (tc_lexer_accept(&p->lx, ','));
    return tc_lexer_expect(&p->lx, ')');
}

/* `<type name = data, type name, ...>`: initializers and value infos. */
static tc_status parse_infos(body *b, initializers *inits) {
    tc_text_parser *p = b->p;
    if (!tc_lexer_accept(&p->lx, '<') || tc_lexer_accept(&p->lx, '>'))
        return TC_OK;
    do {
        declaration d;
        TC_TRY(parse_declaration(p, &d));
        if (tc_lexer_accept(&p->lx, '='))
            TC_TRY(parse_data(p, push_initializer(p, inits, &d)));
        else
            *push(p, &b->infos) = d;
    } while (tc_lexer_accept(&p->lx, ','));
    return tc_lexer_expect(&p->lx, '>');
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Names between commas, each maybe empty: `a, , ""`. A comma at the end adds nothing. */
static tc_status parse_ids(tc_text_parser *p, declarations *out) {
    do {
        tc_token token = p->lx.token;
        bool is_empty = tc_lexer_is(&p->lx, ',');
        if (!is_empty && token.kind != TC_TOKEN_IDENT && token.kind != TC_TOKEN_STRING)
            return TC_OK;
        declaration *d = push(p, out);
        *d = (declaration){.name = "", .where = token};
        if (!is_empty)
            TC_TRY(tc_lexer_name(&p->lx, "a name", &d->name));
    } while (tc_lexer_accept(&p->lx, ','));
    return TC_OK;
}

/* The parts of a node's line, before there is a node. */
typedef struct line {
    const char *name, *domain, *op_type, *overload;
    tc_token where;
    declarations outputs, inputs;
    tc_attr *attrs;
    size_t n_attrs, cap_attrs;
    uint32_t ordinal;
} line;

/* `domain.words.Op:overload` */
static tc_status parse_op(tc_text_parser *p, line *l) {
    l->where = p->lx.token;
    l->domain = l->overload = "";
    TC_TRY(tc_lexer_name(&p->lx, "an op", &l->op_type));
    while (tc_lexer_accept(&p->lx, '.')) {
        l->domain = *l->domain ? tc_arena_printf(p->model->arena, "%s.%s", l->domain, l->op_type) : l->op_type;
        TC_TRY(tc_lexer_name(&p->lx, "an op", &l->op_type));
    }
    if (strcmp(l->domain, "ai.onnx") == 0)
        l->domain = "";
    if (!*l->op_type)
        return tc_lexer_error_at(&p->lx, l->where, TC_BAD_INPUT, "a node without op type");
    return tc_lexer_accept(&p->lx, ':') ? tc_lexer_name(&p->lx, "an overload's name", &l->overload) : TC_OK;
}

static tc_status parse_attrs(const body *b, line *l) {
    tc_text_parser *p = b->p;
    if (!tc_lexer_accept(&p->lx, '<'))
        return TC_OK;
    tc_map *seen = tc_map_create(p->scratch);
    do {
        tc_attr attr;
        tc_token token = p->lx.token;
        TC_TRY(tc_text_attr(p, b->graph, &attr));
        if (tc_map_get(seen, attr.name))
            return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "two attributes are named '%s'", quote(p, attr.name));
        tc_map_set(seen, attr.name, l);
        l->attrs = tc_arena_grow(p->scratch, l->attrs, sizeof *l->attrs, &l->cap_attrs, l->n_attrs + 1);
        l->attrs[l->n_attrs++] = attr;
    } while (tc_lexer_accept(&p->lx, ','));
    return tc_lexer_expect(&p->lx, '>');
}

static bool imports(const tc_text_parser *p, const char *domain) {
    const tc_opset *opsets = p->function ? p->function->opsets : p->model->opsets;
    size_t n = p->function ? p->function->n_opsets : p->model->n_opsets;
    for (size_t i = 0; i < n; i++)
        if (strcmp(opsets[i].domain, domain) == 0)
            return true;
    return false;
}

static tc_status add_node(const body *b, const line *l) {
    tc_text_parser *p = b->p;
    tc_node *node = tc_node_create(b->graph, l->domain, l->op_type, (uint32_t)l->inputs.n, (uint32_t)l->outputs.n);
    node->name = l->name;
    node->overload = l->overload;
    node->ordinal = l->ordinal;
    tc_node_append(node);
    if (!imports(p, l->domain))
        return tc_lexer_error_at(&p->lx, l->where, TC_BAD_INPUT, "domain \"%s\" stands in no opset_import",
                                 *l->domain ? quote(p, l->domain) : "");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const declaration *d = &l->inputs.items[i];
        tc_value *value = *d->name ? tc_graph_find(b->graph, d->name) : NULL;
        if (*d->name && !value)
            return tc_lexer_error_at(&p->lx, d->where, TC_BAD_INPUT, "\"%s\" is not defined before this node",
                                     quote(p, d->name));
        tc_node_set_input(node, i, value);
    }
    node->attrs = TC_NEW_ARRAY(p->model->arena, tc_attr, l->n_attrs);
    node->n_attrs = (uint32_t)l->n_attrs;
    if (l->n_attrs)
        memcpy(node->attrs, l->attrs, l->n_attrs * sizeof *l->attrs);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const declaration *d = &l->outputs.items[i];
        tc_value *value;
        if (!*d->name)
            continue;
        TC_TRY(define(b, d, &value));
        tc_node_set_output(node, i, value);
        describe(b, value);
    }
    return TC_OK;
}

/* `["label"] outputs = Op <attributes> (inputs)`; attributes may also come last. */
static tc_status parse_node(const body *b) {
    tc_text_parser *p = b->p;
    line l = {.name = "", .ordinal = p->ordinal++};
    if (tc_lexer_accept(&p->lx, '[')) {
        if (!tc_lexer_is(&p->lx, ']'))
            TC_TRY(tc_lexer_name(&p->lx, "a node's name", &l.name));
        TC_TRY(tc_lexer_expect(&p->lx, ']'));
    }
    TC_TRY(parse_ids(p, &l.outputs));
    TC_TRY(tc_lexer_expect(&p->lx, '='));
    TC_TRY(parse_op(p, &l));
    TC_TRY(parse_attrs(b, &l));
    TC_TRY(tc_lexer_expect(&p->lx, '('));
    TC_TRY(parse_ids(p, &l.inputs));
    TC_TRY(tc_lexer_expect(&p->lx, ')'));
    if (l.n_attrs == 0)
        TC_TRY(parse_attrs(b, &l));
    return add_node(b, &l);
}

static tc_status parse_nodes(const body *b) {
    TC_TRY(tc_lexer_expect(&b->p->lx, '{'));
    while (!tc_lexer_is(&b->p->lx, '}'))
        TC_TRY(parse_node(b));
    return tc_lexer_next(&b->p->lx);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static tc_status resolve_outputs(const body *b) {
    for (size_t i = 0; i < b->outputs.n; i++) {
        const declaration *d = &b->outputs.items[i];
        tc_value *value = tc_graph_find(b->graph, d->name);
        if (!value)
            return tc_lexer_error_at(&b->p->lx, d->where, TC_BAD_INPUT, "output \"%s\" is produced by no node",
                                     quote(b->p, d->name));
        tc_graph_add_output(b->graph, value);
    }
    list_values(b);
    return TC_OK;
}

tc_status tc_text_graph(tc_text_parser *p, tc_graph *parent, tc_graph **out_graph) {
    const char *name;
    initializers inits = {0};
    TC_TRY(tc_text_descend(p));
    TC_TRY(tc_lexer_name(&p->lx, "a graph's name", &name));
    body b = {.p = p, .graph = tc_graph_create(p->model, parent, name)};
    *out_graph = b.graph;
    TC_TRY(parse_inputs(&b, &inits));
    TC_TRY(tc_lexer_expect_arrow(&p->lx));
    TC_TRY(parse_declarations(p, &b.outputs));
    TC_TRY(parse_infos(&b, &inits));
    wait_for_values(&b);
    for (uint32_t i = 0; i < b.graph->n_inputs; i++)
        describe(&b, b.graph->inputs[i]);
    for (size_t i = 0; i < inits.n; i++)
        TC_TRY(add_initializer(&b, &inits.items[i]));
    TC_TRY(parse_nodes(&b));
    p->depth--;
    return resolve_outputs(&b);
}

tc_status tc_text_function_body(tc_text_parser *p, tc_graph *graph) {
    body all = {.p = p, .graph = graph}, *b = &all;
    declarations inputs = {0};
    initializers none = {0};
    TC_TRY(parse_declarations(p, &inputs));
    for (size_t i = 0; i < inputs.n; i++) {
        tc_value *value = NULL;
        TC_TRY(define(b, &inputs.items[i], &value));
        tc_graph_add_input(b->graph, value);
        if (value->type)
            *push(p, &b->infos) = inputs.items[i];
    }
    TC_TRY(tc_lexer_expect_arrow(&p->lx));
    TC_TRY(parse_declarations(p, &b->outputs));
    for (size_t i = 0; i < b->outputs.n; i++)
        if (b->outputs.items[i].type)
            *push(p, &b->infos) = b->outputs.items[i];
    TC_TRY(parse_infos(b, &none));
    if (none.n)
        return tc_lexer_error_at(&p->lx, none.items[0].d.where, TC_BAD_INPUT,
                                 "a function has no initializers: use Constant");
    wait_for_values(b);
    for (uint32_t i = 0; i < b->graph->n_inputs; i++)
        describe(b, b->graph->inputs[i]);
    TC_TRY(parse_nodes(b));
    return resolve_outputs(b);
}
