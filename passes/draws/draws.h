/* draws.h: the numbers that Dropouts and random ops draw. */
#ifndef TC_DRAWS_H
#define TC_DRAWS_H
#include "passes/pass/pass.h"

/* Counts the Dropouts and the random ops of the main graph, functions inlined, before any pass removes one: their
 * numbers make what they draw. */
void tc_record_dropouts(tc_pass_env *env, const tc_model *model);
/* How to export a Dropout that drops. */
void tc_hint_dropout(tc_ctx *ctx);
#endif
