/* onnx.h: ONNX files in and out. Only the files of this folder see protobuf-c. */
#ifndef TC_ONNX_H
#define TC_ONNX_H
#include "compiler/base/base.h"
#include "compiler/ir/ir.h"

/* Reads a model from a file: guarded (depth, duplicates, memory and time linear in the size; reliability limits),
 * checked (names, SSA, order, dims, data lengths, opsets, function cycles). External data is referenced, not opened.
 * `path` "-" is standard input. Files that end in .onnxt, or whose first byte is '<' or printable text, are read as
 * ONNX text. */
tc_status tc_read_file(tc_ctx *ctx, const char *path, tc_model **out_model);
/* The same from memory; the bytes must outlive the model. `path` (may be NULL) is where external data would be. */
tc_status tc_read_onnx(tc_ctx *ctx, const void *bytes, size_t size, const char *path, tc_model **out_model);
/* One serialized TensorProto (input_0.pb of the backend suite), into the model's arena. */
tc_status tc_read_tensor_file(tc_ctx *ctx, tc_model *model, const char *path, tc_tensor **out_tensor);

/* Whether the file describes a step of training (training_info). */
bool tc_has_training(const tc_model *model);
/* Makes the model's graph that step: its nodes follow those of the graph; an updated weight is an input with a default,
 * paired with an output (marks.h). Call it right after reading. TC_BAD_INPUT for bindings that name nothing,
 * TC_UNSUPPORTED for several steps and for initial values that are not constants. onnx_training.c */
tc_status tc_merge_training(tc_ctx *ctx, tc_model *model);
void tc_drop_training(tc_model *model); /* it is not written: the graph is no longer the one that it was about */

/* The file's text for a node under this key of its metadata_props; NULL: none, or the node is not from an ONNX file. */
const char *tc_node_metadata(const tc_node *node, const char *key);
/* The same of a graph, and of a value, in whatever entry describes it. onnx_metadata.c */
const char *tc_graph_metadata(const tc_graph *graph, const char *key);
const char *tc_value_metadata(const tc_value *value, const char *key);

/* Writes the model as protobuf; unchanged parts come back field for field as they were read. Through a temporary file
 * beside `path` that is renamed at the end ("-": standard output). External tensors keep their references: below the
 * output's folder locations are rewritten; elsewhere they stay, with a warning that the weights must be copied
 * along. */
tc_status tc_write_onnx(tc_ctx *ctx, const tc_model *model, const char *path);
/* The same to an open stream, whose errors stay with it; locations are left as they are. */
tc_status tc_write_onnx_stream(tc_ctx *ctx, const tc_model *model, FILE *stream);

/* tc_read_file of a file that is open: it must outlive the model, and can be read several times. read_file.c */
tc_status tc_read_opened(tc_ctx *ctx, const tc_file *file, const char *path, tc_model **out_model);
#endif
