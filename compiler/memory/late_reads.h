/* late_reads.h: whether the backward pass reads a value. `end` is the last node of the forward pass, and all nodes
 * after it are late. A late read of an early value makes it a saved one. */
#ifndef TC_LATE_READS_H
#define TC_LATE_READS_H
#include "compiler/ir/ops.h"

#define TC_NEVER UINT8_MAX

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
#endif
