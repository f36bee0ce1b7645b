/* gradient_attention.c: the gradient of ai.tempo.DotProductAttention. It is one op over what the forward op leaves
 * behind: P, and with dropout the dropped map and the flags, results that are added to the forward node. Gradients come
 * with the leading dims of the products; ReduceLike sums what broadcasting repeated. The bias is added after the mask,
 * so it gets the gradient of the scores as it is. */
#include "../../compiler/ops.h"
#include "../../compiler/shape.h"
#include "gradient.h"
#include <math.h>

enum { Q, KT, V, BIAS, MASK, RATIO, SEED };

/* P, the dropped map and the flags are operands of nothing but the backward pass. */
static bool check_results(tc_grad *g) {
    for (uint32_t i = 1; i < g->node->n_outputs; i++)
        if (g->douts[i])
            tc_grad_refuse(g, "the loss depends on its result %u", (unsigned)i);
    if (tc_attr_int(g->node, "signed", 0) != 0)
        tc_grad_refuse(g, "it keeps flags in the signs of P");
    return g->status == TC_OK;
}

/* The gradient op over P and what dropout left, with these results: dQ, dK^T, dV, dS. A finite number in place of
 * masked scores leaves them a share of P, all of it in rows with nothing else; but the products don't reach them, so
 * the op has to know the mask. */
static tc_node *gradient_node(tc_grad *g, const bool wanted[4]) {
    tc_node *node = g->node;
    tc_value *ratio = tc_input(node, RATIO), *p = tc_grad_result(g, 1, "p"), *dropped = NULL, *keep = NULL;
    if (ratio) {
        dropped = tc_grad_result(g, 2, "dropped");
        keep = tc_grad_result(g, 3, "keep");
    }
    tc_grad_infer_forward(g);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4; i++)
        n = wanted[i] ? i + 1 : n;
    bool masked = tc_input(node, MASK) && (wanted[0] || wanted[1]) && isfinite(tc_attr_float(node, "fill", -INFINITY));
    tc_value *operands[] = {g->douts[0], tc_input(node, Q),   tc_input(node, KT), tc_input(node, V), p, dropped, keep,
                            ratio,       tc_input(node, MASK)};
    tc_node *grad = tc_grad_node_with(g, TC_TEMPO_DOMAIN, "DotProductAttentionGrad",
                                      masked  ? 9
                                      : ratio ? 8
                                              : 5,
                                      operands, n, wanted);
    const tc_attr *scale = tc_attr_find(node, "scale");
    if (scale)
        tc_attr_copy(grad, scale);
    tc_grad_finish(g, grad);
    return grad;
}

void tc_gradient_dot_product_attention(tc_grad *g) {
    static const uint32_t operands[] = {Q, KT, V, BIAS};
    tc_node *node = g->node;
    if (!check_results(g))
        return;
    const bool wanted[] = {g->needed[Q], g->needed[KT], g->needed[V], tc_input(node, BIAS) && g->needed[BIAS]};
    tc_node *grad = gradient_node(g, wanted);
    tc_value *parts[] = {tc_output(grad, 0), tc_output(grad, 1), tc_output(grad, 2), tc_output(grad, 3)};
    for (uint32_t i = 0; i < TC_COUNT(operands); i++)
        if (parts[i] && g->needed[operands[i]])
            g->dins[operands[i]] = tc_grad_reduce_like(g, parts[i], tc_input(node, operands[i]));
}
