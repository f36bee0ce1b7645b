/* infer_case.h: one node as ONNX text, inferred: for test_shape.c and test_contents.c. A case is "inputs | initializers
 * | node"; the node's first result is called z. */
#ifndef INFER_CASE_H
#define INFER_CASE_H
#include "cases.h"
#include "compiler/shape/shape.h"
#include "compiler/text/text.h"
#include <stdio.h>
#include <string.h>

/* The model of a case, inferred; *out_status tells how. */
static inline tc_model *infer_case(tc_ctx *ctx, const char *text, tc_status *out_status) {
    char model_text[2048];
    const char *bar = strchr(text, '|'), *bar2 = strchr(bar + 1, '|');
    snprintf(
        model_text, sizeof model_text,
        "<ir_version: 10, opset_import: [\"\": 21, \"ai.tempo\": 1, \"com.example\": 1]> g (%.*s) => (z) <%.*s> {%s}",
        (int)(bar - text), text, (int)(bar2 - bar - 1), bar + 1, bar2 + 1);
    tc_model *model = NULL;
    *out_status = tc_parse_text(ctx, model_text, strlen(model_text), "case", &model);
    if (*out_status != TC_OK) {
        tc_diags_print(ctx, stderr);
        fail_msg("case does not parse: %s", model_text);
    }
    *out_status = tc_infer_graph(ctx, model->graph);
    return model;
}
#endif
