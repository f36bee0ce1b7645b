/* cublas_queue.h: cublas_library.c and cublas_product.c share the library's functions and a queue's state. */
#ifndef TK_CUBLAS_QUEUE_H
#define TK_CUBLAS_QUEUE_H
#include "cublas.h"
#include <cublasLt.h>

/* clang-format off */
#define TK_CUBLASLT_FUNCTIONS(F) \
    F(Create) F(Destroy) F(GetStatusName) F(MatmulDescCreate) F(MatmulDescDestroy) F(MatmulDescSetAttribute) \
    F(MatrixLayoutCreate) F(MatrixLayoutDestroy) F(MatrixLayoutSetAttribute) F(MatmulPreferenceCreate) \
    F(MatmulPreferenceDestroy) F(MatmulPreferenceSetAttribute) F(MatmulAlgoGetHeuristic) \
    F(MatmulAlgoConfigGetAttribute) F(Matmul)
/* clang-format on */

#define TK_CUBLASLT_MEMBER(name) __typeof__(cublasLt##name) *name;
typedef struct tk_cublaslt {
    TK_CUBLASLT_FUNCTIONS(TK_CUBLASLT_MEMBER)
} tk_cublaslt;

/* All that an algorithm depends on. Compared and hashed as bytes: there is no padding. */
typedef struct tk_cublas_problem {
    int64_t m, n, k, lda, ldb, step_a, step_b; /* steps: 0 where there is one item */
    int32_t batch, dtype, wide, trans_a, trans_b, tf32;
    int32_t align_a, align_b, align_out; /* bytes that all items begin at a multiple of */
    int32_t epilogue;                    /* cublasLtEpilogue_t */
} tk_cublas_problem;

/* A problem with all that a call needs; cuBLASLt's A is our B, and the other way round. */
typedef struct tk_cublas_solution {
    tk_cublas_problem of;
    bool found; /* else there is no algorithm */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    float waves;
} tk_cublas_solution;

struct tk_cublas {
    tk_cublaslt lt;
    cublasLtHandle_t handle;
    void *workspace; /* on the device */
    size_t workspace_bytes;
    tk_cublas_solution *solutions; /* in the order in which they were met */
    uint32_t n_solutions, capacity;
    uint32_t *slots; /* [n_slots], a power of two: the number of a solution + 1, found by hash; 0: free */
    uint32_t n_slots;
};

void tk_cublas_forget(tk_cublas *cublas); /* all solutions */
#endif
