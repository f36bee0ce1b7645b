/* node_names.c: no two nodes of a graph have one name at the end of a pipeline, since other runtimes refuse such files.
 * The first keeps the name; clones, inlined bodies and nodes from rules get a suffix. */
#include "ir.h"

static void unique_names(tc_arena *arena, tc_graph *graph) {
    tc_map *seen = tc_map_create(arena);
    TC_FOR_NODES(node, graph)
        if (*node->name && !tc_map_get(seen, node->name))
            tc_map_set(seen, node->name, node);
    TC_FOR_NODES(node, graph) {
        TC_FOR_NESTED(nested, node)
            unique_names(arena, nested);
        if (!*node->name || tc_map_get(seen, node->name) == node)
            continue;
        const char *name = node->name;
        for (unsigned suffix = 1; tc_map_get(seen, name);
             suffix++) /* the id ends the search early where many are alike */
            name = tc_arena_printf(graph->model->arena, "%s_%u", node->name, suffix < 8 ? suffix : node->id + suffix);
        node->name = name;
        tc_map_set(seen, name, node);
    }
}

void tc_unique_node_names(tc_model *model) {
    tc_arena *scratch = tc_arena_create();
    unique_names(scratch, model->graph);
    tc_arena_destroy(scratch);
}
