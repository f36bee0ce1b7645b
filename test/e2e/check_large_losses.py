#!/usr/bin/env python3
"""Mean losses over more labels than float16 counts (65504) have the gradients that numpy computes in double, under each
recipe, in this runtime and by function bodies in ONNX Runtime.

usage: check_large_losses.py TEMPOC TEMPO_RUN
"""
import sys

import numpy as np
import onnx
from onnx import helper

import in_half
from compare import by_onnxruntime, load, norm_error
from programs import case, finish, path, run
from tolerances import SHARE

N, H, C = 70000, 4, 3
RECIPES = "none", "exact", "tiled", "chunked", "portable"
LOSSES = {
    "mean": "loss = SoftmaxCrossEntropyLoss (s, labels)",
    "ignored": "loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (s, labels)",
    "weighted": "loss = SoftmaxCrossEntropyLoss (s, labels, weights)",
    "of logs": "l = LogSoftmax <axis = 1> (s)\n loss = NegativeLogLikelihoodLoss (l, labels)",
    "mean of each": 'e = SoftmaxCrossEntropyLoss <reduction = "none"> (s, labels)\n'
                    "loss = ReduceMean <keepdims = 0> (e)",
    "mean of squares": "e = Mul (s, s)\n loss = ReduceMean <keepdims = 0> (e)",
}


def expected(kind, x, w, labels, weights):
    """The loss and the gradient of w, in double."""
    s = x @ w
    if kind == "mean of squares":
        return (s * s).mean(), x.T @ (2 * s / s.size)
    kept = labels >= 0
    label = np.where(kept, labels, 0)
    share = kept * (weights[label] if kind == "weighted" else 1.0)
    share = share / share.sum()
    s = s - s.max(1, keepdims=True)
    logs = s - np.log(np.exp(s).sum(1, keepdims=True))
    ds = (np.exp(logs) - np.eye(C)[label]) * share[:, None]
    return -(logs[np.arange(N), label] * share).sum(), x.T @ ds


def model_of(kind, dtype, rows, numbers):
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
      large ({dtype}[{rows},{H}] x, int64[{rows}] labels) => ({dtype} loss) {{
        s = MatMul (x, w)
        {LOSSES[kind]} }}"""
    model = onnx.parser.parse_model(text)
    for name, value in numbers.items():
        model.graph.initializer.append(
            helper.make_tensor(name, in_half.ONNX[dtype], value.shape, value.tobytes(), raw=True))
    return model


def check(tools, kind, dtype, rows):
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=n).astype(in_half.NUMPY[dtype]) for n in ((N, H), (H, C)))
    weights, labels = np.array([1, 2, 0.5]).astype(in_half.NUMPY[dtype]), rng.integers(0, C, N)
    if kind == "ignored":
        labels[rng.random(N) < 0.02] = -100
    numbers = {"w": w, "weights": weights} if kind == "weighted" else {"w": w}
    source, out, got, inputs = (path(n) for n in ("in.onnx", "out.onnx", "got.npz", "inputs.npz"))
    onnx.save(model_of(kind, dtype, rows, numbers), source)
    feeds = {"x": x, "labels": labels}
    np.savez(inputs, **feeds)
    loss, dw = expected(kind, *(v.astype(np.float64) for v in (x, w)), labels, weights.astype(np.float64))
    for recipe in RECIPES:
        run(tools[0], source, "-q", f"--recipe={recipe}", "-o", out)
        run(tools[1], out, "--inputs", inputs, "--outputs", got)
        results = {"tempo-run": load(got)}
        if dtype == "float16" and recipe in ("exact", "chunked"):
            # By function bodies. Its optimizer is off: it takes float16 for float and back, and that is not the point.
            results["ONNX Runtime"] = by_onnxruntime(out, feeds, optimize=False)
        for where, values in results.items():
            errors = abs(float(values["loss"].item()) - loss) / loss, norm_error(values["w_grad"], dw)
            if not max(errors) <= SHARE[dtype]:
                return f"{recipe} in {where}: the loss is off by {errors[0]:.1e}, its gradient by {errors[1]:.1e}"
    return None


for loss_kind in LOSSES:
    for precision in SHARE:
        for count in (N, "rows"):
            case(f"{loss_kind} in {precision}, {count} rows", check, sys.argv[1:3], loss_kind, precision, count)
finish()
