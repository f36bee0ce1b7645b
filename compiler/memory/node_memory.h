/* node_memory.h: the memory that a run takes for each node besides its results, and the results that need no bytes of
 * their own. The runtime knows this of its kernels, and gives it to passes that plan memory before there is a run. */
#ifndef TC_NODE_MEMORY_H
#define TC_NODE_MEMORY_H
#include "compiler/ir/ir.h"

#define TC_NODE_OVERS 2 /* the results that may be written over operands: the first ones */

/* Parts that move without changing, along the first dims: results that are bytes of operand 0 (Split, Slice), or
 * operands that become bytes of result 0 (Concat). */
typedef enum tc_parts { TC_NO_PARTS, TC_PART_RESULTS, TC_PART_OPERANDS } tc_parts;

typedef struct tc_node_memory {
    const char *domain, *op_type; /* the op that runs: another than the node's where its function replaces it */
    uint64_t workspace;           /* bytes, while it runs */
    uint64_t over[TC_NODE_OVERS]; /* of a result, bit i: it may be written over operand i, if this is its last use and
                                   * no other operand is the same bytes */
    int view_of;                  /* >= 0: result 0 is that operand's bytes, and nothing runs */
    bool is_known;                /* result 0 is known before the run, and nothing runs */
    tc_parts parts;               /* whether they may lie in the whole, without a copy */
    const uint64_t *part_at;      /* of each result or operand: bytes from the begin of the whole */
} tc_node_memory;

typedef struct tc_node_memories {
    tc_arena *arena; /* of the map, and of all that is in it */
    tc_map *
        by_result; /* the name of a result -> tc_node_memory of its node; no entry for Constant nodes and known nodes */
} tc_node_memories;
#endif
