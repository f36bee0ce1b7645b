/* tempo.h: compiling and running ONNX graphs from C. The one public header of libtempo.
 *
 *     tempo_session *session;
 *     if (tempo_open("train.onnx", NULL, &session) == TEMPO_OK && tempo_bind(session, "x", &x) == TEMPO_OK &&
 *         tempo_run(session) == TEMPO_OK && tempo_output(session, "loss", &loss) == TEMPO_OK)
 *         use(loss.data);
 *     else
 *         fputs(tempo_message(session), stderr);
 *     tempo_close(session);
 *
 * A session holds one model. Inputs are bound by name and keep their shapes from run to run. The first run plans all
 * memory as one arena; later runs allocate nothing until a new shape comes. All plans share the arena. Nothing here
 * prints, exits, catches signals or reads the environment. A session is used by one thread at a time. Different
 * sessions are independent: they may run side by side in any threads, including an OpenMP team, whose settings stay as
 * they are.
 *
 * Out of memory is TEMPO_LIMIT, a failed assertion TEMPO_BUG, each with a message. Where the arena does not fit, the
 * session is as before, and smaller inputs may run. Where a call was cut short, the session is lost: its message says
 * so, every later call returns that status again, and tempo_close frees everything.
 *
 * tempo_compile makes the training graph that a session runs: tempoc as a call.
 *
 * The model's files are mapped: one that becomes shorter under a call or a session raises SIGBUS, as mappings do.
 */
#ifndef TEMPO_H
#define TEMPO_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended; tempo-run's exit codes are the same numbers. */
typedef enum tempo_status {
    TEMPO_OK = 0,
    TEMPO_MISMATCH = 1,  /* tempo_compile: --verify found a difference */
    TEMPO_BAD_INPUT = 2, /* a malformed file; a missing input, or one of another type or shape; an index out of range */
    TEMPO_UNSUPPORTED = 3, /* a valid model, with an op, type or opset that the runtime does not run */
    TEMPO_LIMIT = 4,       /* a limit, or out of memory */
    TEMPO_IO = 5,          /* the operating system said no */
    TEMPO_NUMERIC = 6,     /* an update met a gradient with NaN or infinity; weights may have changed in part */
    TEMPO_USAGE = 64,      /* the call itself: an unknown name, outputs read before a run */
    TEMPO_BUG = 70,        /* a bug in Tempo */
} tempo_status;

/* Element types, with ONNX's numbers. */
typedef enum tempo_dtype {
    TEMPO_FLOAT = 1,
    TEMPO_UINT8 = 2,
    TEMPO_INT8 = 3,
    TEMPO_UINT16 = 4,
    TEMPO_INT16 = 5,
    TEMPO_INT32 = 6,
    TEMPO_INT64 = 7,
    TEMPO_BOOL = 9,
    TEMPO_FLOAT16 = 10,
    TEMPO_DOUBLE = 11,
    TEMPO_UINT32 = 12,
    TEMPO_UINT64 = 13,
    TEMPO_BFLOAT16 = 16,
} tempo_dtype;

/* A dense tensor, row-major, borrowed. */
typedef struct tempo_tensor {
    tempo_dtype dtype;
    int rank;
    const int64_t *dims; /* [rank]; may be NULL when rank is 0 */
    void *data; /* aligned to its element; not written when it is an input; NULL is fine when there are no elements */
    size_t bytes;
} tempo_tensor;

typedef struct tempo_session tempo_session; /* opaque */

typedef struct tempo_options {
    const char *device; /* "cpu", "cuda" or "cuda:N", a GPU by its number; NULL: "cpu". TEMPO_UNSUPPORTED: this libtempo
                         * was built without CUDA, or there is no such GPU */
    int threads;        /* 0: one per core */
    uint64_t seed;      /* of Dropout and other random ops */
    /* Not 0: runs of this session check the plan and the kernels, and compute the same bits. Free bytes of the arena
     * are poisoned with NaN, canaries follow buffers and workspaces, and nodes may read and write live bytes alone;
     * otherwise the run ends as TEMPO_BUG. Slower, in a larger arena; on the CPU only, else opening fails with
     * TEMPO_UNSUPPORTED. */
    int check_memory;
    /* Not 0: products of floats may round their operands to TF32, 10 bits after the point; tensor cores multiply these
     * several times faster. On CUDA only, else opening fails with TEMPO_UNSUPPORTED. */
    int tf32;
    double patience; /* seconds that tempo_join, and each run of a rank, wait for other ranks; 0: 120 */
    /* Not 0: on CUDA convolutions are products of patches, also where cuDNN is. */
    int no_cudnn;
    /* Not 0: Dropout draws the masks that ONNX Runtime's CPU kernels draw, by the node's own attribute `seed`; run k of
     * an ONNX Runtime session is the one with `step` k. The options' seed is that of other random ops. A Dropout
     * without the attribute fails with TEMPO_UNSUPPORTED. On the CPU only, else opening fails with that. */
    int ort_dropout;
} tempo_options;

/* Reads a model. `options` may be NULL. The call always sets a session, never NULL, whatever the status is:
 * tempo_message can then say why it failed. Close it either way. */
tempo_status tempo_open(const char *path, const tempo_options *options, tempo_session **out_session);
void tempo_close(tempo_session *session); /* NULL is fine */
/* The errors of the last call that failed: lines of text with the node's or input's name and a hint; "" when it
 * succeeded. Valid until the next call. */
const char *tempo_message(const tempo_session *session);

/* A graph input or output as the file declares it. */
typedef struct tempo_info {
    const char *name;
    tempo_dtype dtype; /* 0: not declared */
    const char *type;  /* as ONNX text: "float[batch,16]" */
    int has_default;   /* inputs: an initializer of the same name is used when nothing is bound */
} tempo_info;
size_t tempo_input_count(const tempo_session *session);
size_t tempo_output_count(const tempo_session *session);
/* False (0) when there is no such index. The strings live as long as the session. */
int tempo_input(const tempo_session *session, size_t index, tempo_info *out_info);
int tempo_output_info(const tempo_session *session, size_t index, tempo_info *out_info);

/* Binds the elements of an input. They are borrowed, not copied: they must stay until the input is bound again or the
 * session is closed. New shapes make the next run plan again, and so do other values where values decide shapes or the
 * course of If, Loop and Scan. The plans used last are kept, sixteen at most. */
tempo_status tempo_bind(tempo_session *session, const char *name, const tempo_tensor *tensor);
/* Seed and step of the random ops from the next run on; two runs with the same pair draw the same numbers. A graph
 * input `tempo.seed` that nothing is bound to gets both as int64[2]. */
void tempo_seed(tempo_session *session, uint64_t seed, uint64_t step);

/* State: tensors that stay in the session from run to run, on the device: weights, moments, running statistics. Pairs
 * an output with the input that it replaces in the next run, without a copy where the graph allows it; both are of one
 * type and shape. Each is of one pair at most. The first run begins with the input's default, or with the elements set
 * by tempo_set_state. A run that fails leaves states undefined. TEMPO_USAGE for names that the model does not have. */
tempo_status tempo_keep(tempo_session *session, const char *output, const char *input);
/* The elements that the next run begins with: set copies them in, get returns them borrowed, valid until the next call.
 * `input` is one of a pair. */
tempo_status tempo_set_state(tempo_session *session, const char *input, const tempo_tensor *tensor);
tempo_status tempo_get_state(tempo_session *session, const char *input, tempo_tensor *out_tensor);

/* Data parallel training: sessions of one graph, each on a GPU of its own and with a part of the batch, are the ranks
 * of a group. Ranks are processes, or threads with a session each. One of them makes the group and hands its bytes to
 * all others, by any means; then each joins, and waits for all.
 *
 * TEMPO_UNSUPPORTED: the session's device is no GPU, or NCCL is not there; TEMPO_IO: the ranks do not find each other,
 * or not in time. */
typedef struct tempo_group {
    char bytes[128];
} tempo_group;
tempo_status tempo_new_group(tempo_session *session, tempo_group *out_group);
tempo_status tempo_join(tempo_session *session, const tempo_group *group, int rank, int ranks);
/* From the next run on, the output is its mean over all ranks, for nodes that read it as well: a gradient, say, before
 * an optimizer in the graph. A session that has not joined is a single rank. Outputs are floats that nodes compute,
 * else the run fails with TEMPO_UNSUPPORTED; all ranks name the same ones. Reductions run beside the rest of the graph.
 * Every rank runs as often as the others; a run waits for them, no longer than the options' patience. If a run fails
 * after it has begun, the session leaves its group: the others' runs end with TEMPO_IO, at once or by that limit. It
 * may join a new one. */
tempo_status tempo_average(tempo_session *session, const char *output);

/* Resolves all shapes, plans and takes the memory. tempo_run does it when needed; call it to fail early or to read
 * the plan. */
tempo_status tempo_prepare(tempo_session *session);
tempo_status tempo_run(tempo_session *session);
/* An output of the last run: borrowed, valid until the next tempo_bind, tempo_run or tempo_close. */
tempo_status tempo_output(tempo_session *session, const char *name, tempo_tensor *out_tensor);

/* A buffer that is live at the peak. */
typedef struct tempo_live {
    const char *name; /* the value; "workspace of NODE" */
    const char *type;
    uint64_t bytes;
} tempo_live;

/* Bytes of a prepared session. Every buffer is counted with its alignment to 64 bytes, but for `saved`. */
typedef struct tempo_memory {
    uint64_t parameters;    /* initializers and constants, borrowed from the file */
    uint64_t inputs;        /* bound, borrowed from the caller */
    uint64_t state;         /* kept from run to run; twice where a run needs old and new elements side by side */
    uint64_t outputs;       /* graph outputs; those that nodes compute lie in the arena */
    uint64_t arena;         /* all results of nodes: the size of the one allocation */
    uint64_t lower_bound;   /* the most bytes that are live at one time: no plan can need less */
    const char *peak_node;  /* the node that runs at that time */
    const tempo_live *live; /* the buffers live then, biggest first */
    size_t n_live;
    uint64_t saved; /* held from the forward pass for the backward pass, in the arena or as shapes that the plan knows:
                       raw bytes, without alignment */
} tempo_memory;
/* Prepares the session; the report's pointers are valid until the next call. */
tempo_status tempo_memory_report(tempo_session *session, tempo_memory *out_memory);

/* Called after each launch of a run when set: op, node name, seconds since the run began and seconds it took. */
typedef struct tempo_event {
    const char *op, *node;
    const char *type;     /* of result 0 */
    const char *operands; /* their types, separated by ", "; nothing where one is absent */
    double start, seconds;
} tempo_event;
typedef void (*tempo_event_fn)(void *user, const tempo_event *event);
void tempo_on_event(tempo_session *session, tempo_event_fn event, void *user);

/* --- compiling ---------------------------------------------------------------------------------- */

typedef struct tempo_compile_request {
    const char *path;  /* the model's file, ONNX or ONNX text; beside `bytes`: where external data is, or NULL */
    const void *bytes; /* the model itself, borrowed until the call returns; NULL: it is in the file */
    size_t size;
    const char *name; /* of the model in messages; NULL: the path */
    /* [n_options] words as they follow tempoc on a command line: "--recipe=tiled", "--dim", "batch=32", "-o", "t.onnx".
     * Options that print and exit (--help, --list-passes, --check-rules and others) are TEMPO_USAGE, and so is "-" for
     * a file. */
    const char *const *options;
    size_t n_options;
    int wants_model;  /* not 0: the compiled model comes back in memory, also where -o names a file */
    int wants_report; /* not 0: and so does the report, for which recipe none is compiled as well */
    /* Set to a number other than 0, by another thread or a signal handler, it ends the call soon, with TEMPO_LIMIT.
     * NULL: there is no such number. */
    const volatile int *stop;
} tempo_compile_request;

typedef enum tempo_severity { TEMPO_NOTE, TEMPO_WARNING, TEMPO_ERROR } tempo_severity;

/* NULL where there is no such text. */
typedef struct tempo_diagnostic {
    tempo_severity severity;
    tempo_status status; /* of an error */
    const char *file;    /* the model, by its name, or "FILE:LINE:COLUMN" of a text */
    const char *pass;    /* that was running */
    const char *op, *node;
    const char *message, *hint;
} tempo_diagnostic;

typedef struct tempo_compiled {
    const void *model; /* as bytes; NULL: it was not asked for, or there is none */
    size_t model_size;
    const char *report;   /* in JSON, as tempoc --report=FILE.json writes it; NULL likewise */
    const char *text;     /* lines that tempoc prints: the report for a reader, tables of --fit and --verify; "" */
    const char *dumps;    /* of --print-ir-before and --print-ir-after; "" */
    const char *messages; /* the diagnostics as lines, as tempoc prints them; "" */
    const tempo_diagnostic *diagnostics;
    size_t n_diagnostics;
} tempo_compiled;

/* Compiles a model as tempoc does: the same options, results, messages and statuses, in this process. A result comes
 * back, never NULL, whatever the status is; free it either way. Files that the options name appear whole or not at all;
 * one that is read, or that another program wrote, is not replaced. Calls in several threads are independent. Memory
 * beyond the result is given back. Where a pass meets a bug of ours (TEMPO_BUG), reproducer.onnxt is left in the
 * current folder, as by tempoc. */
tempo_status tempo_compile(const tempo_compile_request *request, tempo_compiled **out_compiled);
void tempo_compiled_free(tempo_compiled *compiled); /* NULL is fine */

const char *tempo_version(void);
const char *tempo_dtype_text(tempo_dtype dtype); /* "float", "int64", ... */
size_t tempo_dtype_size(tempo_dtype dtype);      /* bytes of one element; 0: none of ours */

#ifdef __cplusplus
}
#endif
#endif
