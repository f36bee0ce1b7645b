/* train_save_adapted.c: trained adapters in the model that --save writes: merged into their weights under --merge, or
 * beside them, as initializers that are inputs, too: ONNX Runtime replaces them by those of an .onnx_adapter file. */
#include "compiler/onnx/onnx.h"
#include "passes/pipeline/pipeline.h"
#include "train_run.h"
#include <string.h>

const tc_adapted *train_adapter_of(const train_run *r, const char *weight) {
    for (size_t i = 0; i < r->graph.summary.n_adapted; i++) {
        const tc_adapted *a = &r->graph.summary.adapted[i];
        if (strcmp(a->a, weight) == 0 || strcmp(a->b, weight) == 0 ||
            (a->magnitude && strcmp(a->magnitude, weight) == 0))
            return a;
    }
    return NULL;
}

/* Inputs of the passes may have no type in the file: those of another copy, which shapes were inferred for. */
static tc_status learn_types(train_run *r, tc_pass_env *env, tc_model *model) {
    const tc_options options = {.passes = "restore,upgrade,inline,shapes"};
    tc_summary summary = {0};
    tc_pass_env other = *env;
    tc_model *typed;
    other.options = &options;
    other.summary = &summary;
    TC_TRY(tc_read_opened(r->ctx, r->from->file, r->o->model, &typed));
    tc_status status = tc_pipeline_run(&other, typed);
    size_t cursor = 0;
    const void *name;
    void *value;
    while (status == TC_OK && tc_map_next(typed->graph->names, &cursor, &name, &value)) {
        const tc_type *type = ((const tc_value *)value)->type;
        tc_value *own = tc_map_get(model->graph->names, name);
        if (own && !own->type && type && type->kind == TC_TENSOR)
            own->type = tc_type_tensor(model, type->dtype, type->rank, NULL);
    }
    tc_model_destroy(typed);
    return status;
}

/* Each weight has the adapter in the file that it had when it was trained. */
static bool are_alike(const tc_summary *a, const tc_summary *b) {
    bool alike = a->n_adapted == b->n_adapted;
    for (size_t i = 0; alike && i < a->n_adapted; i++)
        alike =
            strcmp(a->adapted[i].a, b->adapted[i].a) == 0 && strcmp(a->adapted[i].weight, b->adapted[i].weight) == 0;
    return alike;
}

/* The options of the same adapters, but without dropout. `adapter`: for a copy of that of --lora-from. */
static tc_options without_dropout(tc_arena *arena, const tc_options *all, tc_adapter *adapter) {
    const char **lora = TC_NEW_ARRAY(arena, const char *, all->n_lora + 1);
    for (size_t i = 0; i < all->n_lora; i++) {
        const size_t n = strcspn(all->lora[i], ":"); /* of several settings of one name the last counts */
        lora[i] = tc_arena_printf(arena, "%.*s,dropout=0%s", (int)n, all->lora[i], all->lora[i] + n);
    }
    if (all->adapter)
        *adapter = *all->adapter;
    adapter->settings.dropout = 0;
    return (tc_options){.lora = lora, .n_lora = all->n_lora, .adapter = all->adapter ? adapter : NULL};
}

bool train_add_adapters(train_run *r, tc_model *model, tc_summary *summary) {
    const tc_summary *trained = &r->graph.summary;
    tc_adapter adapter = {0};
    tc_options options = without_dropout(model->arena, &r->o->options, &adapter);
    tc_pass_env env = {.ctx = r->ctx, .options = &options, .summary = summary};
    const size_t n_diags = r->ctx->n_diags;
    if (trained->n_adapted == 0)
        return true;
    if (trained->adapted[0].magnitude && tc_model_opset(model, "") < 18) /* ReduceSumSquare has axes as an input */
        return false;
    tc_status status = learn_types(r, &env, model);
    options.passes = "lora";
    if (status == TC_OK)
        status = tc_pipeline_run(&env, model);
    r->ctx->n_diags = n_diags; /* reported when the training graph was compiled */
    return status == TC_OK && are_alike(summary, trained);
}

void train_offer_adapters(const train_run *r, tc_model *model) {
    for (size_t i = 0; i < r->graph.summary.n_adapted; i++) {
        const tc_adapted *a = &r->graph.summary.adapted[i];
        const char *const names[] = {a->a, a->b, a->magnitude};
        for (size_t k = 0; k < TC_COUNT(names); k++) {
            tc_value *value = names[k] ? tc_map_get(model->graph->names, names[k]) : NULL;
            if (value && !value->is_input)
                tc_graph_add_input(model->graph, value);
        }
    }
}

static const tc_tensor *tensor_of(tc_arena *arena, const rt_array *weights, size_t n, const char *name) {
    tc_tensor *tensor = TC_NEW(arena, tc_tensor);
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(weights[i].name, name) == 0) {
            const tempo_tensor *t = &weights[i].tensor;
            *tensor = (tc_tensor){.dtype = (tc_dtype)t->dtype,
                                  .rank = t->rank,
                                  .dims = t->dims,
                                  .count = t->bytes / tempo_dtype_size(t->dtype),
                                  .data = t->data,
                                  .bytes = t->bytes};
            return tensor;
        }
    return NULL;
}

tc_status train_merge_adapters(train_run *r, tc_model *model, const rt_array *weights, size_t n) {
    const tc_summary *summary = &r->graph.summary;
    TC_TRY(tc_check_merge(r->ctx, model, summary->adapted, summary->n_adapted));
    for (size_t i = 0; i < summary->n_adapted; i++) {
        const tc_adapted *a = &summary->adapted[i];
        const tc_lora_tensors tensors = {tensor_of(model->arena, weights, n, a->a),
                                         tensor_of(model->arena, weights, n, a->b),
                                         tensor_of(model->arena, weights, n, a->magnitude)};
        TC_TRY(tc_merge_adapter(r->ctx, model, a, &tensors));
    }
    return TC_OK;
}
