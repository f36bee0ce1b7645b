/* guess_learned.h: which initializers are parameters, where the file does not say: by their uses and by their names. */
#ifndef TC_GUESS_LEARNED_H
#define TC_GUESS_LEARNED_H
#include "trainable.h"

/* Whether this use makes the loss depend on operand `index` as on a parameter: not as on a mask or scale of softmax
 * scores or a running statistic. `flow`: complete for the node's results. */
bool tc_is_learned_use(const tc_flow *flow, const tc_node *node, uint32_t index);

/* PyTorch's exporters name parameters by their modules, as in "head.0.weight", and scalar constants by numbers. */
bool tc_has_parameter_name(const char *name);
#endif
