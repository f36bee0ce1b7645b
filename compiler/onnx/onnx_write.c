/* onnx_write.c: model -> ONNX bytes. Each entity starts as a shallow copy of the message it was read from, to keep
 * parts that the IR has no field for. Then every field that the IR does have is set from it, keeping the file's
 * spelling where it means the same. */
#include "onnx.h"
#include "compiler/base/base.h"
#include "onnx_msg.h"
#include "compiler/text/marks.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct writer {
    tc_ctx *ctx;
    tc_arena *arena; /* of the messages built here */
    const tc_model *model;
    const char *prefix; /* before the locations of external data: "" or "folder/" */
} writer;

#define NEW(w, type, TYPE) ((type *)make((w), &onnx__##TYPE##__descriptor, NULL))
/* A copy of `origin`, or an empty message. */
#define COPY(w, type, TYPE, origin) ((type *)make((w), &onnx__##TYPE##__descriptor, (origin)))
#define ARRAY(w, type, n) ((type *)tc_arena_alloc((w)->arena, (n), sizeof(type)))

static void *make(writer *w, const ProtobufCMessageDescriptor *descriptor, const void *origin) {
    void *message = tc_arena_alloc(w->arena, 1, descriptor->sizeof_message);
    if (origin)
        memcpy(message, origin, descriptor->sizeof_message);
    else
        descriptor->message_init(message);
    return message;
}

/* Messages hold mutable pointers; packing only reads them. */
static char *text(const char *s) { return (char *)(uintptr_t)s; }

/* The file's own spelling while it says the same: an absent field stays absent. */
static char *same_or(char *old, const char *now) {
    if (strcmp(tc_onnx_text(old), now) == 0)
        return old;
    return *now ? text(now) : NULL;
}

static char *domain_or(char *old, const char *now) {
    return old && strcmp(tc_onnx_domain(old), now) == 0 ? old : same_or(old, now);
}

/* --- types ------------------------------------------------------------------------------------ */

static Onnx__TensorShapeProto *write_shape(writer *w, const tc_type *type) {
    if (type->rank == TC_RANK_UNKNOWN)
        return NULL;
    Onnx__TensorShapeProto *shape = NEW(w, Onnx__TensorShapeProto, tensor_shape_proto);
    shape->n_dim = (size_t)type->rank;
    shape->dim = ARRAY(w, Onnx__TensorShapeProto__Dimension *, shape->n_dim);
    for (size_t i = 0; i < shape->n_dim; i++) {
        Onnx__TensorShapeProto__Dimension *dim = shape->dim[i] =
            NEW(w, Onnx__TensorShapeProto__Dimension, tensor_shape_proto__dimension);
        if (tc_dim_is_const(type->dims[i])) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = type->dims[i].value;
        } else if (!tc_dim_is_unknown(type->dims[i])) {
            dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = text(tc_dim_text(w->arena, type->dims[i]));
        }
    }
    return shape;
}

static Onnx__TypeProto *write_type(writer *w, const tc_type *type) {
    if (!type)
        return NULL;
    if (type->origin)
        return (Onnx__TypeProto *)(uintptr_t)type->origin;
    Onnx__TypeProto *proto = NEW(w, Onnx__TypeProto, type_proto);
    switch (type->kind) {
    case TC_TENSOR:
        proto->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        proto->tensor_type = NEW(w, Onnx__TypeProto__Tensor, type_proto__tensor);
        proto->tensor_type->has_elem_type = 1;
        proto->tensor_type->elem_type = (int32_t)type->dtype;
        proto->tensor_type->shape = write_shape(w, type);
        break;
    case TC_SPARSE_TENSOR:
        proto->value_case = ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE;
        proto->sparse_tensor_type = NEW(w, Onnx__TypeProto__SparseTensor, type_proto__sparse_tensor);
        proto->sparse_tensor_type->has_elem_type = 1;
        proto->sparse_tensor_type->elem_type = (int32_t)type->dtype;
        proto->sparse_tensor_type->shape = write_shape(w, type);
        break;
    case TC_SEQUENCE:
        proto->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
        proto->sequence_type = NEW(w, Onnx__TypeProto__Sequence, type_proto__sequence);
        proto->sequence_type->elem_type = write_type(w, type->elem);
        break;
    case TC_OPTIONAL:
        proto->value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
        proto->optional_type = NEW(w, Onnx__TypeProto__Optional, type_proto__optional);
        proto->optional_type->elem_type = write_type(w, type->elem);
        break;
    case TC_MAP:
        proto->value_case = ONNX__TYPE_PROTO__VALUE_MAP_TYPE;
        proto->map_type = NEW(w, Onnx__TypeProto__Map, type_proto__map);
        proto->map_type->has_key_type = 1;
        proto->map_type->key_type = (int32_t)type->dtype;
        proto->map_type->value_type = write_type(w, type->elem);
        break;
    case TC_OPAQUE:
        proto->value_case = ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE;
        proto->opaque_type = NEW(w, Onnx__TypeProto__Opaque, type_proto__opaque);
        proto->opaque_type->domain = text(type->domain);
        proto->opaque_type->name = text(type->name);
        break;
    }
    return proto;
}

/* `origin` may be NULL. Its type is kept as long as the value's type is the one that was read. */
static Onnx__ValueInfoProto *write_value(writer *w, const tc_value *value, const Onnx__ValueInfoProto *origin) {
    const tc_value_origin *known = value->origin;
    Onnx__ValueInfoProto *proto = COPY(w, Onnx__ValueInfoProto, value_info_proto, origin);
    proto->name = same_or(proto->name, value->name);
    if (!origin || !known || known->type != value->type)
        proto->type = write_type(w, value->type);
    return proto;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static Onnx__StringStringEntryProto *entry(writer *w, const char *key, const char *value) {
    Onnx__StringStringEntryProto *e = NEW(w, Onnx__StringStringEntryProto, string_string_entry_proto);
    e->key = text(key);
    e->value = text(value);
    return e;
}

static void write_external(writer *w, const tc_external *e, Onnx__TensorProto *proto) {
    proto->has_data_location = 1;
    proto->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    proto->external_data = ARRAY(w, Onnx__StringStringEntryProto *, 3);
    proto->external_data[proto->n_external_data++] = entry(w, "location", e->location);
    if (e->has_offset || e->offset)
        proto->external_data[proto->n_external_data++] =
            entry(w, "offset", tc_arena_printf(w->arena, "%llu", (unsigned long long)e->offset));
    if (e->has_length)
        proto->external_data[proto->n_external_data++] =
            entry(w, "length", tc_arena_printf(w->arena, "%llu", (unsigned long long)e->length));
}

/* Locations are relative to the model's folder, which may be another now. */
static void move_location(writer *w, Onnx__TensorProto *proto) {
    if (!*w->prefix || !proto->has_data_location || proto->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return;
    Onnx__StringStringEntryProto **moved = ARRAY(w, Onnx__StringStringEntryProto *, proto->n_external_data);
    for (size_t i = 0; i < proto->n_external_data; i++) {
        moved[i] = COPY(w, Onnx__StringStringEntryProto, string_string_entry_proto, proto->external_data[i]);
        if (strcmp(tc_onnx_text(moved[i]->key), "location") == 0)
            moved[i]->value = tc_arena_printf(w->arena, "%s%s", w->prefix, tc_onnx_text(moved[i]->value));
    }
    proto->external_data = moved;
}

static void write_data(writer *w, const tc_tensor *tensor, Onnx__TensorProto *proto) {
    proto->n_dims = (size_t)tensor->rank;
    proto->dims = (int64_t *)(uintptr_t)tensor->dims;
    proto->has_data_type = 1;
    proto->data_type = (int32_t)tensor->dtype;
    if (tensor->external) {
        write_external(w, tensor->external, proto);
    } else if (tensor->strings) {
        proto->n_string_data = tensor->count;
        proto->string_data = ARRAY(w, ProtobufCBinaryData, tensor->count);
        for (uint64_t i = 0; i < tensor->count; i++)
            proto->string_data[i] =
                (ProtobufCBinaryData){tensor->strings[i].size, (uint8_t *)(uintptr_t)tensor->strings[i].data};
    } else if (tensor->dtype != TC_STRING) {
        proto->has_raw_data = 1;
        proto->raw_data = (ProtobufCBinaryData){tensor->bytes, (uint8_t *)(uintptr_t)tensor->data};
    }
}

/* `name`: NULL keeps the tensor's own. */
static Onnx__TensorProto *write_tensor(writer *w, const tc_tensor *tensor, const char *name) {
    Onnx__TensorProto *proto = COPY(w, Onnx__TensorProto, tensor_proto, tensor->origin);
    if (!tensor->origin)
        write_data(w, tensor, proto);
    const char *now = name ? name : tensor->name;
    proto->name = same_or(proto->name, now ? now : "");
    move_location(w, proto);
    return proto;
}

static bool is_sparse(const tc_tensor *tensor) {
    return tc_onnx_is(tensor->origin, &onnx__sparse_tensor_proto__descriptor);
}

static Onnx__SparseTensorProto *write_sparse(writer *w, const tc_tensor *tensor, const char *name) {
    Onnx__SparseTensorProto *proto = COPY(w, Onnx__SparseTensorProto, sparse_tensor_proto, tensor->origin);
    if (name) {
        proto->values = COPY(w, Onnx__TensorProto, tensor_proto, proto->values);
        proto->values->name = same_or(proto->values->name, name);
    }
    return proto;
}

/* --- attributes and nodes --------------------------------------------------------------------- */

static Onnx__GraphProto *write_graph(writer *w, const tc_graph *graph);

static void write_plural(writer *w, const tc_attr *attr, Onnx__AttributeProto *proto) {
    size_t n = attr->count;
    switch (attr->kind) {
    case TC_ATTR_FLOATS:
        proto->n_floats = n;
        proto->floats = (float *)(uintptr_t)attr->floats;
        break;
    case TC_ATTR_INTS:
        proto->n_ints = n;
        proto->ints = (int64_t *)(uintptr_t)attr->ints;
        break;
    case TC_ATTR_STRINGS:
        proto->n_strings = n;
        proto->strings = ARRAY(w, ProtobufCBinaryData, n);
        for (size_t i = 0; i < n; i++)
            proto->strings[i] =
                (ProtobufCBinaryData){attr->strings[i].size, (uint8_t *)(uintptr_t)attr->strings[i].data};
        break;
    case TC_ATTR_TENSORS:
        proto->n_tensors = n;
        proto->tensors = ARRAY(w, Onnx__TensorProto *, n);
        for (size_t i = 0; i < n; i++)
            proto->tensors[i] = write_tensor(w, attr->tensors[i], NULL);
        break;
    case TC_ATTR_GRAPHS:
        proto->n_graphs = n;
        proto->graphs = ARRAY(w, Onnx__GraphProto *, n);
        for (size_t i = 0; i < n; i++)
            proto->graphs[i] = write_graph(w, attr->graphs[i]);
        break;
    case TC_ATTR_TYPES:
        proto->n_type_protos = n;
        proto->type_protos = ARRAY(w, Onnx__TypeProto *, n);
        for (size_t i = 0; i < n; i++)
            proto->type_protos[i] = write_type(w, attr->types[i]);
        break;
    default: break;
    }
}

static void write_value_of(writer *w, const tc_attr *attr, Onnx__AttributeProto *proto) {
    switch (attr->kind) {
    case TC_ATTR_FLOAT:
        proto->has_f = 1;
        proto->f = attr->f;
        break;
    case TC_ATTR_INT:
        proto->has_i = 1;
        proto->i = attr->i;
        break;
    case TC_ATTR_STRING:
        proto->has_s = 1;
        proto->s = (ProtobufCBinaryData){attr->s.size, (uint8_t *)(uintptr_t)attr->s.data};
        break;
    case TC_ATTR_TENSOR: proto->t = write_tensor(w, attr->t, NULL); break;
    case TC_ATTR_GRAPH: proto->g = write_graph(w, attr->g); break;
    case TC_ATTR_TYPE: proto->tp = write_type(w, attr->type); break;
    default: write_plural(w, attr, proto); break;
    }
}

/* Only tensors and graphs can differ from an attribute's origin: tensors by the location of their data, graphs
 * in nodes that passes changed. */
static Onnx__AttributeProto *write_attr(writer *w, const tc_attr *attr) {
    bool nested = attr->kind == TC_ATTR_TENSOR || attr->kind == TC_ATTR_TENSORS || attr->kind == TC_ATTR_GRAPH ||
                  attr->kind == TC_ATTR_GRAPHS;
    if (attr->origin && (!nested || attr->ref))
        return (Onnx__AttributeProto *)(uintptr_t)attr->origin;
    Onnx__AttributeProto *proto = COPY(w, Onnx__AttributeProto, attribute_proto, attr->origin);
    proto->name = same_or(proto->name, attr->name);
    if (!attr->origin) {
        proto->has_type = 1;
        proto->type = (Onnx__AttributeProto__AttributeType)attr->kind;
    }
    if (attr->ref)
        proto->ref_attr_name = text(attr->ref);
    else
        write_value_of(w, attr, proto);
    return proto;
}

static Onnx__NodeProto *write_node(writer *w, const tc_node *node) {
    Onnx__NodeProto *proto = COPY(w, Onnx__NodeProto, node_proto, node->origin);
    proto->name = same_or(proto->name, node->name);
    proto->op_type = same_or(proto->op_type, node->op_type);
    proto->domain = domain_or(proto->domain, node->domain);
    proto->overload = same_or(proto->overload, node->overload);
    proto->n_input = node->n_inputs;
    proto->input = ARRAY(w, char *, node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        proto->input[i] = text(node->inputs[i].value ? node->inputs[i].value->name : "");
    proto->n_output = node->n_outputs;
    proto->output = ARRAY(w, char *, node->n_outputs);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        proto->output[i] = text(node->outputs[i] ? node->outputs[i]->name : "");
    proto->n_attribute = node->n_attrs;
    proto->attribute = ARRAY(w, Onnx__AttributeProto *, node->n_attrs);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        proto->attribute[i] = write_attr(w, &node->attrs[i]);
    return proto;
}

static Onnx__NodeProto **write_nodes(writer *w, const tc_graph *graph) {
    Onnx__NodeProto **nodes = ARRAY(w, Onnx__NodeProto *, graph->n_nodes);
    size_t n = 0;
    TC_FOR_NODES(node, graph)
        nodes[n++] = write_node(w, node);
    return nodes;
}

/* --- graphs ----------------------------------------------------------------------------------- */

/* Where nodes were added or removed, every result gets an entry with its type, and orphans of value_info are
 * dropped. */
static bool has_changed(const tc_graph *graph) {
    const tc_graph_origin *origin = graph->origin;
    if (!origin || origin->n_nodes != graph->n_nodes)
        return true;
    TC_FOR_NODES(node, graph)
        if (!node->origin)
            return true;
    return false;
}

static bool is_live(const tc_graph *graph, const tc_value *value) {
    return tc_map_get(graph->names, value->name) == value;
}

static const Onnx__ValueInfoProto *info_of(const tc_value *value) {
    const tc_value_origin *origin = value->origin;
    return origin ? origin->info : NULL;
}

/* Entries as they were read, those of live values brought up to date; then the results that have none yet. */
static Onnx__ValueInfoProto **write_infos(writer *w, const tc_graph *graph, size_t *out_count) {
    const tc_graph_origin *origin = graph->origin;
    bool changed = has_changed(graph);
    size_t n = 0, room = origin ? origin->n_value_info : graph->n_listed, listed = 0;
    TC_FOR_NODES(node, graph)
        room += node->n_outputs;
    Onnx__ValueInfoProto **infos = ARRAY(w, Onnx__ValueInfoProto *, room);
    tc_map *done = tc_map_create(w->arena);
    for (size_t i = 0; origin && i < origin->n_value_info; i++) {
        const tc_value *value = origin->orphan[i] ? NULL : graph->listed[listed++];
        if (value ? is_live(graph, value) : !changed)
            infos[n++] = value ? write_value(w, value, origin->value_info[i]) : origin->value_info[i];
        if (value)
            tc_map_set_ptr(done, value, infos);
    }
    for (size_t i = 0; !origin && i < graph->n_listed; i++) { /* read from text, or cloned */
        if (is_live(graph, graph->listed[i]))
            infos[n++] = write_value(w, graph->listed[i], NULL);
        tc_map_set_ptr(done, graph->listed[i], infos);
    }
    TC_FOR_NODES(node, graph) {
        for (uint32_t i = 0; changed && i < node->n_outputs; i++) {
            const tc_value *value = node->outputs[i];
            if (value && value->type && !value->n_graph_outputs && !tc_map_get_ptr(done, value))
                infos[n++] = write_value(w, value, info_of(value));
        }
    }
    *out_count = n;
    return infos;
}

static void write_initializers(writer *w, const tc_graph *graph, Onnx__GraphProto *proto) {
    proto->initializer = ARRAY(w, Onnx__TensorProto *, graph->n_initializers);
    proto->sparse_initializer = ARRAY(w, Onnx__SparseTensorProto *, graph->n_initializers);
    proto->n_initializer = proto->n_sparse_initializer = 0;
    for (uint32_t i = 0; i < graph->n_initializers; i++) {
        const tc_value *value = graph->initializers[i];
        if (is_sparse(value->init))
            proto->sparse_initializer[proto->n_sparse_initializer++] = write_sparse(w, value->init, value->name);
        else
            proto->initializer[proto->n_initializer++] = write_tensor(w, value->init, value->name);
    }
}

static Onnx__ValueInfoProto *write_output(writer *w, const tc_graph *graph, uint32_t i, const Onnx__GraphProto *read) {
    const tc_value *value = graph->outputs[i];
    const tc_value_origin *origin = value->origin;
    if (read && i < read->n_output && strcmp(tc_onnx_text(read->output[i]->name), value->name) == 0)
        return value->graph == graph ? write_value(w, value, read->output[i]) : read->output[i];
    return write_value(w, value, origin ? origin->output : NULL);
}

static Onnx__GraphProto *write_graph(writer *w, const tc_graph *graph) {
    const tc_graph_origin *origin = graph->origin;
    const Onnx__GraphProto *read = origin ? origin->proto : NULL;
    Onnx__GraphProto *proto = COPY(w, Onnx__GraphProto, graph_proto, read);
    proto->name = same_or(proto->name, graph->name);
    proto->n_node = graph->n_nodes;
    proto->node = write_nodes(w, graph);
    write_initializers(w, graph, proto);
    proto->n_input = graph->n_inputs;
    proto->input = ARRAY(w, Onnx__ValueInfoProto *, graph->n_inputs);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value_origin *known = graph->inputs[i]->origin;
        proto->input[i] = write_value(w, graph->inputs[i], known ? known->input : NULL);
    }
    proto->n_output = graph->n_outputs;
    proto->output = ARRAY(w, Onnx__ValueInfoProto *, graph->n_outputs);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        proto->output[i] = write_output(w, graph, i, read);
    proto->value_info = write_infos(w, graph, &proto->n_value_info);
    return proto;
}

/* --- models ----------------------------------------------------------------------------------- */

static Onnx__OperatorSetIdProto **write_opsets(writer *w, const tc_opset *opsets, size_t n,
                                               Onnx__OperatorSetIdProto **read, size_t n_read) {
    Onnx__OperatorSetIdProto **protos = ARRAY(w, Onnx__OperatorSetIdProto *, n);
    for (size_t i = 0; i < n; i++) {
        protos[i] = COPY(w, Onnx__OperatorSetIdProto, operator_set_id_proto, i < n_read ? read[i] : NULL);
        protos[i]->domain = domain_or(protos[i]->domain, opsets[i].domain);
        if (!protos[i]->domain)
            protos[i]->domain = i < n_read ? NULL : text("");
        if (!protos[i]->has_version || protos[i]->version != opsets[i].version) {
            protos[i]->has_version = 1;
            protos[i]->version = opsets[i].version;
        }
    }
    return protos;
}

static char **write_names(writer *w, tc_value *const *values, size_t n) {
    char **names = ARRAY(w, char *, n);
    for (size_t i = 0; i < n; i++)
        names[i] = text(values[i]->name);
    return names;
}

static Onnx__FunctionProto *write_function(writer *w, const tc_function *f) {
    Onnx__FunctionProto *proto = COPY(w, Onnx__FunctionProto, function_proto, f->origin);
    proto->name = same_or(proto->name, f->name);
    proto->domain = domain_or(proto->domain, f->domain);
    proto->overload = same_or(proto->overload, f->overload);
    proto->n_input = f->body->n_inputs;
    proto->input = write_names(w, f->body->inputs, f->body->n_inputs);
    proto->n_output = f->body->n_outputs;
    proto->output = write_names(w, f->body->outputs, f->body->n_outputs);
    proto->n_attribute = f->n_attrs;
    proto->attribute = ARRAY(w, char *, f->n_attrs);
    for (size_t i = 0; i < f->n_attrs; i++)
        proto->attribute[i] = text(f->attrs[i]);
    proto->n_attribute_proto = f->n_defaults;
    proto->attribute_proto = ARRAY(w, Onnx__AttributeProto *, f->n_defaults);
    for (size_t i = 0; i < f->n_defaults; i++)
        proto->attribute_proto[i] = write_attr(w, &f->defaults[i]);
    proto->n_node = f->body->n_nodes;
    proto->node = write_nodes(w, f->body);
    proto->value_info = write_infos(w, f->body, &proto->n_value_info);
    proto->opset_import = write_opsets(w, f->opsets, f->n_opsets, proto->opset_import, proto->n_opset_import);
    proto->n_opset_import = f->n_opsets;
    return proto;
}

/* The file's description of itself; for a model read from protobuf it is in its origin. */
static void write_info(const tc_model_info *info, Onnx__ModelProto *proto) {
    proto->producer_name = text(info->producer_name);
    proto->producer_version = text(info->producer_version);
    proto->domain = text(info->domain);
    proto->doc_string = text(info->doc_string);
    proto->has_model_version = info->has_version;
    proto->model_version = info->version;
}

/* Marks are among them; pairs that were read come back as they were. */
static void write_metadata(writer *w, Onnx__ModelProto *proto) {
    Onnx__StringStringEntryProto **read = proto->metadata_props;
    size_t n_read = proto->n_metadata_props, at = 0;
    const tc_pair *pairs = tc_marks_metadata(w->arena, w->model, &proto->n_metadata_props);
    proto->metadata_props = ARRAY(w, Onnx__StringStringEntryProto *, proto->n_metadata_props);
    for (size_t i = 0; i < proto->n_metadata_props; i++) {
        size_t k = at; /* both are in one order */
        while (k < n_read && (strcmp(tc_onnx_text(read[k]->key), pairs[i].key) != 0 ||
                              strcmp(tc_onnx_text(read[k]->value), pairs[i].value) != 0))
            k++;
        proto->metadata_props[i] = k < n_read ? read[k] : entry(w, pairs[i].key, pairs[i].value);
        at = k < n_read ? k + 1 : at;
    }
}

static Onnx__ModelProto *write_model(writer *w) {
    const tc_model *model = w->model;
    const Onnx__ModelProto *read = model->origin;
    Onnx__ModelProto *proto = COPY(w, Onnx__ModelProto, model_proto, read);
    if (!read)
        write_info(&model->info, proto);
    write_metadata(w, proto);
    proto->has_ir_version = 1;
    proto->ir_version = model->ir_version;
    bool implied =
        read && !read->n_opset_import && model->n_opsets == 1 && model->opsets[0].version == 1; /* IR below 3 */
    if (!implied) {
        proto->opset_import =
            write_opsets(w, model->opsets, model->n_opsets, proto->opset_import, proto->n_opset_import);
        proto->n_opset_import = model->n_opsets;
    }
    proto->graph = write_graph(w, model->graph);
    proto->n_functions = model->n_functions;
    proto->functions = ARRAY(w, Onnx__FunctionProto *, model->n_functions);
    for (size_t i = 0; i < model->n_functions; i++)
        proto->functions[i] = write_function(w, model->functions[i]);
    return proto;
}

/* --- files ------------------------------------------------------------------------------------ */

/* The true path of the file's folder; NULL: it has none. */
static const char *folder_of(tc_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *folder = slash ? tc_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path)) : ".";
    errno = 0;
    char *resolved = realpath(folder, NULL);
    if (!resolved && errno == ENOMEM)
        tc_out_of_memory(strlen(folder));
    if (!resolved)
        return NULL;
    tc_held held;
    tc_hold(&held, free, resolved);
    const char *copy = tc_arena_strdup(arena, resolved);
    tc_let_go(&held);
    free(resolved);
    return copy;
}

static const char *find_external(const tc_graph *graph) {
    for (uint32_t i = 0; i < graph->n_initializers; i++)
        if (graph->initializers[i]->init->external)
            return graph->initializers[i]->init->external->location;
    return NULL;
}

/* The path from the output's folder to the input's, if the input's lies in or below the output's. */
static void find_prefix(writer *w, const char *path) {
    const char *location = find_external(w->model->graph);
    w->prefix = "";
    if (!location || !w->model->path || strcmp(path, "-") == 0)
        return;
    const char *from = folder_of(w->arena, w->model->path), *to = folder_of(w->arena, path);
    size_t n = to ? strlen(to) : 0;
    if (n == 1)
        n = 0; /* the root: its slash is the separator */
    if (from && to && strcmp(from, to) != 0) {
        if (strncmp(from, to, n) == 0 && from[n] == '/') {
            w->prefix = tc_arena_printf(w->arena, "%s/", from + n + 1);
        } else {
            tc_warn(w->ctx, NULL, "external data stays at '%s', relative to the output", tc_quote(w->ctx, location));
            tc_hint(w->ctx, "copy the weights from '%s' to the folder of '%s', or write the output beside the input",
                    tc_quote(w->ctx, from), tc_quote(w->ctx, path));
        }
    }
}

typedef struct sink {
    ProtobufCBuffer base;
    FILE *out;
} sink;

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) {
    if (n)
        fwrite(data, 1, n, ((sink *)buffer)->out); /* errors stay with the stream */
}

static tc_status pack(writer *w, Onnx__ModelProto **out_proto) {
    *out_proto = write_model(w);
    size_t size = protobuf_c_message_get_packed_size(&(*out_proto)->base);
    if (size <= TC_MAX_FILE)
        return TC_OK;
    tc_error(w->ctx, TC_LIMIT, NULL, "the model would have %zu bytes, but protobuf files end at 2 GiB", size);
    tc_hint(w->ctx, "keep weights as external data");
    return TC_LIMIT;
}

static void write_stream(const Onnx__ModelProto *proto, FILE *stream) {
    sink s = {.base = {append}, .out = stream};
    protobuf_c_message_pack_to_buffer(&proto->base, &s.base);
}

static tc_status write_file(writer *w, const char *path) {
    Onnx__ModelProto *proto = NULL;
    tc_out_file *out = NULL;
    find_prefix(w, path);
    TC_TRY(pack(w, &proto));
    TC_TRY(tc_out_open(w->ctx, path, &out));
    write_stream(proto, tc_out_stream(out));
    return tc_out_commit(w->ctx, out);
}

tc_status tc_write_onnx(tc_ctx *ctx, const tc_model *model, const char *path) {
    writer w = {.ctx = ctx, .arena = tc_arena_create(), .model = model};
    tc_status status = write_file(&w, path);
    tc_arena_destroy(w.arena);
    return status;
}

tc_status tc_write_onnx_stream(tc_ctx *ctx, const tc_model *model, FILE *stream) {
    writer w = {.ctx = ctx, .arena = tc_arena_create(), .model = model, .prefix = ""};
    Onnx__ModelProto *proto = NULL;
    tc_status status = pack(&w, &proto);
    if (status == TC_OK)
        write_stream(proto, stream);
    tc_arena_destroy(w.arena);
    return status;
}
