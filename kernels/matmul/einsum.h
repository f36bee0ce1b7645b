/* einsum.h: Einsum (ONNX) of any number of operands. Two operands whose indices fall into batch, row, column and summed
 * ones are a batch of products (matmul.h) after moving their dims; everything else is a plain loop over all indices. */
#ifndef TK_EINSUM_H
#define TK_EINSUM_H
#include "../kernel.h"

#define TK_EINSUM_OPERANDS 8

/* Indices 0 .. n_out - 1 are the result's, in its order; the others are summed. Strides in elements, 0 where an operand
 * lacks the index. */
typedef struct tk_einsum {
    int n_operands, n_indices, n_out;
    int64_t dims[TK_MAX_RANK];
    int64_t strides[TK_EINSUM_OPERANDS][TK_MAX_RANK];
} tk_einsum;

bool tk_einsum_has(tk_dtype dtype); /* any float type, and 32- and 64-bit integers */

/* clang-format off */
#define TK_EINSUM_KERNELS(K) \
    /* The plain loop; float sums in double. */ \
    K(einsum_loop, (tk_queue *q, void *out, const void *const *operands, const tk_einsum *e, tk_dtype dtype), \
      (q, out, operands, e, dtype))
/* clang-format on */

TK_EINSUM_KERNELS(TK_DECLARE_KERNEL)
#endif
