/* loss_scale.h: the first gradient of the backward pass; under --loss-scale a graph input. */
#ifndef TC_LOSS_SCALE_H
#define TC_LOSS_SCALE_H
#include "passes/gradients/gradients.h"
#include "passes/pass/pass.h"

/* The gradient of the loss for itself, in its type and shape, as a rule one number. It is ones, or, under
 * --loss-scale, the graph input tempo.loss_scale, which is added if the graph has none. TC_BAD_INPUT if another
 * value has that name. */
tc_status tc_loss_seed(tc_pass_env *env, tc_build *g, tc_value *loss, tc_value **out_seed);
/* TC_USAGE under --loss-scale, for a graph that already has its backward pass. */
tc_status tc_loss_scale_kept(tc_pass_env *env);
#endif
