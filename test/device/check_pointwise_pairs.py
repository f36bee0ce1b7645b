#!/usr/bin/env python3
"""Ops of pointwise.def beside their gradients at the same place, on the emulated CUDA device, where the two are one
launch; and graphs that differ in one point, where they are not. Beside the CPU, where they never are.

usage: check_pointwise_pairs.py TEMPO_RUN TEMPO_RUN_EMULATED
"""
import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import parser

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


def run(tool, folder, name):
    out = os.path.join(folder, name)
    subprocess.run([tool, os.path.join(folder, "g.onnx"), "--inputs", os.path.join(folder, "in.npz"), "--outputs", out,
                    "--profile", out + ".csv", "--repeat", "3"], check=True, stdout=subprocess.DEVNULL)
    with open(out + ".csv", encoding="utf-8") as lines:
        return dict(np.load(out)), ",PointwiseBoth," in lines.read()


def numbers(array, kind):
    return array.view(TYPES[kind]).astype(np.float64) if kind == "bfloat16" else array.astype(np.float64)


def check(tools, folder, case, kind):
    name, text, outputs, expected = case
    outs = ", ".join(f"{kind}[8,8] {out}" for out in outputs.split(", "))
    m = parser.parse_model(f'<ir_version: 10, opset_import: ["": 22, "ai.tempo": 1]> '
                           f'graph ({kind}[8,8] x, {kind}[8,8] w, {kind}[8,8] v) => ({outs}) {{ {text} }}')
    onnx.save(m, os.path.join(folder, "g.onnx"))
    draw = np.random.RandomState(len(name))
    np.savez(os.path.join(folder, "in.npz"), **{key: draw.uniform(-2, 2, (8, 8)).astype(TYPES[kind]) for key in "xwv"})
    (want, _), (got, both) = run(tools[0], folder, "want.npz"), run(tools[1], folder, "got.npz")
    wrong = int(both != expected)
    if wrong:
        print(f"{name}, {kind}: there is {'a' if both else 'no'} launch of both")
    bound = {"float": 1e-5, "float16": 5e-2, "bfloat16": 4e-1}[kind]  # sums of eight terms of up to 4, two of them
    for key, value in want.items():
        if not np.allclose(numbers(got[key], kind), numbers(value, kind), rtol=0, atol=bound):
            print(f"{name}, {kind}: {key} is off")
            wrong += 1
    return wrong


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for kind in TYPES:
                wrong += check(sys.argv[1:], folder, case, kind)
    print(f"{len(CASES)} graphs of {len(TYPES)} types, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
