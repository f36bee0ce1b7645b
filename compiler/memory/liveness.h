/* liveness.h: when each value of a graph is made and when it is read last, if the nodes run in graph order, and how
 * many bytes are live at each of them.
 *
 * The count includes the results of nodes. It leaves out graph inputs, initializers and Constant nodes, which are there
 * before the run, and views, which are their storage's bytes and lengthen its life. A use that reads only the shape
 * lengthens no life. An unused result lives at its node alone. A graph output lives to the end, but for one that
 * replaces an input in the next run (tempo.keep): it lies in the input's bytes, and is not counted. The count assumes
 * that no node writes its result over an operand: a runtime that does so needs less, one that aligns buffers or takes
 * workspaces needs more. */
#ifndef TC_LIVENESS_H
#define TC_LIVENESS_H
#include "compiler/ir/ir.h"

typedef struct tc_life {
    const tc_value *value; /* a storage that a node makes */
    uint32_t first, last;  /* positions of nodes, from 0, both inclusive; last is n_nodes for graph outputs */
    tc_dim bytes;          /* symbolic or unknown where a dim is */
} tc_life;

typedef struct tc_liveness {
    const tc_node **nodes; /* in the order of the graph */
    uint32_t n_nodes;
    tc_life *lives; /* in the order of first */
    size_t n_lives;
    uint64_t *live;    /* [n_nodes] bytes while node i runs, its operands and results among them; see exact */
    uint32_t peak;     /* the node at which most bytes are live; 0 in an empty graph */
    tc_dim peak_bytes; /* bytes live there: a formula where dims are symbolic, unknown where a size is */
    bool
        exact; /* every size is a number. Otherwise `live` counts each symbol as TC_SAMPLE_DIM and unknown sizes as 0 */
} tc_liveness;

#define TC_SAMPLE_DIM 64 /* the size that stands for each symbolic dim in the search for the peak */

/* Bytes with TC_SAMPLE_DIM for each symbol; 0 where they are unknown. */
uint64_t tc_sample_bytes(tc_dim_pool *pool, tc_dim bytes);

/* The main graph's lives, in `arena`. Values that nested graphs read count as read by the node that holds them; values
 * that they make are not counted. */
void tc_liveness_make(tc_arena *arena, const tc_graph *graph, tc_liveness *out_liveness);
#endif
