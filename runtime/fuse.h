/* fuse.h: chains of elementwise nodes as one launch, on devices that have a kernel for it
 * (kernels/elementwise/chain.h).
 */
#ifndef RT_FUSE_H
#define RT_FUSE_H
#include "../compiler/ir.h"
#include "../kernels/elementwise/chain.h"

/* A link, and where its operand, ratio, seed, result and mask are among those of the node; -1: it has none. Result 0 is
 * that of the last link. */
typedef struct rt_link {
    tk_link link; /* but for addresses */
    int operand, ratio, seed, result, mask;
} rt_link;

/* What a node ai.tempo.Chain does: operand 0 is its first. */
typedef struct rt_chain {
    rt_link links[TK_CHAIN_LINKS];
    int n_links;
} rt_chain;

/* Puts chains in the place of nodes whose types are static. They live in `arena`; the map has one for each new node. No
 * chain goes on behind a value in `apart`, whose elements change between the nodes; NULL: there is none. */
tc_map *rt_fuse_chains(tc_graph *graph, tc_arena *arena, tc_map *apart);
#endif
