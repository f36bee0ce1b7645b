/* gradient_requests.h: Gradient nodes of ai.tempo, by which a file asks for gradients of its own choice, answered by
 * the backward pass of autodiff. */
#ifndef TC_GRADIENT_REQUESTS_H
#define TC_GRADIENT_REQUESTS_H
#include "passes/pass/pass.h"
#include "passes/rules/rules.h"

bool tc_has_requests(const tc_graph *graph);
/* Puts the nodes of the backward pass in the place of each, in order, so that one may ask for gradients of another's.
 * Marks roles, fills the summary's list of what is trained. Types must be known; `rules`: with all gradient rules. */
tc_status tc_answer_requests(tc_pass_env *env, tc_rule_set *rules, tc_graph *graph);

/* Appends the nodes that compute the gradients of the sum of y's elements with regard to values that no node, or a
 * StopGradient, makes: a value of its shape for each. autodiff.c */
tc_status tc_gradients_of(tc_pass_env *env, tc_rule_set *rules, tc_graph *graph, tc_value *y, tc_value *const *xs,
                          size_t n_xs, tc_value **out_gradients);
#endif
