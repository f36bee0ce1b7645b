/* remat_polish.c: steps of the best schedule, one after the other, without chance. */
#include "remat_polish.h"
#include "remat_moves.h"
#include <stdlib.h>
#include <string.h>

#define MOST_ROUNDS 8

typedef struct dear {
    uint64_t cost;
    uint32_t slot;
} dear;

static int dearest_first(const void *a, const void *b) {
    const dear *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Steps that might be left out, the dearest first. */
static uint32_t list_spare(const tc_remat_walk *w, dear *out) {
    const tc_remat_state *s = &w->state;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_steps; i++) {
        uint32_t slot = s->steps[i];
        const tc_remat_node *node = &w->problem->nodes[s->slots[slot]];
        if (!node->pinned && tc_remat_removable(s, slot))
            out[n++] = (dear){node->cost, slot};
    }
    qsort(out, n, sizeof *out, dearest_first);
    return n;
}

/* Keeps the change if it is for the better, or else undoes it. */
static bool judge(tc_remat_walk *w, const tc_remat_live *before) {
    tc_remat_live now = tc_remat_live_now(w);
    uint64_t budget = w->options->budget;
    bool better = now.peak_bytes <= budget || now.peak_bytes <= before->peak_bytes;
    better = better && (now.cost < before->cost || (now.cost == before->cost && now.peak_bytes < before->peak_bytes));
    if (better)
        tc_remat_walk_keep(w);
    else
        tc_remat_undo(&w->state);
    return better;
}

static bool leave_out(tc_remat_walk *w, dear *spare) {
    uint32_t n = list_spare(w, spare);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = spare[i].slot;
        tc_remat_live before = tc_remat_live_now(w);
        if (!tc_remat_removable(&w->state, slot) || !tc_remat_order_allows(w, slot, TC_REMAT_NONE))
            continue;
        tc_remat_put(&w->state, slot, TC_REMAT_NONE);
        /* A free step without a reader is removed, too. */
        tc_remat_live now = tc_remat_live_now(w);
        if (now.cost == before.cost && now.peak_bytes <= before.peak_bytes) {
            tc_remat_walk_keep(w);
            any = true;
        } else {
            any |= judge(w, &before);
        }
    }
    return any;
}

/* The empty slot right before a step's first reader. */
static uint32_t before_reader(const tc_remat_walk *w, uint32_t slot) {
    const tc_remat_state *s = &w->state;
    uint32_t to = tc_remat_latest(s, slot);
    const tc_remat_node *n = &w->problem->nodes[s->slots[slot]];
    for (uint32_t i = 0; i < n->n_outputs; i++) {
        const tc_remat_times *used = &s->used[n->outputs[i]];
        for (uint32_t k = 0; k < used->n; k++)
            if (used->at[k] > slot && used->at[k] < to)
                to = used->at[k];
    }
    while (--to > slot && s->slots[to] != TC_REMAT_NONE)
        ;
    return to;
}

static bool slide(tc_remat_walk *w, dear *spare) {
    uint32_t n = list_spare(w, spare);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = spare[i].slot, node = w->state.slots[slot], to = before_reader(w, slot);
        tc_remat_live before = tc_remat_live_now(w);
        if (to <= slot || !tc_remat_order_allows(w, slot, TC_REMAT_NONE))
            continue;
        tc_remat_put(&w->state, to, node);
        tc_remat_put(&w->state, slot, TC_REMAT_NONE);
        any |= judge(w, &before);
    }
    return any;
}

tc_remat_status tc_remat_polish(tc_remat_walk *w) {
    uint32_t n = w->best.n_steps, *steps = malloc((n + (size_t)1) * sizeof *steps);
    dear *spare = malloc((n + (size_t)1) * sizeof *spare);
    tc_remat_status status = steps && spare ? TC_REMAT_OK : TC_REMAT_MEMORY;
    if (status == TC_REMAT_OK) {
        memcpy(steps, w->best.steps, n * sizeof *steps);
        status = tc_remat_walk_from(w, steps, n);
    }
    for (int i = 0; i < MOST_ROUNDS && status == TC_REMAT_OK; i++) {
        bool any = leave_out(w, spare);
        if (!slide(w, spare) && !any)
            break;
    }
    if (status == TC_REMAT_OK)
        status = tc_remat_walk_write(w);
    free(steps);
    free(spare);
    return status;
}
