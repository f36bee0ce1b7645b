/* train_arrays.h: the files of a source -> their arrays, in place. */
#ifndef TRAIN_ARRAYS_H
#define TRAIN_ARRAYS_H
#include "compiler/base/base.h"
#include "runtime/files/files.h"

/* An array in place: row-major, in native byte order, at any alignment. */
typedef struct train_array {
    const char *name;
    tempo_dtype dtype;
    int rank;
    const int64_t *dims; /* [rank] */
    const unsigned char *data;
    size_t bytes;
} train_array;

typedef struct train_file {
    const char *path;
    tc_file file;          /* mapped; train_arrays.c's, as are the next three */
    rt_npz copied;         /* arrays of an .npz that cannot be used in place */
    rt_safetensors header; /* of a .safetensors */
    tc_held held;          /* of the one of the two that is there */
    train_array *arrays;   /* [n] the wanted ones, in the file's order */
    size_t n;
    const char **names; /* [n_names] of all arrays in the file */
    size_t n_names;
} train_file;

typedef struct train_files {
    tc_arena *arena;   /* borrowed: names, dims, tables */
    train_file *files; /* [n] */
    size_t n;
    tc_held held;
} train_files;

/* Opens a file, or all .npz and .safetensors files of a folder in the order of their names. `wanted` has the names of
 * arrays to use; a note names the others. Errors name the file and the array. On failure there is nothing to close. */
tc_status train_files_open(tc_ctx *ctx, tc_arena *arena, const char *path, const tc_map *wanted,
                           train_files *out_source);
void train_files_close(train_files *source);
/* NULL: it is not there. */
const train_array *train_file_array(const train_file *file, const char *name);
/* Whether mapped files are too large for the system to keep in memory. The system is then advised of random reads;
 * otherwise it would read ahead pages that are not needed. */
bool train_files_are_large(const train_files *source);
#endif
