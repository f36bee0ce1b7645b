/* pack.h: where buffers with known lifetimes lie in one arena. Pure arithmetic on intervals: it knows no graph. */
#ifndef RT_PACK_H
#define RT_PACK_H
#include <stddef.h>
#include <stdint.h>

#define RT_ALIGN 64

typedef struct rt_buffer {
    size_t bytes;         /* as needed */
    uint32_t first, last; /* the launches that it is live in, both inclusive */
    size_t offset;        /* out: a multiple of RT_ALIGN */
} rt_buffer;

typedef struct rt_packing {
    size_t bytes;       /* of the arena */
    size_t lower_bound; /* the most bytes live at one time; bytes equals it when the packing is perfect */
    uint32_t peak;      /* the first launch at which that many are live */
} rt_packing;

static inline size_t rt_aligned(size_t bytes) { return (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN; }

/* Sets the offset of each of `n` buffers such that no two that are live together overlap. `n_steps` bounds every
 * `last`. Returns 0, or -1 when the bytes do not fit size_t. */
int rt_pack(rt_buffer *buffers, size_t n, uint32_t n_steps, rt_packing *out_packing);
#endif
