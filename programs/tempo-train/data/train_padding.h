/* train_padding.h: what the labels of a model are padded with. */
#ifndef TRAIN_PADDING_H
#define TRAIN_PADDING_H
#include "compiler/ir/ir.h"

/* For train_input.padding of a graph's input: the number that a loss ignores whose labels the input is (-100, as
 * exporters write cross entropy), as it is or moved about: shifted, flattened, padded, of another integer type. 0 where
 * there is none. Of the graph as it was read, or compiled; labels that a function or a branch reads are not followed.
 */
double train_padding_of(const tc_graph *graph, const tc_value *input);
#endif
