/* train_save.c: --save: the forward model with the trained weights in it. That is the file as it was read, field for
 * field, where each trained weight is an initializer of it. Where passes merged or split initializers, the file has no
 * place for the trained weight, and where the file has a backward pass it is no forward model: then the graph of the
 * evaluation is written, in standard ops. --save-inference: the same for prediction, without scores and dropout. */
#include "passes/inference/inference.h"
#include "passes/pipeline/pipeline.h"
#include "compiler/onnx/onnx.h"
#include "train_run.h"
#include "compiler/text/marks.h"
#include <string.h>

/* Those of the evaluation's graph, but for the ops of ai.tempo. Without the pass `loss` the outputs are the file's;
 * unfold and tied know parameters by the output that --add-loss is a loss of. */
static const char forward_passes[] =
    "restore,past,upgrade,inline,shapes,unfold,batch,tied,head,lora,evaluate,canonicalize,lower,canonicalize,dce";

static bool takes(const tc_value *value, const tempo_tensor *tensor) {
    if (!value || !value->init || (int)value->init->dtype != (int)tensor->dtype || value->init->rank != tensor->rank)
        return false;
    for (int axis = 0; axis < tensor->rank; axis++)
        if (value->init->dims[axis] != tensor->dims[axis])
            return false;
    return true;
}

/* Under --merge the weights that have adapters take those. */
static const char *first_without_place(const train_run *r, const tc_model *model, const rt_array *weights, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(r->o->merge && train_adapter_of(r, weights[i].name)) &&
            !takes(tc_map_get(model->graph->names, weights[i].name), &weights[i].tensor))
            return weights[i].name;
    for (size_t i = 0; r->o->merge && i < r->graph.summary.n_adapted; i++)
        if (!tc_map_get(model->graph->names, r->graph.summary.adapted[i].weight))
            return r->graph.summary.adapted[i].weight;
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
    options.restore_dropout = NULL;
    if (r->o->merge)
        options.n_lora = 0, options.adapter = NULL;
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, model));
    TC_TRY(tc_pipeline_run(&env, *model));
    r->ctx->n_diags = n_diags; /* reported when the training graph was compiled */
    return TC_OK;
}

/* --- which form ----------------------------------------------------------------------------------- */

typedef struct save_form {
    const char *option, *path;
    bool predicts; /* without scores, out of training */
} save_form;

/* A node that trains, and that its opset or its domain gives no other mode. */
static const tc_node *first_old(const tc_model *model) {
    bool old = tc_model_opset(model, "") < 14;
    TC_FOR_NODES(node, model->graph)
        if ((old && tc_node_is(node, "", "BatchNormalization") && node->n_outputs > 1) ||
            (strcmp(node->domain, "com.microsoft") == 0 && strstr(node->op_type, "Dropout")))
            return node;
    return NULL;
}

/* What is written instead of the file that was read, and why; NULL: nothing is. `replaced`: see first_replaced. */
static const char *other_form(train_run *r, const save_form *form, const tc_model *model, const char *replaced,
                              const rt_array *weights, size_t n) {
    const char *lacking = first_without_place(r, model, weights, n);
    const tc_node *old = form->predicts ? first_old(model) : NULL;
    const char *evaluated = "the graph that evaluation runs, in standard ops: the file that was read has";
    if (is_training_graph(model))
        return "the forward graph alone: the file that was read has a backward pass";
    if (lacking)
        return tc_arena_printf(model->arena, "%s no initializer '%s', which was trained", evaluated,
                               tc_quote(r->ctx, lacking));
    if (replaced)
        return tc_arena_printf(model->arena, "%s the initializer '%s', which was trained as a part of another",
                               evaluated, tc_quote(r->ctx, replaced));
    return old ? tc_arena_printf(model->arena, "%s the node %s '%s', which has no mode for inference", evaluated,
                                 old->op_type, tc_quote(r->ctx, tc_node_label(old)))
               : NULL;
}

/* The scores go where the loss is one of them: an inference file that got its loss by --add-loss keeps its outputs. */
static tc_status keep_predictions(train_run *r, tc_model *model) {
    tc_leave_training(model->graph, false);
    for (size_t i = 0; i < model->n_functions; i++)
        tc_leave_training(model->functions[i]->body, false);
    if (!tc_graph_output(model->graph, r->graph.loss) || tc_keep_predictions(model->graph))
        return TC_OK;
    tc_error(r->ctx, TC_USAGE, NULL,
             "--save-inference: the model predicts nothing: beside the loss '%s' it has no output",
             tc_quote(r->ctx, r->graph.loss));
    tc_hint(r->ctx, "export it with its logits as an output beside the loss, or without a loss, which --add-loss adds");
    return TC_USAGE;
}

tc_status train_check_save(train_run *r) {
    tc_model *model;
    if (!r->o->save_inference)
        return TC_OK;
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, &model));
    tc_status status = is_training_graph(model) ? make_forward(r, &model) : TC_OK;
    status = status == TC_OK ? keep_predictions(r, model) : status;
    tc_model_destroy(model);
    return status;
}

/* --- writing -------------------------------------------------------------------------------------- */

static tc_status write_model(train_run *r, const save_form *form, tc_model **model, const rt_array *weights, size_t n) {
    const bool merge = r->o->merge;
    tc_summary summary = {0};
    tc_pass_env env = {.ctx = r->ctx, .options = &r->o->options, .summary = &summary};
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, model));
    TC_TRY(tc_replace_head(&env, *model));
    const char *replaced = first_replaced(r, *model);
    const char *other = merge || train_add_adapters(r, *model, &summary)
                            ? other_form(r, form, *model, replaced, weights, n)
                            : "the graph that evaluation runs: in the file that was read, adapters have no place";
    if (other) {
        tc_note(r->ctx, NULL, "%s: %s is %s", form->option, tc_quote(r->ctx, form->path), other);
        TC_TRY(make_forward(r, model));
    }
    if (form->predicts)
        TC_TRY(keep_predictions(r, *model));
    if (merge)
        TC_TRY(train_merge_adapters(r, *model, weights, n));
    else
        train_offer_adapters(r, *model);
    put_weights(*model, weights, n);
    return tc_write_onnx(r->ctx, *model, form->path);
}

static tc_status save(train_run *r, const save_form *form) {
    if (!form->path)
        return TC_OK;
    tc_arena *arena = tc_arena_create();
    rt_array *weights;
    tc_model *model = NULL;
    size_t n;
    tc_status status = train_list_states(r, arena, true, &weights, &n);
    if (status == TC_OK)
        status = write_model(r, form, &model, weights, n);
    tc_model_destroy(model);
    tc_arena_destroy(arena);
    if (status == TC_OK)
        train_log_say(&r->log, "wrote %s", form->path);
    return status;
}

tc_status train_save_model(void *run) {
    train_run *r = run;
    return save(r, &(save_form){.option = "--save", .path = r->o->save});
}

tc_status train_save_inference(void *run) {
    train_run *r = run;
    return save(r, &(save_form){.option = "--save-inference", .path = r->o->save_inference, .predicts = true});
}
