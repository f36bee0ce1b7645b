/* sequences.c: tensors that pass through a sequence, as exporters write torch.split and chunk. A split into a
 * sequence with picks at known positions becomes Split. A constructed sequence that is picked from or concatenated
 * becomes the tensor or Concat. Other sequences have neither gradient nor kernel and stay. */
#include "canonical.h"
#include <string.h>

enum { MAX_PIECES = 4096 };

static bool known_ints(const tc_value *value, const tc_tensor **out_tensor) {
    *out_tensor = value ? tc_value_constant(value) : NULL;
    return *out_tensor && (*out_tensor)->data && ((*out_tensor)->dtype == TC_INT64 || (*out_tensor)->dtype == TC_INT32);
}

/* The position that a SequenceAt picks out of n; -1 if it is not known or out of range. */
static int64_t place_of(const tc_node *pick, int64_t n) {
    const tc_tensor *tensor;
    if (!known_ints(tc_input(pick, 1), &tensor) || tensor->count != 1)
        return -1;
    int64_t place = tc_tensor_get_int(tensor, 0);
    place += place < 0 ? n : 0;
    return place >= 0 && place < n ? place : -1;
}

/* Whether all readers of the sequence of n pick known positions. */
static bool is_only_picked(const tc_value *sequence, int64_t n) {
    TC_FOR_USES(use, sequence)
        if (!tc_node_is(use->user, "", "SequenceAt") || use->user->graph != sequence->graph ||
            place_of(use->user, n) < 0)
            return false;
    return sequence->n_graph_outputs == 0 && sequence->uses;
}

/* `node` passes `from` on, and its result keeps its name. */
static void become_identity(tc_node *node, tc_value *from) {
    tc_node_resize_inputs(node, 1);
    tc_node_set_input(node, 0, from);
    tc_node_set_op(node, "", "Identity");
}

/* --- SplitToSequence -------------------------------------------------------------------------- */

typedef struct pieces {
    int64_t axis, n, sizes[MAX_PIECES];
    bool squeezed; /* each piece loses the axis */
} pieces;

static bool axis_size(const tc_value *x, int64_t axis, int64_t *out_size) {
    int rank = tc_value_rank(x);
    axis += axis < 0 ? rank : 0;
    if (rank == TC_RANK_UNKNOWN || axis < 0 || axis >= rank || !tc_dim_is_const(x->type->dims[axis]))
        return false;
    *out_size = x->type->dims[axis].value;
    return true;
}

/* Sizes are operands, or one size for all pieces (the last may be smaller), or each is 1. */
static bool read_pieces(const tc_node *node, pieces *p) {
    const tc_tensor *split = NULL;
    int64_t size = 0;
    p->axis = tc_attr_int(node, "axis", 0);
    p->squeezed = !tc_input(node, 1) && tc_attr_int(node, "keepdims", 1) == 0;
    if (tc_input(node, 1) && (!known_ints(tc_input(node, 1), &split) || split->rank > 1 || split->count > MAX_PIECES))
        return false;
    if (split && split->rank == 1) {
        p->n = (int64_t)split->count;
        for (int64_t i = 0; i < p->n; i++)
            p->sizes[i] = tc_tensor_get_int(split, (uint64_t)i);
        return true;
    }
    int64_t step = split ? tc_tensor_get_int(split, 0) : 1;
    if (step < 1 || !axis_size(tc_input(node, 0), p->axis, &size) || size / step >= MAX_PIECES)
        return false;
    for (p->n = 0; size > 0; size -= step)
        p->sizes[p->n++] = size < step ? size : step;
    return true;
}

/* The result of `pick` becomes the piece at that position of `split`. */
static void give_piece(tc_node *split, uint32_t place, const pieces *p, tc_node *pick) {
    tc_graph *graph = pick->graph;
    if (split->outputs[place]) {
        if (!p->squeezed) {
            become_identity(pick, split->outputs[place]);
            return;
        }
    } else if (!p->squeezed) {
        tc_value *result = tc_node_take_output(pick, 0);
        tc_node_set_output(split, place, result);
        tc_node_erase(pick);
        return;
    } else {
        tc_node_add_output(split, place, pick->outputs[0]->name, NULL);
    }
    tc_node_set_input(pick, 0, split->outputs[place]);
    tc_node_set_input(pick, 1, tc_constant(graph, "axes", tc_tensor_ints(graph->model, &p->axis, 1)));
    tc_node_set_op(pick, "", "Squeeze");
}

static bool lower_split(tc_arena *arena, tc_node *node) {
    pieces *p = TC_NEW(arena, pieces);
    tc_value *sequence = node->outputs[0];
    if (!tc_input(node, 0) || !read_pieces(node, p) || p->n < 1 || !is_only_picked(sequence, p->n))
        return false;
    tc_graph *graph = node->graph;
    tc_node *split = tc_node_create(graph, "", "Split", 2, (uint32_t)p->n);
    split->name = node->name;
    tc_attr_set_int(split, "axis", p->axis);
    tc_node_set_input(split, 0, tc_input(node, 0));
    tc_node_set_input(split, 1, tc_constant(graph, "split", tc_tensor_ints(graph->model, p->sizes, p->n)));
    tc_node_insert_before(split, node);
    while (sequence->uses) {
        tc_node *pick = sequence->uses->user;
        give_piece(split, (uint32_t)place_of(pick, p->n), p, pick);
    }
    for (uint32_t i = 0; i < split->n_outputs; i++)
        if (!split->outputs[i])
            tc_node_add_output(split, i, tc_node_label(split), NULL);
    tc_node_erase(node);
    return true;
}

/* --- SequenceConstruct ------------------------------------------------------------------------ */

static bool all_there(const tc_node *node) {
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!tc_input(node, i))
            return false;
    return node->n_inputs > 0;
}

static bool lower_pick(tc_node *node) {
    tc_node *made = tc_input(node, 0) ? tc_input(node, 0)->producer : NULL;
    if (!made || !tc_node_is(made, "", "SequenceConstruct") || made->graph != node->graph || !all_there(made))
        return false;
    int64_t place = place_of(node, made->n_inputs);
    if (place >= 0)
        become_identity(node, tc_input(made, (uint32_t)place));
    return place >= 0;
}

static bool lower_join(tc_node *node) {
    tc_node *made = tc_input(node, 0) ? tc_input(node, 0)->producer : NULL;
    if (!made || !tc_node_is(made, "", "SequenceConstruct") || made->graph != node->graph || !all_there(made))
        return false;
    tc_graph *graph = node->graph;
    bool stacks = tc_attr_int(node, "new_axis", 0) != 0;
    int64_t axis = tc_attr_int(node, "axis", 0);
    tc_value *axes = stacks ? tc_constant(graph, "axes", tc_tensor_ints(graph->model, &axis, 1)) : NULL;
    for (uint32_t i = 0; i < made->n_inputs; i++) {
        tc_value *item = tc_input(made, i);
        if (stacks) {
            tc_node *unsqueeze = tc_node_create(graph, "", "Unsqueeze", 2, 1);
            tc_node_set_input(unsqueeze, 0, item);
            tc_node_set_input(unsqueeze, 1, axes);
            tc_node_insert_before(unsqueeze, node);
            item = tc_node_add_output(unsqueeze, 0, tc_node_label(node), NULL);
        }
        tc_node_set_input(node, i, item);
    }
    tc_attr_remove(node, "new_axis");
    tc_node_set_op(node, "", "Concat");
    return true;
}

static bool lower_node(tc_arena *arena, tc_node *node) {
    if (tc_node_is(node, "", "SplitToSequence"))
        return lower_split(arena, node);
    if (tc_node_is(node, "", "SequenceAt"))
        return lower_pick(node);
    return tc_node_is(node, "", "ConcatFromSequence") && lower_join(node);
}

uint32_t tc_lower_sequences(tc_graph *graph) {
    uint32_t changes = 0;
    tc_arena *arena = tc_arena_create();
    for (tc_node *node = graph->first, *next; node; node = next) {
        tc_node *before = node->prev;
        bool changed = lower_node(arena, node);
        changes += changed;
        next = !changed ? node->next
               : before ? before->next
                        : graph->first; /* a split moves the nodes after it along */
    }
    tc_arena_destroy(arena);
    return changes;
}
