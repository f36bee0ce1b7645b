/* insert.c: a tc_build whose nodes move in front of another node. */
#include "build.h"

void tc_insert_begin(tc_insert *insert, tc_ctx *ctx, tc_arena *arena, tc_node *before) {
    tc_graph *graph = before->graph;
    *insert = (tc_insert){.pool = {arena, tc_map_create(arena)}, .before = before, .last = graph->last};
    insert->g = (tc_build){.ctx = ctx, .model = graph->model, .graph = graph, .pool = &insert->pool};
    insert->g.label = tc_node_label(before);
}

void tc_insert_undo(tc_insert *insert) {
    tc_graph *graph = insert->g.graph;
    while (graph->last != insert->last)
        tc_node_erase(graph->last);
}

tc_status tc_insert_end(tc_insert *insert) {
    if (insert->g.status != TC_OK) {
        tc_insert_undo(insert);
        return insert->g.status;
    }
    tc_node *first = insert->last->next;
    for (tc_node *node = first, *next = NULL; node; node = next) {
        next = node->next;
        tc_node_move_before(node, insert->before);
    }
    return TC_OK;
}
