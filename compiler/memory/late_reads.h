/* late_reads.h: whether the backward pass reads a value. `end` is the last node of the forward pass, and all nodes
 * after it are late. A late read of an early value makes it a saved one. */
#ifndef TC_LATE_READS_H
#define TC_LATE_READS_H
#include "compiler/ir/ops.h"

#define TC_NEVER UINT8_MAX

/* The cost of recomputing result 0 of the node, 1 and up; TC_NEVER: it is no cheap op. */
uint8_t tc_cheap_cost(const tc_node *node);

/* Whether a node after `end` reads the elements of `value`, also through views; `but` (may be NULL) does not
 * count. Returns `otherwise` where it is unknown (nested graphs, endless views). */
bool tc_read_late(const tc_value *value, const tc_node *end, const tc_node *but, bool otherwise);
/* Whether `value`, or a cheap node's result from it and from values that are there anyway, is read late. */
bool tc_needed_late(const tc_value *value, const tc_node *end);
/* Whether the value or a view of it is an output of the graph. */
bool tc_is_shown(const tc_value *value);
/* Whether a cheap node computes `value` from tensors that the backward pass has anyway, so that it need not be kept, or
 * from a tensor of half its bytes that is kept instead (a Cast from half precision). */
bool tc_recomputable(const tc_value *value, const tc_node *end);
#endif
