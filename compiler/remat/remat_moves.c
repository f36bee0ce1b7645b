/* remat_moves.c: runs that are added, left out, put elsewhere or exchanged for those of other nodes. */
#include "remat_moves.h"

static inline bool pinned(const tc_remat_walk *w, uint32_t node) { return w->problem->nodes[node].pinned; }

static inline uint32_t random_step(tc_remat_walk *w) {
    return w->state.steps[tc_remat_below(&w->random, w->state.n_steps)];
}

/* As often from 1 to 2 as from 2 to 4, and so on up to `most`. */
static uint32_t any_distance(tc_remat_walk *w, uint32_t most) {
    uint32_t halvings = tc_remat_below(&w->random, 16);
    return 1 + tc_remat_below(&w->random, most >> halvings);
}

/* The empty slot next to `slot` between `low` and `high`, both exclusive; n_slots if none is near. */
static uint32_t empty_near(const tc_remat_walk *w, uint32_t slot, uint32_t low, uint32_t high) {
    const uint32_t *slots = w->state.slots;
    for (uint32_t i = 0; i < 16; i++) {
        if (slot > low + i && slot < high + i && slots[slot - i] == TC_REMAT_NONE)
            return slot - i;
        if (slot + i > low && slot + i < high && slots[slot + i] == TC_REMAT_NONE)
            return slot + i;
    }
    return w->state.n_slots;
}

/* --- the order of first runs, where it is fixed ----------------------------------------------- */

static uint32_t first_run(const tc_remat_walk *w, uint32_t node) {
    const tc_remat_node *n = &w->problem->nodes[node];
    const tc_remat_times *made = n->n_outputs > 0 ? &w->state.made[n->outputs[0]] : NULL;
    for (uint32_t i = 0; made && i < made->n; i++)
        if (w->state.slots[made->at[i]] == node)
            return made->at[i];
    return w->state.n_slots;
}

bool tc_remat_order_allows(const tc_remat_walk *w, uint32_t slot, uint32_t node) {
    if (!w->options->fixed_order)
        return true;
    uint32_t was = w->state.slots[slot];
    if (was != TC_REMAT_NONE && w->state.runs[was] > 1 && first_run(w, was) == slot)
        return false;
    if (node == TC_REMAT_NONE)
        return true;
    return first_run(w, node) < slot || (was != TC_REMAT_NONE && w->state.runs[node] == 0);
}

/* --- moves ------------------------------------------------------------------------------------ */

static bool put_if_cheap(tc_remat_walk *w, uint32_t slot, uint32_t node, double most_cost) {
    if (slot >= w->state.n_slots || w->state.n_steps > w->most_steps || w->state.n_edits == TC_REMAT_EDITS ||
        !tc_remat_order_allows(w, slot, node) ||
        (double)w->state.cost + (double)w->problem->nodes[node].cost > most_cost)
        return false;
    tc_remat_put(&w->state, slot, node);
    return true;
}

static uint32_t any_maker(tc_remat_walk *w, uint32_t value) {
    const tc_remat_makers *m = &w->state.makers;
    uint32_t of = tc_remat_count_makers(m, value);
    return m->makers[m->first[value] + (of > 1 ? tc_remat_below(&w->random, of) : 0)];
}

/* Recomputes an operand of the step in `reader`, some way before it. Returns where, or n_slots. */
static uint32_t add_before(tc_remat_walk *w, uint32_t reader, double most_cost) {
    const tc_remat_node *n = &w->problem->nodes[w->state.slots[reader]];
    if (n->n_inputs == 0)
        return w->state.n_slots;
    uint32_t node = any_maker(w, n->inputs[tc_remat_below(&w->random, n->n_inputs)]);
    uint32_t earliest = pinned(w, node) ? w->state.n_slots : tc_remat_earliest(&w->state, node);
    if (earliest + 1 >= reader)
        return w->state.n_slots;
    uint32_t slot = reader - any_distance(w, reader - earliest - 1);
    slot = empty_near(w, slot, earliest, reader);
    return put_if_cheap(w, slot, node, most_cost) ? slot : w->state.n_slots;
}

static bool add(tc_remat_walk *w, const tc_remat_course *course, double most_cost) {
    tc_remat_random *r = &w->random;
    if (tc_remat_below(r, 256) < course->anchored) {
        uint32_t slot = add_before(w, random_step(w), most_cost);
        bool added = slot < w->state.n_slots;
        /* A chain: recomputed values read recomputed values; a chain that stops early keeps more alive. */
        while (slot < w->state.n_slots && tc_remat_below(r, 4) == 0)
            slot = add_before(w, slot, most_cost);
        return added;
    }
    uint32_t node = tc_remat_below(r, w->problem->n_nodes);
    uint32_t earliest = pinned(w, node) ? w->state.n_slots : tc_remat_earliest(&w->state, node);
    uint32_t end = w->state.n_slots - 2;
    if (earliest + 1 >= end)
        return false;
    uint32_t slot = earliest + 1 + tc_remat_below(r, end - earliest - 1);
    return put_if_cheap(w, empty_near(w, slot, earliest, end), node, most_cost);
}

static bool take_away(tc_remat_walk *w) {
    for (int tries = 0; tries < 8; tries++) {
        uint32_t slot = random_step(w);
        if (pinned(w, w->state.slots[slot]) || !tc_remat_removable(&w->state, slot) ||
            !tc_remat_order_allows(w, slot, TC_REMAT_NONE))
            continue;
        tc_remat_put(&w->state, slot, TC_REMAT_NONE);
        return true;
    }
    return false;
}

static bool rotate(tc_remat_walk *w) {
    tc_remat_random *r = &w->random;
    uint32_t slot = random_step(w), node = w->state.slots[slot];
    if (pinned(w, node) || (w->options->fixed_order && first_run(w, node) == slot))
        return false;
    uint32_t low = tc_remat_earliest(&w->state, node), high = tc_remat_latest(&w->state, slot), to;
    if (tc_remat_next(r) & 1) {
        to = low + 1 + tc_remat_below(r, high - low - 1);
    } else if (tc_remat_next(r) & 1) {
        to = slot - any_distance(w, slot - low);
    } else {
        to = slot + any_distance(w, high - slot);
    }
    to = empty_near(w, to, low, high);
    if (to == w->state.n_slots || !tc_remat_order_allows(w, to, node))
        return false;
    tc_remat_put(&w->state, to, node);
    tc_remat_put(&w->state, slot, TC_REMAT_NONE);
    return true;
}

static bool exchange(tc_remat_walk *w, double most_cost) {
    uint32_t slot = random_step(w), node = w->state.slots[slot], twin = w->state.twin[node];
    if (twin == node || tc_remat_earliest(&w->state, twin) >= slot)
        return false;
    return put_if_cheap(w, slot, twin, most_cost + (double)w->problem->nodes[node].cost);
}

bool tc_remat_move(tc_remat_walk *w, const tc_remat_course *course, double most_cost) {
    /* All runs have been removed, as no step needs their results: there is no step to begin with. */
    if (w->state.n_steps == 0)
        return false;
    if (course->order_only)
        return rotate(w);
    uint32_t kind = tc_remat_below(&w->random, 256);
    if (w->has_twins && kind < 16)
        return exchange(w, most_cost);
    if (kind < 96)
        return rotate(w);
    if (kind < 176)
        return add(w, course, most_cost);
    if (kind < 240)
        return take_away(w);
    /* Adds one and removes another: each change alone might be too dear or too large. */
    if (!take_away(w))
        return false;
    if (w->state.n_steps > 0)
        add(w, course, most_cost);
    return true;
}
