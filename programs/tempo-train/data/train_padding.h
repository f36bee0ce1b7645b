/* train_padding.h: the padding of a model's labels. */
#ifndef TRAIN_PADDING_H
#define TRAIN_PADDING_H
#include "compiler/ir/ir.h"

/* For train_input.padding of a graph's input: the label that a loss ignores (-100, as exporters write cross entropy),
 * where the input is its labels, unchanged or rearranged: shifted, flattened, padded, of another integer type. 0 where
 * there is none. Of the graph as it was read, or compiled; labels that a function or a branch reads are not
 * followed. */
double train_padding_of(const tc_graph *graph, const tc_value *input);
#endif
