/* ways.h: what options and recipes choose where an idea of keeping less has several ways: ways.def. */
#ifndef TC_WAYS_H
#define TC_WAYS_H
#include "passes/pass/pass.h"

/* Whether the rule of lean.rules makes a way that is chosen, or no choice is about it. */
bool tc_is_chosen(const tc_options *options, const char *rule);
/* Whether the rule makes the first way of an idea, or no choice is about it: the way of the fewest bytes. */
bool tc_makes_first(const char *rule);
/* Whether the first way of every idea is chosen: those whose nodes a memory budget may choose one by one. */
bool tc_chooses_first(const tc_options *options);
#endif
