/* gradient_indexing.c: gradients of ops that pick elements by an index operand. Gradients of an element that was
 * picked several times add up. */
#include "compiler/ir/ops.h"
#include "gradients.h"
#include <string.h>

void tc_gradient_gather(tc_build *g) {
    tc_value *data = tc_input(g->of->node, 0);
    int axis = tc_grad_axis(g, tc_attr_int(g->of->node, "axis", 0), tc_grad_rank(g, data));
    if (g->status != TC_OK)
        return;
    tc_value *indices = tc_input(g->of->node, 1), *dy = g->of->douts[0];
    if (axis == 0 && data->init)
        dy = tc_grad_without_padding(g, indices, dy);
    tc_value *operands[] = {tc_build_shape(g, data), indices, dy};
    tc_node *node = tc_build_node(g, TC_TEMPO_DOMAIN, "GatherGrad", 3, operands, 1);
    tc_attr_set_int(node, "axis", axis);
    g->of->dins[0] = tc_build_finish(g, node);
}

static tc_value *scatter_elements(tc_build *g, tc_value *into, tc_value *indices, tc_value *updates, int64_t axis,
                                  const char *reduction) {
    tc_node *node = TC_BEGIN(g, "ScatterElements", into, indices, updates);
    tc_attr_set_int(node, "axis", axis);
    if (reduction)
        tc_attr_set_string(node, "reduction", reduction);
    return tc_build_finish(g, node);
}

static tc_value *zeros_like(tc_build *g, tc_value *value) {
    return tc_build_zeros(g, tc_build_shape(g, value), tc_value_dtype(value));
}

void tc_gradient_gather_elements(tc_build *g) {
    g->of->dins[0] = scatter_elements(g, zeros_like(g, tc_input(g->of->node, 0)), tc_input(g->of->node, 1),
                                      g->of->douts[0], tc_attr_int(g->of->node, "axis", 0), "add");
}

/* The gradients of the k largest go to their positions, the op's second result. */
void tc_gradient_topk(tc_build *g) {
    if (!g->of->douts[0])
        return;
    g->of->dins[0] = scatter_elements(g, zeros_like(g, tc_input(g->of->node, 0)), tc_output(g->of->node, 1),
                                      g->of->douts[0], tc_attr_int(g->of->node, "axis", -1), NULL);
}

/* Positions along the first dims of the index operand, in its last axis, so that batch dims become indices as well. */
static tc_value *with_batch_index(tc_build *g, tc_value *indices, int axis, int index_rank) {
    tc_value *dim = TC_OP(g, "Squeeze", tc_build_dims(g, indices, axis, axis + 1), tc_build_int(g, 0));
    tc_value *positions = TC_OP(g, "Range", tc_build_scalar(g, TC_INT64, 0), dim, tc_build_scalar(g, TC_INT64, 1));
    int64_t after[TC_MAX_RANK], n = 0;
    for (int i = axis + 1; i < index_rank; i++)
        after[n++] = i - axis;
    tc_value *column = tc_build_unsqueeze(g, positions, after, (size_t)n);
    tc_value *parts[] = {tc_build_dims(g, indices, 0, index_rank - 1), tc_build_int(g, 1)};
    return TC_OP(g, "Expand", column, tc_build_concat(g, 2, parts, 0));
}

void tc_gradient_gather_nd(tc_build *g) {
    tc_value *data = tc_input(g->of->node, 0), *indices = tc_input(g->of->node, 1), *columns[TC_MAX_RANK + 1];
    int rank = tc_grad_rank(g, indices);
    int64_t batch_dims = tc_attr_int(g->of->node, "batch_dims", 0);
    if (batch_dims < 0 || batch_dims >= rank)
        tc_grad_refuse(g, "its batch_dims are out of range for rank %d", rank);
    if (g->status != TC_OK)
        return;
    size_t batch = (size_t)batch_dims;
    for (size_t i = 0; i < batch; i++)
        columns[i] = with_batch_index(g, indices, (int)i, rank);
    columns[batch] = indices;
    tc_value *full = tc_build_concat(g, batch + 1, columns, -1);
    tc_node *node = TC_BEGIN(g, "ScatterND", zeros_like(g, data), full, g->of->douts[0]);
    tc_attr_set_string(node, "reduction", "add");
    g->of->dins[0] = tc_build_finish(g, node);
}
