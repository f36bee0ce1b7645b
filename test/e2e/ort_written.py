#!/usr/bin/env python3
"""Training graphs that ONNX Runtime's tools wrote (test/e2e/ort): under every recipe each gradient, by tempo-run and by
stock ONNX Runtime, has to tell how the loss changes along a random direction, which differences of the loss tell, too:
the forward pass is ONNX Runtime's alone there.

usage: ort_written.py TEMPOC TEMPO_RUN GRAPH.onnxt ...
"""
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

from check_models import run

RECIPES = ("none", "exact", "tiled", "chunked", "portable")
SIZES = {"batch": 3, "seq": 5}
STEP = 1e-3
LIMIT = 4e-4  # of the sum of the products' sizes, and of 1: the loss, in float, is of that size
SUFFIX = ".accumulation.buffer"


def given(model, rng):
    """A value for each input that is neither buffer nor flag; integers are below 3, labels of any of the graphs."""
    values = {}
    for i in model.graph.input:
        if i.name.endswith(SUFFIX) or i.name == "lazy_reset_grad":
            continue
        kind = i.type.tensor_type
        shape = [d.dim_value or SIZES[d.dim_param] for d in kind.shape.dim]
        is_int = kind.elem_type == onnx.TensorProto.INT64
        values[i.name] = rng.integers(0, 3, shape) if is_int else rng.standard_normal(shape).astype(np.float32)
    return values


def open_session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def call(session, values):
    names = [i.name for i in session.get_inputs()]
    results = session.run(None, {n: values[n] for n in names if n in values})
    return dict(zip([o.name for o in session.get_outputs()], results))


def differences(session, values, trained, rng):
    """{weight: (direction, change of the loss along it)}"""
    told = {}
    for name in trained:
        way = rng.standard_normal(values[name].shape)
        ends = [call(session, {**values, name: (values[name] + s * STEP * way).astype(np.float32)})["loss"]
                for s in (1, -1)]
        told[name] = way, (np.float64(ends[0]) - np.float64(ends[1])) / (2 * STEP)
    return told


def wrong(told, got, what):
    for name, (way, change) in told.items():
        products = way * got[f"{name}_grad"].astype(np.float64)
        if not abs(products.sum() - change) <= LIMIT * (np.abs(products).sum() + 1):
            return f"{what}: {name}: the loss changes by {change:.6f}, its gradient says {products.sum():.6f}"
    return None


def check(graph, tempoc, tempo_run, folder):
    rng = np.random.default_rng(9)  # no maximum and no sign changes within these steps
    out, inputs, got = (os.path.join(folder, n) for n in ("out.onnx", "inputs.npz", "got.npz"))
    model, values, told = None, None, None
    for recipe in RECIPES:
        why = run(tempoc, graph, "-o", out, "-q", f"--recipe={recipe}", "--verify-each")
        if why:
            return f"{recipe}: {why}"
        session = open_session(out)
        if told is None:
            model = onnx.load(out)
            values = given(model, rng)
            np.savez(inputs, **values)
            trained = [o.name.removesuffix("_grad") for o in model.graph.output if o.name.endswith("_grad")]
            told = differences(session, values, trained, rng)
        why = run(tempo_run, out, "--inputs", inputs, "--outputs", got)
        why = why or wrong(told, dict(np.load(got)), "tempo-run") or wrong(told, call(session, values), "onnxruntime")
        if why:
            return f"{recipe}: {why}"
    print(f"ok   {os.path.basename(graph)}: {len(told)} gradients")
    return None if len(told) >= 4 else "too few gradients"


def main(tempoc, tempo_run, *graphs):
    failed = 0
    for graph in graphs:
        with tempfile.TemporaryDirectory() as folder:
            why = check(graph, tempoc, tempo_run, folder)
        if why:
            print(f"FAIL {os.path.basename(graph)}: {why}")
            failed += 1
    return 1 if failed or not graphs else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
