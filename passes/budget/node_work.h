/* node_work.h: the work of a node: floating point operations and bytes of memory, from types alone. */
#ifndef TC_NODE_WORK_H
#define TC_NODE_WORK_H
#include "compiler/ir/ir.h"

typedef struct tc_work {
    uint64_t flops;   /* a multiplication and an addition count as two; functions as in work.def. At most 2^62 */
    uint64_t bytes;   /* of the operands' elements that are read, and of results. At most 2^62 */
    bool is_products; /* the flops are matrix products, which tensor cores compute */
} tc_work;

/* Whether a kernel runs for the node: not for views, constants, shapes, and results whose elements are known. */
bool tc_node_runs(const tc_node *node);
/* For a node of a typed graph; nothing if no kernel runs. For a node with nested graphs, one iteration of each. */
tc_work tc_node_work(const tc_node *node);
#endif
