/* budget_names.h: the nodes that an expression of --save or --recompute names. */
#ifndef TC_BUDGET_NAMES_H
#define TC_BUDGET_NAMES_H
#include "passes/pass/pass.h"
#include <regex.h>

/* An extended regular expression of POSIX. It is held: a call that ends early frees it, too. */
typedef struct tc_names {
    regex_t regex;
    tc_held held;
} tc_names;

/* `option` is "save" or "recompute". TC_USAGE: it is no such expression, or empty. */
tc_status tc_names_open(tc_ctx *ctx, const char *option, const char *expression, tc_names *out_names);
void tc_names_close(tc_names *names);
/* It matches some part of the node's name or of a result's. */
bool tc_names_match_node(const tc_names *names, const tc_node *node);
/* The error that it names nothing, with the nearest existing name. TC_USAGE. */
tc_status tc_names_unknown(tc_ctx *ctx, const tc_graph *graph, const char *option, const char *expression);
#endif
