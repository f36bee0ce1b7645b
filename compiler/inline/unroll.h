/* unroll.h: If, Loop and Scan whose course is known before the graph runs, as the nodes that they would run: gradients,
 * lean rules and a plan with one arena know plain nodes only. */
#ifndef TC_UNROLL_H
#define TC_UNROLL_H
#include "compiler/ir/ir.h"

/* tc_infer_graph, and then replaces every If whose condition is known, Scan whose number of slices is known, and Loop
 * whose number of turns and conditions are known, in the graph itself (not in bodies: these come up when their node is
 * unrolled), until no more is known. What is not known, or would become too many nodes, stays, and of very many the
 * last. A Dropout in a body is another one in each turn. Types and contents are inferred when it returns. */
tc_status tc_infer_unrolled(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
/* The same for If alone: who reads loops as what they mean comes before they are unrolled. */
tc_status tc_infer_branches(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
/* Every If whose condition only the data tells, a number, and whose branches are plain nodes with results of the same
 * types, becomes both branches, and a Where for each result. Types must be inferred, and are when it returns. */
tc_status tc_select_branches(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
#endif
