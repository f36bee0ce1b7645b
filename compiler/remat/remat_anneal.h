/* remat_anneal.h: simulated annealing of one schedule, and declarations that the search and its parts share. */
#ifndef TC_REMAT_ANNEAL_H
#define TC_REMAT_ANNEAL_H
#include "remat_random.h"
#include "remat_search.h"
#include "remat_state.h"

/* A walk through schedules that keeps the best one seen. */
typedef struct tc_remat_walk {
    const tc_remat_problem *problem;
    const tc_remat_options *options;
    tc_remat_state state;
    tc_remat_random random;
    uint64_t plain_cost;    /* of the given schedule */
    uint32_t most_steps;    /* that a schedule may have before none is added */
    uint64_t work;          /* moves tried so far */
    tc_remat_schedule best; /* room for `best_room` steps */
    uint32_t best_room;
    uint32_t *kept;    /* [n_slots] slots of the best since the state was loaded */
    uint32_t *changed; /* [n_changed] slots in which `kept` lags the state, or more than can be listed */
    uint32_t n_changed, n_slots;
    bool fresh; /* `kept` is better than `best` */
    tc_remat_live kept_live;
    bool has_twins; /* some node makes a value that another makes, too */
    bool stopped, timed_out;
    double end;               /* seconds of the clock; 0: none */
    void (*look)(void *user); /* now and then; NULL: not wanted */
    void *look_user;
} tc_remat_walk;

/* One annealing. Temperatures are parts of the objective as it is at the plain cost: at 0.01 a change that makes it 1%
 * worse is kept once in e times. */
typedef struct tc_remat_course {
    double hot, cold;
    uint64_t moves;
    uint32_t power;    /* of the excess in the objective: cost * max(1, peak / budget)^power */
    uint32_t anchored; /* of 256 runs that are added, as many stand before a reader of their results */
    bool order_only;   /* minimises the peak by order alone */
    bool until_met;    /* ends as soon as the budget is met */
    bool pressed;      /* an excess counts the more, the longer the budget is missed */
} tc_remat_course;

/* The clock of `seconds` runs from here. TC_REMAT_MEMORY: nothing is left to free. Problem and options have to stay. */
tc_remat_status tc_remat_walk_init(tc_remat_walk *walk, const tc_remat_problem *problem,
                                   const tc_remat_options *options);
void tc_remat_walk_free(tc_remat_walk *walk);
/* Walks on from a schedule, which may become the best. */
tc_remat_status tc_remat_walk_from(tc_remat_walk *walk, const uint32_t *steps, uint32_t n_steps);
/* Forgets the best. */
void tc_remat_walk_forget(tc_remat_walk *walk);
/* The cost and peak of the schedule now. */
tc_remat_live tc_remat_live_now(const tc_remat_walk *walk);
/* Keeps a change, and the schedule if it is the best. */
void tc_remat_walk_keep(tc_remat_walk *walk);
/* Copies the kept schedule to `best`. */
tc_remat_status tc_remat_walk_write(tc_remat_walk *walk);
/* Anneals from the current schedule. */
tc_remat_status tc_remat_anneal(tc_remat_walk *walk, const tc_remat_course *course);
#endif
