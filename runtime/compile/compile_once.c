/* compile_once.c: one request -> one compiled graph: the file is read and goes through the passes, which ask the
 * runtime for the memory of a run. */
#include "passes/budget/budget.h"
#include "passes/pipeline/pipeline.h"
#include "compile.h"
#include "compiler/onnx/onnx.h"
#include <inttypes.h>
#include <string.h>

tc_status tc_source_read(tc_ctx *ctx, const tc_source *from, tc_model **out_model) {
    TC_TRY(tc_read_opened(ctx, from->file, from->path, out_model));
    tc_status status = tc_take_weights(ctx, from->weights, *out_model);
    if (status == TC_OK)
        return TC_OK;
    tc_model_destroy(*out_model);
    *out_model = NULL;
    return status;
}

void tc_add_dim(tc_ctx *ctx, tc_options *options, const char *name, int64_t value) {
    const char **dims = TC_NEW_ARRAY(ctx->arena, const char *, options->n_dims + 1);
    if (options->n_dims > 0)
        memcpy(dims, options->dims, options->n_dims * sizeof *dims);
    dims[options->n_dims++] = tc_arena_printf(ctx->arena, "%s=%" PRId64, name, value);
    options->dims = dims;
}

void tc_make_yardstick(tc_options *options) {
    tc_drop_budget(options);
    options->gelu = options->layernorm = options->dropout = NULL;
    options->recipe = "none";
}

typedef struct job {
    tc_ctx *ctx;
    const tc_compile_request *request;
} job;

static tc_status estimate(void *user, tc_model *model, const tc_node_memories *nodes, tc_footprint *out_footprint,
                          bool *out_planned) {
    const job *j = user;
    return tc_estimate(j->ctx, model, j->request->threads, nodes, out_footprint, out_planned);
}

static tc_status read_again(void *user, tc_model **out_model) {
    const job *j = user;
    return tc_source_read(j->ctx, j->request->source, out_model);
}

tc_status tc_compile(tc_ctx *ctx, const tc_compile_request *request, tc_compiled *out) {
    job j = {ctx, request};
    const tc_runtime runtime = {.estimate = estimate, .user = &j, .initial = request->initial};
    tc_pass_env env = {.ctx = ctx,
                       .options = request->options,
                       .summary = &out->summary,
                       .runtime = &runtime,
                       .watcher = request->watcher,
                       .dumps = request->dumps,
                       .reread = request->leaves_file ? read_again : NULL,
                       .reread_user = &j};
    *out = (tc_compiled){.model = request->model};
    if (!out->model)
        TC_TRY(tc_source_read(ctx, request->source, &out->model));
    tc_status status = request->in_double ? tc_raise_to_double(ctx, out->model) : TC_OK;
    if (status == TC_OK)
        status = tc_pipeline_run(&env, out->model);
    if (status == TC_OK)
        return TC_OK;
    tc_model_destroy(out->model);
    out->model = NULL;
    return status;
}
