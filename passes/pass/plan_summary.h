/* plan_summary.h: the result of --memory-budget, for the report: plain numbers and strings in the context's arena.
 * Bytes, nanoseconds of the cost model (nodes, if its source is "unit"), and seconds. */
#ifndef TC_PLAN_SUMMARY_H
#define TC_PLAN_SUMMARY_H
#include <stdbool.h>
#include <stdint.h>

/* A node that runs again, and why. */
typedef struct tc_plan_repeat {
    const char *node, *op; /* of the copy: its label, its op in the table of ops */
    const char *result;    /* its first result, */
    const char *type;      /* "float[8,512]", */
    const char *reader;    /* the first reader of one of its results; NULL: none, or the end */
    bool reader_is_repeat; /* the reader is a recomputed node itself */
    uint64_t bytes;        /* bytes of all its results */
    uint64_t freed;        /* of these: bytes that were live at the first peak and no longer are */
    uint64_t cost;
} tc_plan_repeat;

/* A node's run in a schedule. */
typedef struct tc_plan_step {
    uint64_t live; /* live bytes meanwhile, as the runtime's plan counts them */
    uint64_t cost;
    const tc_plan_repeat *repeat; /* NULL: it runs for the first time, or the reason was not requested */
} tc_plan_step;

typedef struct tc_plan_course {
    const tc_plan_step *steps; /* [n_steps] */
    uint32_t n_steps;
    uint32_t turn; /* the step that makes the loss; n_steps: there is none */
} tc_plan_course;

typedef struct tc_plan_summary {
    uint64_t budget;                  /* for the arena; for `min` the bytes reached */
    uint64_t peak_before, peak_after; /* the maximum of live bytes: before the search, in the plan */
    uint64_t arena, floor;            /* allocated by a run; every schedule needs at least `floor` */
    uint64_t cost_before, cost_after;
    const char *costs; /* the source of the costs */
    uint32_t clones;   /* runs of nodes beyond the first */
    double seconds;
    bool met, stopped, timed_out,
        changed;                   /* stopped: by the user; changed: the graph differs from the one without a budget */
    tc_plan_course before, after;  /* if changed */
    const tc_plan_repeat *repeats; /* [clones] in the order of the run */
} tc_plan_summary;

/* A point of the curve of budget against time. */
typedef struct tc_plan_point {
    uint64_t budget, arena, cost;
    uint32_t clones;
    bool met;
} tc_plan_point;

/* The price of less memory. Points from large budgets to small ones; arenas fall and costs rise from one to the
 * next, or stay. */
typedef struct tc_pareto {
    const tc_plan_point *points;
    uint32_t n_points;
    uint64_t initial, floor, cost_before;
    const char *costs;
    bool stopped, timed_out;
} tc_pareto;
#endif
