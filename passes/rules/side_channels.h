/* side_channels.h: the side channels of a normalization that keeps y. From y alone their x-hat cannot be recomputed,
 * so the op keeps x-hat of these channels beside y (LayerNormalizationFromY: ops.def, kernels/norm/norm_y.h). Each
 * step selects them anew, because training changes scale and bias; the compiler fixes their maximal number. */
#ifndef TC_SIDE_CHANNELS_H
#define TC_SIDE_CHANNELS_H
#include "passes/pass/pass.h"

/* The attributes `limit` and `least` for results of an element type. */
double tc_side_channel_limit(tc_dtype dtype);
double tc_side_channel_least(tc_dtype dtype);
/* The attribute `capacity`: the side channels of scale and bias (may be NULL) as the file has them, and a reserve
 * for training. 0: the number of channels is not known. */
int64_t tc_side_channel_capacity(const tc_value *scale, const tc_value *bias);
/* Reports the side channels of the graph's normalizations that keep y, and those in use already. */
void tc_note_side_channels(tc_ctx *ctx, const tc_graph *graph);
#endif
