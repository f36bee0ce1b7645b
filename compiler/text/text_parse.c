/* text_parse.c: headers, functions and whole models of ONNX text -> IR, by recursive descent; graphs are read by
 * text_graph.c. It refuses the mistakes that the reader of ONNX files refuses: unknown versions, domains imported
 * twice, functions that call themselves. */
#include "text_parse.h"
#include "compiler/ir/ops.h"
#include "marks.h"
#include "compiler/ir/verify.h"
#include <inttypes.h>
#include <string.h>

static const char *quote(const tc_text_parser *p, const char *name) { return tc_quote(p->ctx, name); }

/* --- headers ---------------------------------------------------------------------------------- */

static tc_status parse_opset(tc_text_parser *p, tc_map *seen, tc_opset *opset) {
    tc_token token = p->lx.token;
    if (token.kind != TC_TOKEN_STRING)
        return tc_lexer_error(&p->lx, "a domain in quotes was expected, found %s", tc_token_text(&p->lx, token));
    TC_TRY(tc_lexer_name(&p->lx, "a domain", &opset->domain));
    if (strcmp(opset->domain, "ai.onnx") == 0)
        opset->domain = "";
    TC_TRY(tc_lexer_expect(&p->lx, ':'));
    tc_token version = p->lx.token;
    TC_TRY(tc_lexer_int(&p->lx, "a version", &opset->version));
    if (tc_map_get(seen, opset->domain))
        return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "domain \"%s\" is imported twice",
                                 quote(p, opset->domain));
    tc_map_set(seen, opset->domain, p);
    if (opset->version < 1)
        return tc_lexer_error_at(&p->lx, version, TC_BAD_INPUT, "opset %" PRId64 ", expected at least 1",
                                 opset->version);
    if (!*opset->domain && opset->version > TC_NEWEST_OPSET)
        return tc_lexer_error_at(&p->lx, version, TC_UNSUPPORTED,
                                 "opset %" PRId64 " of ai.onnx, the newest known is %d", opset->version,
                                 TC_NEWEST_OPSET);
    return TC_OK;
}

/* `["domain" : version, ...]` */
static tc_status parse_opsets(tc_text_parser *p, tc_opset **out_opsets, size_t *out_count) {
    tc_opset *opsets = NULL;
    size_t n = 0, cap = 0;
    tc_map *seen = tc_map_create(p->scratch);
    TC_TRY(tc_lexer_expect(&p->lx, '['));
    while (!tc_lexer_is(&p->lx, ']')) {
        opsets = tc_arena_grow(p->model->arena, opsets, sizeof *opsets, &cap, n + 1);
        TC_TRY(parse_opset(p, seen, &opsets[n++]));
        if (!tc_lexer_accept(&p->lx, ','))
            break;
    }
    *out_opsets = opsets;
    *out_count = n;
    return tc_lexer_expect(&p->lx, ']');
}

static tc_status parse_pairs(tc_text_parser *p, const tc_pair **out_pairs, size_t *out_count) {
    tc_pair *pairs = NULL;
    size_t n = 0, cap = 0;
    TC_TRY(tc_lexer_expect(&p->lx, '['));
    while (!tc_lexer_is(&p->lx, ']')) {
        pairs = tc_arena_grow(p->model->arena, pairs, sizeof *pairs, &cap, n + 1);
        TC_TRY(tc_lexer_name(&p->lx, "a key", &pairs[n].key));
        TC_TRY(tc_lexer_expect(&p->lx, ':'));
        TC_TRY(tc_lexer_name(&p->lx, "a value", &pairs[n++].value));
        if (!tc_lexer_accept(&p->lx, ','))
            break;
    }
    *out_pairs = pairs;
    *out_count = n;
    return tc_lexer_expect(&p->lx, ']');
}

static tc_status parse_text(tc_text_parser *p, const char **out_text) {
    if (p->lx.token.kind != TC_TOKEN_STRING)
        return tc_lexer_error(&p->lx, "a string was expected, found %s", tc_token_text(&p->lx, p->lx.token));
    return tc_lexer_name(&p->lx, "a string", out_text);
}

static tc_status parse_model_entry(tc_text_parser *p, tc_token key) {
    tc_model *model = p->model;
    tc_model_info *info = &model->info;
    const char *word = tc_arena_strndup(p->scratch, key.start, key.size);
    const struct {
        const char *word, **text;
    } texts[] = {{"producer_name", &info->producer_name},
                 {"producer_version", &info->producer_version},
                 {"domain", &info->domain},
                 {"doc_string", &info->doc_string}};
    for (size_t i = 0; i < TC_COUNT(texts); i++)
        if (strcmp(word, texts[i].word) == 0)
            return parse_text(p, texts[i].text);
    if (strcmp(word, "opset_import") == 0)
        return parse_opsets(p, &model->opsets, &model->n_opsets);
    if (strcmp(word, "metadata_props") == 0)
        return parse_pairs(p, &info->metadata, &info->n_metadata);
    tc_token number = p->lx.token;
    if (strcmp(word, "model_version") == 0) {
        info->has_version = true;
        return tc_lexer_int(&p->lx, "a version", &info->version);
    }
    if (strcmp(word, "ir_version") != 0)
        return tc_lexer_error_at(&p->lx, key, TC_BAD_INPUT, "'%s' is no entry of a model's header", quote(p, word));
    TC_TRY(tc_lexer_int(&p->lx, "a version", &model->ir_version));
    if (model->ir_version < 1)
        return tc_lexer_error_at(&p->lx, number, TC_BAD_INPUT, "IR version %" PRId64 ", expected at least 1",
                                 model->ir_version);
    if (model->ir_version > TC_NEWEST_IR)
        return tc_lexer_error_at(&p->lx, number, TC_UNSUPPORTED, "IR version %" PRId64 ", the newest known is %d",
                                 model->ir_version, TC_NEWEST_IR);
    return TC_OK;
}

static tc_status parse_function_entry(tc_text_parser *p, tc_token key, tc_function *f) {
    const char *word = tc_arena_strndup(p->scratch, key.start, key.size), *doc;
    if (strcmp(word, "domain") == 0)
        return parse_text(p, &f->domain);
    if (strcmp(word, "overload") == 0)
        return parse_text(p, &f->overload);
    if (strcmp(word, "doc_string") == 0)
        return parse_text(p, &doc); /* the IR has no place for it */
    if (strcmp(word, "opset_import") == 0)
        return parse_opsets(p, &f->opsets, &f->n_opsets);
    return tc_lexer_error_at(&p->lx, key, TC_BAD_INPUT, "'%s' is no entry of a function's header", quote(p, word));
}

/* `<key: value, ...>` before a model (`f` is NULL) or a function. */
static tc_status parse_header(tc_text_parser *p, tc_function *f) {
    if (!tc_lexer_accept(&p->lx, '<'))
        return TC_OK;
    do {
        tc_token key = p->lx.token;
        const char *word;
        TC_TRY(tc_lexer_ident(&p->lx, "an entry of the header", &word));
        TC_TRY(tc_lexer_expect(&p->lx, ':'));
        TC_TRY(f ? parse_function_entry(p, key, f) : parse_model_entry(p, key));
    } while (tc_lexer_accept(&p->lx, ','));
    return tc_lexer_expect(&p->lx, '>');
}

/* --- functions -------------------------------------------------------------------------------- */

/* `<name, name: kind = default, ...>` */
static tc_status parse_function_attrs(tc_text_parser *p, tc_function *f) {
    size_t cap_attrs = 0, cap_defaults = 0;
    if (!tc_lexer_accept(&p->lx, '<'))
        return TC_OK;
    tc_map *seen = tc_map_create(p->scratch);
    do {
        tc_token token = p->lx.token;
        const char *name;
        TC_TRY(tc_text_attr_name(p, &name));
        if (tc_map_get(seen, name))
            return tc_lexer_error_at(&p->lx, token, TC_BAD_INPUT, "two attributes are named '%s'", quote(p, name));
        tc_map_set(seen, name, f);
        if (!tc_lexer_is(&p->lx, ':') && !tc_lexer_is(&p->lx, '=')) {
            f->attrs = tc_arena_grow(p->model->arena, f->attrs, sizeof *f->attrs, &cap_attrs, f->n_attrs + 1);
            f->attrs[f->n_attrs++] = name;
            continue;
        }
        tc_attr attr;
        TC_TRY(tc_text_attr_value(p, NULL, name, &attr));
        f->defaults =
            tc_arena_grow(p->model->arena, f->defaults, sizeof *f->defaults, &cap_defaults, f->n_defaults + 1);
        f->defaults[f->n_defaults++] = attr;
    } while (tc_lexer_accept(&p->lx, ','));
    return tc_lexer_expect(&p->lx, '>');
}

static tc_status parse_function(tc_text_parser *p, tc_function **out_function) {
    tc_function *f = TC_NEW(p->model->arena, tc_function);
    *out_function = f;
    f->domain = f->overload = "";
    TC_TRY(parse_header(p, f));
    if (strcmp(f->domain, "ai.onnx") == 0)
        f->domain = "";
    tc_token where = p->lx.token;
    TC_TRY(tc_lexer_name(&p->lx, "a function's name", &f->name));
    if (!*f->name)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT, "a function needs a name");
    TC_TRY(parse_function_attrs(p, f));
    f->body = tc_graph_create(p->model, NULL, f->name);
    p->function = f;
    TC_TRY(tc_text_function_body(p, f->body));
    p->function = NULL;
    return p->lx.failed ? TC_BAD_INPUT : tc_check_names(p->ctx, f->body);
}

/* --- entries ---------------------------------------------------------------------------------- */

static tc_status parse_model(tc_text_parser *p) {
    tc_model *model = p->model;
    TC_TRY(parse_header(p, NULL));
    tc_token where = p->lx.token;
    if (model->n_opsets == 0)
        return tc_lexer_error(&p->lx,
                              "a header with opset_import was expected: <ir_version: 10, opset_import: [\"\" : 21]>");
    TC_TRY(tc_text_graph(p, NULL, &model->graph));
    if (!model->graph->n_outputs)
        return tc_lexer_error_at(&p->lx, where, TC_BAD_INPUT,
                                 "graph \"%s\" has no outputs: there is nothing to compute",
                                 quote(p, model->graph->name));
    if (p->lx.failed)
        return TC_BAD_INPUT;
    TC_TRY(tc_check_names(p->ctx, model->graph));
    while (p->lx.token.kind != TC_TOKEN_END) {
        tc_function *f;
        TC_TRY(parse_function(p, &f));
        tc_model_add_function(model, f);
    }
    tc_marks_read(model);
    return p->lx.failed ? TC_BAD_INPUT : tc_check_calls(p->ctx, model);
}

static tc_status parse_one_function(tc_text_parser *p, tc_function **out_function) {
    TC_TRY(parse_function(p, out_function));
    if (p->lx.failed)
        return TC_BAD_INPUT;
    if (p->lx.token.kind != TC_TOKEN_END)
        return tc_lexer_error(&p->lx, "the end of the text was expected, found %s", tc_token_text(&p->lx, p->lx.token));
    return TC_OK;
}

/* A whole model where `out_function` is NULL. */
static tc_status parse(tc_ctx *ctx, tc_model *model, const char *text, size_t size, const char *name,
                       tc_function **out_function) {
    tc_text_parser p = {.ctx = ctx, .model = model, .scratch = tc_arena_create()};
    tc_text_locale locale;
    tc_text_enter_locale(&locale);
    tc_status status = tc_lexer_init(&p.lx, ctx, model->arena, text, size, name);
    if (status == TC_OK)
        status = out_function ? parse_one_function(&p, out_function) : parse_model(&p);
    tc_text_leave_locale(&locale);
    tc_arena_destroy(p.scratch);
    return status;
}

tc_status tc_parse_text(tc_ctx *ctx, const char *text, size_t size, const char *name, tc_model **out_model) {
    tc_model *model = tc_model_create();
    tc_status status = parse(ctx, model, text, size, name, NULL);
    if (status == TC_OK)
        *out_model = model;
    else
        tc_model_destroy(model);
    return status;
}

tc_status tc_parse_function(tc_ctx *ctx, tc_model *model, const char *text, const char *name,
                            tc_function **out_function) {
    return parse(ctx, model, text, strlen(text), name, out_function);
}
