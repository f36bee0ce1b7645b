/* fuse_transposes.c: exporters spell a linear layer as MatMul(x, Transpose(W)); products read W in either order, and a
 * copy of it costs a walk through memory and its bytes. */
#include "fuse_transposes.h"
#include "../compiler/ops.h"

/* What the value is the transpose of, where that is a matrix which is there all the time; NULL else. */
static tc_value *transposed_input(const tc_value *value) {
    const tc_node *node = value ? value->producer : NULL;
    size_t n;
    if (!node || !tc_node_is(node, "", "Transpose"))
        return NULL;
    tc_value *from = tc_input(node, 0);
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    bool swaps = tc_value_rank(from) == 2 && (!perm || (n == 2 && perm[0] == 1 && perm[1] == 0));
    return swaps && !from->producer ? from : NULL;
}

void rt_fuse_transposes(tc_graph *graph) {
    TC_FOR_NODES_SAFE(node, graph) {
        tc_value *copy = tc_node_is(node, "", "MatMul") ? tc_input(node, 1) : NULL, *weight = transposed_input(copy);
        if (!weight)
            continue;
        tc_node_set_input(node, 1, weight);
        tc_attr_set_int(node, RT_TRANS_B, 1);
        if (!tc_value_is_used(copy))
            tc_node_erase(copy->producer);
    }
}
