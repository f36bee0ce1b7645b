#!/usr/bin/env python3
"""Training graphs that ONNX Runtime's tools wrote (test/e2e/ort): under every recipe each gradient, by tempo-run and by
stock ONNX Runtime, has to tell how the loss changes along a random direction, which differences of the loss tell, too:
the forward pass is ONNX Runtime's alone there.

usage: ort_written.py TEMPOC TEMPO_RUN GRAPH.onnxt ...
"""
import os
import sys

import numpy as np
import onnx

from compare import by_onnxruntime, load, session
from programs import case, finish, path, run
from tolerances import SLOPE_OF_FLOAT

RECIPES = ("none", "exact", "tiled", "chunked", "portable")
SIZES = {"batch": 3, "seq": 5}
STEP = 1e-3
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


def differences(made, values, trained, rng):
    """{weight: (direction, change of the loss along it)}"""
    told = {}
    for name in trained:
        way = rng.standard_normal(values[name].shape)
        ends = [by_onnxruntime(made, {**values, name: (values[name] + s * STEP * way).astype(np.float32)})["loss"]
                for s in (1, -1)]
        told[name] = way, (np.float64(ends[0]) - np.float64(ends[1])) / (2 * STEP)
    return told


def wrong(told, got, what):
    for name, (way, change) in told.items():
        products = way * got[f"{name}_grad"].astype(np.float64)
        if not abs(products.sum() - change) <= SLOPE_OF_FLOAT * (np.abs(products).sum() + 1):
            return f"{what}: {name}: the loss changes by {change:.6f}, its gradient says {products.sum():.6f}"
    return None


def check(graph, tempoc, tempo_run):
    rng = np.random.default_rng(9)  # no maximum and no sign changes within these steps
    out, inputs, got = (path(n) for n in ("out.onnx", "inputs.npz", "got.npz"))
    model, values, told = None, None, None
    for recipe in RECIPES:
        run(tempoc, graph, "-o", out, "-q", f"--recipe={recipe}", "--verify-each")
        made = session(out)
        if told is None:
            model = onnx.load(out)
            values = given(model, rng)
            np.savez(inputs, **values)
            trained = [o.name.removesuffix("_grad") for o in model.graph.output if o.name.endswith("_grad")]
            told = differences(made, values, trained, rng)
        run(tempo_run, out, "--inputs", inputs, "--outputs", got)
        why = wrong(told, load(got), "tempo-run") or wrong(told, by_onnxruntime(made, values), "onnxruntime")
        if why:
            return f"{recipe}: {why}"
    return (None, f"{len(told)} gradients") if len(told) >= 4 else "too few gradients"


for file in sys.argv[3:]:
    case(os.path.basename(file), check, file, *sys.argv[1:3])
finish()
