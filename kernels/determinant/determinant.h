/* determinant.h: determinants of square matrices (ONNX Det) and their gradients, by elimination with complete pivoting
 * in double: G. H. Golub, C. F. Van Loan, "Matrix Computations", 3.4. */
#ifndef TK_DETERMINANT_H
#define TK_DETERMINANT_H
#include "../common/vector.h"
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

/* --- one matrix, on any device: rows and columns in an order of their own, A = L U ----------- */

/* Scratch of one matrix of n rows, in doubles: the matrix, a column, and the orders of rows and columns. */
#define TK_LU_ROOM(n) ((n) * (n) + 3 * (n))

typedef struct tk_lu {
    int64_t n;
    double *a;            /* [n, n]: the matrix; then L without its ones below, U from the diagonal on */
    double *column;       /* [n] */
    int64_t *rows, *cols; /* [n]: row i of L U is row rows[i] of the matrix, likewise columns */
    double sign;          /* of both orders together */
} tk_lu;

TK_INLINE tk_lu tk_lu_of(double *scratch, int64_t n) {
    tk_lu lu = {n, scratch, scratch + n * n, (int64_t *)(scratch + n * n + n), (int64_t *)(scratch + n * n + 2 * n), 1};
    return lu;
}

TK_INLINE void tk_lu_swap(tk_lu *lu, int64_t k, int64_t row, int64_t col) {
    for (int64_t j = 0; row != k && j < lu->n; j++) {
        double kept = lu->a[k * lu->n + j];
        lu->a[k * lu->n + j] = lu->a[row * lu->n + j];
        lu->a[row * lu->n + j] = kept;
    }
    for (int64_t i = 0; col != k && i < lu->n; i++) {
        double kept = lu->a[i * lu->n + k];
        lu->a[i * lu->n + k] = lu->a[i * lu->n + col];
        lu->a[i * lu->n + col] = kept;
    }
    int64_t kept_row = lu->rows[k], kept_col = lu->cols[k];
    lu->rows[k] = lu->rows[row], lu->rows[row] = kept_row;
    lu->cols[k] = lu->cols[col], lu->cols[col] = kept_col;
    lu->sign = (row != k) != (col != k) ? -lu->sign : lu->sign;
}

/* The largest element left is the next pivot. If it is 0, all other elements left are 0, too. */
TK_INLINE void tk_lu_factor(tk_lu *lu) {
    const int64_t n = lu->n;
    for (int64_t i = 0; i < n; i++)
        lu->rows[i] = lu->cols[i] = i;
    for (int64_t k = 0; k < n; k++) {
        int64_t row = k, col = k;
        double most = 0;
        for (int64_t i = k; i < n; i++)
            for (int64_t j = k; j < n; j++) {
                double size = lu->a[i * n + j] < 0 ? -lu->a[i * n + j] : lu->a[i * n + j];
                if (size > most || (size != size && most == most))
                    most = size, row = i, col = j;
            }
        tk_lu_swap(lu, k, row, col);
        for (int64_t i = k + 1; i < n && most != 0; i++) {
            double factor = lu->a[i * n + k] /= lu->a[k * n + k];
            for (int64_t j = k + 1; j < n; j++)
                lu->a[i * n + j] -= factor * lu->a[k * n + j];
        }
    }
}

TK_INLINE double tk_lu_determinant(const tk_lu *lu) {
    double product = lu->sign;
    for (int64_t i = 0; i < lu->n; i++)
        product *= lu->a[i * lu->n + i];
    return product;
}

/* lu->column = column j of the adjugate of L U. With U = [U', u; 0, d] the adjugate of U is det U' [d U'^-1, -U'^-1 u;
 * 0, 1], which divides by no d: a matrix that lacks one rank has its adjugate, one that lacks more has 0. */
TK_INLINE void tk_lu_adjugate(const tk_lu *lu, int64_t j) {
    const int64_t n = lu->n, last = n - 1;
    double *y = lu->column, d = lu->a[last * n + last], minor = lu->sign;
    for (int64_t i = 0; i < last; i++)
        minor *= lu->a[i * n + i];
    for (int64_t i = 0; i < n; i++) {
        y[i] = i == j ? 1 : 0;
        for (int64_t k = j; k < i; k++)
            y[i] -= lu->a[i * n + k] * y[k];
    }
    for (int64_t i = last - 1; i >= 0; i--) {
        double sum = d * y[i] - lu->a[i * n + last] * y[last];
        for (int64_t k = i + 1; k < last; k++)
            sum -= lu->a[i * n + k] * y[k];
        y[i] = minor == 0 ? 0 : sum / lu->a[i * n + i];
    }
    for (int64_t i = 0; i < n; i++)
        y[i] *= minor;
}
#endif
