/* matmul.h: products of matrices, the part of a step that takes the time. MatMul, Gemm and most of Einsum are one
 * kernel: a batch of row-major products with leading dims and transposes. float goes to oneDNN's sgemm in tiles whose
 * size depends on the shape only, each tile by one thread: results do not depend on the number of threads. double and
 * integers take own loops. docs/decisions/003-products.md has the measurements. */
#ifndef TK_MATMUL_H
#define TK_MATMUL_H
#include "../common/broadcast.h"

/* out[i] = alpha op(A_i) op(B_i) + beta out[i], 0 <= i < batch; op(A) [m, k], op(B) [k, n], out [batch, m, n] dense. */
typedef struct tk_product {
    int64_t batch, m, n, k;
    int64_t lda, ldb;           /* elements from one row to the next, as stored */
    bool trans_a, trans_b;      /* A is stored [k, m], B [n, k] */
    const int64_t *a_at, *b_at; /* [batch]: where A_i and B_i begin, in elements */
    double alpha, beta;         /* integers: 1, and 0 or 1 */
} tk_product;

bool tk_product_has(tk_dtype dtype);
void tk_product_run(void *out, const void *a, const void *b, const tk_product *product, tk_dtype dtype);
void tk_product_ref(void *out, const void *a, const void *b, const tk_product *product, tk_dtype dtype);

/* out = beta c, broadcast; bc is of out and c: what Gemm adds its product to. float and double. */
void tk_product_start(void *out, const void *c, double beta, const tk_bcast *bc, tk_dtype dtype);
#endif
