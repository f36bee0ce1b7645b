/* attention_tile.h: attention of 16-bit types on tensor cores, a tile of scores at a time; no scores are kept.
 * attention_cuda.c calls these functions where P is not wanted. P is rounded before its row is divided by the sum. The
 * gradient reads rows' statistics that the forward pass kept, or computes them in a pass of its own. */
#ifndef TK_ATTENTION_TILE_H
#define TK_ATTENTION_TILE_H
#include "attention.h"

enum { TK_TILE_MOST_HEAD = 256 }; /* elements of q, k and v of a head */

/* Of each row of scores, [items, s] each, for a product x of q and k: p = 2^(unit (x - shift) + less), where scores are
 * scaled before the softmax, else 2^(unit x + less) and a shift of 0; the sum of p dp. A shift of infinity marks a row
 * whose p is 0. */
typedef struct tk_tile_statistics {
    float *shift, *less, *dot;
} tk_tile_statistics;

/* Operands of an attention and its dropout. */
typedef struct tk_tile_operands {
    tk_attention_operands in;
    tk_number ratio;
    tk_seed seed; /* without a pair nothing is dropped */
} tk_tile_operands;

/* Bytes of shared memory that a block of dq's kernel and of that of dk and dv takes, for heads of so many elements. */
size_t tk_cuda_tile_dq_shared(int64_t head);
size_t tk_cuda_tile_dkv_shared(int64_t head);
/* Whether the queue's device has tensor cores for these sizes and this type, and shared memory for all tiles; and there
 * is neither a softcap nor a bias before the mask. */
bool tk_cuda_tile_has(const tk_queue *q, const tk_attention *a);
/* y [items, s, e]; statistics [items, s, 2] as tk_attention_results has them, or NULL. */
void tk_cuda_tile_run(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, void *y, void *statistics);
/* Statistics of all rows, for the two below, from the attention's results, all of which must be given. */
void tk_cuda_tile_take(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, tk_attention_after after,
                       const tk_tile_statistics *out);
/* The same from the operands. dout [items, s, e]. */
void tk_cuda_tile_statistics(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, const void *dout,
                             const tk_tile_statistics *out);
/* dq [items, s, d]. */
void tk_cuda_tile_dq(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, const void *dout,
                     const tk_tile_statistics *statistics, void *dq);
/* dkt [items, d, t] and dv [items, t, e], each may be NULL. */
void tk_cuda_tile_dkv(tk_queue *q, const tk_attention *a, const tk_tile_operands *operands, const void *dout,
                      const tk_tile_statistics *statistics, void *dkt, void *dv);
#endif
