#!/usr/bin/env python3
"""Mean losses over more labels than float16 counts (65504) have the gradients that numpy computes in double, under each
recipe, in this runtime and by function bodies in ONNX Runtime.

usage: check_large_losses.py TEMPOC TEMPO_RUN
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import in_half

N, H, C = 70000, 4, 3
# Of the norm of the gradient: a share of 1 / N is stored to 6e-8 in float16, and to 1 / 256 of itself in bfloat16.
LIMITS = {"float16": 5e-3, "bfloat16": 1e-2}
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


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{os.path.basename(command[0])}: {done.stderr}")


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


def in_ort(path, feeds):
    """By function bodies. Its optimizer is off: it takes float16 for float and back, and that is not the point."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}
    return dict(zip((o.name for o in session.get_outputs()),
                    session.run(None, {n: v for n, v in feeds.items() if n in names})))


def check(tools, kind, dtype, rows, folder):
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=n).astype(in_half.NUMPY[dtype]) for n in ((N, H), (H, C)))
    weights, labels = np.array([1, 2, 0.5]).astype(in_half.NUMPY[dtype]), rng.integers(0, C, N)
    if kind == "ignored":
        labels[rng.random(N) < 0.02] = -100
    numbers = {"w": w, "weights": weights} if kind == "weighted" else {"w": w}
    path, out, got, inputs = (os.path.join(folder, n) for n in ("in.onnx", "out.onnx", "got.npz", "inputs.npz"))
    onnx.save(model_of(kind, dtype, rows, numbers), path)
    feeds = {"x": x, "labels": labels}
    np.savez(inputs, **feeds)
    loss, dw = expected(kind, *(v.astype(np.float64) for v in (x, w)), labels, weights.astype(np.float64))
    for recipe in RECIPES:
        run(tools[0], path, "-q", f"--recipe={recipe}", "-o", out)
        run(tools[1], out, "--inputs", inputs, "--outputs", got)
        results = {"tempo-run": np.load(got)}
        if dtype == "float16" and recipe in ("exact", "chunked"):
            results["ONNX Runtime"] = in_ort(out, feeds)
        for where, values in results.items():
            told, slope = (np.asarray(values[n]) for n in ("loss", "w_grad"))
            if told.dtype.kind == "V" or told.dtype == np.uint16:  # bfloat16, as numpy stores it
                told, slope = told.view(in_half.NUMPY[dtype]), slope.view(in_half.NUMPY[dtype])
            errors = (abs(float(told.item()) - loss) / loss,
                      np.linalg.norm(slope.astype(np.float64) - dw) / np.linalg.norm(dw))
            if not max(errors) <= LIMITS[dtype]:
                return f"{recipe} in {where}: the loss is off by {errors[0]:.1e}, its gradient by {errors[1]:.1e}"
    return None


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in LOSSES:
            for dtype in LIMITS:
                for rows in (N, "rows"):
                    why = check(sys.argv[1:3], kind, dtype, rows, folder)
                    failed += why is not None
                    print(f"{'ok  ' if why is None else 'FAIL'} {kind} in {dtype}, {rows} rows"
                          f"{': ' + why if why else ''}", flush=True)
    sys.exit(failed > 0)


main()
