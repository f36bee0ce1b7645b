/* choose_loss.h: which output is the loss, in graphs to differentiate and in those that hold a backward pass. */
#ifndef TC_CHOOSE_LOSS_H
#define TC_CHOOSE_LOSS_H
#include "passes/pass/pass.h"

/* The one of --loss, or the only scalar float output. TC_USAGE, with an error, where there is none, or several. */
tc_status tc_choose_loss(tc_pass_env *env, const tc_graph *graph, tc_value **out_loss);

/* The output that autodiff would differentiate; NULL where it would ask which, or the graph holds a backward pass. */
tc_value *tc_unambiguous_loss(const tc_options *options, const tc_graph *graph);

/* Settles the roles (roles.h) of a typed graph that holds a backward pass. Where only its looks say so, a note tells,
 * and --loss overrides; where only gradient ops do, --loss tells what is the loss. */
void tc_settle_loss(tc_pass_env *env, tc_graph *graph);

/* The loss of a graph that holds a backward pass, settled: that of --loss, or tc_find_loss's; NULL where no node of the
 * graph makes it. */
const tc_value *tc_made_loss(const tc_options *options, const tc_graph *graph);

/* Of a graph that holds a backward pass, settled: TC_USAGE, with an error, where --loss names another output than its
 * loss. */
tc_status tc_check_loss(tc_pass_env *env, const tc_graph *graph);
#endif
