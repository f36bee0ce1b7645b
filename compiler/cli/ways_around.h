/* ways_around.h: replacements for an op that cannot be trained or run, for hints. */
#ifndef TC_WAYS_AROUND_H
#define TC_WAYS_AROUND_H
#include "compiler/ir/ir.h"

/* The advice for this op, else NULL. Lower case, no period. */
const char *tc_way_around(const tc_node *node);
/* Attaches it as the hint of the newest error; for ops without advice, a general one. */
void tc_hint_way_around(tc_ctx *ctx, const tc_node *node);
#endif
