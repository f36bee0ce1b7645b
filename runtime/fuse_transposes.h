/* fuse_transposes.h: products that read a weight as it lies, without a transposed copy of it. */
#ifndef RT_FUSE_TRANSPOSES_H
#define RT_FUSE_TRANSPOSES_H
#include "../compiler/ir.h"

/* The attribute that a plan's MatMul has then: its right operand is [n, k]. */
#define RT_TRANS_B "transB"

/* MatMuls whose right operand is a matrix that a Transpose makes of an input of the graph read that input; Transposes
 * that nobody reads any more go. Only inputs: they are there all the time, so that nothing lives longer. */
void rt_fuse_transposes(tc_graph *graph);
#endif
