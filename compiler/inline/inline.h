/* inline.h: replaces If, Loop and Scan whose course is known before the graph runs by the nodes that they would run:
 * gradients, lean rules and a plan with one arena know plain nodes only. */
#ifndef TC_INLINE_H
#define TC_INLINE_H
#include "compiler/ir/ir.h"

/* Runs tc_infer_graph, then replaces every If with a known condition, Scan with a known number of slices, and Loop with
 * a known number of iterations and conditions, in the graph itself (bodies follow when their node is unrolled), until
 * nothing is left to replace. A node that is not known, or would become too many nodes, stays; of very many nodes the
 * last ones stay. A Dropout in a body is a different one in each iteration. Types and contents are inferred when it
 * returns. */
tc_status tc_infer_unrolled(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
/* The same for If alone: passes that recognize loops run before these are unrolled. */
tc_status tc_infer_branches(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
/* For every If whose condition depends on data, and whose branches are plain nodes with results of the same types: both
 * branches are computed, and a Where selects each result. Types must be inferred before, and are when it returns. */
tc_status tc_select_branches(tc_ctx *ctx, tc_graph *graph, bool *out_changed);
#endif
