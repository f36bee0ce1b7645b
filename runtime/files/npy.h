/* npy.h: the header of numpy's .npy format, versions 1 to 3 (numpy.lib.format): the type and shape of the bytes after
 * it. */
#ifndef RT_NPY_H
#define RT_NPY_H
#include "compiler/ir/ir.h"
#include "runtime/tempo.h"

typedef struct rt_npy {
    tempo_dtype dtype;
    bool swapped;       /* elements are big-endian */
    bool fortran_order; /* the first dim varies fastest */
    int rank;
    int64_t dims[TC_MAX_RANK];
    uint64_t count;
    size_t header; /* bytes before the elements */
    size_t bytes;  /* of the elements */
} rt_npy;

/* Reads the header of the array `name` (for messages) from its file's bytes, all `size` of them. TC_BAD_INPUT when it
 * is malformed, has bytes missing or left over, or holds a type that tensors do not have (strings, objects, records,
 * complex). 2-byte voids are read as bfloat16, which is how numpy saves it. */
tc_status rt_npy_parse(tc_ctx *ctx, const char *name, const void *bytes, size_t size, rt_npy *out_npy);
/* Copies the elements to `out` (npy->bytes) in row-major order and native byte order. */
void rt_npy_elements(const rt_npy *npy, const void *bytes, void *out);
/* The header for a tensor, padded to a multiple of 64 bytes; `out` has room for RT_NPY_HEADER. Returns its bytes. */
#define RT_NPY_HEADER 1024
size_t rt_npy_header(const tempo_tensor *tensor, char *out);
#endif
