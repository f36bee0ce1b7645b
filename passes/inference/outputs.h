/* outputs.h: two kinds of outputs that a model with a loss has: scores, which are single floats, as the loss is one,
 * and predictions, such as logits, which are all others. */
#ifndef TC_OUTPUTS_H
#define TC_OUTPUTS_H
#include "compiler/ir/ir.h"

/* Leaves predictions alone: the graph loses its scores, and inputs that these alone read, such as labels; sizes of
 * such an input are read from another one, by their symbols. False, and
 * nothing changes, where the graph has no prediction. */
bool tc_keep_predictions(tc_graph *graph);
#endif
