/* gradient_attention.c: the gradient of ai.tempo.DotProductAttention. It is one op that reads results added to the
 * forward node: P, and with dropout the dropped map and the flags. Gradients have the leading dims of the products;
 * ReduceLike sums over broadcast dims. The bias is added after the mask, so its gradient is the gradient of the
 * scores, and with `bias_first` the part that the mask lets through. P does not determine scores before a softcap:
 * that gradient op recomputes them, one block of rows at a time. */
#include "compiler/ir/ops.h"
#include "compiler/shape/shape.h"
#include "gradients.h"
#include <math.h>

enum { Q, KT, V, BIAS, MASK, RATIO, SEED };

/* The only readers of P, the dropped map and the flags are in the backward pass. */
static bool check_results(tc_build *g) {
    for (uint32_t i = 1; i < g->of->node->n_outputs; i++)
        if (g->of->douts[i])
            tc_grad_refuse(g, "the loss depends on its result %u", (unsigned)i);
    if (tc_attr_int(g->of->node, "signed", 0) != 0)
        tc_grad_refuse(g, "it stores dropout flags in the signs of P");
    return g->status == TC_OK;
}

/* The gradient op over P and the kept dropout tensors, with results dQ, dK^T, dV, dS. A finite fill for masked
 * scores leaves them a share of P, all of it in rows without other scores. But products do not reach masked scores,
 * so the op needs the mask. */
static tc_node *gradient_node(tc_build *g, const bool wanted[4]) {
    tc_node *node = g->of->node;
    tc_value *ratio = tc_input(node, RATIO), *p = tc_grad_result(g, 1, "p"), *dropped = NULL, *keep = NULL;
    if (ratio) {
        dropped = tc_grad_result(g, 2, "dropped");
        keep = tc_grad_result(g, 3, "keep");
    }
    tc_grad_infer_forward(g);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4; i++)
        n = wanted[i] ? i + 1 : n;
    bool first = tc_attr_int(node, "bias_first", 0) != 0;
    bool masked = tc_input(node, MASK) && (wanted[0] || wanted[1] || (first && wanted[3])) &&
                  isfinite(tc_attr_float(node, "fill", -INFINITY));
    tc_value *operands[] = {
        g->of->douts[0], tc_input(node, Q),   tc_input(node, KT), tc_input(node, V), p, dropped, keep,
        ratio,           tc_input(node, MASK)};
    tc_node *grad = tc_build_node_with(g, TC_TEMPO_DOMAIN, "DotProductAttentionGrad",
                                       masked  ? 9
                                       : ratio ? 8
                                               : 5,
                                       operands, n, wanted);
    const tc_attr *scale = tc_attr_find(node, "scale");
    if (scale)
        tc_attr_copy(grad, scale);
    if (first)
        tc_attr_copy(grad, tc_attr_find(node, "bias_first"));
    tc_build_finish(g, grad);
    return grad;
}

/* With a softcap: the op that recomputes P from the operands and keeps none of it. */
static tc_node *tiled_node(tc_build *g, const bool wanted[4]) {
    static const char *const attributes[] = {"bias_first", "fill", "guard", "node", "scale", "seed", "softcap"};
    tc_value *operands[SEED + 2] = {g->of->douts[0]};
    uint32_t n_operands = 1, n = 0;
    for (uint32_t i = Q; i <= SEED; i++) {
        operands[i + 1] = tc_input(g->of->node, i);
        n_operands = operands[i + 1] ? i + 2 : n_operands;
    }
    for (uint32_t i = 0; i < 4; i++)
        n = wanted[i] ? i + 1 : n;
    tc_node *grad =
        tc_build_node_with(g, TC_TEMPO_DOMAIN, "DotProductAttentionTiledGrad", n_operands, operands, n, wanted);
    for (size_t i = 0; i < TC_COUNT(attributes); i++)
        if (tc_attr_find(g->of->node, attributes[i]))
            tc_attr_copy(grad, tc_attr_find(g->of->node, attributes[i]));
    tc_build_finish(g, grad);
    return grad;
}

void tc_gradient_dot_product_attention(tc_build *g) {
    static const uint32_t operands[] = {Q, KT, V, BIAS};
    tc_node *node = g->of->node;
    if (!check_results(g))
        return;
    const bool wanted[] = {g->of->needed[Q], g->of->needed[KT], g->of->needed[V],
                           tc_input(node, BIAS) && g->of->needed[BIAS]};
    bool capped = tc_attr_float(node, "softcap", 0) != 0;
    tc_node *grad = capped ? tiled_node(g, wanted) : gradient_node(g, wanted);
    tc_value *parts[] = {tc_output(grad, 0), tc_output(grad, 1), tc_output(grad, 2), tc_output(grad, 3)};
    for (uint32_t i = 0; i < TC_COUNT(operands); i++)
        if (parts[i] && g->of->needed[operands[i]])
            g->of->dins[operands[i]] = tc_grad_reduce_like(g, parts[i], tc_input(node, operands[i]));
}
