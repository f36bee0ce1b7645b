/* upgrade.c: the first pass. Every node of ai.onnx, in graphs, nested graphs and functions, is converted to the
 * canonical opset, so that later passes know one variant of each op. upgrade.def has a row for each version in which
 * an op changed. A node older than the row's version gets its rewrite. Rows beyond the canonical opset work the
 * other way, on nodes of that version or newer. */
#include "passes/bodies/bodies.h"
#include "upgrade.h"
#include "passes/autodiff/autodiff.h"
#include "compiler/shape/shape.h"
#include "passes/torch/metadata/metadata.h"
#include <string.h>

#define CANONICAL_IR 10 /* the format version that belongs to the canonical opset */

typedef struct row {
    const char *op;
    int64_t version;
    tc_upgrade_fn rewrite;
    const char *inputs[4]; /* or these attributes become operands */
} row;

static const row rows[] = {
#define CHANGE(op, version, rewrite) {#op, version, tc_upgrade_##rewrite, {NULL}},
#define INPUTS(op, version, ...) {#op, version, NULL, {__VA_ARGS__}},
#define SAME(op, ...)
#include "upgrade.def"
#undef CHANGE
#undef INPUTS
#undef SAME
};

/* --- tools for rewrites ----------------------------------------------------------------------- */

static const char *result_name(const tc_node *node, const char *what) {
    const tc_value *first = tc_output(node, 0);
    return tc_arena_printf(node->graph->model->arena, "%s_%s", first ? first->name : node->op_type, what);
}

tc_value *tc_upgrade_emit(tc_node *node, const char *op, const char *what, tc_value *const *inputs, uint32_t n_inputs) {
    tc_node *created = tc_node_create(node->graph, "", op, n_inputs, 1);
    for (uint32_t i = 0; i < n_inputs; i++)
        tc_node_set_input(created, i, inputs[i]);
    tc_node_insert_before(created, node);
    return tc_node_add_output(created, 0, result_name(node, what), NULL);
}

tc_value *tc_upgrade_constant(tc_upgrade *up, tc_node *node, const char *what, const tc_tensor *tensor) {
    if (!up->in_function)
        return tc_constant(node->graph, result_name(node, what), tensor);
    tc_value *value = tc_upgrade_emit(node, "Constant", what, NULL, 0);
    tc_attr_set_tensor(value->producer, "value", tensor);
    return value;
}

tc_value *tc_upgrade_ints(tc_upgrade *up, tc_node *node, const char *what, const int64_t *values, int64_t count) {
    return tc_upgrade_constant(up, node, what, tc_tensor_ints(up->model, values, count));
}

/* A Constant node whose value comes from the function's caller. */
static tc_value *constant_of_reference(tc_node *node, const tc_attr *attr, const char *form) {
    tc_value *value = tc_upgrade_emit(node, "Constant", attr->name, NULL, 0);
    tc_attr copy = *attr;
    copy.name = form;
    copy.origin = NULL;
    tc_attr_copy(value->producer, &copy);
    return value;
}

static tc_value *one_dimensional(tc_upgrade *up, tc_node *node, const tc_attr *attr) {
    int64_t count = (int64_t)attr->count;
    switch (attr->kind) {
    case TC_ATTR_INT:
        if (attr->ref) {
            static const int64_t minus_one[] = {-1};
            tc_value *operands[] = {constant_of_reference(node, attr, "value_int"),
                                    tc_upgrade_ints(up, node, "flat", minus_one, 1)};
            return tc_upgrade_emit(node, "Reshape", attr->name, operands, 2);
        }
        return tc_upgrade_ints(up, node, attr->name, &attr->i, 1);
    case TC_ATTR_INTS:
        return attr->ref ? constant_of_reference(node, attr, "value_ints")
                         : tc_upgrade_ints(up, node, attr->name, attr->ints, count);
    case TC_ATTR_FLOATS:
        return attr->ref ? constant_of_reference(node, attr, "value_floats")
                         : tc_upgrade_constant(up, node, attr->name,
                                               tc_tensor_create(up->model, TC_FLOAT, 1, &count, attr->floats));
    default: return NULL;
    }
}

void tc_upgrade_attr_to_input(tc_upgrade *up, tc_node *node, const char *name, uint32_t index) {
    const tc_attr *attr = tc_attr_find(node, name);
    tc_value *value = attr ? one_dimensional(up, node, attr) : NULL;
    if (value)
        tc_node_set_input(node, index, value);
    if (value || (attr && attr->kind == TC_ATTR_INTS))
        tc_attr_remove(node, name);
}

void tc_upgrade_float_to_input(tc_upgrade *up, tc_node *node, const char *name, uint32_t index) {
    const tc_attr *attr = tc_attr_find(node, name);
    if (attr == NULL || attr->kind != TC_ATTR_FLOAT)
        return;
    tc_dtype dtype = tc_value_dtype(tc_input(node, 0));
    tc_value *value;
    if (attr->ref == NULL && dtype != TC_UNDEFINED) {
        value = tc_upgrade_constant(up, node, name, tc_tensor_scalar(up->model, dtype, (double)attr->f));
    } else {
        tc_value *plain =
            attr->ref ? constant_of_reference(node, attr, "value_float")
                      : tc_upgrade_constant(up, node, name, tc_tensor_scalar(up->model, TC_FLOAT, (double)attr->f));
        tc_value *operands[] = {plain, tc_input(node, 0)};
        value = tc_upgrade_emit(node, "CastLike", name, operands, 2);
    }
    tc_node_set_input(node, index, value);
    tc_attr_remove(node, name);
}

tc_status tc_upgrade_refuse(tc_upgrade *up, const tc_node *node, const char *what) {
    return tc_error(up->ctx, TC_UNSUPPORTED, node, "%s of opset %lld cannot be expressed at opset %d", what,
                    (long long)up->from, TC_CANONICAL_OPSET);
}

/* --- the walk --------------------------------------------------------------------------------- */

static tc_status upgrade_graph(tc_upgrade *up, tc_graph *graph);

static tc_status upgrade_nested(tc_upgrade *up, tc_node *node) {
    TC_FOR_NESTED(nested, node)
        TC_TRY(upgrade_graph(up, nested));
    return TC_OK;
}

static bool applies(const tc_upgrade *up, const row *r) {
    return r->version <= TC_CANONICAL_OPSET ? up->from < r->version : up->from >= r->version;
}

static tc_status apply(tc_upgrade *up, tc_node *node, const row *r) {
    if (r->rewrite)
        return r->rewrite(up, node);
    for (uint32_t i = 0; i < TC_COUNT(r->inputs) && r->inputs[i]; i++)
        tc_upgrade_attr_to_input(up, node, r->inputs[i], i + 1);
    return TC_OK;
}

static tc_status upgrade_node(tc_upgrade *up, tc_node *node) {
    if (up->from < 6)
        tc_attr_remove(node, "consumed_inputs"); /* a memory hint that every op of the first opsets could have */
    const row *end = rows + TC_COUNT(rows);
    const char *op = node->op_type;
    for (const row *r = tc_map_get(up->rows, op); r && r < end && strcmp(r->op, op) == 0; r++)
        if (applies(up, r))
            TC_TRY(apply(up, node, r));
    return TC_OK;
}

static tc_status upgrade_graph(tc_upgrade *up, tc_graph *graph) {
    /* Older ops need ranks, newer ones element types. Nodes before this one are canonical already, so its types can
     * be inferred on the way. */
    bool typed = up->from < 13 || up->from > TC_CANONICAL_OPSET || tc_ort_uses(graph) || tc_upgrade_may_mix(graph);
    bool infer = typed && !up->in_function && graph->parent == NULL;
    TC_FOR_NODES_SAFE(node, graph) {
        TC_TRY(upgrade_nested(up, node));
        tc_node *before = node->prev;
        if (*node->domain == '\0')
            TC_TRY(upgrade_node(up, node));
        TC_TRY(tc_ort_upgrade(up, node));
        tc_upgrade_mixed(node);
        for (tc_node *done = before ? before->next : graph->first; infer && done != node_next; done = done->next)
            if (done->op) {
                TC_TRY(tc_soft_labels(up->ctx, done));
                TC_TRY(tc_infer_node(up->ctx, done));
            }
    }
    return TC_OK;
}

static tc_status check_version(tc_upgrade *up, int64_t version) {
    if (version <= TC_NEWEST_OPSET)
        return TC_OK;
    tc_error(up->ctx, TC_UNSUPPORTED, NULL, "opset %lld of ai.onnx is newer than %d, the newest supported one",
             (long long)version, TC_NEWEST_OPSET);
    tc_hint(up->ctx, "export the model at opset %d or below", TC_NEWEST_OPSET);
    return TC_UNSUPPORTED;
}

static tc_status upgrade_function(tc_upgrade *up, tc_function *function) {
    int64_t model_version = up->from;
    for (size_t i = 0; i < function->n_opsets; i++) {
        if (*function->opsets[i].domain != '\0')
            continue;
        up->from = function->opsets[i].version;
        function->opsets[i].version = TC_CANONICAL_OPSET;
    }
    TC_TRY(check_version(up, up->from));
    up->in_function = true;
    TC_TRY(upgrade_graph(up, function->body));
    up->in_function = false;
    up->from = model_version;
    return TC_OK;
}

/* Before format version 4 every initializer had to be listed as a graph input too, though it was meant as a
 * constant. */
static void unlist_initializers(tc_graph *graph) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        tc_value *value = graph->inputs[i];
        if (value->init)
            value->is_input = false;
        else
            graph->inputs[kept++] = value;
    }
    graph->n_inputs = kept;
}

static tc_map *index_rows(tc_arena *arena) {
    tc_map *map = tc_map_create(arena);
    for (size_t i = TC_COUNT(rows); i-- > 0;)
        tc_map_set(map, rows[i].op, (void *)&rows[i]);
    return map;
}

static void tell_accumulators(const tc_upgrade *up) {
    if (up->accumulators && up->accumulate)
        tc_note(up->ctx, NULL,
                "%u gradients that were added to a buffer are now outputs W_grad, which hold the sums: pass them "
                "as the buffers of the next run",
                up->accumulators);
    else if (up->accumulators)
        tc_note(up->ctx, NULL,
                "%u gradients that were added to a buffer are now outputs W_grad: the training program has "
                "to add them up",
                up->accumulators);
    else if (up->accumulate)
        tc_warn(up->ctx, NULL, "--accumulate: the graph adds no gradients to buffers");
}

tc_status tc_pass_upgrade(tc_pass_env *env, tc_model *model) {
    tc_upgrade up = {.ctx = env->ctx, .model = model, .from = tc_model_opset(model, "")};
    up.accumulate = env->options->accumulate;
    if (up.from == 0)
        up.from = TC_CANONICAL_OPSET; /* no standard ops */
    TC_TRY(check_version(&up, up.from));
    up.rows = index_rows(env->ctx->arena);
    if (model->ir_version < 4)
        unlist_initializers(model->graph);
    if (tc_ort_uses(model->graph))
        tc_ort_free_names(model->graph);
    TC_TRY(upgrade_graph(&up, model->graph));
    tell_accumulators(&up);
    for (size_t i = 0; i < model->n_functions; i++)
        TC_TRY(upgrade_function(&up, model->functions[i]));
    tc_model_set_opset(model, "", TC_CANONICAL_OPSET);
    model->ir_version = CANONICAL_IR;
    return TC_OK;
}

tc_status tc_upgrade_model(tc_ctx *ctx, tc_model *model) {
    tc_options options = {0};
    tc_summary summary = {0};
    tc_pass_env env = {ctx, &options, &summary};
    TC_TRY(tc_pass_upgrade(&env, model));
    TC_FOR_NODES(node, model->graph)
        if (tc_node_is(node, TC_TEMPO_DOMAIN, "Gradient"))
            return tc_refuse_request(ctx, node);
    return TC_OK;
}
