/* precision.h: --precision: the 16-bit type for products of a float graph. */
#ifndef TC_PRECISION_H
#define TC_PRECISION_H
#include "passes/pass/pass.h"

/* TC_FLOAT16 or TC_BFLOAT16; TC_FLOAT: the graph stays as it is. */
tc_dtype tc_precision(const tc_options *options);
/* Whether the backward pass starts from a graph input: --loss-scale, or gradients in float16, which vanish below
 * 6e-8. */
bool tc_scales_loss(const tc_options *options);
#endif
