/* fuse_transposes.h: products that read a weight as it lies, without a transposed copy of it. */
#ifndef RT_FUSE_TRANSPOSES_H
#define RT_FUSE_TRANSPOSES_H
#include "compiler/ir/ir.h"

/* Attributes that a plan's nodes have afterwards: of a Transpose whose result is the operand's bytes, not moved; of a
 * MatMul whose right operand is such a result. */
#define RT_LIES "lies"
#define RT_TRANS_B "transB"

/* A Transpose that makes a matrix of floats of an input of the graph, only for MatMuls that have it on the right, makes
 * no copy. Only of inputs: they are there all the time, so no life gets longer. */
void rt_fuse_transposes(tc_graph *graph);
#endif
