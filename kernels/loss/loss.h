/* loss.h: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss (ONNX) and the gradient of the latter. Scores are [batch,
 * classes, inner], labels, losses and weights' places [batch, inner]. A label outside [0, classes) that is not ignored
 * is TK_BAD_INDEX. Any float type: losses of 16 bits are added up in
 * double. */
#ifndef TK_LOSS_H
#define TK_LOSS_H
#include "../kernel.h"

typedef enum tk_reduction_kind { TK_LOSS_NONE, TK_LOSS_SUM, TK_LOSS_MEAN } tk_reduction_kind;

typedef struct tk_loss {
    int64_t batch, classes, inner;
    tk_reduction_kind reduction;
    bool has_ignored;
    int64_t ignored;             /* this label counts nothing */
    tk_dtype dtype, label_dtype; /* labels: int32 or int64 */
} tk_loss;

/* clang-format off */
#define TK_LOSS_KERNELS(K) \
    /* loss = -weights[label] log_prob[label]; [batch, inner], or one number: the sum, or the sum over the sum \
     * of the weights. weights [classes], or NULL: all 1. scratch: tk_cross_entropy_workspace bytes. */ \
    K(nll_loss, (tk_queue *q, void *loss, const void *log_prob, const void *labels, const void *weights, \
      const tk_loss *shape, void *scratch), (q, loss, log_prob, labels, weights, shape, scratch)) \
    /* The same from scores; log_prob [batch, classes, inner] may be NULL, or scores. */ \
    K(cross_entropy, (tk_queue *q, void *loss, void *log_prob, const void *scores, const void *labels, \
      const void *weights, const tk_loss *shape, void *scratch), \
      (q, loss, log_prob, scores, labels, weights, shape, scratch)) \
    /* dscores = (exp(log_prob) - [class is label]) weights[label] dloss / (1, or the sum of the weights), 0 where the \
     * label is ignored; dloss [batch, inner] or [1]; dscores may be log_prob. scratch: \
     * tk_cross_entropy_grad_workspace bytes. */ \
    K(cross_entropy_grad, (tk_queue *q, void *dscores, const void *dloss, const void *log_prob, \
      const void *labels, const void *weights, const tk_loss *shape, void *scratch), \
      (q, dscores, dloss, log_prob, labels, weights, shape, scratch))
#define TK_LOSS_WORKSPACES(W) \
    W(cross_entropy_workspace, (const tk_loss *shape), (shape)) \
    W(cross_entropy_grad_workspace, (const tk_loss *shape), (shape))
/* clang-format on */

TK_LOSS_KERNELS(TK_DECLARE_KERNEL)
TK_LOSS_WORKSPACES(TK_DECLARE_WORKSPACE)
#endif
