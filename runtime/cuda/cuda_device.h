/* cuda_device.h: the CUDA device's view of a queue: used by device_cuda.c, and, where the device is one of several
 * ranks, by nccl_cuda.c. */
#ifndef RT_CUDA_DEVICE_H
#define RT_CUDA_DEVICE_H
#include "kernels/cuda/cuda_queue.h"
#include "runtime/device/device.h"

typedef struct cuda_ranks cuda_ranks; /* nccl_cuda.c */

typedef struct cuda_device {
    tk_cuda shared;                 /* the part that kernels know, too */
    int number;                     /* among CUDA's devices */
    unsigned long long *host_fault; /* pinned */
    cudaEvent_t *moments;
    uint32_t n_moments;
    cudaGraphExec_t *recordings; /* that were not forgotten yet */
    uint32_t n_recordings;
    cuda_ranks *ranks; /* NULL: it is no rank */
    bool peer_lost;    /* the last wait ended without its work */
    char failure[256]; /* of the last wait */
} cuda_device;

static inline cuda_device *cuda_of(const tk_queue *q) { return (cuda_device *)tk_queue_context(q); }

/* Of a lost session: its plans free nothing any more. */
void cuda_forget_all(cuda_device *d);

/* A call of CUDA's on a queue: its first error stays until the queue is waited for. */
#define CUDA_CALL(q, call) tk_cuda_note(&cuda_of(q)->shared, call, #call)
#endif
