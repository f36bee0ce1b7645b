/* optimizer.h: updates all parameters of a training step: the norm of all gradients, and new weights and states from
 * them. A call takes many tensors and reads and writes each element once. The rules are ONNX's Adagrad, Adam and
 * Momentum (ai.onnx.preview.training), AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, epsilon added to
 * the corrected root as in PyTorch); clipping is PyTorch's clip_grad_norm_. */
#ifndef TK_OPTIMIZER_H
#define TK_OPTIMIZER_H
#include "../common/types.h"

/* With g = scale G, and norm_coefficient X added to it; R the rate, T the step, a = 1 - alpha^T and
 * b = 1 - beta^T, both 1 where T is not above 0. Averages: V' = alpha V + (1 - alpha) g, H' = beta H + (1 - beta) g^2.
 */
typedef enum tk_rule {
    TK_ADAGRAD,  /* H' = H + g^2, X' = X - R / (1 + T decay_factor) g / (sqrt(H') + epsilon) */
    TK_ADAM,     /* X' = (1 - norm_coefficient_post) (X - R sqrt(b) / a V' / (sqrt(H') + epsilon)) */
    TK_ADAMW,    /* X' = (1 - R weight_decay) X - R / a V' / (sqrt(H') / sqrt(b) + epsilon) */
    TK_MOMENTUM, /* V' = alpha V + (T > 0 ? beta : 1) g, X' = X - R V' */
    TK_NESTEROV, /* X' = X - R (g + alpha V') of the same V' */
    TK_SGD,      /* X' = X - R g */
    TK_LAMB,     /* W = V' / a / (sqrt(H') / sqrt(b) + epsilon) + weight_decay X, X' = X - R |X| / |W| W, where both
                  * norms are above 0; else their ratio is 1: You et al., arXiv 1904.00962, algorithm 2 */
    TK_SUM,      /* X' = (T > 0 ? X : 0) + R g: gradients of several runs; R 0 adds nothing, also where g is NaN */
} tk_rule;

#define TK_STATES 2 /* at most: V and H of Adam, AdamW and LAMB, V of Momentum, H of Adagrad, none of SGD and sums */
static inline int tk_states_of(tk_rule rule) {
    return rule == TK_SGD || rule == TK_SUM ? 0 : rule == TK_ADAM || rule == TK_ADAMW || rule == TK_LAMB ? 2 : 1;
}

typedef struct tk_update_op {
    tk_rule rule;
    tk_dtype dtype;        /* of weights and states: float or double */
    tk_dtype copy_dtype;   /* of copies: 16 bits */
    bool waits;            /* steps below 0 leave weights and states as they are, whatever the gradients */
    tk_number rate, scale; /* numbers that all tensors share */
    const int64_t *step;
    double alpha, beta, epsilon, norm_coefficient, norm_coefficient_post, weight_decay, decay_factor;
} tk_update_op;

/* n elements. In an update it has the weights' type; where that is float, it may have 16 bits. */
typedef struct tk_gradient {
    const void *data;
    int64_t n;
    tk_dtype dtype;
} tk_gradient;

/* One tensor of an update, [n] each. Results may lie over the operand of their name; NULL: not wanted. */
typedef struct tk_update_tensor {
    tk_gradient g;
    const void *x, *state[TK_STATES];
    void *x_new, *state_new[TK_STATES];
    void *copy; /* x_new in 16 bits, where it is float */
} tk_update_tensor;

/* update: each element has a formula of single operations in its type, each rounded as a node of the op's function body
 * rounds it: the same bits on every device. A gradient that is not finite is the fault TK_NOT_FINITE, unless the step
 * waits or the rule is TK_SUM; tensors updated by then stay updated.
 * global_norm: the square root of the sum of the squares of all gradients, of any float types, to `norm`, one number of
 * `dtype`, float or double; to `scale`, unless NULL, min(1, max_norm / (norm + 1e-6)). The order of the sum depends on
 * sizes only. Sums are of double; on CUDA those of 16 squares are of float, where gradients are not of double. */
/* clang-format off */
#define TK_OPTIMIZER_KERNELS(K) \
    K(update, (tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensors, int64_t count, void *workspace), \
      (q, u, tensors, count, workspace)) \
    K(global_norm, (tk_queue *q, void *norm, void *scale, double max_norm, const tk_gradient *gradients, \
      int64_t count, tk_dtype dtype, void *workspace), \
      (q, norm, scale, max_norm, gradients, count, dtype, workspace))
/* update of one tensor by TK_LAMB, which `update` does not know: its norms come first. The order of their sums depends
 * on sizes only. workspace: tk_lamb_workspace bytes. */
#define TK_LAMB_KERNELS(K) \
    K(lamb, (tk_queue *q, const tk_update_op *u, const tk_update_tensor *tensor, void *workspace), \
      (q, u, tensor, workspace))
#define TK_LAMB_WORKSPACES(W) W(lamb_workspace, (int64_t n), (n))
#define TK_OPTIMIZER_WORKSPACES(W) \
    W(update_workspace, (const tk_update_op *u), (u)) \
    W(global_norm_workspace, (const tk_gradient *gradients, int64_t count), (gradients, count))
/* clang-format on */

TK_OPTIMIZER_KERNELS(TK_DECLARE_KERNEL)
TK_OPTIMIZER_WORKSPACES(TK_DECLARE_WORKSPACE)
TK_LAMB_KERNELS(TK_DECLARE_KERNEL)
TK_LAMB_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
