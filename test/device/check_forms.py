#!/usr/bin/env python3
"""Attention with a softcap, and with a mask behind the bias: compiled for training, loss and gradients on the emulated
CUDA device are those on the CPU.

usage: check_forms.py TEMPOC TEMPO_RUN TEMPO_RUN_EMULATED
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper, parser

SHAPES = {"q": (2, 3, 5, 8), "k": (2, 3, 8, 6), "v": (2, 3, 6, 8)}
SCALED = "s = MatMul(q, k) c = Mul(s, scale) "
CAPPED = SCALED + "d = Div(c, cap) t = Tanh(d) a = Mul(t, cap) "
BACK = "p = Softmax<axis=-1>(u) y = MatMul(p, v) w = Mul(y, y) loss = ReduceMean<keepdims=0>(w)"

# Name, nodes, the attribute that the compiled file has; None: it has neither.
CASES = [
    ("a softcap", CAPPED + "u = Identity(a) " + BACK, "softcap"),
    ("a softcap below a bias", CAPPED + "u = Add(a, bias) " + BACK, "softcap"),
    ("a softcap below a mask", CAPPED + "u = Where(mask, a, low) " + BACK, "softcap"),
    ("a mask behind the bias", SCALED + "a = Add(c, bias) u = Where(mask, a, low) " + BACK, "bias_first"),
    ("neither", SCALED + "u = Add(c, bias) " + BACK, None),
]
LIMIT = 2e-6  # of the largest element: sums of floats in another order


def run(tool, folder, name):
    out = os.path.join(folder, name)
    subprocess.run([tool, os.path.join(folder, "out.onnx"), "--inputs", os.path.join(folder, "in.npz"), "--outputs",
                    out], check=True, stdout=subprocess.DEVNULL)
    return dict(np.load(out))


def check(tempoc, tools, folder, case):
    name, text, form = case
    draw = np.random.RandomState(len(name))
    path, out = os.path.join(folder, "g.onnx"), os.path.join(folder, "out.onnx")
    model = parser.parse_model('<ir_version: 10, opset_import: ["": 21]> g (float[3,1,6] bias, bool[2,1,5,6] mask) => '
                               "(float loss) <float scale = {0.4}, float cap = {2.0}, float low = {-10000.0}> "
                               f"{{ {text} }}")
    model.graph.initializer.extend(numpy_helper.from_array(draw.normal(size=shape).astype(np.float32), key)
                                   for key, shape in SHAPES.items())
    onnx.save(model, path)
    mask = draw.uniform(size=(2, 1, 5, 6)) < 0.6
    mask[0, 0, 2] = False  # where its fill is all that counts, or bias besides
    np.savez(os.path.join(folder, "in.npz"), bias=draw.normal(size=(3, 1, 6)).astype(np.float32), mask=mask)
    subprocess.run([tempoc, path, "-o", out, "-q"], check=True)
    said = {a.name for node in onnx.load(out).graph.node for a in node.attribute} & {"softcap", "bias_first"}
    wrong = int(said != ({form} if form else set()))
    if wrong:
        print(f"{name}: the compiled file has {sorted(said) or 'neither form'}")
    want, got = (run(tool, folder, "got.npz") for tool in tools)
    for key in ["loss"] + [f"{key}_grad" for key in SHAPES]:
        error = np.abs(got[key] - want[key]).max() / np.abs(want[key]).max()
        if not error <= LIMIT:
            print(f"{name}: {key} is off by {error:.1e}")
            wrong += 1
    return wrong


def main():
    tempoc, *tools = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(check(tempoc, tools, folder, case) for case in CASES)
    print(f"{len(CASES)} graphs, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
