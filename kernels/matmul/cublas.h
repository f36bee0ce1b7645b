/* cublas.h: cuBLASLt as products on a CUDA device use it: opened at run time, once a device was found. */
#ifndef TK_CUBLAS_H
#define TK_CUBLAS_H
#include "../common/cuda_queue.h"

/* False, and why: the library is not there or does not start. */
static inline bool tk_cublas_open(tk_cuda *cuda, char *why, size_t bytes) {
    (void)cuda, (void)why, (void)bytes;
    return true;
}
static inline void tk_cublas_close(tk_cuda *cuda) { (void)cuda; }
#endif
