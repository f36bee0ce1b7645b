/* remat_problem.h: what to compute, how often and when, as numbers alone. Nodes make values of values. Each may run
 * once, several times (its results are freed in between: recomputation) or, where others make the same values, not at
 * all (a variant: the same gradient from fewer saved values). A schedule is the order in which nodes run.
 * remat_search.h finds one that fits a budget at the least cost. This folder includes nothing of ours.
 *
 * Memory: a production of a value is live from the step that makes it to the last step that reads it before the value
 * is recomputed, at least in the step itself; the last production of an output to the end. A step reads the latest
 * production before it. A step's workspace is live in it alone. Inputs, parameters and constants are there before the
 * run: they are no values here.
 *
 * Source: FastSA, "A fast heuristic to optimize time-space tradeoff for large models", NeurIPS 2023, section 2; lives
 * are inclusive here, values may have several makers, and results may lie over operands. */
#ifndef TC_REMAT_PROBLEM_H
#define TC_REMAT_PROBLEM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_REMAT_NONE UINT32_MAX

typedef struct tc_remat_value {
    uint64_t bytes; /* as they are allocated: rounded to their alignment */
    bool is_output; /* must be there at the end */
} tc_remat_value;

/* `bytes` of a result and of an operand are counted once in a step of the node in which this production of the operand
 * is live for the last time: the result is written over it. A node's overs are listed from best to worst. One is taken
 * if the ones before it leave as many bytes of both. */
typedef struct tc_remat_over {
    uint32_t operand, result; /* values, an input and an output of the node */
    uint64_t bytes;
} tc_remat_over;

typedef struct tc_remat_node {
    uint64_t cost;                    /* of running once: nanoseconds, or what the problem's maker counts in */
    uint64_t workspace;               /* bytes */
    const uint32_t *inputs, *outputs; /* values, none twice */
    const tc_remat_over *overs;
    uint32_t n_inputs, n_outputs, n_overs;
    bool pinned; /* runs exactly once; pinned nodes stay in the order of the given schedule */
} tc_remat_node;

typedef struct tc_remat_problem {
    const tc_remat_node *nodes;
    const tc_remat_value *values;
    uint32_t n_nodes, n_values;
    const uint32_t *steps; /* [n_steps] the given schedule: nodes, some perhaps several times or not at all */
    uint32_t n_steps;
} tc_remat_problem;

/* The cost and peak of a schedule. */
typedef struct tc_remat_live {
    uint64_t peak_bytes;
    uint32_t peak; /* the first step at which that much is live */
    uint64_t cost; /* of all steps */
} tc_remat_live;

typedef enum tc_remat_status {
    TC_REMAT_OK,
    TC_REMAT_MEMORY,  /* malloc failed */
    TC_REMAT_INVALID, /* the problem or a schedule is invalid: tc_remat_check says why */
    TC_REMAT_TOO_BIG, /* all values together, or all costs, have 2^62 and more */
} tc_remat_status;

/* NULL, or the mistake in the problem and its given schedule: an index, a value without maker that is read, a step that
 * reads a value before it is made, an output that is missing, a pinned node that runs twice. remat_check.c */
const char *tc_remat_check(const tc_remat_problem *problem);
/* The same for another schedule of the problem. */
const char *tc_remat_check_steps(const tc_remat_problem *problem, const uint32_t *steps, uint32_t n_steps);
/* Counts a schedule that passes the check, step by step, sharing no code with the search: every schedule is compared
 * with it before it is used. `live` NULL, or [n_steps] gets the bytes at each step. remat_check.c */
tc_remat_status tc_remat_simulate(const tc_remat_problem *problem, const uint32_t *steps, uint32_t n_steps,
                                  uint64_t *live, tc_remat_live *out_live);
/* No schedule needs fewer bytes than this: the largest working set among the nodes that some output needs, overs taken,
 * or all outputs together, which are live at the end. *out_node: the node that sets it, or TC_REMAT_NONE where the
 * outputs do. remat_floor.c */
uint64_t tc_remat_floor(const tc_remat_problem *problem, uint32_t *out_node);
#endif
