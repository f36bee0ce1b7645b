/* plan_units.h: a unit is placed as one: a root with all that lies in it, and with the results that lie over it, one
 * after the other. Of simulate and pack. */
#ifndef TC_PLAN_UNITS_H
#define TC_PLAN_UNITS_H
#include "plan_problem.h"

typedef struct tc_plan_unit {
    uint64_t bytes, align; /* bytes rounded to align */
    uint32_t first, last;
    uint32_t next; /* the unit that lies over this one when it has died; TC_PLAN_NONE */
    bool over;     /* lies over another: its place is that one's */
} tc_plan_unit;

/* Units of a problem: buffer i's is unit i (empty where it has a root), operation i's workspace is n_buffers + i. */
typedef struct tc_plan_units {
    tc_plan_unit *units;
    uint32_t n;
    uint32_t *root; /* [n_buffers]: the root at the end of the chain */
    uint64_t *at;   /* [n_buffers]: bytes from that root's begin */
} tc_plan_units;

/* Checks the problem too. Nothing lies over another yet. */
tc_plan_status tc_plan_units_make(const tc_plan_problem *problem, tc_plan_units *out_units);
void tc_plan_units_free(tc_plan_units *units);
/* Whether this choice can be taken along with those taken already: result and operand are free, and fit. */
bool tc_plan_can_take(const tc_plan_problem *problem, const tc_plan_units *units, const tc_plan_choice *choice);
void tc_plan_take(tc_plan_units *units, tc_plan_choice *choice);
void tc_plan_untake(tc_plan_units *units, tc_plan_choice *choice);
/* The operation at which the last of the chain that begins with `unit` is live for the last time. */
uint32_t tc_plan_chain_last(const tc_plan_units *units, uint32_t unit);
/* The live bytes at each operation and at the end: `live` has room for n_ops + 2. */
void tc_plan_units_profile(const tc_plan_problem *problem, const tc_plan_units *units, uint64_t *live);
tc_plan_status tc_plan_units_live(const tc_plan_problem *problem, const tc_plan_units *units, tc_plan_live *out_live);
#endif
