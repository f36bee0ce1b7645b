/* gradient_requests.h: Gradient nodes of ai.tempo, which ask for gradients of the file's own choice. The backward
 * pass of autodiff replaces them. */
#ifndef TC_GRADIENT_REQUESTS_H
#define TC_GRADIENT_REQUESTS_H
#include "passes/pass/pass.h"
#include "passes/rules/rules.h"

bool tc_has_requests(const tc_graph *graph);
/* Replaces each Gradient node by the nodes of its backward pass, in order, so that one may ask for gradients of
 * another one's result. Marks roles, and lists the trained values in the summary. Types must be known; `rules` holds
 * all gradient rules. */
tc_status tc_answer_requests(tc_pass_env *env, tc_rule_set *rules, tc_graph *graph);

/* Appends the nodes that compute the gradients of the sum of y's elements with regard to `xs`, which no node or a
 * StopGradient makes. Each gradient has the shape of its value. autodiff.c */
tc_status tc_gradients_of(tc_pass_env *env, tc_rule_set *rules, tc_graph *graph, tc_value *y, tc_value *const *xs,
                          size_t n_xs, tc_value **out_gradients);
#endif
