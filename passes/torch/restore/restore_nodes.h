/* restore_nodes.h: nodes that parts of the pass `restore` add to a file, of any opset and before types are inferred. */
#ifndef TC_RESTORE_NODES_H
#define TC_RESTORE_NODES_H
#include "restore.h"

/* The position of new nodes: each after the last; if that is NULL, before `before`. */
typedef struct tc_restore_nodes {
    tc_restore *r;
    tc_node *last, *before;
    const char *name; /* of their results; the graph makes it unique */
} tc_restore_nodes;

/* After `node`; `name` names the results: "loss_smoothing". */
tc_restore_nodes tc_restore_after(tc_restore *r, tc_node *node, const char *suffix);
/* The same before `node`. */
tc_restore_nodes tc_restore_before(tc_restore *r, tc_node *node, const char *suffix);
/* A new node of ai.onnx, as yet without a result; operands up to the first NULL. */
tc_node *tc_restore_add_node(tc_restore_nodes *nodes, const char *op_type, tc_value *a, tc_value *b, tc_value *c);
/* The same with one result, which it returns. */
tc_value *tc_restore_add(tc_restore_nodes *nodes, const char *op_type, tc_value *a, tc_value *b, tc_value *c);
/* A constant, []; and an int64[1]. */
tc_value *tc_restore_number(const tc_restore_nodes *nodes, tc_dtype dtype, double value);
tc_value *tc_restore_int(const tc_restore_nodes *nodes, int64_t value);
/* The axes of a Reduce* node, an attribute or an operand by its opset. */
void tc_restore_set_axes(tc_node *reduce, const int64_t *axes, size_t n);
#endif
