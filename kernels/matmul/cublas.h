/* cublas.h: products by cuBLASLt, for queues of a CUDA device. The library is loaded at its first use: it is large, and
 * no part of the program. The queue asks it for an algorithm once for each problem (shapes, strides, types, alignment)
 * and keeps that: so two runs give the same bits, and a recording (cuda_queue.h) asks nothing.
 * docs/decisions/011-products-cuda.md */
#ifndef TK_CUBLAS_H
#define TK_CUBLAS_H
#include "../cuda/cuda_queue.h"
#include "matmul.h"

/* Loads the library, if that was not done before, and makes a handle and a workspace for the queue. False: `why` names
 * the missing part. */
bool tk_cublas_open(tk_cuda *cuda, char *why, size_t why_bytes);
/* Frees the state of the queue's products, if there is any. Call it when all of the queue's work has run. */
void tk_cublas_close(tk_cuda *cuda);

/* The workspace of products, in the device's memory: it belongs to the queue until tk_cublas_close. */
void *tk_cublas_workspace(const tk_cublas *cublas, size_t *out_bytes);

/* The problems met so far, a line each, with the algorithm of each: as snprintf returns it, cut to `bytes`. */
size_t tk_cublas_describe(const tk_cublas *cublas, char *text, size_t bytes);

/* Queues out = alpha op(A) op(B) + beta out, or + beta add, or + bias, for a batch at even steps, and sums of an
 * operand; nothing is empty. False: cuBLASLt has no algorithm for such a product, and nothing was queued. Other errors
 * are the queue's (tk_cuda_note). */
bool tk_cublas_product(tk_cuda *cuda, void *out, const void *a, const void *b, const tk_product *product,
                       tk_dtype dtype);
#endif
