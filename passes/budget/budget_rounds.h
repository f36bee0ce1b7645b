/* budget_rounds.h: the search for a schedule, in rounds, until the arena itself fits. For the pass `budget`. */
#ifndef TC_BUDGET_ROUNDS_H
#define TC_BUDGET_ROUNDS_H
#include "budget.h"

typedef struct tc_plan {
    const uint32_t *steps; /* [n_steps] */
    uint32_t n_steps;
    tc_remat_live live; /* as the problem counts */
    uint64_t arena;     /* as the runtime counts */
    uint64_t work;      /* of placing it: tc_footprint */
} tc_plan;

typedef struct tc_aim {
    uint64_t wanted;     /* bytes of the arena; 0: the fewest found */
    uint32_t part;       /* the divisor of the usual time; 0: all of it */
    const tc_plan *near; /* [n_near] plans to begin with, too */
    uint32_t n_near;     /* TC_MOST_NEAR at most */
    const char *label;   /* prefix of progress reports: "3 of 17, " */
} tc_aim;
enum { TC_MOST_NEAR = 2 };

/* From now on a user may ask for the best plan so far; or no longer. */
void tc_budget_watch(const tc_pass_env *env, bool begins);
/* Adds the error for a status of the search. */
tc_status tc_budget_failed(tc_ctx *ctx, tc_remat_status status);
/* Sets the arena of a plan: of a clone of the model that runs it. */
tc_status tc_budget_measure(tc_pass_env *env, tc_model *model, const tc_budget *budget, tc_plan *plan);
/* The cheapest plan found whose arena has at most aim->wanted bytes, or the one with the smallest arena; wanted 0:
 * the smallest arena, at the least cost. Sets met, stopped and timed_out of the summary, and reads floor and
 * cost_before. In `arena`. */
tc_status tc_budget_search(tc_pass_env *env, tc_arena *arena, tc_model *model, const tc_budget *budget,
                           const tc_aim *aim, tc_plan_summary *summary, tc_plan *out_plan);

/* The price of less memory: plans for as many budgets as --pareto says, from `initial` bytes to the fewest found,
 * into env->summary->pareto. *plan is another candidate (n_steps 0: there is none), made for `wanted` bytes (0: the
 * fewest), and becomes the best one for these. budget_pareto.c */
tc_status tc_budget_pareto(tc_pass_env *env, tc_arena *arena, tc_model *model, const tc_budget *budget,
                           uint64_t initial, uint64_t wanted, const tc_plan_summary *summary, tc_plan *plan);

/* Fills the summary with live bytes before and after, and the reasons of recomputed nodes. `ran`: [n_steps] the
 * nodes of the plan's steps. TC_LIMIT: no memory. budget_repeats.c */
tc_status tc_budget_tell(tc_pass_env *env, tc_arena *arena, const tc_budget *budget, const tc_plan *plan,
                         const tc_node *const *ran, tc_plan_summary *summary);
#endif
