/* npz.h: named tensors in numpy's .npz files: a zip archive of .npy files, stored or deflated. Only npz.c sees
 * libzip. */
#ifndef RT_NPZ_H
#define RT_NPZ_H
#include "compiler/base/base.h"
#include "runtime/tempo.h"

typedef struct rt_array {
    const char *name; /* the key: the member's name without .npy */
    tempo_tensor tensor;
    void *memory; /* the memory to free; NULL where the tensor is borrowed */
    bool skipped; /* not wanted: it has only a name */
} rt_array;

typedef struct rt_npz {
    tc_arena *arena; /* names and dims */
    rt_array *arrays;
    size_t n;
} rt_npz;

/* Every array of the file; those whose name `wants` approves with their elements, aligned to 64 bytes. TC_BAD_INPUT
 * names the key of a bad member, TC_LIMIT of one that does not fit in memory; TC_IO when the file cannot be read. On
 * failure there is nothing to free. */
typedef bool (*rt_npz_wants)(const void *user, const char *name);
tc_status rt_npz_read(tc_ctx *ctx, const char *path, rt_npz_wants wants, const void *user, rt_npz *out_npz);
void rt_npz_free(rt_npz *npz);

/* Writes arrays uncompressed, in order, the same bytes each time. Control characters in their names become \xNN, names
 * are cut at 65000 bytes, and of two equal results the second gets a number. Through a temporary file that is renamed
 * at the end. */
tc_status rt_npz_write(tc_ctx *ctx, const char *path, const rt_array *arrays, size_t n);
#endif
