/* choose_loss.h: chooses the output that is the loss, in graphs with and without a backward pass. */
#ifndef TC_CHOOSE_LOSS_H
#define TC_CHOOSE_LOSS_H
#include "passes/pass/pass.h"

/* Whether the options say which loss: the look of the outputs is no sign of a backward pass then. */
static inline bool tc_names_loss(const tc_options *options) { return options->loss || options->add_loss; }

/* The output that --loss names, that --add-loss made, or the only scalar float output. TC_USAGE, with an error, if
 * there is none or more than one. */
tc_status tc_choose_loss(tc_pass_env *env, const tc_graph *graph, tc_value **out_loss);

/* The output that autodiff would differentiate; before the pass `loss`, the output that --add-loss is a loss of. NULL
 * if autodiff could not decide, or if the graph holds a backward pass. */
tc_value *tc_unambiguous_loss(const tc_options *options, const tc_graph *graph);

/* Sets the roles (roles.h) of a typed graph that holds a backward pass. If only the look of its outputs shows the
 * roles, a note says so, and --loss overrides it. If only gradient ops show them, --loss has to name the loss. */
void tc_settle_loss(tc_pass_env *env, tc_graph *graph);

/* The loss of a graph whose backward pass has its roles: the output of --loss, or that of tc_find_loss. NULL if no
 * node of the graph makes it. */
const tc_value *tc_made_loss(const tc_options *options, const tc_graph *graph);

/* For a graph whose backward pass has its roles: TC_USAGE, with an error, if --loss names another output than its
 * loss. */
tc_status tc_check_loss(tc_pass_env *env, const tc_graph *graph);
/* "a float[], b float[1]", for messages. */
const char *tc_list_typed(tc_ctx *ctx, tc_value *const *values, size_t n);
#endif
