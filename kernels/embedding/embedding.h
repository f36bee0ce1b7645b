/* embedding.h: ops that pick elements by index, and those that put them back: Gather and its gradient,
 * GatherElements, GatherND, ScatterElements, ScatterND, TensorScatter. Every index is checked before it is used: i
 * counts from the end when negative, and one outside [-n, n) is TK_BAD_INDEX, with the result then in part written.
 */
#ifndef TK_EMBEDDING_H
#define TK_EMBEDDING_H
#include "../kernel.h"

typedef struct tk_indices {
    const void *data;
    tk_dtype dtype; /* TK_I32 or TK_I64 */
} tk_indices;

/* How an update combines with its element. */
typedef enum tk_scatter_kind { TK_PUT, TK_ADD, TK_MUL, TK_MIN, TK_MAX } tk_scatter_kind;

/* Tuples of `depth` indices into the dims after the batch dims. indices: [batch, n, depth]; out: [batch, n, inner];
 * inp: [batch, dims[0], ..., dims[depth - 1], inner] */
typedef struct tk_nd {
    int64_t batch, n, inner;
    int depth;
    const int64_t *dims;
} tk_nd;

/* Writes `length` entries of updates along an axis of a cache, from starts[b] on (0 where starts is NULL). out:
 * [batch, mid, axis, inner] (holds the cache); updates: [batch, mid, length, inner]; starts: [batch]; circular:
 * positions wrap, else they are checked */
typedef struct tk_cache_dims {
    int64_t batch, mid, axis, length, inner;
    bool circular;
} tk_cache_dims;

/* Whether tk_scatter_* can combine elements of this type so; 16-bit floats must be widened. */
bool tk_can_reduce(tk_scatter_kind reduction, tk_dtype dtype);

/* clang-format off */
#define TK_EMBEDDING_KERNELS(K) \
    /* out: [outer, n, inner]; inp: [outer, axis, inner]; indices: [n]. Elements of `element` bytes */ \
    K(gather, (tk_queue *q, void *out, const void *inp, tk_indices indices, int64_t outer, int64_t axis, \
      int64_t inner, int64_t n, size_t element), (q, out, inp, indices, outer, axis, inner, n, element)) \
    /* The gradient of tk_gather: out: [outer, axis, inner], zero but for sums of the rows of grad: [outer, n, \
     * inner]. Any float type. Rows that meet are added in the order of the indices, whatever the number of \
     * threads (on CUDA those of one index in stretches of 128, whose sums are added in order); those of 16 bits \
     * in float. workspace: tk_gather_grad_workspace bytes. */ \
    K(gather_grad, (tk_queue *q, void *out, const void *grad, tk_indices indices, int64_t outer, int64_t axis, \
      int64_t inner, int64_t n, tk_dtype dtype, void *workspace), \
      (q, out, grad, indices, outer, axis, inner, n, dtype, workspace)) \
    /* out[i] = inp[i with indices[i] along axis]. out, indices: out_dims; inp: inp_dims */ \
    K(gather_elements, (tk_queue *q, void *out, const void *inp, tk_indices indices, int rank, \
      const int64_t *out_dims, const int64_t *inp_dims, int axis, size_t element), \
      (q, out, inp, indices, rank, out_dims, inp_dims, axis, element)) \
    /* The elements of out where updates go are combined with them, in the order of the updates: of several that \
     * are put in one place the last stays. out: out_dims (holds the data); updates, indices: upd_dims; workspace: \
     * tk_scatter_workspace bytes for as many updates */ \
    K(scatter_elements, (tk_queue *q, void *out, tk_indices indices, const void *updates, int rank, \
      const int64_t *upd_dims, const int64_t *out_dims, int axis, tk_scatter_kind reduction, tk_dtype dtype, \
      void *workspace), (q, out, indices, updates, rank, upd_dims, out_dims, axis, reduction, dtype, workspace)) \
    K(gather_nd, (tk_queue *q, void *out, const void *inp, tk_indices indices, const tk_nd *nd, size_t element), \
      (q, out, inp, indices, nd, element)) \
    /* batch is 1. out: [dims..., inner] (holds the data); updates: [n, inner], in their order; workspace: \
     * tk_scatter_workspace bytes for n */ \
    K(scatter_nd, (tk_queue *q, void *out, tk_indices indices, const void *updates, const tk_nd *nd, \
      tk_scatter_kind reduction, tk_dtype dtype, void *workspace), \
      (q, out, indices, updates, nd, reduction, dtype, workspace)) \
    K(tensor_scatter, (tk_queue *q, void *out, const void *updates, const int64_t *starts, \
      const tk_cache_dims *dims, size_t element), (q, out, updates, starts, dims, element))
#define TK_EMBEDDING_WORKSPACES(W) \
    W(gather_grad_workspace, \
      (int64_t outer, int64_t axis, int64_t inner, int64_t n, tk_dtype dtype, int slots), \
      (outer, axis, inner, n, dtype, slots)) \
    /* Of n updates. */ \
    W(scatter_workspace, (int64_t n), (n))
/* clang-format on */

TK_EMBEDDING_KERNELS(TK_DECLARE_KERNEL)
TK_EMBEDDING_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
