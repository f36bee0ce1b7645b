/* determinant.h: determinants of square matrices (ONNX Det) and their gradients, by elimination with complete pivoting
 * in double: G. H. Golub, C. F. Van Loan, "Matrix Computations", 3.4. */
#ifndef TK_DETERMINANT_H
#define TK_DETERMINANT_H
#include "../kernel.h"

/* clang-format off */
#define TK_DETERMINANT_KERNELS(K) \
    /* out: [batch]; inp: [batch, n, n]. Any float type. workspace: tk_determinant_workspace bytes */ \
    K(determinant, (tk_queue *q, void *out, const void *inp, int64_t batch, int64_t n, tk_dtype dtype, \
      void *workspace), (q, out, inp, batch, n, dtype, workspace)) \
    /* dinp[b] = dout[b] times the cofactors of inp[b], which where a matrix is singular are right as well. dinp, inp: \
     * [batch, n, n]; dout: [batch]; dinp may be inp */ \
    K(determinant_grad, (tk_queue *q, void *dinp, const void *dout, const void *inp, int64_t batch, int64_t n, \
      tk_dtype dtype, void *workspace), (q, dinp, dout, inp, batch, n, dtype, workspace))
#define TK_DETERMINANT_WORKSPACES(W) \
    W(determinant_workspace, (int64_t batch, int64_t n, int slots), (batch, n, slots))
/* clang-format on */

TK_DETERMINANT_KERNELS(TK_DECLARE_KERNEL)
TK_DETERMINANT_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
