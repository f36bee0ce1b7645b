/* budget_rounds.h: the search for a schedule, in rounds, until the arena itself fits. Of the pass `budget`. */
#ifndef TC_BUDGET_ROUNDS_H
#define TC_BUDGET_ROUNDS_H
#include "budget.h"

typedef struct tc_plan {
    const uint32_t *steps; /* [n_steps] */
    uint32_t n_steps;
    tc_remat_live live; /* as the problem counts */
    uint64_t arena;     /* as the runtime does */
} tc_plan;

/* What the runtime says of a model whose shapes are known; an error lists dims that have no value. budget.c */
tc_status tc_budget_foresee(tc_pass_env *env, tc_arena *arena, tc_model *model, tc_node_memories *out_memories,
                            tc_footprint *out_footprint);

/* The cheapest plan found whose arena has at most `wanted` bytes, or the one with the smallest arena; wanted 0: the
 * smallest arena, at the least cost. Sets met, stopped, timed_out and work of the summary. In `arena`. */
tc_status tc_budget_search(tc_pass_env *env, tc_arena *arena, tc_model *model, const tc_budget *budget, uint64_t wanted,
                           tc_plan_summary *summary, tc_plan *out_plan);

/* Tells the summary what was live when, before and after, and why nodes run again. `ran`: [n_steps] the nodes that the
 * plan's steps became. TC_LIMIT: no memory. budget_repeats.c */
tc_status tc_budget_tell(tc_pass_env *env, tc_arena *arena, const tc_budget *budget, const tc_plan *plan,
                         const tc_node *const *ran, tc_plan_summary *summary);
#endif
