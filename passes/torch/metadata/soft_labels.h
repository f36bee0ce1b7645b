/* soft_labels.h: cross entropy with probabilities of classes for labels, which ONNX has no op for. PyTorch's exporters
 * write a SoftmaxCrossEntropyLoss with labels of floats, of the shape of the scores. */
#ifndef TC_SOFT_LABELS_H
#define TC_SOFT_LABELS_H
#include "compiler/ir/ir.h"

/* Such a loss, whose operands' types are known, becomes what PyTorch computes, in standard ops. A tc_infer_visit with a
 * tc_ctx. */
tc_status tc_soft_labels(void *ctx, tc_node *node);
#endif
