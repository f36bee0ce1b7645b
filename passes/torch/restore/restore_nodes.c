/* restore_nodes.c: nodes of ai.onnx, one after the other. */
#include "restore_nodes.h"

tc_restore_nodes tc_restore_after(tc_restore *r, tc_node *node, const char *suffix) {
    return (tc_restore_nodes){
        .r = r, .last = node, .name = tc_arena_printf(r->arena, "%s_%s", node->outputs[0]->name, suffix)};
}

tc_restore_nodes tc_restore_before(tc_restore *r, tc_node *node, const char *suffix) {
    tc_restore_nodes nodes = tc_restore_after(r, node, suffix);
    nodes.last = NULL;
    nodes.before = node;
    return nodes;
}

tc_node *tc_restore_add_node(tc_restore_nodes *nodes, const char *op_type, tc_value *a, tc_value *b, tc_value *c) {
    tc_value *operands[] = {a, b, c};
    uint32_t n = 0;
    while (n < TC_COUNT(operands) && operands[n])
        n++;
    tc_node *node = tc_node_create(nodes->r->graph, "", op_type, n, 1);
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, operands[i]);
    if (nodes->last) {
        tc_node_insert_after(node, nodes->last);
        nodes->last = node;
    } else {
        tc_node_insert_before(node, nodes->before);
    }
    return node;
}

tc_value *tc_restore_add(tc_restore_nodes *nodes, const char *op_type, tc_value *a, tc_value *b, tc_value *c) {
    return tc_node_add_output(tc_restore_add_node(nodes, op_type, a, b, c), 0, nodes->name, NULL);
}

tc_value *tc_restore_number(const tc_restore_nodes *nodes, tc_dtype dtype, double value) {
    return tc_constant(nodes->r->graph, nodes->name, tc_tensor_scalar(nodes->r->graph->model, dtype, value));
}

tc_value *tc_restore_int(const tc_restore_nodes *nodes, int64_t value) {
    return tc_constant(nodes->r->graph, nodes->name, tc_tensor_ints(nodes->r->graph->model, &value, 1));
}

void tc_restore_set_axes(tc_node *reduce, const int64_t *axes, size_t n) {
    tc_model *model = reduce->graph->model;
    int64_t operand_since = tc_node_is(reduce, "", "ReduceSum") ? 13 : 18;
    if (tc_model_opset(model, "") >= operand_since)
        tc_node_set_input(reduce, 1, tc_constant(reduce->graph, "axes", tc_tensor_ints(model, axes, (int64_t)n)));
    else
        tc_attr_set_ints(reduce, "axes", axes, n);
}
