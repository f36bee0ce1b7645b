/* fuse_heads.h: attention that reads and writes the heads of a token side by side, as projections make them, on devices
 * whose kernels can. */
#ifndef RT_FUSE_HEADS_H
#define RT_FUSE_HEADS_H
#include "compiler/ir/ir.h"
#include "kernels/table.h"

/* Bits of an attribute `spread` of nodes DotProductAttention and DotProductAttentionTiledGrad in a plan: this operand
 * or result is [batch, tokens, heads, elements] where the op says [batch, heads, tokens, elements], or, K^T and its
 * gradient, [batch, heads, elements, tokens]. */
enum {
    RT_SPREAD_Q = 1 << 0,
    RT_SPREAD_KT = 1 << 1,
    RT_SPREAD_V = 1 << 2,
    RT_SPREAD_Y = 1 << 3, /* a result of the one, an operand of the other */
    RT_SPREAD_DOUT = 1 << 4,
    RT_SPREAD_DQ = 1 << 5,
    RT_SPREAD_DKT = 1 << 6,
    RT_SPREAD_DV = 1 << 7,
};

/* Takes Transposes in front of and behind attention of a typed graph away, where nothing else reads what they make. */
void rt_fuse_heads(tc_graph *graph, const tk_table *kernels, const tk_queue *queue);
#endif
