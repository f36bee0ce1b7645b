/* onnx_read.c: ONNX bytes -> model. The file is unpacked under guard (onnx_guard.c), then its parts become IR entities
 * that keep a pointer to their message: an unchanged model is written back field for field. Mistakes in a file are
 * found here, before any pass: names, order, domains, opsets, data and function calls. Types and shapes are left to
 * shape inference. */
#include "onnx.h"
#include "compiler/base/base.h"
#include "onnx_msg.h"
#include "compiler/ir/ops.h"
#include "compiler/text/marks.h"
#include "compiler/ir/verify.h"
#include <inttypes.h>
#include <stdlib.h>

#define BAD(r, ...) tc_error((r)->ctx, TC_BAD_INPUT, NULL, __VA_ARGS__)

enum { OLDEST_IR_WITH_OPSETS = 3 };

/* --- opsets ----------------------------------------------------------------------------------- */

/* `whose`: "model" or "function \"f\"". */
static tc_status read_opsets(tc_onnx_reader *r, const char *whose, Onnx__OperatorSetIdProto **protos, size_t n,
                             tc_opset **out_opsets) {
    tc_opset *opsets = *out_opsets = TC_NEW_ARRAY(r->model->arena, tc_opset, n);
    tc_map *domains = tc_map_create(r->scratch);
    for (size_t i = 0; i < n; i++) {
        const char *domain = tc_onnx_domain(protos[i]->domain), *name = *domain ? tc_quote(r->ctx, domain) : "ai.onnx";
        opsets[i] = (tc_opset){domain, protos[i]->version};
        const tc_opset *other = tc_map_get(domains, domain);
        if (other && other->version != opsets[i].version)
            return BAD(r, "%s imports domain \"%s\" twice, with opsets %" PRId64 " and %" PRId64, whose, name,
                       other->version, opsets[i].version);
        if (opsets[i].version < 1)
            return BAD(r, "%s imports opset %" PRId64 " of domain \"%s\", expected at least 1", whose,
                       opsets[i].version, name);
        if (!*domain && opsets[i].version > TC_NEWEST_OPSET)
            return tc_error(r->ctx, TC_UNSUPPORTED, NULL,
                            "%s imports opset %" PRId64 " of domain \"%s\", the newest known is %d", whose,
                            opsets[i].version, name, TC_NEWEST_OPSET);
        tc_map_set(domains, domain, &opsets[i]);
    }
    r->domains = domains;
    return TC_OK;
}

static tc_status read_versions(tc_onnx_reader *r, const Onnx__ModelProto *proto) {
    tc_model *model = r->model;
    if (!proto->has_ir_version || proto->ir_version < 1)
        return BAD(r, "no IR version: this is no ONNX model");
    if (proto->ir_version > TC_NEWEST_IR)
        return tc_error(r->ctx, TC_UNSUPPORTED, NULL, "IR version %" PRId64 ", the newest known is %d",
                        proto->ir_version, TC_NEWEST_IR);
    model->ir_version = proto->ir_version;
    if (!proto->n_opset_import && proto->ir_version >= OLDEST_IR_WITH_OPSETS)
        return BAD(r, "no opset_import: the version of each op is not given");
    model->n_opsets = proto->n_opset_import;
    TC_TRY(read_opsets(r, "model", proto->opset_import, proto->n_opset_import, &model->opsets));
    if (!model->n_opsets) {
        tc_model_set_opset(model, "", 1);
        tc_map_set(r->domains, "", model->opsets);
    }
    return TC_OK;
}

/* --- functions -------------------------------------------------------------------------------- */

static tc_status note_attr(tc_onnx_reader *r, const tc_function *f, const char *name) {
    if (!*name || tc_map_get(r->function_attrs, name))
        return BAD(r, "function \"%s\" has %s '%s'", tc_quote(r->ctx, f->name),
                   *name ? "two attributes" : "an attribute without name", tc_quote(r->ctx, name));
    tc_map_set(r->function_attrs, name, (void *)(uintptr_t)f);
    return TC_OK;
}

static tc_status read_function(tc_onnx_reader *r, const Onnx__FunctionProto *proto, tc_function *f) {
    tc_arena *arena = r->model->arena;
    f->origin = proto;
    f->name = tc_onnx_text(proto->name);
    f->domain = tc_onnx_domain(proto->domain);
    f->overload = tc_onnx_text(proto->overload);
    if (!*f->name)
        return BAD(r, "a function of domain \"%s\" has no name", tc_quote(r->ctx, f->domain));
    r->function = f;
    r->function_attrs = tc_map_create(r->scratch);
    f->n_opsets = proto->n_opset_import;
    const char *whose = tc_arena_printf(r->ctx->arena, "function \"%s\"", tc_quote(r->ctx, f->name));
    TC_TRY(read_opsets(r, whose, proto->opset_import, proto->n_opset_import, &f->opsets));
    f->n_attrs = proto->n_attribute;
    f->attrs = TC_NEW_ARRAY(arena, const char *, f->n_attrs);
    for (size_t i = 0; i < f->n_attrs; i++) {
        f->attrs[i] = proto->attribute[i];
        TC_TRY(note_attr(r, f, f->attrs[i]));
    }
    f->defaults = TC_NEW_ARRAY(arena, tc_attr, proto->n_attribute_proto);
    for (size_t i = 0; i < proto->n_attribute_proto; i++) {
        TC_TRY(tc_onnx_attr(r, NULL, NULL, proto->attribute_proto[i], &f->defaults[i]));
        TC_TRY(note_attr(r, f, f->defaults[i].name));
        f->n_defaults++;
    }
    TC_TRY(tc_onnx_function_body(r, proto, &f->body));
    r->function = NULL;
    return TC_OK;
}

static tc_status read_functions(tc_onnx_reader *r, const Onnx__ModelProto *proto) {
    tc_model *model = r->model;
    model->functions = TC_NEW_ARRAY(model->arena, tc_function *, proto->n_functions);
    for (size_t i = 0; i < proto->n_functions; i++) {
        model->functions[i] = TC_NEW(model->arena, tc_function);
        TC_TRY(read_function(r, proto->functions[i], model->functions[i]));
        model->n_functions++;
    }
    return TC_OK;
}

/* --- models ----------------------------------------------------------------------------------- */

static void read_info(tc_model *model, const Onnx__ModelProto *proto) {
    tc_pair *metadata = TC_NEW_ARRAY(model->arena, tc_pair, proto->n_metadata_props);
    for (size_t i = 0; i < proto->n_metadata_props; i++)
        metadata[i] =
            (tc_pair){tc_onnx_text(proto->metadata_props[i]->key), tc_onnx_text(proto->metadata_props[i]->value)};
    model->info = (tc_model_info){
        .producer_name = proto->producer_name,
        .producer_version = proto->producer_version,
        .domain = proto->domain,
        .doc_string = proto->doc_string,
        .has_version = proto->has_model_version != 0,
        .version = proto->model_version,
        .metadata = metadata,
        .n_metadata = proto->n_metadata_props,
    };
}

static tc_status read_model(tc_onnx_reader *r, const Onnx__ModelProto *proto) {
    r->model->origin = proto;
    read_info(r->model, proto);
    TC_TRY(read_versions(r, proto));
    if (!proto->graph)
        return BAD(r, "no graph");
    TC_TRY(tc_onnx_graph(r, proto->graph, NULL, &r->model->graph));
    if (!r->model->graph->n_outputs)
        return BAD(r, "graph \"%s\" has no outputs: there is nothing to compute",
                   tc_quote(r->ctx, r->model->graph->name));
    TC_TRY(read_functions(r, proto));
    tc_marks_read(r->model);
    return tc_check_calls(r->ctx, r->model);
}

tc_status tc_read_onnx(tc_ctx *ctx, const void *bytes, size_t size, const char *path, tc_model **out_model) {
    *out_model = NULL;
    if (!size)
        return tc_error(ctx, TC_BAD_INPUT, NULL, "the file is empty");
    tc_model *model = tc_model_create();
    model->path = path ? tc_arena_strdup(model->arena, path) : NULL;
    tc_onnx_reader r = {
        .ctx = ctx, .model = model, .scratch = tc_arena_create(), .sparse_budget = (64u << 10) + 16 * size};
    ProtobufCMessage *message = NULL;
    tc_status status = tc_onnx_unpack(ctx, model->arena, &onnx__model_proto__descriptor, bytes, size, &message);
    if (status == TC_OK)
        status = read_model(&r, (const Onnx__ModelProto *)message);
    tc_arena_destroy(r.scratch);
    if (status == TC_OK)
        *out_model = model;
    else
        tc_model_destroy(model);
    return status;
}

tc_status tc_onnx_graph_of(tc_ctx *ctx, tc_model *model, const Onnx__GraphProto *proto, tc_graph **out_graph) {
    tc_onnx_reader r = {.ctx = ctx, .model = model, .scratch = tc_arena_create()};
    r.sparse_budget = (64u << 10) + 16 * protobuf_c_message_get_packed_size(&proto->base);
    r.domains = tc_map_create(r.scratch);
    for (size_t i = 0; i < model->n_opsets; i++)
        tc_map_set(r.domains, model->opsets[i].domain, &model->opsets[i]);
    tc_status status = tc_onnx_graph(&r, proto, NULL, out_graph);
    tc_arena_destroy(r.scratch);
    return status;
}

/* --- files ------------------------------------------------------------------------------------ */

tc_status tc_read_tensor_file(tc_ctx *ctx, tc_model *model, const char *path, tc_tensor **out_tensor) {
    tc_file file;
    ctx->file = path;
    TC_TRY(tc_file_open(ctx, path, &file));
    tc_model_keep_file(model, &file);
    ProtobufCMessage *message = NULL;
    TC_TRY(tc_onnx_unpack(ctx, model->arena, &onnx__tensor_proto__descriptor, file.data, file.size, &message));
    return tc_onnx_tensor(ctx, model, (const Onnx__TensorProto *)message, "tensor", out_tensor);
}
