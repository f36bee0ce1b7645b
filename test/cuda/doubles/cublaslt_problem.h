/* cublaslt_problem.h: what a product of the cuBLASLt double is: made by cublaslt_double.c (descriptors, heuristics,
 * refusals), computed by cublaslt_product.c. */
#ifndef CUBLASLT_PROBLEM_H
#define CUBLASLT_PROBLEM_H
#include "cublaslt_double.h"
#include <stdbool.h>

/* Of a matmul descriptor; attributes are of 4 and 8 bytes. */
typedef struct lt_operation {
    int32_t compute, scale, pointer_mode, trans_a, trans_b, trans_c, epilogue, bias_type, aux_type; /* types: -1, D's */
    int64_t bias_stride, aux_ld, aux_stride;
    void *bias, *aux; /* no part of what the problem is */
} lt_operation;

typedef struct lt_layout {
    int32_t type, order, batch;
    bool strided; /* a stride was set */
    uint64_t rows, cols;
    int64_t ld, stride;
} lt_layout;

typedef enum { LT_A, LT_B, LT_C, LT_D, LT_OPERANDS } lt_operand;

typedef struct lt_problem {
    lt_operation op;
    lt_layout layouts[LT_OPERANDS];
    uint64_t m, n, k;
} lt_problem;

/* A product that waits for its turn. */
typedef struct lt_product {
    lt_problem problem;
    const void *at[LT_OPERANDS];
    double alpha, beta;
    const void *alpha_at, *beta_at; /* on the device, or NULL */
    void *workspace;
    size_t workspace_bytes;
} lt_product;

/* Of the epilogue: what it does before the result is stored. */
static inline bool lt_has(const lt_operation *op, int bits) { return (op->epilogue & bits) == bits; }
enum { LT_RELU = 2, LT_BIAS = 4, LT_DRELU = 8, LT_BGRAD = 16, LT_GELU = 32, LT_DGELU = 64, LT_AUX = 128 };

/* Elements from the matrix's beginning. */
static inline int64_t lt_index(const lt_layout *l, int64_t batch, uint64_t row, uint64_t col) {
    const uint64_t major = l->order == CUBLASLT_ORDER_ROW ? row : col,
                   minor = l->order == CUBLASLT_ORDER_ROW ? col : row;
    return batch * l->stride + (int64_t)major * l->ld + (int64_t)minor;
}
/* Elements from the first of a batch to behind its last. */
int64_t lt_extent(const lt_layout *l);

void lt_run_product(void *product); /* lt_product */
#endif
