#!/usr/bin/env python3
"""Ops of pointwise.def beside their gradients at the same place, on the emulated CUDA device, where the two are one
launch; and graphs that differ in one point, where they are not. Beside the CPU, where they never are.

usage: check_pointwise_pairs.py TEMPO_RUN TEMPO_RUN_EMULATED
"""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import parser

from compare import load, near
from programs import case, finish, path, run, text_of
from tolerances import PAIR

TYPES = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
GRAD = "d = ai.tempo.GeluGrad(g, x)"

# Name, nodes, outputs, whether there is a launch of both. w, v: matrices; x, g: alike.
CASES = [
    ("made again before its gradient", f"g = MatMul(w, v) y = Gelu(x) z = MatMul(y, v) {GRAD}", "z, d", True),
    ("dY comes between", f"y = Gelu(x) g = MatMul(w, v) {GRAD} z = MatMul(y, v)", "z, d", True),
    ("the tanh form", 'g = MatMul(w, v) y = Gelu<approximate="tanh">(x) z = MatMul(y, v) '
     'd = ai.tempo.GeluGrad<approximate="tanh">(g, x)', "z, d", True),
    ("alike alpha", "g = MatMul(w, v) y = ai.tempo.Swish<alpha=1.5>(x) z = MatMul(y, v) "
     "d = ai.tempo.SwishGrad<alpha=1.5>(g, x)", "z, d", True),
    ("two forms", f'g = MatMul(w, v) y = Gelu<approximate="tanh">(x) z = MatMul(y, v) {GRAD}', "z, d", False),
    ("two alphas", "g = MatMul(w, v) y = ai.tempo.Swish<alpha=1.5>(x) z = MatMul(y, v) "
     "d = ai.tempo.SwishGrad(g, x)", "z, d", False),
    ("at another place", f"g = MatMul(w, v) y = Gelu(w) z = MatMul(y, v) {GRAD}", "z, d", False),
    ("read before dY is there", f"y = Gelu(x) z = MatMul(y, v) g = MatMul(w, v) {GRAD}", "z, d", False),
    ("dY is read again", f"g = MatMul(w, v) y = Gelu(x) z = MatMul(y, v) {GRAD} r = MatMul(g, v)", "z, d, r", False),
    ("the gradient comes first", f"g = MatMul(w, v) {GRAD} y = Gelu(x) z = MatMul(y, v)", "z, d", False),
    ("a link of a chain", f"g = MatMul(w, v) y = Gelu(x) z = Neg(y) {GRAD}", "z, d", False),
]


def computed(tool):
    run(tool, path("g.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), "--profile", path("out.csv"),
        "--repeat", 3)
    return load(path("out.npz")), ",PointwiseBoth," in text_of(path("out.csv"))


def check(tools, kind, name, text, outputs, expected):
    outs = ", ".join(f"{kind}[8,8] {out}" for out in outputs.split(", "))
    m = parser.parse_model(f'<ir_version: 10, opset_import: ["": 22, "ai.tempo": 1]> '
                           f'graph ({kind}[8,8] x, {kind}[8,8] w, {kind}[8,8] v) => ({outs}) {{ {text} }}')
    onnx.save(m, path("g.onnx"))
    draw = np.random.RandomState(len(name))
    np.savez(path("in.npz"), **{key: draw.uniform(-2, 2, (8, 8)).astype(TYPES[kind]) for key in "xwv"})
    (want, _), (got, both) = computed(tools[0]), computed(tools[1])
    if both != expected:
        return f"there is {'a' if both else 'no'} launch of both"
    off = [key for key, value in want.items() if not near(got[key], value.astype(np.float64), PAIR[kind])]
    return f"{', '.join(off)} off" if off else None


for row in CASES:
    for element in TYPES:
        case(f"{row[0]}, {element}", check, sys.argv[1:], element, *row)
finish()
