/* node_work.h: what a node has to do: floating point operations and bytes of memory, from types alone. */
#ifndef TC_NODE_WORK_H
#define TC_NODE_WORK_H
#include "compiler/ir/ir.h"

typedef struct tc_work {
    uint64_t flops;   /* a multiplication and an addition are two; functions as work.def has them. At most 2^62 */
    uint64_t bytes;   /* of operands whose elements are read, as far as they are, and of results. At most 2^62 */
    bool is_products; /* flops are those of products of matrices: tensor cores do them */
} tc_work;

/* Whether a kernel runs for the node: not for views, constants, shapes, and results whose elements are known. */
bool tc_node_runs(const tc_node *node);
/* Of a node of a typed graph; nothing where no kernel runs. Of a node with nested graphs, one turn of each. */
tc_work tc_node_work(const tc_node *node);
#endif
