/* nccl_cuda.h: GPUs as ranks by NCCL, in builds that have its header. The library is opened when the first group is
 * made or joined. */
#ifndef RT_NCCL_CUDA_H
#define RT_NCCL_CUDA_H
#include "cuda_device.h"

#ifdef TEMPO_NCCL
/* As in rt_device. */
tc_status rt_nccl_make_group(tc_ctx *ctx, tk_queue *q, unsigned char *out_id);
tc_status rt_nccl_join(tc_ctx *ctx, tk_queue *q, const unsigned char *id, int rank, int ranks, double patience);
void rt_nccl_part(tk_queue *q);
void rt_nccl_average(tk_queue *q, uint32_t bucket, const rt_piece *pieces, uint32_t n);
void rt_nccl_averaged(tk_queue *q, uint32_t bucket);

/* Waits for the queue's stream, of a device with ranks. False: it does not come to its end, because other ranks are
 * missing (the device's `failure` says so), or CUDA's error is the queue's. */
bool rt_nccl_wait(tk_queue *q);
/* Leaves the group in an orderly way: all queued work has run, and no recording is left. */
void rt_nccl_leave(cuda_device *d);

extern const char *rt_nccl_library; /* its file's name, or NULL: the program itself. Tests name others */

#define RT_NCCL_MEMBERS                                                                                                \
    .make_group = rt_nccl_make_group, .join = rt_nccl_join, .part = rt_nccl_part, .average = rt_nccl_average,          \
    .averaged = rt_nccl_averaged,
#else
static inline bool rt_nccl_wait(tk_queue *q) {
    (void)q;
    return false;
}
static inline void rt_nccl_leave(cuda_device *d) { (void)d; }
#define RT_NCCL_MEMBERS
#endif
#endif
