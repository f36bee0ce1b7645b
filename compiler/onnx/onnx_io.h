/* onnx_io.h: ONNX files in and out. Only the files onnx_*.c see protobuf-c. */
#ifndef TC_ONNX_IO_H
#define TC_ONNX_IO_H
#include "compiler/ir/ir.h"
#include <sys/stat.h>

/* Reads a model from a file: guarded (depth, duplicates, memory and time linear in the size; reliability limits),
 * checked (names, SSA, order, dims, data lengths, opsets, function cycles). External data is referenced, not opened.
 * `path` "-" is standard input. Files that end in .onnxt, or whose first byte is '<' or printable text, are read as
 * ONNX text. */
tc_status tc_read_file(tc_ctx *ctx, const char *path, tc_model **out_model);
bool tc_ends_with(const char *name, const char *end); /* ".onnxt", say. read_file.c */
/* The same from memory; the bytes must outlive the model. `path` (may be NULL) is where external data would be. */
tc_status tc_read_onnx(tc_ctx *ctx, const void *bytes, size_t size, const char *path, tc_model **out_model);
/* One serialized TensorProto (input_0.pb of the backend suite), into the model's arena. */
tc_status tc_read_tensor_file(tc_ctx *ctx, tc_model *model, const char *path, tc_tensor **out_tensor);

/* Whether the file describes a step of training (training_info). */
bool tc_has_training(const tc_model *model);
/* Makes the model's graph that step: its nodes stand behind those of the graph, what it updates is an input with a
 * default, paired with an output (marks.h). Right after reading. TC_BAD_INPUT for bindings that name nothing,
 * TC_UNSUPPORTED for several steps and for initial values that are not constants. onnx_training.c */
tc_status tc_merge_training(tc_ctx *ctx, tc_model *model);
void tc_drop_training(tc_model *model); /* it is not written: the graph is no longer the one that it was about */

/* What the file says of a node under this key of its metadata_props; NULL: nothing, or the node is not from an ONNX
 * file. */
const char *tc_node_metadata(const tc_node *node, const char *key);
/* The same of a graph, and of a value, in whatever entry describes it. onnx_metadata.c */
const char *tc_graph_metadata(const tc_graph *graph, const char *key);
const char *tc_value_metadata(const tc_value *value, const char *key);

/* Writes the model as protobuf; what was not changed since it was read comes back field for field. Through a temporary
 * file beside `path` that is renamed at the end ("-": standard output). External tensors keep their references:
 * below the output's folder locations are rewritten; elsewhere they stay, with a warning that the weights must be
 * brought along. */
tc_status tc_write_onnx(tc_ctx *ctx, const tc_model *model, const char *path);
/* The same to an open stream, whose errors stay with it; locations are left as they are. */
tc_status tc_write_onnx_stream(tc_ctx *ctx, const tc_model *model, FILE *stream);

/* The whole file, mapped or read; `out_owner` to tc_file_close. file.c */
typedef struct tc_file {
    const void *data;
    size_t size;
    void *map;
} tc_file;
tc_status tc_file_open(tc_ctx *ctx, const char *path, tc_file *out_file);
void tc_file_close(tc_file *file);
/* Until tc_let_go(held), a failure (recover.h) closes the file. */
void tc_file_hold(tc_file *file, tc_held *held);
void tc_close_fd(void *fd); /* an int: for tc_hold */
/* tc_read_file of a file that is open: it must outlive the model, and can be read several times. read_file.c */
tc_status tc_read_opened(tc_ctx *ctx, const tc_file *file, const char *path, tc_model **out_model);
/* The model borrows from the file: it is closed with the model. tensor_map.c */
void tc_model_keep_file(tc_model *model, tc_file *file);

/* An output file that appears whole or not at all; the open recovery point holds it. One thread at a time. file.c */
typedef struct tc_out_file tc_out_file;
tc_status tc_out_open(tc_ctx *ctx, const char *path, tc_out_file **out_file);
FILE *tc_out_stream(tc_out_file *file);
const char *tc_out_temp_path(tc_out_file *file);         /* for libraries that open files themselves */
tc_status tc_out_commit(tc_ctx *ctx, tc_out_file *file); /* flush, sync, rename; frees */
void tc_out_abandon(tc_out_file *file);                  /* removes the temporary file; frees; NULL is fine */
void tc_remove_temporary_files(void);                    /* of all open outputs: for handlers of signals */

/* The log of a run: written as it grows, truncated first unless `append`, locked against other runs. NULL: the
 * diagnostic is there. */
FILE *tc_out_in_place(tc_ctx *ctx, const char *path, bool append);

/* open(2), but no pipe, terminal or device is waited for (O_NONBLOCK), and the result is none of the three standard
 * files, should these be closed: what others print would become data. file.c */
int tc_open(const char *path, int flags);
int tc_above_standard(int fd);
uint32_t tc_random_name(void); /* for names that nobody else takes */

/* What is written to files, as their bytes tell. */
typedef enum tc_written_kind {
    TC_WRITTEN_MODEL,   /* ONNX, or its text */
    TC_WRITTEN_REPORT,  /* tempoc --report */
    TC_WRITTEN_BUG,     /* reproducer.onnxt */
    TC_WRITTEN_ARRAYS,  /* tempo-run --outputs */
    TC_WRITTEN_PROFILE, /* tempo-run --profile */
    TC_WRITTEN_WEIGHTS, /* tempo-train --save-weights */
    TC_WRITTEN_LOG,     /* tempo-train --log */
    TC_WRITTEN_PLACES,  /* tempoc-plan -o */
} tc_written_kind;
#define TC_WRITTEN_WEIGHTS_BY "tempo-train --save-weights" /* metadata "writer" of a safetensors file */
#define TC_WRITTEN_ARRAYS_BY "tempo-run --outputs"         /* comment of an archive */

/* A file that an option says to write; path NULL: it does not, "-" is standard output. */
typedef struct tc_written {
    const char *option, *path;
    tc_written_kind kind;
} tc_written;
/* The one place that knows all files of a program. Called once, before anything is read: TC_USAGE where one of them is
 * the file of another, or is there and is nothing that its option wrote; TC_IO where it cannot be written. From then on
 * whatever opens a file to read it is refused (TC_USAGE) if it is one of these, or where standard output goes. Paths
 * stay with the caller. written_files.c */
tc_status tc_written_begin(tc_ctx *ctx, const tc_written *written, size_t n);
tc_status tc_written_check(tc_ctx *ctx, const struct stat *read, const char *path);
/* The same of a model's external file, which is opened when it is needed, or never: `ctx->file` is the model. */
tc_status tc_written_check_beside(tc_ctx *ctx, const char *location);
/* TC_USAGE where the file is there and is of another kind. */
tc_status tc_written_check_kind(tc_ctx *ctx, const tc_written *written);
#endif
