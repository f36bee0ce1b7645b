/* remat_state.c: the live bytes, kept up to date while steps are added and removed.
 *
 * A production p of a value is live in the slots from p to its end: the last reader before the next production q, or p
 * itself; without a q, the last slot if the value is an output. Each change of a reader or a production lengthens,
 * shortens, splits or joins lives: one addition to a range of slots, two at most (FastSA, section 2.2.1).
 *
 * Each node of the tree over slots holds by how much the maximum in its slots exceeds the maximum of the siblings'
 * common part: of two siblings the greater holds 0, and the sum from the root to a slot is the slot's live bytes. The
 * same lives give the same tree, whatever happened in between. */
#include "remat_state.h"
#include <stdlib.h>
#include <string.h>

/* --- the tree --------------------------------------------------------------------------------- */

/* Gives a node and its sibling's common part to their parent; false if there is none. */
static inline bool settle(int64_t *tree, uint32_t i) {
    int64_t a = tree[i], b = tree[i ^ 1], most = a > b ? a : b;
    if (most == 0)
        return false;
    tree[i] = a - most;
    tree[i ^ 1] = b - most;
    tree[i >> 1] += most;
    return true;
}

/* `bytes` more (less) are live from slot `first` to slot `last`, both inclusive. */
static void shift(tc_remat_state *s, uint32_t first, uint32_t last, int64_t bytes) {
    if (first > last || bytes == 0)
        return;
    int64_t *tree = s->tree;
    uint32_t l = s->n_slots + first - 1, r = s->n_slots + last + 1;
    for (; (l ^ r) != 1; l >>= 1, r >>= 1) {
        if (!(l & 1))
            tree[l ^ 1] += bytes;
        if (r & 1)
            tree[r ^ 1] += bytes;
        settle(tree, l);
        settle(tree, r);
    }
    while (l > 1 && settle(tree, l))
        l >>= 1;
}

uint32_t tc_remat_peak_slot(const tc_remat_state *s) {
    uint32_t i = 1;
    while (i < s->n_slots)
        i = 2 * i + (s->tree[2 * i] < 0);
    return i - s->n_slots;
}

/* --- lives ------------------------------------------------------------------------------------ */

/* The index of the first slot that is not before `slot`. */
static inline uint32_t at_or_after(const tc_remat_times *times, uint32_t slot) {
    uint32_t low = 0, high = times->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (times->at[middle] < slot)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert(tc_remat_state *s, tc_remat_times *times, uint32_t slot) {
    if (times->n == times->room) {
        uint32_t room = 2 * times->room + 4;
        uint32_t *at = realloc(times->at, room * sizeof *at);
        if (!at) {
            s->out_of_memory = true;
            return;
        }
        times->at = at;
        times->room = room;
    }
    uint32_t i = at_or_after(times, slot);
    memmove(times->at + i + 1, times->at + i, (times->n++ - i) * sizeof *times->at);
    times->at[i] = slot;
}

static void take_out(tc_remat_times *times, uint32_t slot) {
    uint32_t i = at_or_after(times, slot);
    if (i < times->n && times->at[i] == slot)
        memmove(times->at + i, times->at + i + 1, (--times->n - i) * sizeof *times->at);
}

/* Around a slot: the productions next to it. */
typedef struct around {
    uint32_t before, after; /* slots; n_slots if there is none */
} around;

static around productions_around(const tc_remat_state *s, uint32_t value, uint32_t slot) {
    const tc_remat_times *made = &s->made[value];
    uint32_t i = at_or_after(made, slot), next = i < made->n && made->at[i] == slot ? i + 1 : i;
    return (around){i > 0 ? made->at[i - 1] : s->n_slots, next < made->n ? made->at[next] : s->n_slots};
}

/* The last reader between a production and slot `before`, or the production. */
static uint32_t last_reader(const tc_remat_state *s, uint32_t value, uint32_t production, uint32_t before) {
    const tc_remat_times *used = &s->used[value];
    uint32_t i = at_or_after(used, before);
    return i > 0 && used->at[i - 1] > production ? used->at[i - 1] : production;
}

/* The end of the life of a production, with the next one at `after`. */
static uint32_t end_of_life(const tc_remat_state *s, uint32_t value, uint32_t production, uint32_t after) {
    if (after == s->n_slots && s->problem->values[value].is_output)
        return s->n_slots - 2;
    return last_reader(s, value, production, after);
}

/* --- results over operands -------------------------------------------------------------------- */

static bool dies_in(const tc_remat_state *s, uint32_t value, uint32_t slot) {
    around near = productions_around(s, value, slot);
    return end_of_life(s, value, slot, near.after) == slot;
}

static uint64_t laid_over(tc_remat_state *s, uint32_t slot, const tc_remat_node *n) {
    uint64_t taken = 0;
    for (uint32_t i = 0; i < n->n_overs; i++) {
        s->left[n->overs[i].operand] = s->problem->values[n->overs[i].operand].bytes;
        s->left[n->overs[i].result] = s->problem->values[n->overs[i].result].bytes;
    }
    for (uint32_t i = 0; i < n->n_overs; i++) {
        const tc_remat_over *over = &n->overs[i];
        uint64_t *operand = &s->left[over->operand], *result = &s->left[over->result];
        if (over->bytes > *operand || over->bytes > *result || !dies_in(s, over->operand, slot))
            continue;
        *operand -= over->bytes;
        *result -= over->bytes;
        taken += over->bytes;
    }
    return taken;
}

/* After a change of the values that die in a slot. */
static void refresh(tc_remat_state *s, uint32_t slot) {
    uint32_t node = s->slots[slot];
    if (!s->laid || node == TC_REMAT_NONE || s->problem->nodes[node].n_overs == 0)
        return;
    uint64_t taken = laid_over(s, slot, &s->problem->nodes[node]);
    shift(s, slot, slot, (int64_t)s->laid[slot] - (int64_t)taken);
    s->laid[slot] = taken;
}

/* --- readers and productions ------------------------------------------------------------------ */

/* The slots by which a reader lengthens a life, computed while it is out: +1 or -1 times the bytes. Without it the life
 * ends elsewhere. */
static void count_reader(tc_remat_state *s, uint32_t value, uint32_t slot, int sign) {
    around near = productions_around(s, value, slot);
    uint32_t end = end_of_life(s, value, near.before, near.after);
    if (slot > end)
        shift(s, end + 1, slot, sign * (int64_t)s->problem->values[value].bytes);
}

static void refresh_before(tc_remat_state *s, uint32_t value, uint32_t slot) {
    if (!s->laid)
        return;
    around near = productions_around(s, value, slot);
    if (near.before == s->n_slots)
        return;
    uint32_t reader = last_reader(s, value, near.before, slot);
    if (reader > near.before)
        refresh(s, reader);
}

static void add_reader(tc_remat_state *s, uint32_t value, uint32_t slot) {
    count_reader(s, value, slot, 1);
    insert(s, &s->used[value], slot);
    refresh_before(s, value, slot);
}

static void remove_reader(tc_remat_state *s, uint32_t value, uint32_t slot) {
    take_out(&s->used[value], slot);
    count_reader(s, value, slot, -1);
    refresh_before(s, value, slot);
}

/* The effect of a production, computed while it is out: it begins a life, or it cuts one in two and frees the slots
 * between the last reader and itself. */
static void count_production(tc_remat_state *s, uint32_t value, uint32_t slot, int sign) {
    int64_t bytes = sign * (int64_t)s->problem->values[value].bytes;
    around near = productions_around(s, value, slot);
    if (near.before == s->n_slots) {
        shift(s, slot, end_of_life(s, value, slot, near.after), bytes);
        return;
    }
    if (end_of_life(s, value, near.before, near.after) > slot)
        shift(s, last_reader(s, value, near.before, slot) + 1, slot - 1, -bytes);
    else
        shift(s, slot, slot, bytes);
}

static void add_production(tc_remat_state *s, uint32_t value, uint32_t slot) {
    count_production(s, value, slot, 1);
    insert(s, &s->made[value], slot);
    refresh_before(s, value, slot);
}

static void remove_production(tc_remat_state *s, uint32_t value, uint32_t slot) {
    take_out(&s->made[value], slot);
    count_production(s, value, slot, -1);
    refresh_before(s, value, slot);
}

/* --- steps ------------------------------------------------------------------------------------ */

static void list_step(tc_remat_state *s, uint32_t slot, uint32_t node) {
    const tc_remat_node *n = &s->problem->nodes[node];
    s->slots[slot] = node;
    s->runs[node]++;
    s->cost += n->cost;
    shift(s, slot, slot, (int64_t)n->workspace);
    refresh(s, slot);
}

static void unlist_step(tc_remat_state *s, uint32_t slot, uint32_t node) {
    const tc_remat_node *n = &s->problem->nodes[node];
    uint64_t laid = s->laid ? s->laid[slot] : 0;
    s->slots[slot] = TC_REMAT_NONE;
    s->runs[node]--;
    s->cost -= n->cost;
    shift(s, slot, slot, (int64_t)laid - (int64_t)n->workspace);
    if (s->laid)
        s->laid[slot] = 0;
}

static void enter(tc_remat_state *s, uint32_t slot, uint32_t node) {
    const tc_remat_node *n = &s->problem->nodes[node];
    for (uint32_t i = 0; i < n->n_inputs; i++)
        add_reader(s, n->inputs[i], slot);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        add_production(s, n->outputs[i], slot);
    list_step(s, slot, node);
    s->index[slot] = s->n_steps;
    s->steps[s->n_steps++] = slot;
}

static void leave(tc_remat_state *s, uint32_t slot, uint32_t node) {
    const tc_remat_node *n = &s->problem->nodes[node];
    unlist_step(s, slot, node);
    for (uint32_t i = n->n_outputs; i-- > 0;)
        remove_production(s, n->outputs[i], slot);
    for (uint32_t i = n->n_inputs; i-- > 0;)
        remove_reader(s, n->inputs[i], slot);
    uint32_t last = s->steps[--s->n_steps];
    s->steps[s->index[slot]] = last;
    s->index[last] = s->index[slot];
}

static void exchange(tc_remat_state *s, uint32_t slot, uint32_t was, uint32_t node) {
    const tc_remat_node *old = &s->problem->nodes[was], *n = &s->problem->nodes[node];
    unlist_step(s, slot, was);
    for (uint32_t i = 0; i < n->n_inputs; i++)
        if (!tc_remat_reads(old, n->inputs[i]))
            add_reader(s, n->inputs[i], slot);
    for (uint32_t i = 0; i < old->n_inputs; i++)
        if (!tc_remat_reads(n, old->inputs[i]))
            remove_reader(s, old->inputs[i], slot);
    list_step(s, slot, node);
}

static void change(tc_remat_state *s, uint32_t slot, uint32_t node) {
    uint32_t was = s->slots[slot];
    if (was == node)
        return;
    if (was == TC_REMAT_NONE)
        enter(s, slot, node);
    else if (node == TC_REMAT_NONE)
        leave(s, slot, was);
    else
        exchange(s, slot, was, node);
}

void tc_remat_put(tc_remat_state *s, uint32_t slot, uint32_t node) {
    s->edits[s->n_edits++] = (tc_remat_edit){slot, s->slots[slot], s->index[slot]};
    change(s, slot, node);
}

void tc_remat_undo(tc_remat_state *s) {
    while (s->n_edits > 0) {
        const tc_remat_edit *edit = &s->edits[--s->n_edits];
        bool was_empty = s->slots[edit->slot] == TC_REMAT_NONE;
        change(s, edit->slot, edit->node);
        if (was_empty && edit->node != TC_REMAT_NONE) {
            /* Back to its place in the list. */
            uint32_t other = s->steps[edit->index];
            s->steps[s->n_steps - 1] = other;
            s->index[other] = s->n_steps - 1;
            s->steps[edit->index] = edit->slot;
            s->index[edit->slot] = edit->index;
        }
    }
}

/* --- possible changes ------------------------------------------------------------------------- */

uint32_t tc_remat_earliest(const tc_remat_state *s, uint32_t node) {
    const tc_remat_node *n = &s->problem->nodes[node];
    uint32_t earliest = 0;
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const tc_remat_times *made = &s->made[n->inputs[i]];
        if (made->n == 0)
            return s->n_slots;
        earliest = made->at[0] > earliest ? made->at[0] : earliest;
    }
    return earliest;
}

bool tc_remat_removable(const tc_remat_state *s, uint32_t slot) {
    const tc_remat_node *n = &s->problem->nodes[s->slots[slot]];
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        around near = productions_around(s, n->outputs[i], slot);
        if (near.before == s->n_slots && end_of_life(s, n->outputs[i], slot, near.after) > slot)
            return false;
    }
    return true;
}

uint32_t tc_remat_latest(const tc_remat_state *s, uint32_t slot) {
    const tc_remat_node *n = &s->problem->nodes[s->slots[slot]];
    uint32_t latest = s->n_slots - 2;
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        around near = productions_around(s, n->outputs[i], slot);
        const tc_remat_times *used = &s->used[n->outputs[i]];
        uint32_t next = at_or_after(used, slot);
        if (near.before != s->n_slots || next == used->n)
            continue;
        /* The first reader of all, unless the value is recomputed before it. */
        if (used->at[next] < near.after && used->at[next] < latest)
            latest = used->at[next];
    }
    return latest;
}

void tc_remat_state_steps(const tc_remat_state *s, uint32_t *out_steps) {
    uint32_t n = 0;
    for (uint32_t slot = 0; n < s->n_steps; slot++)
        if (s->slots[slot] != TC_REMAT_NONE)
            out_steps[n++] = s->slots[slot];
}

/* --- beginning and end ------------------------------------------------------------------------ */

static void list_twins(tc_remat_state *s) {
    const tc_remat_problem *p = s->problem;
    for (uint32_t n = 0; n < p->n_nodes; n++) {
        const tc_remat_node *node = &p->nodes[n];
        s->twin[n] = n;
        if (node->n_outputs == 0 || node->pinned)
            continue;
        const uint32_t *makers = s->makers.makers + s->makers.first[node->outputs[0]];
        uint32_t of = tc_remat_count_makers(&s->makers, node->outputs[0]), at = 0;
        while (makers[at] != n)
            at++;
        for (uint32_t i = 1; i < of && s->twin[n] == n; i++) {
            uint32_t other = makers[(at + i) % of];
            if (!p->nodes[other].pinned && tc_remat_same_outputs(node, &p->nodes[other]))
                s->twin[n] = other;
        }
    }
}

tc_remat_status tc_remat_state_init(tc_remat_state *s, const tc_remat_problem *p) {
    size_t n_nodes = p->n_nodes + (size_t)1, n_values = p->n_values + (size_t)1;
    bool overs = false;
    for (uint32_t n = 0; n < p->n_nodes; n++)
        overs = overs || p->nodes[n].n_overs > 0;
    *s = (tc_remat_state){.problem = p};
    s->runs = calloc(n_nodes, sizeof *s->runs);
    s->twin = calloc(n_nodes, sizeof *s->twin);
    s->made = calloc(n_values, sizeof *s->made);
    s->used = calloc(n_values, sizeof *s->used);
    s->left = overs ? calloc(n_values, sizeof *s->left) : NULL;
    if (!s->runs || !s->twin || !s->made || !s->used || (overs && !s->left) || !tc_remat_makers_make(&s->makers, p)) {
        tc_remat_state_free(s);
        return TC_REMAT_MEMORY;
    }
    list_twins(s);
    return TC_REMAT_OK;
}

static void free_slots(tc_remat_state *s) {
    free(s->slots);
    free(s->steps);
    free(s->index);
    free(s->laid);
    free(s->tree);
    s->slots = s->steps = s->index = NULL;
    s->laid = NULL;
    s->tree = NULL;
    s->n_slots = 0;
}

void tc_remat_state_free(tc_remat_state *s) {
    for (uint32_t v = 0; s->made && s->used && v < s->problem->n_values; v++) {
        free(s->made[v].at);
        free(s->used[v].at);
    }
    free_slots(s);
    free(s->runs);
    free(s->twin);
    free(s->made);
    free(s->used);
    tc_remat_makers_free(&s->makers);
    free(s->left);
    *s = (tc_remat_state){0};
}

static bool make_slots(tc_remat_state *s, uint32_t n_slots) {
    if (n_slots != s->n_slots) {
        free_slots(s);
        s->slots = malloc(n_slots * sizeof *s->slots);
        s->steps = malloc(n_slots * sizeof *s->steps);
        s->index = malloc(n_slots * sizeof *s->index);
        s->tree = malloc(2 * (size_t)n_slots * sizeof *s->tree);
        s->laid = s->left ? malloc(n_slots * sizeof *s->laid) : NULL;
        if (!s->slots || !s->steps || !s->index || !s->tree || (s->left && !s->laid)) {
            free_slots(s);
            return false;
        }
        s->n_slots = n_slots;
    }
    memset(s->slots, 0xff, n_slots * sizeof *s->slots);
    memset(s->index, 0, n_slots * sizeof *s->index);
    memset(s->tree, 0, 2 * (size_t)n_slots * sizeof *s->tree);
    if (s->laid)
        memset(s->laid, 0, n_slots * sizeof *s->laid);
    return true;
}

tc_remat_status tc_remat_state_load(tc_remat_state *s, const uint32_t *steps, uint32_t n_steps,
                                    uint32_t slots_per_step) {
    uint64_t least = ((uint64_t)n_steps + 2) * slots_per_step, n_slots = 64;
    while (n_slots < least)
        n_slots *= 2;
    if (n_slots > UINT32_MAX / 4)
        return TC_REMAT_TOO_BIG;
    if (!make_slots(s, (uint32_t)n_slots))
        return TC_REMAT_MEMORY;
    for (uint32_t v = 0; v < s->problem->n_values; v++)
        s->made[v].n = s->used[v].n = 0;
    memset(s->runs, 0, s->problem->n_nodes * sizeof *s->runs);
    s->n_steps = s->n_edits = 0;
    s->cost = 0;
    s->out_of_memory = false;
    for (uint32_t t = 0; t < n_steps; t++)
        enter(s, (uint32_t)((t + UINT64_C(1)) * n_slots / (n_steps + UINT64_C(1))), steps[t]);
    return s->out_of_memory ? TC_REMAT_MEMORY : TC_REMAT_OK;
}
