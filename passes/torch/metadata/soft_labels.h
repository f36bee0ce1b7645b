/* soft_labels.h: cross entropy with probabilities of classes as labels, for which ONNX has no op. PyTorch's
 * exporters write a SoftmaxCrossEntropyLoss with labels of floats, of the shape of the scores. */
#ifndef TC_SOFT_LABELS_H
#define TC_SOFT_LABELS_H
#include "compiler/ir/ir.h"

/* Replaces such a loss, whose operands' types are known, by standard ops with PyTorch's result. A tc_infer_visit
 * with a tc_ctx. */
tc_status tc_soft_labels(void *ctx, tc_node *node);
#endif
