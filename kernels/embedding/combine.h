/* combine.h: how an update combines with its element, by type; the scatters share it. */
#ifndef TK_COMBINE_H
#define TK_COMBINE_H
#include "../common/vector.h"
#include "embedding.h"

typedef void (*tk_combine_fn)(void *to, const void *from, int64_t n); /* to[i] = to[i] op from[i] */
tk_combine_fn tk_combine(tk_scatter_kind reduction, tk_dtype dtype);  /* NULL: not for this type; never for TK_PUT */

/* The index as a position in [0, n), or -1. */
TK_INLINE int64_t tk_position(tk_indices indices, int64_t i, int64_t n) {
    int64_t at = indices.dtype == TK_I64 ? ((const int64_t *)indices.data)[i] : ((const int32_t *)indices.data)[i];
    if (at < -n || at >= n)
        return -1;
    return at < 0 ? at + n : at;
}
#endif
