/* sides.h: the channels of a normalization that keeps y whose x-hat y does not give again: they keep x-hat beside it
 * (LayerNormalizationFromY: ops.def, kernels/norm/norm_y.h). Which they are is seen anew in each step, as training
 * moves scale and bias; how many there is room for is settled when the graph is compiled. */
#ifndef TC_SIDES_H
#define TC_SIDES_H
#include "passes/pass/pass.h"

/* The attributes `limit` and `least` for results of an element type. */
double tc_side_limit(tc_dtype dtype);
double tc_side_least(tc_dtype dtype);
/* The attribute `capacity`: what scale and bias (may be NULL) hold now, where the file tells, and some for training to
 * add. 0: the number of channels is not known. */
int64_t tc_side_capacity(const tc_value *scale, const tc_value *bias);
/* Notes what the graph's normalizations that keep y keep beside it, and which of them have sides already. */
void tc_note_sides(tc_ctx *ctx, const tc_graph *graph);
#endif
