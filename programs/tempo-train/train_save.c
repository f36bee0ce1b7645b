/* train_save.c: --save: the forward model with the trained weights in it. That is the file as it was read, field for
 * field, where each trained weight is an initializer of it. Where passes merged or split initializers, the file has no
 * place for the trained weight, and where the file has a backward pass it is no forward model: then the graph of the
 * evaluation is written, in standard ops. */
#include "passes/pipeline/pipeline.h"
#include "compiler/onnx/onnx.h"
#include "train_run.h"
#include "compiler/text/marks.h"
#include <string.h>

/* Those of the evaluation's graph, but for the ops of ai.tempo. */
static const char forward_passes[] =
    "restore,past,upgrade,inline,shapes,unfold,batch,tied,evaluate,canonicalize,lower,canonicalize,dce";

static bool takes(const tc_value *value, const tempo_tensor *tensor) {
    if (!value || !value->init || (int)value->init->dtype != (int)tensor->dtype || value->init->rank != tensor->rank)
        return false;
    for (int axis = 0; axis < tensor->rank; axis++)
        if (value->init->dims[axis] != tensor->dims[axis])
            return false;
    return true;
}

static const char *first_without_place(const tc_model *model, const rt_array *weights, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!takes(tc_map_get(model->graph->names, weights[i].name), &weights[i].tensor))
            return weights[i].name;
    return NULL;
}

/* An initializer of the file that passes took for a part or a copy of another one. */
static const char *first_replaced(const train_run *r, const tc_model *model) {
    for (uint32_t i = 0; r->graph.summary.initializers && i < model->graph->n_initializers; i++) {
        const tc_value *value = model->graph->initializers[i];
        if (tc_dtype_is_float(value->init->dtype) && !tc_map_get(r->graph.summary.initializers, value->name))
            return value->name;
    }
    return NULL;
}

static bool is_training_graph(const tc_model *model) {
    for (uint32_t i = 0; i < model->graph->n_outputs; i++)
        if (model->graph->outputs[i]->role == TC_ROLE_GRADIENT)
            return true;
    for (size_t i = 0; i < model->info.n_metadata; i++)
        if (strncmp(model->info.metadata[i].key, TC_KEEP_KEY, strlen(TC_KEEP_KEY)) == 0)
            return true;
    return tc_has_training(model);
}

/* Elements are borrowed from the session until the file is written. */
static void put_weights(tc_model *model, const rt_array *weights, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tc_value *value = tc_map_get(model->graph->names, weights[i].name);
        if (!takes(value, &weights[i].tensor))
            continue; /* of training alone: a forward graph has none of it */
        tc_tensor *tensor = TC_NEW(model->arena, tc_tensor);
        *tensor = *value->init;
        tensor->data = weights[i].tensor.data;
        tensor->bytes = weights[i].tensor.bytes;
        tensor->external = NULL;
        tensor->origin = NULL;
        value->init = tensor;
    }
}

static tc_status make_forward(train_run *r, tc_model **model) {
    tc_options options = r->o->options;
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = r->ctx, .options = &options, .summary = &summary};
    size_t n_diags = r->ctx->n_diags;
    tc_model_destroy(*model);
    *model = NULL;
    options.passes = forward_passes;
    options.memory_budget = options.gelu = options.layernorm = options.dropout = NULL;
    options.update = (tc_update_options){0};
    options.loss_scale = false;
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, model));
    TC_TRY(tc_pipeline_run(&env, *model));
    r->ctx->n_diags = n_diags; /* reported when the training graph was compiled */
    return TC_OK;
}

static void tell_form(train_run *r, const tc_model *model, const char *lacking, const char *replaced) {
    const char *save = tc_quote(r->ctx, r->o->save);
    if (is_training_graph(model))
        tc_note(r->ctx, NULL, "--save: %s is the forward graph alone: the file that was read has a backward pass",
                save);
    else
        tc_note(r->ctx, NULL,
                "--save: %s is the graph that evaluation runs, in standard ops: the file that was read %s '%s'%s", save,
                lacking ? "has no initializer" : "has the initializer", tc_quote(r->ctx, lacking ? lacking : replaced),
                lacking ? ", which was trained" : ", which was trained as a part of another");
}

static tc_status write_model(train_run *r, tc_model **model, const rt_array *weights, size_t n) {
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, model));
    const char *lacking = first_without_place(*model, weights, n), *replaced = first_replaced(r, *model);
    if (lacking || replaced || is_training_graph(*model)) {
        tell_form(r, *model, lacking, replaced);
        TC_TRY(make_forward(r, model));
    }
    put_weights(*model, weights, n);
    return tc_write_onnx(r->ctx, *model, r->o->save);
}

tc_status train_save_model(void *run) {
    train_run *r = run;
    if (!r->o->save)
        return TC_OK;
    tc_arena *arena = tc_arena_create();
    rt_array *weights;
    tc_model *model = NULL;
    size_t n;
    tc_status status = train_list_states(r, arena, true, &weights, &n);
    if (status == TC_OK)
        status = write_model(r, &model, weights, n);
    tc_model_destroy(model);
    tc_arena_destroy(arena);
    if (status == TC_OK)
        train_log_say(&r->log, "wrote %s", r->o->save);
    return status;
}
