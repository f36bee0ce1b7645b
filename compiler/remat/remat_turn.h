/* remat_turn.h: a schedule cut in two at a step, the turn. A value made before it and read after it is kept across the
 * turn, or recomputed where it is read. At a price for each byte kept and the given costs of nodes, the best choice for
 * each value is a cheapest cut of a network, found exactly. From such a choice follows another schedule.
 *
 * The steps after the turn are handled in stages: a value recomputed in a stage is there for the rest of the stage. */
#ifndef TC_REMAT_TURN_H
#define TC_REMAT_TURN_H
#include "min_cut.h"
#include "remat_problem.h"

typedef struct tc_remat_turn {
    const tc_remat_problem *problem;
    const uint32_t *steps; /* [n_steps] of the schedule; must outlive this */
    uint32_t n_steps, turn;
    uint32_t *maker; /* [n_values] the node that made a value last before the turn, or none */
    uint32_t *again; /* [n_values] the first step after the turn that makes it, or n_steps */
    uint32_t *form;  /* [n_steps] after the turn: another node that makes the same and needs less, or none */
    uint64_t *bytes; /* [n_values] in units, fewer than 2^31 */
    uint64_t *cost;  /* [n_nodes] in units, fewer than 2^40 */
    uint32_t *stage; /* [n_steps + 1] after the turn: which stage a step is of, in ascending order */
    uint32_t n_stages;
    bool shares;   /* stages that recompute the same values may keep those of the stage before */
    uint64_t work; /* so far, in steps of about a microsecond */
    /* The choice of tc_remat_turn_choose. */
    uint32_t *kept; /* [n_values] the number of stages for which it is kept */
    bool *changed;  /* [n_steps] after the turn: the variant runs */
    const uint64_t *price;
    /* For choosing. */
    tc_cut cut;
    uint32_t *members, *member_at, *nodes, *vertex; /* [n_values] twice, [n_nodes], [n_values + n_nodes] */
    uint64_t *path, *both;                          /* [n_values], [n_steps + 1] */
    uint32_t *later; /* [n_nodes] the next step, of a later stage, for which it runs again; or none */
    uint32_t n_members, n_direct, n_member_nodes;
    /* For building. */
    uint32_t *seen, *stack, *stack_at;
    bool *wanted;
} tc_remat_turn;

/* One stage. False: out of memory. Free it in either case. */
bool tc_remat_turn_make(tc_remat_turn *turn, const tc_remat_problem *problem, const uint32_t *steps, uint32_t n_steps,
                        uint32_t at);
void tc_remat_turn_free(tc_remat_turn *turn);
/* Cuts the steps after the turn into so many stages (or fewer) where few bytes are read on both sides. */
void tc_remat_turn_stages(tc_remat_turn *turn, uint32_t n);
/* `price` [n_steps - turn + 1]: the price of a unit of bytes, in 2^-16 units of cost, from the turn to this step after
 * it; it must outlive building. False: out of memory. */
bool tc_remat_turn_choose(tc_remat_turn *turn, const uint64_t *price);
/* The schedule in which the steps after the turn find values that were not kept: each value is recomputed right before
 * the first step of a stage that reads it, unless the stage before made it and keeping it is cheaper. `slots` gets the
 * step of the old schedule for which each runs. Returns how many steps, 0 if they are more than `max_steps`. */
uint32_t tc_remat_turn_build(tc_remat_turn *turn, uint32_t *out_steps, uint32_t *slots, uint32_t max_steps);
#endif
