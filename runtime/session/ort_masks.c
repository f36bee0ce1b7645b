/* ort_masks.c: in a graph of standard ops, as recipe portable writes it, a Dropout is numbers drawn by integer ops and
 * a comparison with its threshold. Where the comparison is marked (ops.h), its mask becomes that of an ai.tempo.Dropout
 * with the seed of the mark, which draws as ONNX Runtime does. Of the former draw only the shape is still used. */
#include "session.h"
#include "compiler/ir/ops.h"
#include <string.h>

static tc_node *insert(tc_node *before, const char *domain, const char *op, tc_value *const *operands, uint32_t n,
                       uint32_t n_results) {
    tc_node *node = tc_node_create(before->graph, domain, op, n, n_results);
    node->name = before->name;
    for (uint32_t i = 0; i < n; i++)
        tc_node_set_input(node, i, operands[i]);
    tc_node_insert_before(node, before);
    return node;
}

static tc_value *emit(tc_node *before, const char *op, tc_value *const *operands, uint32_t n) {
    return tc_node_add_output(insert(before, "", op, operands, n, 1), 0, op, NULL);
}

/* 0 where the threshold is 0, which can follow from training_mode. */
static tc_value *ratio_of(tc_node *node, tc_value *threshold) {
    tc_graph *graph = node->graph;
    const double ratio = (double)tc_attr_float(node, TC_RATIO_MARK, 0);
    tc_value *of[] = {emit(node, "Cast", &threshold, 1),
                      tc_constant(graph, "ratio", tc_tensor_scalar(graph->model, TC_FLOAT, ratio)),
                      tc_constant(graph, "ratio", tc_tensor_scalar(graph->model, TC_FLOAT, 0))};
    tc_attr_set_int(of[0]->producer, "to", TC_BOOL);
    return emit(node, "Where", of, TC_COUNT(of));
}

/* GreaterOrEqual(drawn, threshold). */
static tc_status replace(tempo_session *s, tc_node *node) {
    tc_value *seed = tc_map_get(node->graph->names, TC_SEED_INPUT), *drawn = tc_input(node, 0);
    if (!tc_node_is(node, "", "GreaterOrEqual") || !drawn || !tc_input(node, 1) || !tc_output(node, 0) || !seed)
        return tc_error(&s->ctx, TC_BAD_INPUT, node, "has the attribute %s, but is no mask of a Dropout", TC_SEED_MARK);
    if (!tc_attr_find(node, TC_RATIO_MARK)) {
        tc_error(&s->ctx, TC_UNSUPPORTED, node, "is the mask of a Dropout whose ratio is known only when it runs");
        tc_hint(&s->ctx, "for ONNX Runtime's masks, compile the model with another recipe than portable");
        return TC_UNSUPPORTED;
    }
    tc_value *shape = emit(node, "Shape", &drawn, 1),
             *operands[] = {emit(node, "ConstantOfShape", &shape, 1), ratio_of(node, tc_input(node, 1)), seed};
    tc_node *dropout = insert(node, TC_TEMPO_DOMAIN, "Dropout", operands, TC_COUNT(operands), 2);
    tc_attr_set_int(dropout, "seed", tc_attr_int(node, TC_SEED_MARK, 0));
    tc_node_set_output(dropout, 1, tc_node_take_output(node, 0));
    tc_node_erase(node);
    return TC_OK;
}

/* Follows the draw in standard ops to its end; a shape does not depend on it. */
static tc_status expect_none_drawn(tempo_session *s, const tc_graph *graph, const tc_value *seed) {
    tc_map *drawn_by = tc_map_create(s->ctx.arena); /* value -> the node that read the seed */
    TC_FOR_NODES(node, graph) {
        const tc_node *from = NULL;
        if (strcmp(node->domain, TC_TEMPO_DOMAIN) == 0 || tc_node_is(node, "", "Shape"))
            continue;
        for (uint32_t i = 0; i < node->n_inputs && !from; i++)
            from = tc_input(node, i) == seed ? node : tc_map_get_ptr(drawn_by, tc_input(node, i));
        for (uint32_t i = 0; i < node->n_outputs && from; i++) {
            if (node->outputs[i] && node->outputs[i]->n_graph_outputs > 0) {
                tc_error(&s->ctx, TC_UNSUPPORTED, from,
                         "draws from %s for a Dropout, or another op, without a seed of its own: no file says what "
                         "ONNX Runtime draws for it",
                         TC_SEED_INPUT);
                tc_hint(&s->ctx, "give each Dropout of the model the attribute seed, and compile it again");
                return TC_UNSUPPORTED;
            }
            if (node->outputs[i])
                tc_map_set_ptr(drawn_by, node->outputs[i], (void *)(uintptr_t)from);
        }
    }
    return TC_OK;
}

tc_status rt_draw_ort_masks(tempo_session *s) {
    tc_graph *graph = s->model->graph;
    TC_FOR_NODES_SAFE(node, graph)
        if (tc_attr_find(node, TC_SEED_MARK))
            TC_TRY(replace(s, node));
    const tc_value *seed = tc_map_get(graph->names, TC_SEED_INPUT);
    return seed ? expect_none_drawn(s, graph, seed) : TC_OK;
}
