/* fuse_pointwise.h: an op of pointwise.def and its gradient at the same place as one launch, on devices that have a
 * kernel for it. */
#ifndef RT_FUSE_POINTWISE_H
#define RT_FUSE_POINTWISE_H
#include "compiler/ir/ir.h"

/* Where a backward pass makes Y = f(X) again and dX = dY f'(X), one node ai.tempo.PointwiseBoth(dY, X) -> dX, Y stands
 * for both, as soon as dY is there: X is read once, and both results may lie over operands. Its attributes `row`, of
 * pointwise.def, and `alpha` say what f is. Of a graph with types, when chains have been made (fuse_chains.h): what is
 * a link of one stays there. */
void rt_fuse_pointwise(tc_graph *graph);
#endif
