/* safetensors.h: named tensors in files of the safetensors format, which PyTorch, transformers, JAX and MLX read and
 * write: eight bytes (the header's length, little-endian), a header in JSON, then all elements, row-major and
 * little-endian. Nothing in such a file is run, and nothing in it is a checksum. */
#ifndef RT_SAFETENSORS_H
#define RT_SAFETENSORS_H
#include "compiler/ir/ir.h"
#include "compiler/base/base.h"
#include "npz.h"

#define RT_SAFETENSORS_HEADER 100000000 /* bytes of a header, at most: the format's own limit */

typedef struct rt_safetensors {
    tc_arena *arena;         /* owns all that follows, but for elements */
    rt_array *arrays;        /* [n] in the order of their elements in the file */
    size_t n;                /* */
    const tc_pair *metadata; /* [n_metadata] strings for strings, "format" for "pt", say */
    size_t n_metadata;
    size_t header; /* bytes before the elements */
    tc_file file;  /* mapped: elements are borrowed from it, unless they are not aligned for their type */
    tc_held held;
} rt_safetensors;

/* Opens a file for reading; `out` may not be moved before it is closed. TC_BAD_INPUT names the tensor or the byte of
 * the header: malformed JSON, two of one name, elements that overlap, leave holes or do not fit type and shape.
 * TC_UNSUPPORTED: element types that no tensor here has (float8). TC_LIMIT: names and ranks beyond those of models. On
 * failure there is nothing to close, and the context's file is this one. */
tc_status rt_safetensors_open(tc_ctx *ctx, const char *path, rt_safetensors *out);
/* The same for bytes in memory, which are borrowed. Time and memory are linear in the header, whatever the bytes
 * are. */
tc_status rt_safetensors_read(tc_ctx *ctx, const void *bytes, size_t size, rt_safetensors *out);
void rt_safetensors_close(rt_safetensors *s);
/* NULL: there is none of this name. Looks at one after another. */
const rt_array *rt_safetensors_find(const rt_safetensors *s, const char *name);

/* A file to be written: its header, and the arrays in the order in which they are written. */
typedef struct rt_safetensors_layout {
    tc_arena *arena;         /* holds all that follows */
    const char *header;      /* with its length before it, padded so that elements begin at a multiple of 8 */
    size_t header_bytes;     /* */
    const rt_array **arrays; /* [n] by size of element, the biggest first, so that each lies at a multiple of its size;
                                else in the order given */
    size_t n;
    uint64_t bytes; /* of the file */
} rt_safetensors_layout;
/* TC_BAD_INPUT for names that are not UTF-8 or occur twice; TC_LIMIT where the header gets too long. */
tc_status rt_safetensors_lay_out(tc_ctx *ctx, const rt_array *arrays, size_t n, const tc_pair *metadata,
                                 size_t n_metadata, rt_safetensors_layout *out);
void rt_safetensors_free_layout(rt_safetensors_layout *layout);
/* The file appears whole or not at all: room is taken first, then all is written under another name, flushed to the
 * disk and renamed. TC_IO where the system says no. */
tc_status rt_safetensors_write_layout(tc_ctx *ctx, const char *path, const rt_safetensors_layout *layout);
/* All of these. The same arrays give the same bytes. */
tc_status rt_safetensors_write(tc_ctx *ctx, const char *path, const rt_array *arrays, size_t n, const tc_pair *metadata,
                               size_t n_metadata);

/* The format's name of a type, "BF16"; NULL: it has none. */
const char *rt_safetensors_dtype(tempo_dtype dtype);
#endif
