/* dump_types.c: prints the inferred type of every value of models, one line each, for crosscheck.py: `V <name> <type>`
 * between `FILE <path>` and `END <status>`; names are written as JSON writes strings, as far as quotes and backslashes
 * go. */
#include "compiler/onnx/onnx.h"
#include "compiler/shape/shape.h"
#include "passes/pass/pass.h"
#include <string.h>

static void print_name(const char *name) {
    putchar('"');
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            putchar('\\');
        putchar(*name);
    }
    putchar('"');
}

static void print_value(tc_ctx *ctx, const tc_value *value) {
    printf("V ");
    print_name(value->name);
    printf(" %s\n", tc_type_text(ctx->arena, value->type));
}

/* Types and shapes as the pass `shapes` gives them, behind those that come before it. */
static tc_status infer(tc_ctx *ctx, const char *path, tc_model **out_model) {
    tc_options options = {0};
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = ctx, .options = &options, .summary = &summary};
    TC_TRY(tc_read_file(ctx, path, out_model));
    TC_TRY(tc_pass_restore(&env, *out_model));
    TC_TRY(tc_pass_upgrade(&env, *out_model));
    TC_TRY(tc_pass_inline(&env, *out_model));
    return tc_pass_shapes(&env, *out_model);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        tc_ctx ctx;
        tc_model *model = NULL;
        tc_ctx_init(&ctx, "dump_types");
        printf("FILE %s\n", argv[i]);
        tc_status status = infer(&ctx, argv[i], &model);
        if (status == TC_OK) {
            for (uint32_t j = 0; j < model->graph->n_inputs; j++)
                print_value(&ctx, model->graph->inputs[j]);
            for (uint32_t j = 0; j < model->graph->n_outputs; j++)
                print_value(&ctx, model->graph->outputs[j]);
            TC_FOR_NODES(node, model->graph)
                for (uint32_t j = 0; j < node->n_outputs; j++)
                    if (node->outputs[j])
                        print_value(&ctx, node->outputs[j]);
        }
        tc_diags_print(&ctx, stdout);
        printf("END %d\n", (int)status);
        tc_model_destroy(model);
        tc_ctx_fini(&ctx);
    }
    return 0;
}
