/* update_place.c: the position of updates: as early as possible, so that a gradient is freed as soon as it is used,
 * but after the last reader of the old weight, so that the new one can overwrite it (runtime/plan/state.c). */
#include "compiler/text/marks.h"
#include "compiler/ir/ops.h"
#include "passes/weights/weights.h"

typedef struct places {
    tc_arena *arena;
    tc_graph *graph;
    bool *moves;          /* by node id: whether the node is to be placed */
    tc_node **renewed_by; /* by value id: the node that makes the next value of this graph input; NULL: none */
    tc_value **roots;     /* by value id: the value whose elements a view shows; NULL: itself */
    tc_node **last; /* by value id, for roots: the last node that reads elements, not counting those to be placed */
} places;

static tc_value *root_of(const places *p, tc_value *value) { return p->roots[value->id] ? p->roots[value->id] : value; }

static void find_renewed(places *p) {
    tc_kept_state *states;
    const size_t n = tc_list_states(p->arena, p->graph->model, &states);
    for (size_t i = 0; i < n; i++)
        p->renewed_by[states[i].input->id] = states[i].output->producer;
}

static void find_readers(places *p) {
    TC_FOR_NODES(node, p->graph) {
        tc_value **reads;
        const size_t n = tc_node_reads(p->arena, node, &reads);
        if (p->moves[node->id])
            continue;
        for (size_t i = 0; i < n; i++)
            if (reads[i])
                p->last[root_of(p, reads[i])->id] = node;
        if (tc_node_has(node, TC_VIEW) && tc_input(node, 0) && tc_output(node, 0))
            p->roots[tc_output(node, 0)->id] = root_of(p, tc_input(node, 0));
    }
}

static tc_node *later(tc_node *a, tc_node *b) { return !a || (b && tc_node_before(a, b)) ? b : a; }

static tc_node *place_of(const places *p, const tc_node *node) {
    tc_node *after = NULL;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        if (!value)
            continue;
        after = later(after, value->producer);
        if (p->renewed_by[value->id] == node)
            after = later(after, p->last[value->id]);
    }
    return after;
}

/* NULL: to the beginning of the graph. */
static void move_after(tc_node *node, tc_node *where) {
    tc_node *before = where ? where->next : node->graph->first;
    if (before) {
        tc_node_move_before(node, before);
        return;
    }
    tc_node_move_before(node, where);
    tc_node_move_before(where, node);
}

void tc_place_updates(tc_graph *graph, tc_node *const *nodes, size_t n) {
    const uint32_t ids = graph->model->next_id;
    tc_arena *scratch = tc_arena_create();
    places p = {.arena = scratch,
                .graph = graph,
                .moves = TC_NEW_ARRAY(scratch, bool, ids),
                .renewed_by = TC_NEW_ARRAY(scratch, tc_node *, ids),
                .roots = TC_NEW_ARRAY(scratch, tc_value *, ids),
                .last = TC_NEW_ARRAY(scratch, tc_node *, ids)};
    for (size_t i = 0; i < n; i++)
        p.moves[nodes[i]->id] = true;
    find_renewed(&p);
    find_readers(&p);
    for (size_t i = 0; i < n; i++) {
        tc_node *after = place_of(&p, nodes[i]);
        move_after(nodes[i], after);
    }
    tc_arena_destroy(scratch);
}
