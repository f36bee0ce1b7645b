/* text.h: models as ONNX text (onnx docs/Syntax.md): dumps, tests, rules and function bodies all use it.
 * docs/reference/onnx-text.md lists what text cannot hold. */
#ifndef TC_TEXT_H
#define TC_TEXT_H
#include "compiler/ir/ir.h"

/* Parses a whole model. `name` stands in diagnostics before line and column. Time and memory are linear in `size`. */
tc_status tc_parse_text(tc_ctx *ctx, const char *text, size_t size, const char *name, tc_model **out_model);
/* Parses one function definition (`<domain: "ai.tempo", opset_import: [...]> Name <attrs> (inputs) => (outputs) {...}`)
 * into `model`, without adding it. */
tc_status tc_parse_function(tc_ctx *ctx, tc_model *model, const char *text, const char *name,
                            tc_function **out_function);

/* Prints the model with onnx.printer's spelling; parse(print(m)) equals m but for the list in
 * docs/reference/onnx-text.md. Attributes that text cannot hold are printed as `...`, with a warning. */
tc_status tc_print_model(tc_ctx *ctx, const tc_model *model, FILE *out);
/* The same for reading by people: tensors of more than `max_elements` elements have `...` for data, and no parser reads
 * that. */
tc_status tc_print_model_elided(tc_ctx *ctx, const tc_model *model, uint64_t max_elements, FILE *out);
void tc_print_graph(const tc_graph *graph, FILE *out);
void tc_print_node(const tc_node *node, FILE *out); /* one line, with its end; nested graphs take lines of their own */
/* One function definition, in `arena`. */
const char *tc_function_text(tc_arena *arena, const tc_function *function);
void tc_print_type(const tc_type *type, FILE *out); /* "float[batch,16]"; nothing for NULL */

/* The shortest decimal that reads back as the same number, "1e+05" where that is shorter than "100000"; -0, inf, -inf,
 * nan and -nan as such (a NaN's payload is lost). Returns the length. */
#define TC_NUMBER_TEXT 40
size_t tc_float_text(float value, char out[TC_NUMBER_TEXT]);
size_t tc_double_text(double value, char out[TC_NUMBER_TEXT]);
#endif
