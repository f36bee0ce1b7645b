/* fuse_transposes.c: exporters write a linear layer as MatMul(x, Transpose(W)). Products read W in either order, and a
 * copy of it costs a walk through memory and its bytes. */
#include "fuse_transposes.h"
#include "compiler/ir/ops.h"

static bool turns_input(const tc_node *node) {
    size_t n;
    if (!tc_node_is(node, "", "Transpose") || !tc_input(node, 0))
        return false;
    const tc_value *from = tc_input(node, 0);
    const int64_t *perm = tc_attr_ints(node, "perm", &n);
    bool swaps = tc_value_rank(from) == 2 && (!perm || (n == 2 && perm[0] == 1 && perm[1] == 0));
    return swaps && !from->producer && tc_dtype_is_float(tc_value_dtype(from));
}

static bool is_for_products(const tc_value *value) {
    bool all = !value->n_graph_outputs;
    TC_FOR_USES(use, value)
        all &= use->index == 1 && use->user->graph == value->graph && tc_node_is(use->user, "", "MatMul");
    return all;
}

void rt_fuse_transposes(tc_graph *graph) {
    TC_FOR_NODES(node, graph) {
        if (!turns_input(node) || !is_for_products(node->outputs[0]))
            continue;
        tc_attr_set_int(node, RT_LIES, 1);
        TC_FOR_USES(use, node->outputs[0])
            tc_attr_set_int(use->user, RT_TRANS_B, 1);
    }
}
