/* ways.h: the choice among variants of an idea of keeping less: ways.def. */
#ifndef TC_WAYS_H
#define TC_WAYS_H
#include "passes/pass/pass.h"

/* Whether the rule of lean.rules belongs to a chosen variant, or to none. */
bool tc_is_chosen(const tc_options *options, const char *rule);
/* Whether the rule belongs to the first variant of an idea, the one with the fewest bytes, or to none. */
bool tc_makes_first(const char *rule);
/* Whether the first variant of every idea is chosen; a memory budget may choose their nodes one by one. */
bool tc_chooses_first(const tc_options *options);
#endif
