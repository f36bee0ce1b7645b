/* draws.h: the numbers that Dropouts and random ops draw. */
#ifndef TC_DRAWS_H
#define TC_DRAWS_H
#include "passes/pass/pass.h"

/* Numbers the Dropouts and the random ops of the main graph, with functions inlined, before any pass removes one.
 * The numbers determine the random draws. */
void tc_record_dropouts(tc_pass_env *env, const tc_model *model);
/* Whether the node is a Dropout out of training: its training_mode is absent, or a false constant. */
bool tc_drops_nothing(const tc_node *node);
/* How to export a Dropout that drops. */
void tc_hint_dropout(tc_ctx *ctx);
#endif
