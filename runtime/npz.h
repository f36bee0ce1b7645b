/* npz.h: named tensors in numpy's .npz files: a zip archive of .npy files, stored or deflated. Only npz.c sees
 * libzip. */
#ifndef RT_NPZ_H
#define RT_NPZ_H
#include "../compiler/diag.h"
#include "tempo.h"

typedef struct rt_array {
    const char *name; /* the key: the member's name without .npy */
    tempo_tensor tensor;
    void *memory;     /* what is freed; NULL where the tensor is borrowed */
} rt_array;

typedef struct rt_npz {
    tc_arena *arena; /* names and dims */
    rt_array *arrays;
    size_t n;
} rt_npz;

/* Every array of the file, elements aligned to 64 bytes. TC_BAD_INPUT names the key of a bad member; TC_IO when the
 * file cannot be read. On failure there is nothing to free. */
tc_status rt_npz_read(tc_ctx *ctx, const char *path, rt_npz *out_npz);
void rt_npz_free(rt_npz *npz);
const rt_array *rt_npz_find(const rt_npz *npz, const char *name); /* NULL: no such key */

/* Writes arrays uncompressed, in order, the same bytes each time; through a temporary file that is renamed at the
 * end. */
tc_status rt_npz_write(tc_ctx *ctx, const char *path, const rt_array *arrays, size_t n);
#endif
