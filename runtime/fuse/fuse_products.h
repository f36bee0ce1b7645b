/* fuse_products.h: a matrix product together with ops around it as one launch, on devices whose library computes both
 * at once. */
#ifndef RT_FUSE_PRODUCTS_H
#define RT_FUSE_PRODUCTS_H
#include "compiler/ir/ir.h"
#include "kernels/matmul/matmul.h"

/* A node ai.tempo.Product: operands A and B, then its bias or the matrix that it is added to; results: the product,
 * then sums of an operand. Its result may have any dims that have its elements. */
typedef struct rt_fused_product {
    tk_product product; /* of one item, but for addresses */
    bool has_bias, has_add;
} rt_fused_product;

/* Nodes MatMul and Gemm of a typed graph, float or of 16 bits, absorb: an Add of a row after them; sums with values of
 * their shape, one after the other where several products are summed; a ReduceSum over the rows of an operand that they
 * read anyway, as for the gradients of a linear layer's weight and bias. The result depends on the graph alone. The
 * map, in `arena`, has an rt_fused_product for each node that is one now. Values in `averaged` change between the
 * nodes: nothing is added to them; NULL: there is none. */
tc_map *rt_fuse_products(tc_graph *graph, tc_arena *arena, tc_map *averaged);
#endif
