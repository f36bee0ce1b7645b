/* cublas.h: products by cuBLASLt, for queues of a CUDA device. The library is loaded when it is asked for first: it is
 * no part of the program, and large. For each problem (shapes, strides, types, alignment) it is asked once for an
 * algorithm, which the queue keeps: so two runs give the same bits, and a recording (cuda_queue.h) asks nothing.
 * docs/decisions/011-products-cuda.md */
#ifndef TK_CUBLAS_H
#define TK_CUBLAS_H
#include "../cuda/cuda_queue.h"
#include "matmul.h"

/* Loads the library, if that was not done before, and makes a handle and a workspace for the queue. False: `why` says
 * what is missing. */
bool tk_cublas_open(tk_cuda *cuda, char *why, size_t why_bytes);
/* Gives back what the queue's products have; where there is nothing, fine. When all of its work has run. */
void tk_cublas_close(tk_cuda *cuda);

/* The workspace of products, in the device's memory: it belongs to the queue until tk_cublas_close. */
void *tk_cublas_workspace(const tk_cublas *cublas, size_t *out_bytes);

/* The problems met so far, a line each, with the algorithm of each: as snprintf gives it, cut to `bytes`. */
size_t tk_cublas_describe(const tk_cublas *cublas, char *text, size_t bytes);

/* Queues out = alpha op(A) op(B) + beta out, or + beta add, or + bias, for a batch at even steps, and sums of an
 * operand; nothing is empty. False: cuBLASLt has no algorithm for such a product, and nothing was queued. Other errors
 * are the queue's (tk_cuda_note). */
bool tk_cublas_product(tk_cuda *cuda, void *out, const void *a, const void *b, const tk_product *product,
                       tk_dtype dtype);
#endif
