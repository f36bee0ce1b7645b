/* compile.h: a model's file and options -> a compiled graph. Here passes and runtime meet: what tempoc, tempo-train and
 * tempo_compile (tempo.h) share. */
#ifndef TC_COMPILE_H
#define TC_COMPILE_H
#include "compiler/base/base.h"
#include "passes/pass/pass.h"
#include "runtime/files/files.h"

/* The files that a model comes from, open; it can be read several times. */
typedef struct tc_source {
    const tc_file *file;
    const char *path;          /* where external data is, and how messages call the model */
    const rt_weights *weights; /* of --checkpoint; NULL: there are none */
} tc_source;

/* The model as the file has it, with the weights of the other file. */
tc_status tc_source_read(tc_ctx *ctx, const tc_source *from, tc_model **out_model);

typedef struct tc_compile_request {
    const tc_source *source;
    const tc_options *options;
    tc_model *model;  /* read from the source already, and taken over; NULL: it is read now */
    int64_t threads;  /* --threads: what scratch memory of kernels is estimated for; 0: as the file states */
    uint64_t initial; /* tc_runtime's; 0: not known */
    bool in_double;   /* every float type of the file is double (--verify) */
    bool leaves_file; /* a pass that meets a bug leaves reproducer.onnxt */
    FILE *dumps;      /* tc_pass_env's, as the next */
    const tc_watcher *watcher;
} tc_compile_request;

typedef struct tc_compiled {
    tc_model *model; /* to tc_model_destroy; NULL where compiling failed */
    tc_summary summary;
} tc_compiled;

/* Runs the pipeline on the model once. */
tc_status tc_compile(tc_ctx *ctx, const tc_compile_request *request, tc_compiled *out_compiled);

/* What a run of the model takes on the CPU, and its nodes one by one (`nodes` may be NULL); `threads` as above.
 * *out_planned: its shapes are known, and so is the footprint. TC_UNSUPPORTED names nodes without a kernel. estimate.c
 */
tc_status tc_estimate(tc_ctx *ctx, tc_model *model, int64_t threads, const tc_node_memories *nodes,
                      tc_footprint *out_footprint, bool *out_planned);
/* Cuts errors about nodes, those from `n_diags` on, to the first few; TC_UNSUPPORTED. estimate.c */
tc_status tc_report_few(tc_ctx *ctx, size_t n_diags);

/* Every tensor becomes the default of the input of its name, or takes the place of the initializer of its name; the
 * model borrows the elements. TC_BAD_INPUT, with an error that names tensor and file, where there is neither, or where
 * it is of another type or shape. NULL: there is no such file, and nothing to do. take_weights.c */
tc_status tc_take_weights(tc_ctx *ctx, const rt_weights *weights, tc_model *model);
/* Notes which inputs of the model the file has not. take_weights.c */
void tc_report_missing(tc_ctx *ctx, const rt_weights *weights, const tc_model *model);
/* Gives every float type in the model, as read, as double. in_double.c */
tc_status tc_raise_to_double(tc_ctx *ctx, tc_model *model);

/* The watcher's `progress`; `watcher` may be NULL. */
static inline void tc_show_progress(const tc_watcher *watcher, const char *line) {
    if (watcher && watcher->progress)
        watcher->progress(watcher->user, line);
}

/* --dim NAME=VALUE. */
void tc_add_dim(tc_ctx *ctx, tc_options *options, const char *name, int64_t value);
/* The options of the graph that others are compared with: recipe none, and nothing that it does not heed. */
void tc_make_yardstick(tc_options *options);
#endif
