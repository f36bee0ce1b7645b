/* canonical.h: the parts of canonicalize, one file each. Every part returns the number of its changes. */
#ifndef TC_CANONICAL_H
#define TC_CANONICAL_H
#include "passes/pass/pass.h"

/* The work of the pass canonicalize; without `merge`, equal nodes stay separate. canonicalize.c */
tc_status tc_canonicalize(tc_pass_env *env, tc_graph *graph, bool merge);

/* Makes `value` the constant `tensor` and erases its producer, whose only result it is. The constant is an
 * initializer, or a Constant node if an initializer could be taken for a weight or would be a graph output. fold.c */
void tc_make_constant(tc_value *value, const tc_tensor *tensor);

/* Nodes whose results are known become constants, Constant nodes become initializers. fold.c */
uint32_t tc_fold_constants(tc_graph *graph);
/* Computed integers that equal a dim of a graph input are read from that input, by one Shape for each dim. fold.c */
uint32_t tc_fold_dims(tc_graph *graph);
/* Sequences whose items are known become Split and Concat. The caller infers types again. sequences.c */
uint32_t tc_lower_sequences(tc_graph *graph);
/* Removes nodes without effect, joins chains of one kind, and chooses one spelling if only shapes distinguish
 * several. simplify.c */
uint32_t tc_simplify(tc_pass_env *env, tc_graph *graph);
/* Merges nodes that compute the same, and small equal constants. cse.c */
uint32_t tc_merge_equal(tc_graph *graph);
/* Queries of cse.c. Whether nodes like this one may be merged at all: no draw, no effect, attributes that can be
 * compared. Whether two compute the same function of their operands, whatever these are, and a hash of that. cse.c */
bool tc_can_merge(const tc_node *node);
bool tc_same_op(const tc_node *a, const tc_node *b);
uint64_t tc_hash_op(const tc_node *node);
#endif
