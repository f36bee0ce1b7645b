/* written_files.h: the files that a program writes, so that none of them replaces a file that it reads or another of
 * them. */
#ifndef TC_WRITTEN_FILES_H
#define TC_WRITTEN_FILES_H
#include "diag.h"
#include <sys/stat.h>

/* Kinds of written files, recognized by their bytes. */
typedef enum tc_written_kind {
    TC_WRITTEN_MODEL,   /* ONNX, or its text */
    TC_WRITTEN_REPORT,  /* tempoc --report */
    TC_WRITTEN_BUG,     /* reproducer.onnxt */
    TC_WRITTEN_ARRAYS,  /* tempo-run --outputs */
    TC_WRITTEN_PROFILE, /* tempo-run --profile */
    TC_WRITTEN_WEIGHTS, /* tempo-train --save-weights, or a part of --save-adapter, as the next two */
    TC_WRITTEN_ADAPTER,
    TC_WRITTEN_SETTINGS,
    TC_WRITTEN_LOG,    /* tempo-train --log */
    TC_WRITTEN_PLACES, /* tempoc-plan -o */
} tc_written_kind;
#define TC_WRITTEN_WEIGHTS_BY "tempo-train --save-weights" /* metadata "writer" of a safetensors file */
#define TC_WRITTEN_ADAPTER_BY "tempo-train --save-adapter" /* the same */
#define TC_WRITTEN_ARRAYS_BY "tempo-run --outputs"         /* comment of an archive */

/* A file to write, named by an option; path NULL: the option is not given, "-" is standard output. */
typedef struct tc_written {
    const char *option, *path;
    tc_written_kind kind;
} tc_written;
/* The one place that knows all files of a program. Called once, before anything is read. TC_USAGE where one of them is
 * also the file of another, or exists and was not written by its option; TC_IO where it cannot be written. From then
 * on, opening one of these, or the file that standard output goes to, for reading is refused (TC_USAGE). Paths stay
 * with the caller. */
tc_status tc_written_begin(tc_ctx *ctx, const tc_written *written, size_t n);
/* The same for one call of a library on this thread, until tc_written_leave, which is called in any case, before the
 * context's arena goes. */
tc_status tc_written_enter(tc_ctx *ctx, const tc_written *written, size_t n);
void tc_written_leave(void);
tc_status tc_written_check(tc_ctx *ctx, const struct stat *read, const char *path);
/* The same for a model's external file, which is opened when it is needed, or never: `ctx->file` is the model. */
tc_status tc_written_check_beside(tc_ctx *ctx, const char *location);
/* TC_USAGE where the file exists and is of another kind. */
tc_status tc_written_check_kind(tc_ctx *ctx, const tc_written *written);
#endif
