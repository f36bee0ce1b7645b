/* text_parse.h: shared by the parts of the parser of ONNX text. text_parse.c reads models and functions, text_graph.c
 * graphs and nodes, text_attr.c attributes, text_tensor.c types and tensors. Inside compiler/ only. */
#ifndef TC_TEXT_PARSE_H
#define TC_TEXT_PARSE_H
#include "lexer.h"
#include "text.h"
#include "text_words.h"

#define TC_TEXT_DEPTH 100 /* of nested graphs and types */

typedef struct tc_text_parser {
    tc_lexer lx;
    tc_ctx *ctx;
    tc_model *model;
    tc_arena *scratch;           /* dies with the parser */
    const tc_function *function; /* whose body is being read, or NULL */
    uint32_t ordinal;            /* of the next node */
    int depth;
} tc_text_parser;

/* Called where something nests in itself, followed by a decrement of p->depth. TC_LIMIT when too deep. */
tc_status tc_text_descend(tc_text_parser *p);

/* Whether a type begins here: a type word followed by a token that cannot follow a name. */
bool tc_text_is_type(const tc_text_parser *p);
tc_status tc_text_type(tc_text_parser *p, const tc_type **out_type);
/* The data of a tensor of that type, which must be static: `{...}` or `["location": ...]`; `where` is the type's place.
 */
tc_status tc_text_tensor(tc_text_parser *p, const tc_type *type, tc_token where, const char *name,
                         const tc_tensor **out_tensor);

/* A name that is not empty. */
tc_status tc_text_attr_name(tc_text_parser *p, const char **out_name);
/* `name: kind = value`; names unquoted in onnx, quoted ones are taken too. Nested graphs lie in `graph`. */
tc_status tc_text_attr(tc_text_parser *p, tc_graph *graph, tc_attr *out_attr);
/* The same, after the name. */
tc_status tc_text_attr_value(tc_text_parser *p, tc_graph *graph, const char *name, tc_attr *out_attr);
/* `name (inputs) => (outputs) <...> {...}`; parent may be NULL. */
tc_status tc_text_graph(tc_text_parser *p, tc_graph *parent, tc_graph **out_graph);
/* `(inputs) => (outputs) <...> {...}`, into the empty graph of p->function. */
tc_status tc_text_function_body(tc_text_parser *p, tc_graph *graph);
#endif
