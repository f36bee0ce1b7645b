/* create.h: ops that create elements or choose them by value: Range, EyeLike, OneHot, NonZero, Compress, TopK, random
 * numbers. */
#ifndef TK_CREATE_H
#define TK_CREATE_H
#include "../common/philox.h"
#include "../common/types.h"
#include "../kernel.h"
#include <math.h>

bool tk_is_true(const void *data, tk_dtype dtype, int64_t i); /* element i is not zero */

/* The number drawn for an element from its words (common/philox.h), in [0, 1): as many upper bits as the type holds, so
 * that no number is rounded up to 1. */
TK_INLINE double tk_uniform_bits(uint32_t word, tk_dtype dtype) {
    int bits = dtype == TK_F16 ? 11 : dtype == TK_BF16 ? 8 : 24;
    return (double)(word >> (32 - bits)) * (1.0 / (1 << bits));
}
/* Of the standard normal distribution: G. E. P. Box, M. E. Muller, "A note on the generation of random normal
 * deviates", 1958. Numbers are up to 5.8 away from 0. */
TK_INLINE double tk_normal(uint32_t first, uint32_t second) {
    double u = (double)(first >> 8) * 0x1p-24, v = (double)(second >> 8) * 0x1p-24;
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* clang-format off */
#define TK_CREATE_KERNELS(K) \
    /* out[i] = start + i * delta: [n]; start, delta: scalars of the same type (floats and integers) */ \
    K(range, (tk_queue *q, void *out, const void *start, const void *delta, int64_t n, tk_dtype dtype), \
      (q, out, start, delta, n, dtype)) \
    /* Zero, and *one on the k-th diagonal. out: [rows, cols] */ \
    K(eye, (tk_queue *q, void *out, const void *one, int64_t rows, int64_t cols, int64_t k, size_t element), \
      (q, out, one, rows, cols, k, element)) \
    /* out: [outer, depth, inner], values[0] but values[1] where the index is meant; indices: [outer, inner] of \
     * any numeric type; one outside [-depth, depth) leaves values[0]. */ \
    K(one_hot, (tk_queue *q, void *out, const void *values, const void *indices, tk_dtype index_type, \
      int64_t outer, int64_t depth, int64_t inner, size_t element), \
      (q, out, values, indices, index_type, outer, depth, inner, element)) \
    /* Positions of elements that are not zero, in row-major order. out: int64 [rank, n]; TK_BAD_VALUE when \
     * there are not n. workspace: tk_nonzero_workspace bytes for as many elements */ \
    K(nonzero, (tk_queue *q, int64_t *out, int64_t n, const void *inp, tk_dtype dtype, int rank, \
      const int64_t *dims, void *workspace), (q, out, n, inp, dtype, rank, dims, workspace)) \
    /* Entries along an axis where the condition holds. out: [outer, n, inner]; inp: [outer, axis, inner]; \
     * condition: bool [n_condition], absent entries count as false; TK_BAD_VALUE when there are not n true \
     * ones within the axis. workspace: tk_compress_workspace(n_condition, n) bytes */ \
    K(compress, (tk_queue *q, void *out, const void *inp, const uint8_t *condition, int64_t n_condition, \
      int64_t outer, int64_t axis, int64_t inner, int64_t n, size_t element, void *workspace), \
      (q, out, inp, condition, n_condition, outer, axis, inner, n, element, workspace)) \
    /* The k largest (or smallest) along an axis, best first, equal ones by position. values (may be NULL), \
     * indices (may be NULL): [outer, k, inner]; inp: [outer, axis, inner]; NaN counts as the largest. \
     * workspace: tk_topk_workspace bytes */ \
    K(topk, (tk_queue *q, void *values, int64_t *indices, const void *inp, tk_dtype dtype, int64_t outer, \
      int64_t axis, int64_t inner, int64_t k, bool largest, void *workspace), \
      (q, values, indices, inp, dtype, outer, axis, inner, k, largest, workspace)) \
    /* low + (high - low) u, element i from word i of the node's draw; any float type, rounded in float, of doubles in \
     * double. out: [n] */ \
    K(random_uniform, (tk_queue *q, void *out, int64_t n, float low, float high, tk_seed seed, tk_dtype dtype), \
      (q, out, n, low, high, seed, dtype)) \
    /* mean + scale z, z from words 2 i and 2 i + 1. out: [n] */ \
    K(random_normal, (tk_queue *q, void *out, int64_t n, float mean, float scale, tk_seed seed, tk_dtype dtype), \
      (q, out, n, mean, scale, seed, dtype))
#define TK_CREATE_WORKSPACES(W) \
    W(nonzero_workspace, (int64_t items), (items)) \
    W(compress_workspace, (int64_t n_condition, int64_t n), (n_condition, n)) \
    W(topk_workspace, (int64_t outer, int64_t axis, int64_t inner, int64_t k), (outer, axis, inner, k))
/* clang-format on */

TK_CREATE_KERNELS(TK_DECLARE_KERNEL)
TK_CREATE_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
