/* precision.h: --precision: which 16-bit type a graph of floats computes products in. */
#ifndef TC_PRECISION_H
#define TC_PRECISION_H
#include "passes/pass/pass.h"

/* TC_FLOAT16 or TC_BFLOAT16; TC_FLOAT: the graph stays as it is. */
tc_dtype tc_precision(const tc_options *options);
/* The backward pass starts from a graph input: --loss-scale, or gradients of float16, which vanish below 6e-8. */
bool tc_scales_loss(const tc_options *options);
#endif
