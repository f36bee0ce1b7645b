#!/usr/bin/env python3
"""Losses and gradients of batches with ignored labels, down to those where nothing counts: in every recipe, in
tempo-run and in ONNX Runtime, what PyTorch gives. The mean over nothing is no number; an ignored place has gradient 0
even then; a place that counts with weight 0 among weights whose sum is 0 has none that is a number.

usage: check_ignored.py TEMPOC TEMPO_RUN
"""
import itertools
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import by_onnxruntime, load, near
from programs import check, finish, path, run
from tolerances import LOSS

IGNORED = -100
CLASSES = 4
LABELS = {"all ignored": [[IGNORED, IGNORED], [IGNORED, IGNORED], [IGNORED, IGNORED]],
          "some ignored": [[1, IGNORED], [IGNORED, 2], [0, 3]],
          "one counts": [[IGNORED, IGNORED], [IGNORED, IGNORED], [2, IGNORED]],
          "none ignored": [[1, 2], [2, 1], [1, 1]]}
WEIGHTS = {"plain": None, "weights": [1, 2, 0.5, 3], "no weight": [1, 0, 0, 3], "opposite weights": [-1, 1, 1, 0]}
random = np.random.default_rng(5)


def defined(x, labels, weights, reduction):
    """The loss and its gradient, of scores [N, C, d]: torch.nn.functional.cross_entropy(x, labels, weights,
    ignore_index=-100), whose gradient skips ignored places and multiplies the others by weight / sum of weights."""
    log_prob = x - x.max(1, keepdims=True)
    log_prob -= np.log(np.exp(log_prob).sum(1, keepdims=True))
    kept = labels != IGNORED
    at = np.where(kept, labels, 0)[:, None]
    weight = np.ones(CLASSES) if weights is None else np.array(weights)
    weight = np.where(kept, weight[at[:, 0]], 0)
    one_hot = np.arange(CLASSES)[None, :, None] == at
    each = np.where(kept, -weight * np.take_along_axis(log_prob, at, 1)[:, 0], 0)
    total = weight.sum() if reduction == "mean" else np.float64(1)
    share = np.where(kept, weight * (1 / total), 0)[:, None]
    return each.sum() / total, np.exp(log_prob) * share - one_hot * share


def model(op, labels, weights, reduction, kind):
    """scores [N, C, d] in the initializer x; the loss of reduction none is summed up by the graph."""
    attributes = dict(reduction=reduction)
    if (labels == IGNORED).any() or weights is None:  # an ignore_index that nothing has changes nothing
        attributes["ignore_index"] = IGNORED
    operands = ["x", "labels"] + (["weights"] if weights is not None else [])
    nodes = []
    if op == "NegativeLogLikelihoodLoss":
        nodes.append(helper.make_node("LogSoftmax", ["x"], ["log_prob"], axis=1))
        operands[0] = "log_prob"
    nodes.append(helper.make_node(op, operands, ["each" if reduction == "none" else "loss"], **attributes))
    if reduction == "none":
        nodes.append(helper.make_node("ReduceSum", ["each"], ["loss"], keepdims=0))
    given = [helper.make_tensor_value_info("labels", TensorProto.INT64, labels.shape)]
    if weights is not None:
        given.append(helper.make_tensor_value_info("weights", kind, [CLASSES]))
    x = random.standard_normal((labels.shape[0], CLASSES, labels.shape[1]))
    x = x.astype(helper.tensor_dtype_to_np_dtype(kind))
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("loss", kind, [])],
                              [numpy_helper.from_array(x, "x")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), x


def compare(tempoc, tempo_run, case, recipe):
    op, labels, weights, reduction, kind = case
    labels, weights = np.array(LABELS[labels], np.int64), WEIGHTS[weights]
    made, x = model(op, labels, weights, reduction, kind)
    source, target, inputs, outputs = (path(name) for name in ("in.onnx", "out.onnx", "in.npz", "out.npz"))
    onnx.save(made, source)
    run(tempoc, source, "-o", target, "-q", f"--recipe={recipe}", timeout=60)
    feeds = {"labels": labels}
    if weights is not None:
        feeds["weights"] = np.array(weights, x.dtype)
    np.savez(inputs, **feeds)
    run(tempo_run, target, "--inputs", inputs, "--outputs", outputs, timeout=60)
    runs = {"tempo-run": load(outputs)}
    if kind == TensorProto.FLOAT:
        runs["ONNX Runtime"] = by_onnxruntime(target, feeds)
    wanted = defined(x.astype(np.float64), labels, weights, reduction)
    for runtime, got in runs.items():
        for name, want in zip(("loss", "x_grad"), wanted):
            check(near(got[name], want, LOSS[x.dtype.name], nan=True), *case, recipe, runtime, name, "is",
                  np.ravel(got[name]), "not", np.ravel(want))


np.seterr(all="ignore")
for case in itertools.product(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), LABELS, WEIGHTS,
                              ("mean", "sum", "none")):
    kinds = {TensorProto.FLOAT} | ({TensorProto.DOUBLE, TensorProto.FLOAT16} if case[2] == "plain" else set())
    for element, how in itertools.product(sorted(kinds), ("none", "exact", "portable")):
        compare(*sys.argv[1:], (*case, element), how)
finish()
