/* lean.h: the parts of the pass `lean`. */
#ifndef TC_LEAN_H
#define TC_LEAN_H
#include "compiler/memory/memory.h"
#include "passes/pass/pass.h"

/* Removes dead nodes, types the graph and finds its loss; NULL if there is none, and so nothing to keep less for.
 * lean.c */
tc_status tc_lean_begin(tc_pass_env *env, tc_graph *graph, const tc_value **out_loss);

/* Moves the forward pass before the rest; both keep their order. Returns its last node. lean.c */
const tc_node *tc_forward_first(tc_graph *graph, const tc_value *loss);

/* Whether the ledger counts it as saved. lean.c */
tc_dim tc_kept_bytes(const tc_graph *graph, void *loss);

/* Applies the one rule of lean.rules with this name, and nothing else of the pass. lean.c */
tc_status tc_lean_rule(tc_pass_env *env, tc_model *model, const char *name);
/* Recomputes saved values of cheap ops right before their first late use, if all their operands are available. Bytes
 * go to env->summary, in a row "recompute_<op>". recompute.c */
tc_status tc_recompute_cheap(tc_pass_env *env, tc_graph *graph, const tc_node *end);
#endif
