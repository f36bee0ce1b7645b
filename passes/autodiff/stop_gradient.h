/* stop_gradient.h: values that gradients do not pass. An ai.tempo.StopGradient stands between such a value and its
 * readers. Only autodiff uses it; after autodiff none is left. */
#ifndef TC_STOP_GRADIENT_H
#define TC_STOP_GRADIENT_H
#include "passes/pass/pass.h"

/* The value that readers read instead where the gradient stops; made at the first call. */
tc_value *tc_stopped(tc_pass_env *env, tc_value *value);
/* The same, for all current readers. */
tc_value *tc_stop_readers(tc_pass_env *env, tc_value *value);
/* --stop=VALUE: every reader of such a value reads the stopped one. The graph is the one of the file: TC_USAGE for a
 * name that it does not have. Does nothing if no backward pass is to be built. */
tc_status tc_stop_named(tc_pass_env *env, tc_graph *graph);
/* Removes every StopGradient; its readers read its operand. */
void tc_drop_stops(tc_graph *graph);
#endif
