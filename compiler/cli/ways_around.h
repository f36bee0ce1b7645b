/* ways_around.h: what to write in the place of an op that cannot be trained or run, for hints. */
#ifndef TC_WAYS_AROUND_H
#define TC_WAYS_AROUND_H
#include "compiler/ir/ir.h"

/* Of this op, else NULL. Lower case, no period. */
const char *tc_way_around(const tc_node *node);
/* The same as the hint of the error just told; of other ops, that they have to be others. */
void tc_hint_way_around(tc_ctx *ctx, const tc_node *node);
#endif
