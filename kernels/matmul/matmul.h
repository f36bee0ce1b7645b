/* matmul.h: products of matrices, which take most of a step's time. MatMul, Gemm and most of Einsum are one kernel: a
 * batch of row-major products with leading dims and transposes. float goes to oneDNN's sgemm in tiles whose size
 * depends on the shape only, each tile by one thread: results do not depend on the number of threads. double and
 * integers take own loops. 16-bit types go through float, but bfloat16 goes to primitives (primitive.h) where the
 * processor has instructions for it. docs/decisions/003-products.md and 005-16-bit.md have the measurements. */
#ifndef TK_MATMUL_H
#define TK_MATMUL_H
#include "../common/broadcast.h"
#include "../common/places.h"

/* A second result of a product: sums over k of an operand, such as the gradient of a bias. */
typedef enum tk_product_sums {
    TK_SUMS_NONE,
    TK_SUMS_OF_A, /* of each row of op(A): [m] */
    TK_SUMS_OF_B, /* of each column of op(B): [n] */
} tk_product_sums;

/* out[i] = alpha op(A_i) op(B_i) + beta out[i], 0 <= i < batch; op(A) [m, k], op(B) [k, n], out [batch, m, n] dense. Of
 * 16-bit types a tile is summed in float and rounded once. */
typedef struct tk_product {
    int64_t batch, m, n, k;
    int64_t lda, ldb;      /* elements from one row to the next, as stored */
    bool trans_a, trans_b; /* A is stored [k, m], B [n, k] */
    tk_places a_at, b_at;  /* where A_i and B_i begin */
    double alpha, beta;    /* integers: 1, and 0 or 1 */
    bool wide;             /* of 16-bit types: out is of floats */
    const void *bias;      /* of floats of any type: [n] of out's type, added to every row, and beta is 0; or NULL */
    /* Only nodes ai.tempo.Product have these; the CPU gets none: */
    const void *add;         /* like out: replaces out as the matrix that beta multiplies; or NULL */
    tk_product_sums sums_of; /* of one item, without a bias */
    void *sums;              /* of the operands' type */
} tk_product;

/* How product_start writes the bias of a product to every row of out. */
static inline tk_bcast tk_product_rows(const tk_product *p) {
    const int64_t out[] = {p->batch * p->m, p->n};
    const tk_shape bias = {1, &p->n}, all = {2, out};
    tk_bcast bc;
    tk_bcast_init(&bc, all, &bias, 1);
    return bc;
}

bool tk_product_has(tk_dtype dtype);

/* clang-format off */
#define TK_MATMUL_KERNELS(K) \
    K(product_run, (tk_queue *q, void *out, const void *a, const void *b, const tk_product *product, \
      tk_dtype dtype, void *workspace), (q, out, a, b, product, dtype, workspace)) \
    /* out = beta c, broadcast; bc is of out and c: Gemm adds its product to it. Any float type; beta is 1 \
     * for 16 bits. */ \
    K(product_start, (tk_queue *q, void *out, const void *c, double beta, const tk_bcast *bc, tk_dtype dtype), \
      (q, out, c, beta, bc, dtype))
#define TK_MATMUL_WORKSPACES(W) \
    /* 0 but for 16-bit types and sums. */ \
    W(product_workspace, (const tk_product *product, tk_dtype dtype, int slots), (product, dtype, slots))
/* clang-format on */

TK_MATMUL_KERNELS(TK_DECLARE_KERNEL)
TK_MATMUL_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
