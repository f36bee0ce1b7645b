/* lean.h: the parts of the pass `lean`. */
#ifndef TC_LEAN_H
#define TC_LEAN_H
#include "compiler/memory/late_reads.h"
#include "passes/pass/pass.h"

/* Takes dead nodes away, types the graph and settles its loss; NULL where there is none, and so nothing to keep less
 * for. lean.c */
tc_status tc_lean_begin(tc_pass_env *env, tc_graph *graph, const tc_value **out_loss);

/* Puts the forward pass in front of the rest, both in the order they had; returns its last node. lean.c */
const tc_node *tc_forward_first(tc_graph *graph, const tc_value *loss);

/* What the ledger counts as saved. lean.c */
tc_dim tc_kept_bytes(const tc_graph *graph, void *loss);

/* Applies the one rule of lean.rules that has this name, and nothing else of the pass. lean.c */
tc_status tc_lean_rule(tc_pass_env *env, tc_model *model, const char *name);
/* Computes saved values of cheap ops again, right before their first late use, where everything they are made from
 * is there anyway. Bytes go to env->summary, in a row "recompute_<op>". recompute.c */
tc_status tc_recompute_cheap(tc_pass_env *env, tc_graph *graph, const tc_node *end);
#endif
