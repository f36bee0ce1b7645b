#!/usr/bin/env python3
"""The rules of the pass raise change no value: ONNX Runtime runs each test graph before and after, on the same random
operands.

usage: check_values.py TEMPOC GRAPH.onnxt...
Both sides go through the pass bodies, so that ops of ai.tempo are function calls. Rows that a mask closes are among the
operands.
"""
import os
import sys

import numpy as np
import onnx

from compare import by_onnxruntime
from programs import case, finish, path, run
from tolerances import RAISED

TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
SYMBOL = 3  # size of every symbolic dim


def compiled(tempoc, graph, passes):
    run(tempoc, graph, "--passes=" + passes, "-q", "-o", path("out.onnx"))
    return onnx.load(path("out.onnx"))


def operand(info, rng):
    tensor = info.type.tensor_type
    shape = [d.dim_value or SYMBOL for d in tensor.shape.dim]
    x = rng.standard_normal(shape) * 2
    if tensor.elem_type == onnx.TensorProto.BOOL:
        x = x > -0.5
        x[(0,) * (x.ndim - 1)] = info.name != "mask" or not x.ndim
    elif info.name == "bias" and x.ndim:
        x[(0,) * (x.ndim - 1)] = -np.inf
    return np.asarray(x).astype(TYPES[tensor.elem_type])


def error(a, b):
    limit = RAISED["float16" if a.dtype == np.float16 else "float"]
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = np.abs(a - b) / (1 + np.abs(a))
    return float(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, far).max()) / limit


def check(tempoc, graph):
    before = compiled(tempoc, graph, "shapes,canonicalize,bodies")
    after = compiled(tempoc, graph, "shapes,canonicalize,raise,bodies")
    rng = np.random.default_rng(len(os.path.basename(graph)))
    feeds = {i.name: operand(i, rng) for i in before.graph.input}
    want, got = (by_onnxruntime(model, feeds, optimize=False) for model in (before, after))
    for name in want:
        worst = error(want[name], got[name])
        if not worst <= 1:
            return f"{name} differs by {worst:.3g} times the tolerance"
    return None if want else "it has no values"


for file in sys.argv[2:]:
    case(os.path.basename(file), check, sys.argv[1], file)
finish()
