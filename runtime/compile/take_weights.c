/* take_weights.c: compares names, types and shapes of a file of weights with those of the model. */
#include "compiler/cli/cli.h"
#include "compile.h"
#include <string.h>

static tc_status unknown(tc_ctx *ctx, const rt_weights *weights, const tc_graph *graph, const char *name) {
    tc_nearest nearest;
    tc_nearest_begin(&nearest, name);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tc_nearest_offer(&nearest, graph->inputs[i]->name);
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        tc_nearest_offer(&nearest, graph->initializers[i]->name);
    tc_error(ctx, TC_BAD_INPUT, NULL, "--checkpoint: the model has no input and no initializer '%s', which is in %s",
             tc_quote(ctx, name), tc_quote(ctx, weights->path));
    if (nearest.best)
        tc_hint(ctx, "did you mean %s?", tc_quote(ctx, nearest.best));
    else
        tc_hint(ctx, "is it the checkpoint of another model?");
    return TC_BAD_INPUT;
}

static bool fits(const tc_type *type, const tc_tensor *tensor) {
    bool good = !type || (type->kind == TC_TENSOR && (type->dtype == TC_UNDEFINED || type->dtype == tensor->dtype) &&
                          (type->rank == TC_RANK_UNKNOWN || type->rank == tensor->rank));
    for (int i = 0; good && type && type->dims && i < type->rank; i++)
        good = !tc_dim_is_const(type->dims[i]) || type->dims[i].value == tensor->dims[i];
    return good;
}

static tc_status take(tc_ctx *ctx, const rt_weights *weights, tc_model *model, const tc_tensor *tensor) {
    tc_value *value = tc_map_get(model->graph->names, tensor->name);
    if (!value || !(value->is_input || value->init))
        return unknown(ctx, weights, model->graph, tensor->name);
    const tc_type *type = tc_type_tensor_static(model, tensor->dtype, tensor->rank, tensor->dims);
    if (!fits(value->type, tensor))
        return tc_error(ctx, TC_BAD_INPUT, NULL, "--checkpoint: '%s' of %s is %s, but in the model it is %s",
                        tc_quote(ctx, tensor->name), tc_quote(ctx, weights->path), tc_type_text(ctx->arena, type),
                        tc_type_text(ctx->arena, value->type));
    tc_tensor *copy = TC_NEW(model->arena, tc_tensor);
    *copy = *tensor;
    if (value->init)
        value->init = copy;
    else
        tc_graph_add_initializer(model->graph, value, copy);
    value->type = type;
    return TC_OK;
}

tc_status tc_take_weights(tc_ctx *ctx, const rt_weights *weights, tc_model *model) {
    for (size_t i = 0; weights && i < weights->n; i++)
        TC_TRY(take(ctx, weights, model, &weights->tensors[i]));
    return TC_OK;
}

void tc_report_missing(tc_ctx *ctx, const rt_weights *weights, const tc_model *model) {
    const tc_graph *graph = model->graph;
    const char **names = TC_NEW_ARRAY(ctx->arena, const char *, (size_t)graph->n_inputs + 1);
    size_t n = 0;
    for (uint32_t i = 0; weights && i < graph->n_inputs; i++)
        if (!graph->inputs[i]->init)
            names[n++] = graph->inputs[i]->name;
    if (n > 0)
        tc_note(ctx, NULL, "inputs that are not in %s stay inputs: %s", tc_quote(ctx, weights->path),
                tc_quote_list(ctx, names, n));
}
