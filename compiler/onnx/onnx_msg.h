/* onnx_msg.h: shared by the ONNX reader and writer alone: unpacking under guard, tensors, and the notes on an entity's
 * origin. From these the writer restores parts that the IR has no field for. */
#ifndef TC_ONNX_MSG_H
#define TC_ONNX_MSG_H
#include "compiler/ir/ir.h"
#include "onnx.pb-c.h"
#include <string.h>

#define TC_MAX_DEPTH 100        /* nested messages, as protobuf's own libraries allow */
#define TC_MAX_NAME 65536       /* bytes of a name: any string but doc strings and metadata */
#define TC_MAX_FILE 0x7FFFFFFFu /* bytes of a model: protobuf's own limit */

/* Unpacks `bytes` as a message of `type`: in a loop with its own stack, in memory linear in `size` (at most 64 KiB + 16
 * x size, strings and structures together). Refused are all inputs for which protobuf-c would recurse, merge or trust:
 * deep nesting, a submessage given twice, bad lengths, wire types and varints, field number 0, NUL or bad UTF-8 in
 * strings. Errors name the byte and the field's path. Bytes fields and unknown fields are borrowed from `bytes`,
 * strings are copied. onnx_guard.c */
tc_status tc_onnx_unpack(tc_ctx *ctx, tc_arena *arena, const ProtobufCMessageDescriptor *type, const void *bytes,
                         size_t size, ProtobufCMessage **out_message);

/* Checks a TensorProto and turns it into a tensor. `what` stands before the tensor in messages: "initializer \"W\"".
 * onnx_tensor.c */
tc_status tc_onnx_tensor(tc_ctx *ctx, tc_model *model, const Onnx__TensorProto *proto, const char *what,
                         tc_tensor **out_tensor);
/* The same for a sparse tensor: dense where that is at most `budget` bytes, else a tensor without data. Its origin is
 * `proto`. */
tc_status tc_onnx_sparse_tensor(tc_ctx *ctx, tc_model *model, const Onnx__SparseTensorProto *proto, const char *what,
                                size_t budget, tc_tensor **out_tensor);

/* value->origin: the entries that describe a value, each or NULL, and the type read from them. */
typedef struct tc_value_origin {
    Onnx__ValueInfoProto *input, *output, *info;
    const tc_type *type;
} tc_value_origin;

/* graph->origin. `orphan[i]`: value_info[i] describes no value of the graph; it is written as it was read. */
typedef struct tc_graph_origin {
    const Onnx__GraphProto *proto; /* NULL for the body of a function */
    Onnx__ValueInfoProto **value_info;
    size_t n_value_info;
    const bool *orphan;
    uint32_t n_nodes; /* as read */
} tc_graph_origin;

/* The state of reading a model. */
typedef struct tc_onnx_reader {
    tc_ctx *ctx;
    tc_model *model;
    tc_arena *scratch;           /* dies when reading ends */
    tc_map *domains;             /* in force, of the model or the function being read: domain -> tc_opset */
    const tc_function *function; /* whose body is being read, or NULL */
    tc_map *function_attrs;      /* its attributes by name */
    uint32_t ordinal;            /* of the next node */
    size_t sparse_budget;        /* bytes that sparse tensors may still grow to */
} tc_onnx_reader;

/* Reads a graph nested in `parent` (NULL: the main graph), its nodes and theirs. onnx_graph.c */
tc_status tc_onnx_graph(tc_onnx_reader *r, const Onnx__GraphProto *proto, tc_graph *parent, tc_graph **out_graph);
/* Reads a graph of a model whose opsets have been read: as a separate whole. onnx_read.c */
tc_status tc_onnx_graph_of(tc_ctx *ctx, tc_model *model, const Onnx__GraphProto *proto, tc_graph **out_graph);
/* Reads the body of r->function. */
tc_status tc_onnx_function_body(tc_onnx_reader *r, const Onnx__FunctionProto *proto, tc_graph **out_graph);
/* Reads one attribute of a node of `graph`; `node` (may be NULL) for messages. */
tc_status tc_onnx_attr(tc_onnx_reader *r, tc_graph *graph, const tc_node *node, Onnx__AttributeProto *proto,
                       tc_attr *out_attr);
/* Reads a type; NULL when the message has none. `what` names its owner in messages. */
tc_status tc_onnx_type(tc_onnx_reader *r, const Onnx__TypeProto *proto, const char *what, const tc_type **out_type);

static inline const char *tc_onnx_text(const char *s) { return s ? s : ""; }
static inline const char *tc_onnx_domain(const char *s) { return !s || strcmp(s, "ai.onnx") == 0 ? "" : s; }
/* Whether an origin (of a tensor or attribute) is a message of this type. */
static inline bool tc_onnx_is(const void *origin, const ProtobufCMessageDescriptor *type) {
    return origin && ((const ProtobufCMessage *)origin)->descriptor == type;
}
#endif
