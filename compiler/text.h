/* text.h: models as ONNX text (onnx docs/Syntax.md): dumps, tests, rules and function bodies all use it. */
#ifndef TC_TEXT_H
#define TC_TEXT_H
#include "ir.h"

/* Parses a whole model. `name` stands in diagnostics before line and column. */
tc_status tc_parse_text(tc_ctx *ctx, const char *text, size_t size, const char *name, tc_model **out_model);
/* Parses one function definition (`<domain: "ai.tempo", opset_import: [...]> Name <attrs> (inputs) => (outputs) {...}`)
 * into `model`, without adding it. */
tc_status tc_parse_function(tc_ctx *ctx, tc_model *model, const char *text, const char *name, tc_function **out_function);
/* Prints the model; parse(print(m)) equals m but for what docs/ir.md lists. */
tc_status tc_print_model(tc_ctx *ctx, const tc_model *model, FILE *out);
void tc_print_graph(const tc_graph *graph, FILE *out);
void tc_print_node(const tc_node *node, FILE *out); /* one line, as in a graph */
#endif
