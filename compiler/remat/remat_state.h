/* remat_state.h: a schedule that is changed a step at a time, with its peak and cost kept up to date: O(degree * log
 * slots) for a change of one step. Steps stand in slots, most of them empty: there is room for one more step between
 * any two. */
#ifndef TC_REMAT_STATE_H
#define TC_REMAT_STATE_H
#include "remat_nodes.h"

/* Slots in increasing order. */
typedef struct tc_remat_times {
    uint32_t *at;
    uint32_t n, room;
} tc_remat_times;

/* The contents of a slot before a change. */
typedef struct tc_remat_edit {
    uint32_t slot;
    uint32_t node;  /* TC_REMAT_NONE: it was empty */
    uint32_t index; /* of the slot in `steps`, where it was not empty */
} tc_remat_edit;

#define TC_REMAT_EDITS 64 /* of one move, at most */

typedef struct tc_remat_state {
    const tc_remat_problem *problem;
    uint32_t n_slots; /* a power of two; the first one and the last two are always empty */
    uint32_t *slots;  /* [n_slots] nodes, or TC_REMAT_NONE */
    uint32_t *steps;  /* [n_slots] the first n_steps: the slots that are not empty, in no order */
    uint32_t *index;  /* [n_slots] of such a slot in `steps` */
    uint32_t n_steps;
    uint32_t *runs;       /* [nodes] how many steps run each */
    tc_remat_times *made; /* [values] slots of the steps that make each */
    tc_remat_times *used; /* [values] slots of those that read it */
    uint64_t *laid;       /* [n_slots] bytes of results over operands; NULL where no node lays any */
    uint64_t *left;       /* [values] for one node's overs; NULL like `laid` */
    int64_t *tree;        /* [2 n_slots] how much is live: see remat_state.c; [1] is the peak */
    uint64_t cost;
    tc_remat_makers makers;
    uint32_t *twin; /* [nodes] the next node with the same outputs; of the last the first; else itself */
    tc_remat_edit edits[TC_REMAT_EDITS];
    uint32_t n_edits;   /* since the last tc_remat_keep */
    bool out_of_memory; /* a change was not made: the counts are invalid from now on */
} tc_remat_state;

/* An empty schedule with no slots yet. TC_REMAT_OK, or TC_REMAT_MEMORY: then everything is freed. The problem is one
 * that tc_remat_check finds nothing wrong with; it has to stay. */
tc_remat_status tc_remat_state_init(tc_remat_state *state, const tc_remat_problem *problem);
void tc_remat_state_free(tc_remat_state *state);
/* Spaces a schedule that passes tc_remat_check_steps evenly over at least `slots_per_step` slots for each step. */
tc_remat_status tc_remat_state_load(tc_remat_state *state, const uint32_t *steps, uint32_t n_steps,
                                    uint32_t slots_per_step);

static inline uint64_t tc_remat_peak(const tc_remat_state *s) { return (uint64_t)s->tree[1]; }
/* The first slot at which the peak is reached. */
uint32_t tc_remat_peak_slot(const tc_remat_state *state);
/* Nodes in their order; room for n_steps. */
void tc_remat_state_steps(const tc_remat_state *state, uint32_t *out_steps);

/* The first slot after which all of a node's inputs are there; n_slots if one is never made. */
uint32_t tc_remat_earliest(const tc_remat_state *state, uint32_t node);
/* Whether every step would still find its operands, and the end its outputs, if the slot were empty. */
bool tc_remat_removable(const tc_remat_state *state, uint32_t slot);
/* The first slot from which on the run in `slot` would come too late for a reader; n_slots - 2 if never. */
uint32_t tc_remat_latest(const tc_remat_state *state, uint32_t slot);

/* Replaces the node in a slot, or none, by another with the same outputs (TC_REMAT_NONE: by none). The caller makes
 * sure that the schedule stays valid. */
void tc_remat_put(tc_remat_state *state, uint32_t slot, uint32_t node);
/* Accepts all changes since the last call, or takes them back: every array is what it was, bit for bit. */
static inline void tc_remat_keep(tc_remat_state *s) { s->n_edits = 0; }
void tc_remat_undo(tc_remat_state *state);
#endif
