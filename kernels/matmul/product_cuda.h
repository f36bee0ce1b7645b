/* product_cuda.h: the product by a plain kernel, of all types that products take; any sizes, but none of batch, m and n
 * is 0. product_cuda.cu */
#ifndef TK_PRODUCT_CUDA_H
#define TK_PRODUCT_CUDA_H
#include "matmul.h"

/* As tk_product_run, without a workspace, a bias and sums. Sums run over k in order, in float for 16 bits. */
void tk_cuda_product_plain(tk_queue *q, void *out, const void *a, const void *b, const tk_product *product,
                           tk_dtype dtype);
#endif
