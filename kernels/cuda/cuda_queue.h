/* cuda_queue.h: the state of a CUDA device's queue beside that of every queue (queue.h): the stream that kernels and
 * products are launched on, the place where the device notes faults, and the device's properties. Owned by
 * runtime/cuda; in tests <cuda_runtime_api.h> is the double of test/cuda. */
#ifndef TK_CUDA_QUEUE_H
#define TK_CUDA_QUEUE_H
#include "../queue.h"
#include <cuda_runtime_api.h>

/* Products of this queue: the library, its handle, the algorithms chosen so far. matmul/matmul_cuda.c */
typedef struct tk_cublas tk_cublas;
/* Its convolutions, likewise. conv/cudnn_conv.c */
typedef struct tk_cudnn tk_cudnn;

typedef struct tk_cuda {
    cudaStream_t stream;
    unsigned long long *fault; /* on the device: launch << 8 | status of the first fault, 0: none */
    int multiprocessors;
    int architecture;   /* 10 major + minor: 90 */
    size_t shared_most; /* bytes of shared memory that a block may ask for */
    tk_cublas *cublas;  /* since the device started: tk_cublas_open */
    tk_cudnn *cudnn;    /* since its first convolution, in builds that may have it; NULL before */
    bool no_cudnn;      /* convolutions are products of patches: on request */
    bool tf32;          /* products of floats may round their operands to 11 bits: on request */
    bool recording;     /* launches are recorded as a graph: nothing may be allocated or waited for */
    cudaError_t error;  /* the first error since the queue was last waited for */
    const char *what;   /* the call that gave it */
} tk_cuda;

/* The queue's, set when its device starts; NULL: the queue is not a CUDA device's, or the device has not started. */
static inline tk_cuda *tk_queue_cuda(const tk_queue *q) { return (tk_cuda *)tk_queue_context(q); }

/* Notes the result of a call of CUDA; false for an error. */
static inline bool tk_cuda_note(tk_cuda *cuda, cudaError_t error, const char *what) {
    if (error != cudaSuccess && cuda->error == cudaSuccess) {
        cuda->error = error;
        cuda->what = what;
    }
    return error == cudaSuccess;
}

#define TK_DECLARE_CUDA(name, parameters, arguments) void tk_cuda_##name parameters;
#define TK_DECLARE_CUDA_WORKSPACE(name, parameters, arguments) size_t tk_cuda_##name parameters;
#endif
