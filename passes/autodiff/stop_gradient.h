/* stop_gradient.h: values that gradients do not pass, as ai.tempo.StopGradient between them and who reads them. Only
 * autodiff asks; behind it none is left. */
#ifndef TC_STOP_GRADIENT_H
#define TC_STOP_GRADIENT_H
#include "passes/pass/pass.h"

/* What readers of a value read in its place where the gradient stops; made at the first call. */
tc_value *tc_stopped(tc_pass_env *env, tc_value *value);
/* The same, for all nodes that read it now. */
tc_value *tc_stop_readers(tc_pass_env *env, tc_value *value);
/* --stop=VALUE: every node that reads such a value reads the stopped one. The graph is the one that was read: TC_USAGE
 * for a name that it has not. Nothing is stopped where no backward pass is to be made. */
tc_status tc_stop_named(tc_pass_env *env, tc_graph *graph);
/* Removes every StopGradient; its readers read what it read. */
void tc_drop_stops(tc_graph *graph);
#endif
