#!/usr/bin/env python3
"""Attention with a softcap, and with a mask behind the bias: compiled for training, loss and gradients on the emulated
CUDA device are those on the CPU.

usage: check_forms.py TEMPOC TEMPO_RUN TEMPO_RUN_EMULATED
"""
import sys

import numpy as np
import onnx
from onnx import numpy_helper, parser

from compare import load, max_error
from programs import case, finish, path, run
from tolerances import FORMS

SHAPES = {"q": (2, 3, 5, 8), "k": (2, 3, 8, 6), "v": (2, 3, 6, 8)}
SCALED = "s = MatMul(q, k) c = Mul(s, scale) "
CAPPED = SCALED + "d = Div(c, cap) t = Tanh(d) a = Mul(t, cap) "
BACK = "p = Softmax<axis=-1>(u) y = MatMul(p, v) w = Mul(y, y) loss = ReduceMean<keepdims=0>(w)"

# Name, nodes, the attribute that the compiled file has; None: it has neither.
CASES = [("a softcap", CAPPED + "u = Identity(a) " + BACK, "softcap"),
         ("a softcap below a bias", CAPPED + "u = Add(a, bias) " + BACK, "softcap"),
         ("a softcap below a mask", CAPPED + "u = Where(mask, a, low) " + BACK, "softcap"),
         ("a mask behind the bias", SCALED + "a = Add(c, bias) u = Where(mask, a, low) " + BACK, "bias_first"),
         ("neither", SCALED + "u = Add(c, bias) " + BACK, None)]


def computed(tool):
    run(tool, path("out.onnx"), "--inputs", path("in.npz"), "--outputs", path("got.npz"))
    return load(path("got.npz"))


def check(tempoc, tools, name, text, form):
    draw = np.random.RandomState(len(name))
    model = parser.parse_model('<ir_version: 10, opset_import: ["": 21]> g (float[3,1,6] bias, bool[2,1,5,6] mask) => '
                               "(float loss) <float scale = {0.4}, float cap = {2.0}, float low = {-10000.0}> "
                               f"{{ {text} }}")
    model.graph.initializer.extend(numpy_helper.from_array(draw.normal(size=shape).astype(np.float32), key)
                                   for key, shape in SHAPES.items())
    onnx.save(model, path("g.onnx"))
    mask = draw.uniform(size=(2, 1, 5, 6)) < 0.6
    mask[0, 0, 2] = False  # where its fill is all that counts, or bias besides
    np.savez(path("in.npz"), bias=draw.normal(size=(3, 1, 6)).astype(np.float32), mask=mask)
    run(tempoc, path("g.onnx"), "-o", path("out.onnx"), "-q")
    said = {a.name for node in onnx.load(path("out.onnx")).graph.node for a in node.attribute}
    said &= {"softcap", "bias_first"}
    if said != ({form} if form else set()):
        return f"the compiled file has {sorted(said) or 'neither form'}"
    want, got = (computed(tool) for tool in tools)
    for key in ["loss"] + [f"{key}_grad" for key in SHAPES]:
        error = max_error(got[key], want[key])
        if not error <= FORMS:
            return f"{key} is off by {error:.1e}"
    return None


for row in CASES:
    case(row[0], check, sys.argv[1], sys.argv[2:], *row)
finish()
