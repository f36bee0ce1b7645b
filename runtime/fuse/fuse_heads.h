/* fuse_heads.h: attention that reads and writes interleaved heads (those of a token side by side, as projections make
 * them), on devices whose kernels can. */
#ifndef RT_FUSE_HEADS_H
#define RT_FUSE_HEADS_H
#include "compiler/ir/ir.h"
#include "kernels/table.h"

/* Bits of an attribute `interleaved` of nodes DotProductAttention and DotProductAttentionTiledGrad in a plan: this
 * operand or result is [batch, tokens, heads, elements] where the op says [batch, heads, tokens, elements], or, K^T and
 * its gradient, [batch, heads, elements, tokens]. */
enum {
    RT_INTERLEAVED_Q = 1 << 0,
    RT_INTERLEAVED_KT = 1 << 1,
    RT_INTERLEAVED_V = 1 << 2,
    RT_INTERLEAVED_Y = 1 << 3, /* a result of the one, an operand of the other */
    RT_INTERLEAVED_DOUT = 1 << 4,
    RT_INTERLEAVED_DQ = 1 << 5,
    RT_INTERLEAVED_DKT = 1 << 6,
    RT_INTERLEAVED_DV = 1 << 7,
};

/* Removes Transposes before and after attention of a typed graph, where nothing else reads their results. */
void rt_fuse_heads(tc_graph *graph, const tk_table *kernels, const tk_queue *queue);
#endif
