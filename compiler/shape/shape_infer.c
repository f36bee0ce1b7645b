/* shape_infer.c: types and known contents for every value, node by node in graph order, so in linear time. For each
 * node: the checks that need ops.def alone (arity, attributes, element types), then the op's shape function, then its
 * evaluator where the result is small. Nested graphs are inferred by the shape functions of If, Loop and Scan. */
#include "shape.h"
#include "shape_fns.h"
#include "compiler/ir/verify.h"
#include <string.h>

static const char *type_class(uint32_t types) {
    static const struct {
        tc_dtype has, lacks;
        const char *words;
    } classes[] = {
        {TC_STRING, TC_FLOAT, "string"},
        {TC_BOOL, TC_FLOAT, "bool"},
        {TC_FLOAT, TC_INT32, "a float type"},
        {TC_INT32, TC_FLOAT, "an integer type"},
    };
    for (size_t i = 0; i < TC_COUNT(classes); i++)
        if ((types >> classes[i].has & 1) && !(types >> classes[i].lacks & 1))
            return classes[i].words;
    return "a number type";
}

/* Element types: those that operand 0 may have, and that all are the same where the op demands it. */
static tc_status check_types(tc_shape_ctx *sc, const tc_node *node) {
    TC_TRY(tc_shape_expect_type(sc, node, 0, node->op->types, type_class(node->op->types)));
    if (!tc_node_has(node, TC_SAME_TYPE))
        return TC_OK;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (tc_arg_of(node, i).dtype == TC_UNDEFINED)
            continue;
        if (first == UINT32_MAX)
            first = i;
        TC_TRY(tc_shape_expect_same_type(sc, node, first, i));
    }
    return TC_OK;
}

static tc_status infer_unknown(tc_shape_ctx *sc, tc_node *node) {
    TC_FOR_NESTED(nested, node)
        TC_TRY(tc_infer_graph(sc->ctx, nested));
    return TC_OK;
}

/* By tc_op.index. */
#define tc_shape_none NULL
static const tc_shape_fn functions[] = {
#define ROW(name, since, in_lo, in_hi, out_lo, out_hi, types, traits, shape, ...) tc_shape_##shape,
#include "compiler/ir/ops.def"
};

tc_status tc_infer_node(tc_ctx *ctx, tc_node *node) {
    tc_shape_ctx sc = {.ctx = ctx, .model = node->graph->model, .graph = node->graph};
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            node->outputs[i]->contents = NULL;
    if (!node->op)
        return infer_unknown(&sc, node);
    TC_TRY(tc_verify_op(ctx, node));
    TC_TRY(check_types(&sc, node));
    TC_TRY(functions[node->op->index] ? functions[node->op->index](&sc, node) : infer_unknown(&sc, node));
    tc_contents_eval(sc.model, node);
    return TC_OK;
}

/* A constant has the type of its tensor. An input's default is checked against the input's declared type. */
static tc_status infer_initializer(tc_shape_ctx *sc, tc_value *value) {
    const tc_tensor *tensor = value->init;
    if (!tensor)
        return TC_OK;
    const tc_type *type = tc_type_tensor_static(sc->model, tensor->dtype, tensor->rank, tensor->dims);
    if (!value->type)
        value->type = type;
    const tc_type *declared = value->type;
    tc_status status = tc_shape_merge(sc, NULL, value, type);
    if (value->is_input)
        value->type = declared;
    return status;
}

tc_status tc_infer_graph_with(tc_ctx *ctx, tc_graph *graph, tc_infer_visit visit, void *user) {
    tc_shape_ctx sc = {.ctx = ctx, .model = graph->model, .graph = graph};
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        TC_TRY(infer_initializer(&sc, graph->initializers[i]));
    TC_FOR_NODES(node, graph) {
        if (visit)
            TC_TRY(visit(user, node));
        TC_TRY(tc_infer_node(ctx, node));
    }
    return TC_OK;
}

tc_status tc_infer_graph(tc_ctx *ctx, tc_graph *graph) { return tc_infer_graph_with(ctx, graph, NULL, NULL); }

/* --- all values of a graph and of the graphs nested in it ------------------------------------- */

typedef void (*value_fn)(tc_graph *graph, tc_node *producer, tc_value *value, void *user);

static void each_value(tc_graph *graph, value_fn fn, void *user) {
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        fn(graph, NULL, graph->inputs[i], user);
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; i < node->n_outputs; i++)
            if (node->outputs[i])
                fn(graph, node, node->outputs[i], user);
        TC_FOR_NESTED(nested, node)
            each_value(nested, fn, user);
    }
}

/* A type that no shape function would restore stays. */
static void forget(tc_graph *graph, tc_node *producer, tc_value *value, void *user) {
    (void)graph, (void)user;
    if (!producer)
        return;
    value->contents = NULL;
    if (producer->op && producer->op->has_shape)
        value->type = NULL;
}

void tc_forget_shapes(tc_graph *graph) { each_value(graph, forget, NULL); }

typedef struct binding {
    const char *name;
    int64_t value;
} binding;

static bool lookup(void *user, const char *name, int64_t *value) {
    const binding *b = user;
    *value = b->value;
    return strcmp(name, b->name) == 0;
}

static void bind_value(tc_graph *graph, tc_node *producer, tc_value *value, void *user) {
    const tc_type *type = value->type;
    if (producer)
        value->contents = NULL;
    if (!type || type->kind != TC_TENSOR || type->rank < 1)
        return;
    tc_dim dims[TC_MAX_RANK];
    bool changed = false;
    for (int i = 0; i < type->rank; i++) {
        dims[i] = tc_dim_substitute(graph->model->dims, type->dims[i], lookup, user);
        changed = changed || dims[i].sym != type->dims[i].sym;
    }
    if (changed)
        value->type = tc_type_tensor(graph->model, type->dtype, type->rank, dims);
}

void tc_substitute_symbol(tc_graph *graph, const char *name, int64_t value) {
    binding b = {name, value};
    each_value(graph, bind_value, &b);
}
