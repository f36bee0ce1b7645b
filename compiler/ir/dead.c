/* dead.c: dead nodes and initializers go. One walk from the last node to the first suffices, since a node's users stand
 * after it; graphs nested in a node that stays are cleaned at once, those of one that goes die with it. */
#include "ops.h"

static uint32_t clean_nodes(tc_graph *graph);

static uint32_t clean_nested(tc_node *node) {
    uint32_t removed = 0;
    TC_FOR_NESTED(nested, node)
        removed += clean_nodes(nested);
    return removed;
}

static bool is_dead(const tc_node *node) {
    if (tc_node_has(node, TC_SIDE_EFFECT))
        return false;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i] && tc_value_is_used(node->outputs[i]))
            return false;
    return true;
}

static uint32_t clean_nodes(tc_graph *graph) {
    uint32_t removed = 0;
    for (tc_node *node = graph->last, *before; node; node = before) {
        before = node->prev;
        if (is_dead(node)) {
            tc_node_erase(node);
            removed++;
        } else {
            removed += clean_nested(node);
        }
    }
    tc_graph_remove_unused_initializers(graph);
    return removed;
}

uint32_t tc_remove_dead(tc_graph *graph) { return clean_nodes(graph); }
