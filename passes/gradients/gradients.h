/* gradients.h: the interface for gradient builders. A builder takes one forward node and the gradients of its
 * results, and appends the nodes that compute the gradients of its operands. build.h has the helpers. */
#ifndef TC_GRADIENTS_H
#define TC_GRADIENTS_H
#include "compiler/build/build.h"
#include "passes/rules/rules.h"

/* A builder's task. */
typedef struct tc_gradient {
    tc_node *node;          /* the forward node */
    tc_value *const *douts; /* [node->n_outputs]; NULL: this result contributes no gradient */
    const bool *needed;     /* [node->n_inputs]: gradients that are wanted */
    tc_value **dins;        /* [node->n_inputs]: the builder fills those in `needed`; NULL: the gradient is zero */
    bool train_padding;     /* --train-padding */
} tc_gradient;

typedef void (*tc_gradient_builder)(tc_build *g);

/* Whether the node's op has a gradient: a rule of the set, whatever its guards say, or a row of gradients.def. */
bool tc_gradient_exists(const tc_rule_set *rules, const tc_node *node);
/* Whether a change of operand `index` can change a result smoothly: it is float, and a rule's results or a row's
 * `operands` include it; Dropout's ratio is not included. Operands of ops without a known gradient count, because
 * autodiff has to stop there with an error. */
bool tc_gradient_flows(const tc_rule_set *rules, const tc_node *node, uint32_t index);
/* Appends the gradient of g->of->node: by a rule of the set where one fits, else by the builder of its row. *out_found
 * is false when there is neither. */
tc_status tc_gradient_apply(tc_pass_env *env, const tc_rule_set *rules, tc_build *g, bool *out_found);
/* The same, by the builder of its row alone. False: there is none. */
bool tc_gradient_build(tc_build *g);

/* --- refusals --------------------------------------------------------------------------------- */
/* "no gradient for this form of the op: ..." with exit code 3. */
void tc_grad_refuse(tc_build *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int tc_grad_rank(tc_build *g, const tc_value *value); /* refuses the node and returns 0 if the rank is not known */
int tc_grad_axis(tc_build *g, int64_t axis,
                 int rank); /* 0 <= result < rank; refuses the node if the axis is out of range */

/* Result `index` of the forward node, added if the node lacks it. Then the builder calls tc_grad_infer_forward, once
 * for all results. */
tc_value *tc_grad_result(tc_build *g, uint32_t index, const char *suffix);
void tc_grad_infer_forward(tc_build *g);
tc_value *tc_grad_swap_last(tc_build *g, tc_value *value); /* the last two axes. gradient_matmul.c */
tc_value *tc_grad_reduce_like(tc_build *g, tc_value *grad,
                              tc_value *like); /* the sum over axes along which `like` was broadcast */
/* The gradient of an embedding's rows, with zeros for its padding row (padding_idx), which PyTorch does not train.
 * padding.c */
tc_value *tc_grad_without_padding(tc_build *g, tc_value *indices, tc_value *dy);
#endif
