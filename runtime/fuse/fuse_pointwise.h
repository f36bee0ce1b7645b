/* fuse_pointwise.h: an op of pointwise.def and its gradient at the same operand as one launch, on devices that have a
 * kernel for it. */
#ifndef RT_FUSE_POINTWISE_H
#define RT_FUSE_POINTWISE_H
#include "compiler/ir/ir.h"
#include "kernels/pointwise/pointwise.h"

/* Where a backward pass recomputes Y = f(X) and makes dX = dY f'(X), one node ai.tempo.PointwiseBoth(dY, X) -> dX, Y
 * replaces both, as soon as dY is there: X is read once, and both results may lie over operands. Its attributes `row`,
 * of pointwise.def, and `alpha` define f. For a graph with types, after chains have been made (fuse_chains.h): links
 * stay in their chains. */
void rt_fuse_pointwise(tc_graph *graph);

/* Of a node of a known op: the row of pointwise.def that it is, or the gradient of, in the form that `approximate`
 * names; TK_POINTWISE_COUNT: none. And its attribute alpha. */
tk_pointwise_row rt_pointwise_row(const tc_node *node);
/* The row of the op of that name, in the form that the node names. */
tk_pointwise_row rt_pointwise_row_of(const tc_node *node, const char *op);
double rt_pointwise_alpha(const tc_node *node, tk_pointwise_row row);
#endif
