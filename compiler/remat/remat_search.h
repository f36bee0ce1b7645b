/* remat_search.h: a schedule that fits a budget at the least cost, by simulated annealing from several beginnings. */
#ifndef TC_REMAT_SEARCH_H
#define TC_REMAT_SEARCH_H
#include "remat_problem.h"
#include <signal.h>

typedef struct tc_remat_schedule {
    uint32_t *steps; /* [n_steps] malloc: tc_remat_schedule_free */
    uint32_t n_steps;
    tc_remat_live live; /* as tc_remat_simulate counts it */
} tc_remat_schedule;

void tc_remat_schedule_free(tc_remat_schedule *schedule);
/* A copy replaces the schedule in `to`, which is freed; TC_REMAT_MEMORY: `to` stays as it is. */
tc_remat_status tc_remat_schedule_set(tc_remat_schedule *to, const tc_remat_schedule *from);
/* Whether the first is the better one: it meets the budget at less cost, or comes nearer to it. */
bool tc_remat_better(const tc_remat_live *a, const tc_remat_live *b, uint64_t budget);

typedef struct tc_remat_progress {
    uint64_t work, of_work;
    const char *phase; /* "order", "prices", "recompute", ... */
    bool met;
    tc_remat_live best;
} tc_remat_progress;

typedef struct tc_remat_options {
    uint64_t budget; /* bytes that the peak may have */
    uint64_t work;   /* the work allowed, in steps of the search (about a microsecond each); 0: by the size */
    uint64_t seed;
    bool fixed_order;                  /* first runs of nodes keep the given order */
    const volatile sig_atomic_t *stop; /* not 0: return the best so far; NULL: never */
    double seconds; /* a guard: after as many the best so far is returned, whatever `work` is; 0: none. Only if it acts
                       does the result depend on the machine */
    void (*progress)(void *user, const tc_remat_progress *progress); /* now and then; may be NULL */
    void *user;
    const tc_remat_schedule *beginnings; /* [n_beginnings] more schedules to begin with, those of other budgets, say */
    uint32_t n_beginnings;
} tc_remat_options;

typedef struct tc_remat_outcome {
    tc_remat_schedule best; /* among those that meet the budget the one of least cost; else the one of the lowest
                             * peak */
    bool met;
    bool stopped;   /* by `stop` */
    bool timed_out; /* by `seconds` */
    uint64_t work;  /* done */
} tc_remat_outcome;

/* The same problem and options give the same schedule on every machine. Where the given schedule fits, it is the
 * result. remat_search.c */
tc_remat_status tc_remat_search(const tc_remat_problem *problem, const tc_remat_options *options,
                                tc_remat_outcome *out_outcome);

/* A schedule in which the backward pass recomputes values that are worth their cost at some price of a byte: the least
 * cost for such a peak, but for the order of steps. The steps from `turn` on read the values kept by those before it
 * (TC_REMAT_NONE: the turn is where most is live). *out_schedule is the cheapest one found that fits `budget`, or that
 * of the lowest peak; `stop` as above. remat_prices.c */
tc_remat_status tc_remat_prices(const tc_remat_problem *problem, uint64_t budget, uint32_t turn, uint64_t work,
                                const volatile sig_atomic_t *stop, tc_remat_schedule *out_schedule);
#endif
