/* gradient_resize.c: Resize is linear in X, and its weights follow from shapes alone; so do the positions that dY
 * goes to. It has a builder because factors and sizes have to fit each other: a rule whose operands are drawn at
 * random could not be proven. */
#include "gradients.h"

void tc_gradient_resize(tc_build *g) {
    const tc_node *node = g->of->node;
    tc_value *operands[] = {g->of->douts[0], tc_build_shape(g, tc_input(node, 0)), tc_input(node, 1), tc_input(node, 2),
                            tc_input(node, 3)};
    tc_node *grad = tc_build_node(g, TC_TEMPO_DOMAIN, "ResizeGrad", TC_COUNT(operands), operands, 1);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(grad, &node->attrs[i]);
    g->of->dins[0] = tc_build_finish(g, grad);
}
