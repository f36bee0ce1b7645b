/* onnx_graph.c: GraphProto and the bodies of functions -> tc_graph. Names become values in the order in which ONNX
 * defines them: inputs, initializers, then each node's outputs. An operand whose name has no value yet is therefore
 * undefined, out of order or part of a cycle; these are distinguished only for the message. */
#include "onnx_msg.h"
#include "compiler/ir/verify.h"

#define BAD(r, node, ...) tc_error((r)->ctx, TC_BAD_INPUT, (node), __VA_ARGS__)

enum { FEW_ATTRS = 16 };

/* One graph while it is read. Entries of value_info and outputs wait under their names until the value appears. */
typedef struct body {
    tc_onnx_reader *r;
    tc_graph *graph;
    tc_map *infos, *outputs; /* name -> ValueInfoProto */
    Onnx__NodeProto **nodes;
    size_t n_nodes;
} body;

static const char *quote(const body *b, const char *name) { return tc_quote(b->r->ctx, tc_onnx_text(name)); }

/* --- values ----------------------------------------------------------------------------------- */

static tc_value_origin *origin_of(const body *b, tc_value *value) {
    if (!value->origin)
        value->origin = TC_NEW(b->r->model->arena, tc_value_origin);
    return (tc_value_origin *)(uintptr_t)value->origin;
}

/* Notes the file's type of a value. The first entry with a type counts. */
static tc_status describe(const body *b, tc_value *value, Onnx__ValueInfoProto *proto, size_t slot) {
    tc_value_origin *origin = origin_of(b, value);
    *(Onnx__ValueInfoProto **)((char *)origin + slot) = proto;
    if (value->type || !proto->type)
        return TC_OK;
    const char *what = tc_arena_printf(b->r->ctx->arena, "type of \"%s\"", quote(b, value->name));
    TC_TRY(tc_onnx_type(b->r, proto->type, what, &value->type));
    origin->type = value->type;
    return TC_OK;
}

/* Gives a value, now that it exists, the types that wait for its name. */
static tc_status describe_new(const body *b, tc_value *value) {
    Onnx__ValueInfoProto *output = tc_map_get(b->outputs, value->name), *info = tc_map_get(b->infos, value->name);
    if (output)
        TC_TRY(describe(b, value, output, offsetof(tc_value_origin, output)));
    if (info)
        TC_TRY(describe(b, value, info, offsetof(tc_value_origin, info)));
    return TC_OK;
}

static tc_status read_inputs(const body *b, Onnx__ValueInfoProto **protos, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *name = tc_onnx_text(protos[i]->name);
        if (!*name)
            return BAD(b->r, NULL, "input %zu of graph \"%s\" has no name", i, quote(b, b->graph->name));
        if (tc_map_get(b->graph->names, name))
            return BAD(b->r, NULL, "two inputs of graph \"%s\" are named \"%s\"", quote(b, b->graph->name),
                       quote(b, name));
        tc_value *value = tc_value_create_exact(b->graph, name, NULL);
        tc_graph_add_input(b->graph, value);
        TC_TRY(describe(b, value, protos[i], offsetof(tc_value_origin, input)));
        TC_TRY(describe_new(b, value));
    }
    return TC_OK;
}

/* The tensor is the default of an input of its name: their types must agree. */
static tc_status check_default(const body *b, const tc_value *value, const tc_tensor *tensor) {
    const tc_type *type = value->type;
    bool fits = type->kind == TC_TENSOR && (type->dtype == TC_UNDEFINED || type->dtype == tensor->dtype) &&
                (type->rank == TC_RANK_UNKNOWN || type->rank == tensor->rank);
    for (int i = 0; fits && i < type->rank; i++)
        fits = !tc_dim_is_const(type->dims[i]) || type->dims[i].value == tensor->dims[i];
    if (fits)
        return TC_OK;
    const tc_type *have = tc_type_tensor_static(b->r->model, tensor->dtype, tensor->rank, tensor->dims);
    return BAD(b->r, NULL, "initializer \"%s\" is %s, but the input of that name is %s", quote(b, value->name),
               tc_type_text(b->r->ctx->arena, have), tc_type_text(b->r->ctx->arena, type));
}

static tc_status add_initializer(const body *b, const char *name, const tc_tensor *tensor) {
    tc_value *value = tc_map_get(b->graph->names, name);
    if (value && value->init)
        return BAD(b->r, NULL, "two initializers are named \"%s\"", quote(b, name));
    if (!value) {
        value = tc_value_create_exact(b->graph, name, NULL);
        TC_TRY(describe_new(b, value));
    }
    if (value->type)
        TC_TRY(check_default(b, value, tensor));
    else
        value->type = tc_type_tensor_static(b->r->model, tensor->dtype, tensor->rank, tensor->dims);
    tc_graph_add_initializer(b->graph, value, tensor);
    return TC_OK;
}

static tc_status read_initializers(const body *b, const Onnx__GraphProto *proto) {
    tc_arena *words = b->r->ctx->arena;
    for (size_t i = 0; i < proto->n_initializer; i++) {
        const char *name = tc_onnx_text(proto->initializer[i]->name);
        if (!*name)
            return BAD(b->r, NULL, "initializer %zu of graph \"%s\" has no name", i, quote(b, b->graph->name));
        tc_tensor *tensor = NULL;
        const char *what = tc_arena_printf(words, "initializer \"%s\"", quote(b, name));
        TC_TRY(tc_onnx_tensor(b->r->ctx, b->r->model, proto->initializer[i], what, &tensor));
        TC_TRY(add_initializer(b, name, tensor));
    }
    for (size_t i = 0; i < proto->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *sparse = proto->sparse_initializer[i];
        const char *name = sparse->values ? tc_onnx_text(sparse->values->name) : "";
        if (!*name)
            return BAD(b->r, NULL, "sparse initializer %zu of graph \"%s\" has no name", i, quote(b, b->graph->name));
        tc_tensor *tensor = NULL;
        const char *what = tc_arena_printf(words, "sparse initializer \"%s\"", quote(b, name));
        TC_TRY(tc_onnx_sparse_tensor(b->r->ctx, b->r->model, sparse, what, b->r->sparse_budget, &tensor));
        b->r->sparse_budget -= tensor->data ? tensor->bytes : 0;
        TC_TRY(add_initializer(b, name, tensor));
    }
    return TC_OK;
}

/* --- missing operands ------------------------------------------------------------------------- */

/* The node of this graph that produces `name`, by a map made when the first error needs it. */
static tc_map *map_producers(const body *b) {
    tc_map *producers = tc_map_create(b->r->scratch);
    for (size_t i = 0; i < b->n_nodes; i++)
        for (size_t k = 0; k < b->nodes[i]->n_output; k++)
            if (*b->nodes[i]->output[k])
                tc_map_set(producers, b->nodes[i]->output[k], b->nodes[i]);
    return producers;
}

/* Whether `from` needs a result of `target`, itself or through others. */
static bool depends_on(const body *b, tc_map *producers, Onnx__NodeProto *from, const Onnx__NodeProto *target) {
    Onnx__NodeProto **work = TC_NEW_ARRAY(b->r->scratch, Onnx__NodeProto *, b->n_nodes + 1);
    tc_map *seen = tc_map_create(b->r->scratch);
    size_t n = 0;
    work[n++] = from;
    tc_map_set_ptr(seen, from, from);
    while (n) {
        const Onnx__NodeProto *node = work[--n];
        for (size_t i = 0; i < node->n_input; i++) {
            Onnx__NodeProto *producer = tc_map_get(producers, node->input[i]);
            if (producer == target)
                return true;
            if (!producer || tc_map_get_ptr(seen, producer))
                continue;
            tc_map_set_ptr(seen, producer, producer);
            work[n++] = producer;
        }
    }
    return false;
}

static tc_status explain_missing(const body *b, const tc_node *node, const Onnx__NodeProto *proto, const char *name) {
    tc_map *producers = map_producers(b);
    Onnx__NodeProto *producer = tc_map_get(producers, name);
    if (!producer)
        return BAD(b->r, node, "operand \"%s\" is defined nowhere", quote(b, name));
    if (producer == proto)
        return BAD(b->r, node, "operand \"%s\" is the node's own result", quote(b, name));
    const char *label = tc_onnx_text(producer->name)[0] ? producer->name : name;
    if (depends_on(b, producers, producer, proto))
        return BAD(b->r, node, "operand \"%s\" comes from %s \"%s\", which needs this node in turn: a cycle",
                   quote(b, name), quote(b, producer->op_type), quote(b, label));
    return BAD(b->r, node,
               "operand \"%s\" is produced by a later node, %s \"%s\": nodes must stand in topological order",
               quote(b, name), quote(b, producer->op_type), quote(b, label));
}

/* --- nodes ------------------------------------------------------------------------------------ */

static tc_status check_attr_names(const body *b, const tc_node *node, Onnx__AttributeProto **protos, size_t n) {
    tc_map *seen = n > FEW_ATTRS ? tc_map_create(b->r->scratch) : NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name = tc_onnx_text(protos[i]->name);
        bool twice = seen && tc_map_get(seen, name);
        for (size_t k = 0; !seen && k < i && !twice; k++)
            twice = strcmp(name, tc_onnx_text(protos[k]->name)) == 0;
        if (twice)
            return BAD(b->r, node, "two attributes are named '%s'", quote(b, name));
        if (seen)
            tc_map_set(seen, name, protos[i]);
    }
    return TC_OK;
}

static tc_status read_attrs(const body *b, tc_node *node, const Onnx__NodeProto *proto) {
    TC_TRY(check_attr_names(b, node, proto->attribute, proto->n_attribute));
    node->attrs = TC_NEW_ARRAY(b->r->model->arena, tc_attr, proto->n_attribute);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        TC_TRY(tc_onnx_attr(b->r, b->graph, node, proto->attribute[i], &node->attrs[i]));
        node->n_attrs++;
    }
    return TC_OK;
}

static tc_status read_outputs_of(const body *b, tc_node *node, const Onnx__NodeProto *proto) {
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const char *name = proto->output[i];
        if (!*name)
            continue;
        const tc_value *known = tc_map_get(b->graph->names, name);
        if (known)
            return BAD(b->r, node, "result \"%s\" is already %s", quote(b, name),
                       known->init       ? "an initializer"
                       : known->is_input ? "a graph input"
                                         : "another node's result");
        tc_value *value = tc_value_create_exact(b->graph, name, NULL);
        tc_node_set_output(node, i, value);
        TC_TRY(describe_new(b, value));
    }
    return TC_OK;
}

static tc_status read_node(const body *b, size_t index) {
    const Onnx__NodeProto *proto = b->nodes[index];
    const char *op_type = tc_onnx_text(proto->op_type), *domain = tc_onnx_domain(proto->domain);
    if (!*op_type)
        return BAD(b->r, NULL, "node %zu (\"%s\") of graph \"%s\" has no op type", index, quote(b, proto->name),
                   quote(b, b->graph->name));
    tc_node *node = tc_node_create(b->graph, domain, op_type, (uint32_t)proto->n_input, (uint32_t)proto->n_output);
    node->name = tc_onnx_text(proto->name);
    node->overload = tc_onnx_text(proto->overload);
    node->origin = proto;
    node->ordinal = b->r->ordinal++;
    tc_node_append(node);
    if (!tc_map_get(b->r->domains, domain))
        return BAD(b->r, node, "node %zu is of domain \"%s\", which no opset_import names", index,
                   *domain ? quote(b, domain) : "ai.onnx");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (!*proto->input[i])
            continue;
        tc_value *value = tc_graph_find(b->graph, proto->input[i]);
        if (!value)
            return explain_missing(b, node, proto, proto->input[i]);
        tc_node_set_input(node, i, value);
    }
    TC_TRY(read_attrs(b, node, proto));
    return read_outputs_of(b, node, proto);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static tc_status read_output(const body *b, size_t index, const char *name) {
    if (!*name)
        return BAD(b->r, NULL, "output %zu of graph \"%s\" has no name", index, quote(b, b->graph->name));
    tc_value *value = tc_graph_find(b->graph, name);
    if (!value)
        return BAD(b->r, NULL, "output \"%s\" of graph \"%s\" is produced by no node", quote(b, name),
                   quote(b, b->graph->name));
    tc_graph_add_output(b->graph, value);
    return TC_OK;
}

static tc_graph_origin *wait_for_values(body *b, Onnx__ValueInfoProto **protos, size_t n) {
    b->infos = tc_map_create(b->r->scratch);
    b->outputs = tc_map_create(b->r->scratch);
    for (size_t i = n; i-- > 0;) /* the first entry of a name counts */
        tc_map_set(b->infos, tc_onnx_text(protos[i]->name), protos[i]);
    tc_graph_origin *origin = TC_NEW(b->r->model->arena, tc_graph_origin);
    origin->value_info = protos;
    origin->n_value_info = n;
    b->graph->origin = origin;
    return origin;
}

/* Which entries of value_info found their value; the others are orphans. */
static void list_values(const body *b, tc_graph_origin *origin) {
    size_t n = origin->n_value_info;
    bool *orphan = TC_NEW_ARRAY(b->r->model->arena, bool, n);
    b->graph->listed = TC_NEW_ARRAY(b->r->model->arena, tc_value *, n);
    for (size_t i = 0; i < n; i++) {
        tc_value *value = tc_map_get(b->graph->names, tc_onnx_text(origin->value_info[i]->name));
        const tc_value_origin *known = value ? value->origin : NULL;
        orphan[i] = !known || known->info != origin->value_info[i];
        if (!orphan[i])
            b->graph->listed[b->graph->n_listed++] = value;
    }
    origin->orphan = orphan;
    origin->n_nodes = b->graph->n_nodes;
}

static tc_status read_nodes(body *b, Onnx__NodeProto **nodes, size_t n) {
    b->nodes = nodes;
    b->n_nodes = n;
    for (size_t i = 0; i < n; i++)
        TC_TRY(read_node(b, i));
    return TC_OK;
}

/* At the end of an outermost graph: no name of a nested graph may be one of an enclosing graph, wherever that defines
 * it. */
static tc_status finish(const body *b, tc_graph_origin *origin) {
    list_values(b, origin);
    return b->graph->parent ? TC_OK : tc_check_names(b->r->ctx, b->graph);
}

tc_status tc_onnx_graph(tc_onnx_reader *r, const Onnx__GraphProto *proto, tc_graph *parent, tc_graph **out_graph) {
    body b = {.r = r, .graph = tc_graph_create(r->model, parent, tc_onnx_text(proto->name))};
    *out_graph = b.graph;
    tc_graph_origin *origin = wait_for_values(&b, proto->value_info, proto->n_value_info);
    origin->proto = proto;
    for (size_t i = 0; i < proto->n_output; i++)
        tc_map_set(b.outputs, tc_onnx_text(proto->output[i]->name), proto->output[i]);
    TC_TRY(read_inputs(&b, proto->input, proto->n_input));
    TC_TRY(read_initializers(&b, proto));
    TC_TRY(read_nodes(&b, proto->node, proto->n_node));
    for (size_t i = 0; i < proto->n_output; i++)
        TC_TRY(read_output(&b, i, tc_onnx_text(proto->output[i]->name)));
    return finish(&b, origin);
}

tc_status tc_onnx_function_body(tc_onnx_reader *r, const Onnx__FunctionProto *proto, tc_graph **out_graph) {
    body b = {.r = r, .graph = tc_graph_create(r->model, NULL, tc_onnx_text(proto->name))};
    *out_graph = b.graph;
    tc_graph_origin *origin = wait_for_values(&b, proto->value_info, proto->n_value_info);
    for (size_t i = 0; i < proto->n_input; i++) {
        if (!*proto->input[i])
            return BAD(r, NULL, "input %zu of function \"%s\" has no name", i, quote(&b, proto->name));
        if (tc_map_get(b.graph->names, proto->input[i]))
            return BAD(r, NULL, "two inputs of function \"%s\" are named \"%s\"", quote(&b, proto->name),
                       quote(&b, proto->input[i]));
        tc_value *value = tc_value_create_exact(b.graph, proto->input[i], NULL);
        tc_graph_add_input(b.graph, value);
        TC_TRY(describe_new(&b, value));
    }
    TC_TRY(read_nodes(&b, proto->node, proto->n_node));
    for (size_t i = 0; i < proto->n_output; i++)
        TC_TRY(read_output(&b, i, proto->output[i]));
    return finish(&b, origin);
}
