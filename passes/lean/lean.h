/* lean.h: the parts of the pass `lean`, and what the guards of its rules ask. `end` is the last node of the
 * forward pass, "late" what stands behind it. A late read of an early value is what makes it a saved one. */
#ifndef TC_LEAN_H
#define TC_LEAN_H
#include "compiler/ir/ops.h"
#include "passes/pipeline/pass.h"

#define TC_NEVER UINT8_MAX

/* Takes dead nodes away, types the graph and settles its loss; NULL where there is none, and so nothing to keep less
 * for. lean.c */
tc_status tc_lean_begin(tc_pass_env *env, tc_graph *graph, const tc_value **out_loss);

/* Puts the forward pass in front of the rest, both in the order they had; returns its last node. lean.c */
const tc_node *tc_forward_first(tc_graph *graph, const tc_value *loss);

/* What the ledger counts as saved. lean.c */
tc_dim tc_kept_bytes(const tc_graph *graph, void *loss);

/* What it costs to compute result 0 of the node again, 1 and up; TC_NEVER: it is no cheap op. */
uint8_t tc_cheap_cost(const tc_node *node);

/* Whether a node behind `end` reads the elements of `value`, also through views; `but` (may be NULL) does not
 * count. What cannot be told (nested graphs, endless views) is `otherwise`. */
bool tc_read_late(const tc_value *value, const tc_node *end, const tc_node *but, bool otherwise);
/* Whether `value`, or what cheap nodes make of it and of values that are there anyway, is read late. */
bool tc_needed_late(const tc_value *value, const tc_node *end);
/* Whether the value or a view of it is an output of the graph. */
bool tc_is_shown(const tc_value *value);
/* Whether a cheap node makes `value` of what is there in the backward pass anyway, so that nobody has to keep it, or of
 * something of half its bytes, which is kept in its place (a Cast from half precision). */
bool tc_recomputable(const tc_value *value, const tc_node *end);

/* Applies the one rule of lean.rules that has this name, and nothing else of the pass. lean.c */
tc_status tc_lean_rule(tc_pass_env *env, tc_model *model, const char *name);
/* Computes saved values of cheap ops again, right before their first late use, where everything they are made from
 * is there anyway. Bytes go to env->summary, in a row "recompute_<op>". recompute.c */
tc_status tc_recompute_cheap(tc_pass_env *env, tc_graph *graph, const tc_node *end);
#endif
