/* fuse_chains.h: chains of elementwise nodes as one launch, alone or with the norm that they lead to or come from, on
 * devices that have kernels for it (kernels/elementwise/chain.h, kernels/norm/norm_chain.h).
 */
#ifndef RT_FUSE_CHAINS_H
#define RT_FUSE_CHAINS_H
#include "compiler/ir/ir.h"
#include "kernels/norm/norm_chain.h"

/* A link, and where its operand, ratio, seed, result and mask are among those of the node; -1: it has none. */
typedef struct rt_link {
    tk_link link; /* but for addresses */
    int operand, ratio, seed, result, mask;
} rt_link;

typedef struct rt_chain {
    rt_link links[TK_CHAIN_LINKS];
    int n_links;
} rt_chain;

/* The chains before a node's own op, on operand 0, and after it, on result 0; result `between` is the value that
 * `after` begins with, -1: no other node reads it. A norm's node has its own operands and results where its op has
 * them, at least as many, followed by those of chains. A node ai.tempo.Chain has no other op; result 0 is its last
 * link's. */
typedef struct rt_chains {
    rt_chain before, after;
    int between;
} rt_chains;
enum { RT_NORM_OPERANDS = 3, RT_NORM_RESULTS = 3 };

/* Replaces nodes whose types are static by chains, or puts chains around norms. They live in `arena`; the map has
 * rt_chains for each node with some. No chain goes on after a value in `averaged`, whose elements change between the
 * nodes; NULL: there is none. */
tc_map *rt_fuse_chains(tc_graph *graph, tc_arena *arena, tc_map *averaged);
#endif
