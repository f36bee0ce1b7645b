#!/usr/bin/env python3
"""Losses and gradients of batches with ignored labels, down to those where nothing counts: in every recipe, in
tempo-run and in ONNX Runtime, what PyTorch gives. The mean over nothing is no number; an ignored place has gradient 0
even then; a place that counts with weight 0 among weights whose sum is 0 has none that is a number.

usage: check_ignored.py TEMPOC TEMPO_RUN
"""
import itertools
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

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


def in_tempo(tempo_run, folder, graph, feeds):
    np.savez(os.path.join(folder, "in.npz"), **feeds)
    subprocess.run([tempo_run, graph, "--inputs", os.path.join(folder, "in.npz"), "--outputs",
                    os.path.join(folder, "out.npz")], check=True, stdout=subprocess.DEVNULL, timeout=60)
    with np.load(os.path.join(folder, "out.npz")) as out:
        return out["loss"], out["x_grad"]


def in_onnxruntime(_, __, graph, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    return session.run(["loss", "x_grad"], feeds)


def check(tempoc, tempo_run, folder, case, how):
    (op, labels, weights, reduction, kind), recipe = case, how
    labels, weights = np.array(LABELS[labels], np.int64), WEIGHTS[weights]
    made, x = model(op, labels, weights, reduction, kind)
    source, target = os.path.join(folder, "in.onnx"), os.path.join(folder, "out.onnx")
    onnx.save(made, source)
    subprocess.run([tempoc, source, "-o", target, "-q", f"--recipe={recipe}"], check=True, timeout=60)
    feeds = {"labels": labels}
    if weights is not None:
        feeds["weights"] = np.array(weights, x.dtype)
    wanted = defined(x.astype(np.float64), labels, weights, reduction)
    failed = 0
    for run in (in_tempo, in_onnxruntime) if kind == TensorProto.FLOAT else (in_tempo,):
        for name, got, want in zip(("loss", "gradient"), run(tempo_run, folder, target, feeds), wanted):
            atol = 1e-6 if kind == TensorProto.FLOAT else 2e-3 if kind == TensorProto.FLOAT16 else 1e-12
            if not np.allclose(got, want, rtol=atol, atol=atol, equal_nan=True):
                print("FAIL", *case, recipe, run.__name__, name, "is", np.ravel(got), "not", np.ravel(want))
                failed += 1
    return failed


def main():
    tempoc, tempo_run = (os.path.abspath(p) for p in sys.argv[1:])
    np.seterr(all="ignore")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for op, labels, weights, reduction in itertools.product(
                ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"), LABELS, WEIGHTS, ("mean", "sum", "none")):
            kinds = {TensorProto.FLOAT} | ({TensorProto.DOUBLE, TensorProto.FLOAT16} if weights == "plain" else set())
            for kind, recipe in itertools.product(sorted(kinds), ("none", "exact", "portable")):
                failed += check(tempoc, tempo_run, folder, (op, labels, weights, reduction, kind), recipe)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
