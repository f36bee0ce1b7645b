/* plan_summary.h: what came of --memory-budget, for the report: plain numbers and strings in the context's arena.
 * Bytes, nanoseconds of the cost model (nodes, where its source is "unit"), and seconds. */
#ifndef TC_PLAN_SUMMARY_H
#define TC_PLAN_SUMMARY_H
#include <stdbool.h>
#include <stdint.h>

/* A node that runs again, and why. */
typedef struct tc_plan_repeat {
    const char *node, *op; /* of the copy: its label, its op in the table of ops */
    const char *result;    /* its first result, */
    const char *type;      /* "float[8,512]", */
    const char *reader;    /* and who reads one of its results first; NULL: nobody, or the end */
    bool reader_is_repeat; /* that one runs again itself */
    uint64_t bytes;        /* of all its results */
    uint64_t freed;        /* of these: were live where most was live at first, and are live there no more */
    uint64_t cost;
} tc_plan_repeat;

/* A node's run in a schedule. */
typedef struct tc_plan_step {
    uint64_t live; /* bytes meanwhile, as the runtime's plan counts them */
    uint64_t cost;
    const tc_plan_repeat *repeat; /* NULL: it runs for the first time, or nobody asked */
} tc_plan_step;

typedef struct tc_plan_course {
    const tc_plan_step *steps; /* [n_steps] */
    uint32_t n_steps;
    uint32_t turn; /* the step that makes the loss; n_steps: there is none */
} tc_plan_course;

typedef struct tc_plan_summary {
    uint64_t budget;                  /* for the arena; of `min` what was reached */
    uint64_t peak_before, peak_after; /* the most that is live at one time: as the search began, as planned */
    uint64_t arena, floor;            /* allocated by a run; no schedule needs less than `floor` */
    uint64_t cost_before, cost_after;
    const char *costs; /* what costs are from */
    uint32_t clones;   /* runs of nodes beyond the first */
    double seconds;
    bool met, stopped, timed_out, changed; /* stopped: from outside; changed: the graph is another one than without */
    tc_plan_course before, after;          /* where changed */
    const tc_plan_repeat *repeats;         /* [clones] in the order of the run */
} tc_plan_summary;

/* A point of the curve of budget against time. */
typedef struct tc_plan_point {
    uint64_t budget, arena, cost;
    uint32_t clones;
    bool met;
} tc_plan_point;

/* What less memory costs. Points from large budgets to small ones; arenas fall and costs rise from one to the next, or
 * stay. */
typedef struct tc_pareto {
    const tc_plan_point *points;
    uint32_t n_points;
    uint64_t initial, floor, cost_before;
    const char *costs;
    bool stopped, timed_out;
} tc_pareto;
#endif
