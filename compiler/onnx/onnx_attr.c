/* onnx_attr.c: AttributeProto -> tc_attr and TypeProto -> tc_type, checked. An attribute gives its type and holds its
 * value in the field for that type. One table row per type names the field: a value in another field, or two values,
 * are not mistaken for a default. */
#include "onnx_msg.h"
#include <inttypes.h>

#define BAD(r, node, ...) tc_error((r)->ctx, TC_BAD_INPUT, (node), __VA_ARGS__)

/* --- types ------------------------------------------------------------------------------------ */

static tc_status read_dim(tc_onnx_reader *r, const Onnx__TensorShapeProto__Dimension *proto, const char *what,
                          tc_dim *out_dim) {
    *out_dim = tc_dim_unknown();
    switch (proto->value_case) {
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE:
        if (proto->dim_value < -1)
            return BAD(r, NULL, "%s: dim %" PRId64 " is negative", what, proto->dim_value);
        if (proto->dim_value >= 0) /* old exporters write -1 for a dynamic dim */
            *out_dim = tc_dim_const(proto->dim_value);
        return TC_OK;
    case ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM:
        if (proto->dim_param && *proto->dim_param)
            *out_dim = tc_dim_symbol(r->model->dims, proto->dim_param);
        return TC_OK;
    default: return TC_OK;
    }
}

static tc_status read_tensor_type(tc_onnx_reader *r, bool has_elem, int32_t elem, const Onnx__TensorShapeProto *shape,
                                  const char *what, tc_type *type) {
    if (has_elem && (elem < 0 || elem >= TC_DTYPE_COUNT))
        return BAD(r, NULL, "%s: element type %" PRId32 " is none of ONNX's 1 to %d", what, elem, TC_DTYPE_COUNT - 1);
    type->dtype = has_elem ? (tc_dtype)elem : TC_UNDEFINED;
    type->rank = TC_RANK_UNKNOWN;
    if (!shape)
        return TC_OK;
    if (shape->n_dim > TC_MAX_RANK)
        return tc_error(r->ctx, TC_LIMIT, NULL, "%s: %zu dims, at most %d are supported", what, shape->n_dim,
                        TC_MAX_RANK);
    tc_dim *dims = TC_NEW_ARRAY(r->model->arena, tc_dim, shape->n_dim);
    for (size_t i = 0; i < shape->n_dim; i++)
        TC_TRY(read_dim(r, shape->dim[i], what, &dims[i]));
    type->dims = dims;
    type->rank = (int)shape->n_dim;
    return TC_OK;
}

tc_status tc_onnx_type(tc_onnx_reader *r, const Onnx__TypeProto *proto, const char *what, const tc_type **out_type) {
    *out_type = NULL;
    if (!proto || proto->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET)
        return TC_OK;
    tc_type *type = TC_NEW(r->model->arena, tc_type);
    type->origin = proto;
    *out_type = type;
    switch (proto->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: {
        const Onnx__TypeProto__Tensor *t = proto->tensor_type;
        type->kind = TC_TENSOR;
        return read_tensor_type(r, t->has_elem_type, t->elem_type, t->shape, what, type);
    }
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE: {
        const Onnx__TypeProto__SparseTensor *t = proto->sparse_tensor_type;
        type->kind = TC_SPARSE_TENSOR;
        return read_tensor_type(r, t->has_elem_type, t->elem_type, t->shape, what, type);
    }
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        type->kind = TC_SEQUENCE;
        return tc_onnx_type(r, proto->sequence_type->elem_type, what, &type->elem);
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        type->kind = TC_OPTIONAL;
        return tc_onnx_type(r, proto->optional_type->elem_type, what, &type->elem);
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: {
        const Onnx__TypeProto__Map *m = proto->map_type;
        type->kind = TC_MAP;
        TC_TRY(read_tensor_type(r, m->has_key_type, m->key_type, NULL, what, type));
        return tc_onnx_type(r, m->value_type, what, &type->elem);
    }
    default:
        type->kind = TC_OPAQUE;
        type->domain = proto->opaque_type->domain;
        type->name = proto->opaque_type->name;
        return TC_OK;
    }
}

/* --- attributes ------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
enum { N_KINDS = TC_COUNT(kind_names) };

/* How many values each field of the message holds, by the kind that it serves. */
static void count_values(const Onnx__AttributeProto *p, size_t counts[N_KINDS]) {
    counts[TC_ATTR_NONE] = 0;
    counts[TC_ATTR_FLOAT] = p->has_f != 0;
    counts[TC_ATTR_INT] = p->has_i != 0;
    counts[TC_ATTR_STRING] = p->has_s != 0;
    counts[TC_ATTR_TENSOR] = p->t != NULL;
    counts[TC_ATTR_GRAPH] = p->g != NULL;
    counts[TC_ATTR_FLOATS] = p->n_floats;
    counts[TC_ATTR_INTS] = p->n_ints;
    counts[TC_ATTR_STRINGS] = p->n_strings;
    counts[TC_ATTR_TENSORS] = p->n_tensors;
    counts[TC_ATTR_GRAPHS] = p->n_graphs;
    counts[TC_ATTR_SPARSE_TENSOR] = p->sparse_tensor != NULL;
    counts[TC_ATTR_SPARSE_TENSORS] = p->n_sparse_tensors;
    counts[TC_ATTR_TYPE] = p->tp != NULL;
    counts[TC_ATTR_TYPES] = p->n_type_protos;
}

static bool is_plural(int kind) {
    return (kind >= TC_ATTR_FLOATS && kind <= TC_ATTR_GRAPHS) || kind == TC_ATTR_SPARSE_TENSORS ||
           kind == TC_ATTR_TYPES;
}

/* The kind of the attribute: as given, or by the one field in use where it is not given (the oldest files). */
static tc_status find_kind(tc_onnx_reader *r, const tc_node *node, const Onnx__AttributeProto *p, int *out_kind,
                           size_t *out_count) {
    size_t counts[N_KINDS];
    count_values(p, counts);
    const char *name = tc_quote(r->ctx, p->name);
    int kind = p->has_type ? (int)p->type : TC_ATTR_NONE;
    if (kind < 0 || kind >= N_KINDS)
        return BAD(r, node, "attribute '%s' has type %d, which is none of ONNX's 1 to %d", name, kind, N_KINDS - 1);
    for (int k = 1; k < N_KINDS; k++) {
        if (!counts[k] || k == kind)
            continue;
        if (kind != TC_ATTR_NONE)
            return BAD(r, node, "attribute '%s' says it is %s but holds %s", name, kind_names[kind], kind_names[k]);
        kind = k;
    }
    *out_kind = kind;
    *out_count = is_plural(kind) ? counts[kind] : 1;
    if (tc_onnx_text(p->ref_attr_name)[0])
        return TC_OK;
    if (kind == TC_ATTR_NONE)
        return BAD(r, node, "attribute '%s' has neither type nor value", name);
    /* Scalars may be left out where they are zero, as proto3 writers do. */
    bool has_default = is_plural(kind) || kind == TC_ATTR_FLOAT || kind == TC_ATTR_INT || kind == TC_ATTR_STRING;
    if (!has_default && !counts[kind])
        return BAD(r, node, "attribute '%s' says it is %s but holds none", name, kind_names[kind]);
    return TC_OK;
}

static tc_status check_reference(tc_onnx_reader *r, const tc_node *node, const Onnx__AttributeProto *p) {
    const char *ref = tc_onnx_text(p->ref_attr_name), *name = tc_quote(r->ctx, p->name);
    const tc_function *f = r->function;
    if (!f)
        return BAD(r, node, "attribute '%s' refers to '%s', but only bodies of functions may refer", name,
                   tc_quote(r->ctx, ref));
    if (tc_map_get(r->function_attrs, ref))
        return TC_OK;
    return BAD(r, node, "attribute '%s' refers to '%s', which function '%s' does not have", name, tc_quote(r->ctx, ref),
               tc_quote(r->ctx, f->name));
}

static tc_status read_tensors(tc_onnx_reader *r, const char *what, Onnx__TensorProto *const *protos, size_t n,
                              const tc_tensor ***out_tensors) {
    const tc_tensor **tensors = *out_tensors = TC_NEW_ARRAY(r->model->arena, const tc_tensor *, n);
    for (size_t i = 0; i < n; i++) {
        tc_tensor *tensor = NULL;
        TC_TRY(tc_onnx_tensor(r->ctx, r->model, protos[i], what, &tensor));
        tensors[i] = tensor;
    }
    return TC_OK;
}

static tc_status read_sparse(tc_onnx_reader *r, const char *what, Onnx__SparseTensorProto *const *protos, size_t n,
                             const tc_tensor ***out_tensors) {
    const tc_tensor **tensors = *out_tensors = TC_NEW_ARRAY(r->model->arena, const tc_tensor *, n);
    for (size_t i = 0; i < n; i++) {
        tc_tensor *tensor = NULL;
        TC_TRY(tc_onnx_sparse_tensor(r->ctx, r->model, protos[i], what, r->sparse_budget, &tensor));
        r->sparse_budget -= tensor->data ? tensor->bytes : 0;
        tensors[i] = tensor;
    }
    return TC_OK;
}

static tc_status read_graphs(tc_onnx_reader *r, tc_graph *graph, Onnx__GraphProto *const *protos, size_t n,
                             tc_graph ***out_graphs) {
    tc_graph **graphs = *out_graphs = TC_NEW_ARRAY(r->model->arena, tc_graph *, n);
    for (size_t i = 0; i < n; i++)
        TC_TRY(tc_onnx_graph(r, protos[i], graph, &graphs[i]));
    return TC_OK;
}

static tc_status read_types(tc_onnx_reader *r, const char *what, Onnx__TypeProto *const *protos, size_t n,
                            const tc_type ***out_types) {
    const tc_type **types = *out_types = TC_NEW_ARRAY(r->model->arena, const tc_type *, n);
    for (size_t i = 0; i < n; i++)
        TC_TRY(tc_onnx_type(r, protos[i], what, &types[i]));
    return TC_OK;
}

static const tc_bytes *borrow_strings(tc_onnx_reader *r, const Onnx__AttributeProto *p) {
    tc_bytes *strings = TC_NEW_ARRAY(r->model->arena, tc_bytes, p->n_strings);
    for (size_t i = 0; i < p->n_strings; i++)
        strings[i] = (tc_bytes){(const char *)p->strings[i].data, p->strings[i].len};
    return strings;
}

/* "attribute 'value' of Constant \"c\"" */
static const char *describe(tc_onnx_reader *r, const tc_node *node, const char *name) {
    const char *attr = tc_quote(r->ctx, name);
    if (!node)
        return tc_arena_printf(r->ctx->arena, "attribute '%s'", attr);
    return tc_arena_printf(r->ctx->arena, "attribute '%s' of %s \"%s\"", attr, tc_quote(r->ctx, node->op_type),
                           tc_quote(r->ctx, tc_node_label(node)));
}

static tc_status read_value(tc_onnx_reader *r, tc_graph *graph, const tc_node *node, Onnx__AttributeProto *p,
                            tc_attr *attr) {
    const tc_tensor **tensors = NULL;
    const tc_type **types = NULL;
    tc_graph **graphs = NULL;
    switch (attr->kind) {
    case TC_ATTR_FLOAT: attr->f = p->f; return TC_OK;
    case TC_ATTR_INT: attr->i = p->i; return TC_OK;
    case TC_ATTR_STRING: attr->s = (tc_bytes){p->s.len ? (const char *)p->s.data : "", p->s.len}; return TC_OK;
    case TC_ATTR_FLOATS: attr->floats = p->floats; return TC_OK;
    case TC_ATTR_INTS: attr->ints = p->ints; return TC_OK;
    case TC_ATTR_STRINGS: attr->strings = borrow_strings(r, p); return TC_OK;
    case TC_ATTR_TENSOR:
        TC_TRY(read_tensors(r, describe(r, node, attr->name), &p->t, 1, &tensors));
        attr->t = tensors[0];
        return TC_OK;
    case TC_ATTR_TENSORS:
        TC_TRY(read_tensors(r, describe(r, node, attr->name), p->tensors, p->n_tensors, &tensors));
        attr->tensors = tensors;
        return TC_OK;
    case TC_ATTR_SPARSE_TENSOR:
        TC_TRY(read_sparse(r, describe(r, node, attr->name), &p->sparse_tensor, 1, &tensors));
        attr->t = tensors[0];
        return TC_OK;
    case TC_ATTR_SPARSE_TENSORS:
        TC_TRY(read_sparse(r, describe(r, node, attr->name), p->sparse_tensors, p->n_sparse_tensors, &tensors));
        attr->tensors = tensors;
        return TC_OK;
    case TC_ATTR_GRAPH:
        TC_TRY(read_graphs(r, graph, &p->g, 1, &graphs));
        attr->g = graphs[0];
        return TC_OK;
    case TC_ATTR_GRAPHS:
        TC_TRY(read_graphs(r, graph, p->graphs, p->n_graphs, &graphs));
        attr->graphs = graphs;
        return TC_OK;
    case TC_ATTR_TYPE:
        TC_TRY(read_types(r, describe(r, node, attr->name), &p->tp, 1, &types));
        attr->type = types[0];
        return TC_OK;
    case TC_ATTR_TYPES:
        TC_TRY(read_types(r, describe(r, node, attr->name), p->type_protos, p->n_type_protos, &types));
        attr->types = types;
        return TC_OK;
    default: return TC_OK; /* a reference without type */
    }
}

tc_status tc_onnx_attr(tc_onnx_reader *r, tc_graph *graph, const tc_node *node, Onnx__AttributeProto *proto,
                       tc_attr *out_attr) {
    if (!tc_onnx_text(proto->name)[0])
        return BAD(r, node, "an attribute has no name");
    int kind = 0;
    size_t count = 0;
    TC_TRY(find_kind(r, node, proto, &kind, &count));
    *out_attr = (tc_attr){.name = proto->name, .kind = (tc_attr_kind)kind, .count = count, .origin = proto};
    if (!tc_onnx_text(proto->ref_attr_name)[0])
        return read_value(r, graph, node, proto, out_attr);
    out_attr->ref = proto->ref_attr_name;
    return check_reference(r, node, proto);
}
