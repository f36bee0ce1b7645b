/* gradient_recurrent.c: the gradient of LSTM, GRU and RNN: one ai.tempo.RecurrenceGrad, which reads the layer's
 * operands and Y, and recomputes gates and cells. */
#include "compiler/ir/recurrent.h"
#include "gradients.h"

/* The reason why a node of the layer's op has no gradient; NULL: it has one. */
static void check(tc_build *g, tc_recurrent *layer) {
    if (g->status == TC_OK)
        g->status = tc_recurrent_of(g->ctx, g->of->node, layer);
    if (g->status == TC_OK && layer->clip > 0)
        tc_grad_refuse(g, "its sums are clipped to [-clip, clip]");
}

void tc_gradient_recurrent(tc_build *g) {
    static const char *const cells[] = {[TC_RNN] = "RNN", [TC_GRU] = "GRU", [TC_LSTM] = "LSTM"};
    tc_node *node = g->of->node;
    const uint32_t *of = tc_recurrent_gradient_of;
    tc_value *operands[TC_RNN_DC + 1] = {NULL};
    bool wanted[TC_RNN_GRADIENTS] = {false}, any = false;
    const uint32_t n_results = node->n_outputs;
    uint32_t last = TC_RNN_DY;
    tc_recurrent layer;
    check(g, &layer);
    if (g->status != TC_OK)
        return;
    for (uint32_t i = 0; i < TC_RNN_OPERANDS; i++)
        operands[TC_RNN_LAYER + i] = tc_input(node, i);
    for (uint32_t i = 0; i < TC_RNN_GRADIENTS; i++) {
        wanted[i] = of[i] < node->n_inputs && tc_input(node, of[i]) && g->of->needed[of[i]];
        any = any || wanted[i];
    }
    for (uint32_t i = 0; i < 3 && i < n_results; i++)
        if (g->of->douts[i]) {
            operands[TC_RNN_DY + i] = g->of->douts[i];
            last = TC_RNN_DY + i;
        }
    if (!any)
        return;
    operands[TC_RNN_Y] = tc_grad_result(g, 0, "y");
    tc_grad_infer_forward(g);
    tc_node *grad =
        tc_build_node_with(g, TC_TEMPO_DOMAIN, "RecurrenceGrad", last + 1, operands, TC_RNN_GRADIENTS, wanted);
    tc_attr_set_string(grad, "cell", cells[layer.cell]);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        tc_attr_copy(grad, &node->attrs[i]);
    tc_build_finish(g, grad);
    for (uint32_t i = 0; i < TC_RNN_GRADIENTS; i++)
        if (wanted[i])
            g->of->dins[of[i]] = grad->outputs[i];
}
