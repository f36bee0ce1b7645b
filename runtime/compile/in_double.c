/* in_double.c: replaces every other float type of a model by double, for `tempoc --verify`: differences of a loss
 * in float say little of its slope. Types, initializers, and attributes that hold or name elements change, in the graph
 * as read and in its functions. An op that takes no doubles is found when the model is compiled. */
#include "compile.h"
#include <string.h>

typedef struct raising {
    tc_ctx *ctx;
    tc_model *model;
} raising;

static bool is_raised(tc_dtype dtype) { return tc_dtype_is_float(dtype) && dtype != TC_DOUBLE; }

static const tc_type *raise_type(const raising *r, const tc_type *type) {
    if (type == NULL || (type->kind == TC_TENSOR && !is_raised(type->dtype)))
        return type;
    if (type->kind == TC_TENSOR)
        return tc_type_tensor(r->model, TC_DOUBLE, type->rank, type->dims);
    tc_type *raised = TC_NEW(r->model->arena, tc_type);
    *raised = *type;
    raised->elem = raise_type(r, type->elem);
    return raised;
}

static tc_status raise_tensor(const raising *r, const tc_tensor *tensor, const tc_tensor **out_tensor) {
    tc_tensor mapped = *tensor;
    *out_tensor = tensor;
    if (!is_raised(tensor->dtype))
        return TC_OK;
    TC_TRY(tc_tensor_map(r->ctx, r->model, tensor, &mapped.data));
    tc_tensor *raised = tc_tensor_create(r->model, TC_DOUBLE, tensor->rank, tensor->dims, NULL);
    for (uint64_t i = 0; i < tensor->count; i++)
        tc_element_set(TC_DOUBLE, (void *)(uintptr_t)raised->data, i, tc_tensor_get(&mapped, i));
    raised->name = tensor->name;
    *out_tensor = raised;
    return TC_OK;
}

/* Attributes that name an element type. */
static const char *const type_attributes[] = {"dtype", "output_datatype", "softmax_precision", "stash_type", "to"};
/* Ops whose result is of floats by default, and the attribute that says otherwise. */
static const struct {
    const char *op, *attribute;
} float_results[] = {
    {"BlackmanWindow", "output_datatype"},
    {"HammingWindow", "output_datatype"},
    {"HannWindow", "output_datatype"},
    {"MelWeightMatrix", "output_datatype"},
    {"RandomNormal", "dtype"},
    {"RandomUniform", "dtype"},
    {"SequenceEmpty", "dtype"},
    {"LayerNormalization", "stash_type"},
    {"RMSNormalization", "stash_type"},
};

static bool names_type(const char *attribute) {
    for (size_t i = 0; i < TC_COUNT(type_attributes); i++)
        if (strcmp(type_attributes[i], attribute) == 0)
            return true;
    return false;
}

static tc_status raise_graph(const raising *r, tc_graph *graph);

static tc_status raise_attr(const raising *r, tc_attr *attr) {
    attr->origin = NULL;
    if (attr->kind == TC_ATTR_TENSOR)
        return attr->t ? raise_tensor(r, attr->t, &attr->t) : TC_OK;
    if (attr->kind == TC_ATTR_TYPE)
        attr->type = raise_type(r, attr->type);
    if (attr->kind == TC_ATTR_INT && names_type(attr->name) && attr->i > 0 && attr->i < TC_DTYPE_COUNT &&
        is_raised((tc_dtype)attr->i))
        attr->i = TC_DOUBLE;
    return TC_OK;
}

/* value_float and value_floats of Constant, whose result is of floats. */
static void raise_constant(const raising *r, tc_node *node) {
    const tc_attr *one = tc_attr_find(node, "value_float"), *many = tc_attr_find(node, "value_floats");
    const tc_attr *attr = one ? one : many;
    if (!attr || attr->ref || !tc_node_is(node, "", "Constant"))
        return;
    int64_t count = (int64_t)attr->count;
    tc_tensor *tensor = tc_tensor_create(r->model, TC_DOUBLE, one ? 0 : 1, &count, NULL);
    for (uint64_t i = 0; i < tensor->count; i++)
        tc_element_set(TC_DOUBLE, (void *)(uintptr_t)tensor->data, i, (double)(one ? attr->f : attr->floats[i]));
    tc_attr_remove(node, one ? "value_float" : "value_floats");
    tc_attr_set_tensor(node, "value", tensor);
}

static tc_status raise_node(const raising *r, tc_node *node) {
    static const double zero;
    int64_t count = 1;
    raise_constant(r, node);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        TC_TRY(raise_attr(r, &node->attrs[i]));
    for (size_t i = 0; i < TC_COUNT(float_results); i++)
        if (tc_node_is(node, "", float_results[i].op) && !tc_attr_find(node, float_results[i].attribute))
            tc_attr_set_int(node, float_results[i].attribute, TC_DOUBLE);
    if (tc_node_is(node, "", "ConstantOfShape") && !tc_attr_find(node, "value"))
        tc_attr_set_tensor(node, "value", tc_tensor_create(r->model, TC_DOUBLE, 1, &count, &zero));
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            node->outputs[i]->type = raise_type(r, node->outputs[i]->type);
    TC_FOR_NESTED(nested, node)
        TC_TRY(raise_graph(r, nested));
    return TC_OK;
}

static tc_status raise_graph(const raising *r, tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        graph->inputs[i]->type = raise_type(r, graph->inputs[i]->type);
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        tc_value *value = graph->initializers[i];
        value->type = raise_type(r, value->type);
        TC_TRY(raise_tensor(r, value->init, &value->init));
    }
    TC_FOR_NODES(node, graph)
        TC_TRY(raise_node(r, node));
    return TC_OK;
}

tc_status tc_raise_to_double(tc_ctx *ctx, tc_model *model) {
    raising r = {ctx, model};
    for (size_t i = 0; i < model->n_functions; i++) {
        TC_TRY(raise_graph(&r, model->functions[i]->body));
        for (size_t k = 0; k < model->functions[i]->n_defaults; k++)
            TC_TRY(raise_attr(&r, &model->functions[i]->defaults[k]));
    }
    return raise_graph(&r, model->graph);
}
