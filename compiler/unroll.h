/* unroll.h: If, Loop and Scan whose course is known before the graph runs, as the nodes that they would run: gradients,
 * lean rules and a plan with one arena know plain nodes only. */
#ifndef TC_UNROLL_H
#define TC_UNROLL_H
#include "ir.h"

/* Replaces every If whose condition is known, Scan whose number of slices is known, and Loop whose number of turns and
 * conditions are known, in the graph itself (not in bodies: these come up when their node is unrolled). Types and
 * contents must be inferred before, and again afterwards: more may be known then. What is not known, or would become
 * too many nodes, stays. A Dropout in a body is another one in each turn. */
tc_status tc_unroll(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
/* tc_infer_graph, and tc_unroll until nothing changes. */
tc_status tc_infer_unrolled(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
#endif
