#!/usr/bin/env python3
"""Gradient nodes of ai.onnx.preview.training: what tempoc makes of each, under several recipes, are the central
differences, in float64, of what it names as y, which numpy computes. What is asked for with regard to values in the
middle, at values that are fed in their place, and of another gradient is what the operator's documentation says.
usage: check_requests.py tempoc tempo-run"""
import sys

import numpy as np
import onnx
import onnx.parser

from compare import load, max_error
from programs import case, finish, path, run
from tolerances import SMOOTH

HEADER = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]>\n'
GRADIENT = "ai.onnx.preview.training.Gradient"
FORWARD = """
    a = MatMul (x, w)
    b = Add (a, v)
    h = Tanh (b)
    c = MatMul (h, u)
    d = Sub (c, l)
    e = Mul (d, d)
    p = Mul (e, s)
    y = ReduceSum <keepdims = 0> (p)
"""
SHAPES = {"x": (4, 3), "w": (3, 5), "v": (5,), "u": (5, 2), "l": (4, 2), "s": (), "k": (4, 5), "g": (5, 2)}
rng = np.random.default_rng(5)
DATA = {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}


def head(h, u, l, s):
    return (((h @ u - l) ** 2) * s).sum()


def loss(x, w, v, u, l, s, **_):
    return head(np.tanh(x @ w + v), u, l, s)


def slope(f, values, name, step=1e-5):
    """The central difference of f's sum along each element of values[name]."""
    result = np.zeros_like(values[name])
    for index in np.ndindex(result.shape):
        sides = []
        for sign in (1, -1):
            moved = dict(values, **{name: values[name].copy()})
            moved[name][index] += sign * step
            sides.append(np.sum(f(**moved)))
        result[index] = (sides[0] - sides[1]) / (2 * step)
    return result


def hidden(values):
    return np.tanh(values["x"] @ values["w"] + values["v"])


def of_head(values, h, names):
    inner = dict(values, h=h)
    return [slope(lambda h, u, l, s, **_: head(h, u, l, s), inner, name) for name in names]


def along(values):
    """Of (dy/du . g) as a function of u and w: what a second Gradient asks for."""
    def first(x, w, v, u, l, s, g, **_):
        h = np.tanh(x @ w + v)
        return (h.T @ (2 * (h @ u - l) * s) * g).sum()
    return [slope(first, values, name) for name in ("u", "w")]


CASES = [  # what is asked for, its results, what they are
    ("leaves", f'dw, dv, du, ds = {GRADIENT} <xs = ["w", "v", "u", "s"], zs = ["x", "l"], y = "y"> (w, v, u, s, x, l)',
     ["dw", "dv", "du", "ds"], lambda d: [slope(loss, d, name) for name in ("w", "v", "u", "s")]),
    ("input", f'dx = {GRADIENT} <xs = ["x"], y = "y"> (x)', ["dx"], lambda d: [slope(loss, d, "x")]),
    ("skipped", f'"", du = {GRADIENT} <xs = ["w", "u"], y = "y"> (w, u)', ["du"], lambda d: [slope(loss, d, "u")]),
    ("rows", f'dw = {GRADIENT} <xs = ["w"], y = "h"> (w)', ["dw"],
     lambda d: [slope(lambda x, w, v, **_: np.tanh(x @ w + v), d, "w")]),
    ("middle", f'dh, du, dw = {GRADIENT} <xs = ["h", "u", "w"], y = "y"> (h, u, w)', ["dh", "du", "dw"],
     lambda d: of_head(d, hidden(d), ["h", "u"]) + [np.zeros(SHAPES["w"])]),
    ("held", f'dw, du = {GRADIENT} <xs = ["w", "u"], zs = ["h"], y = "y"> (w, u, h)', ["dw", "du"],
     lambda d: [np.zeros(SHAPES["w"]), slope(loss, d, "u")]),
    ("fed", f'dh, du = {GRADIENT} <xs = ["h", "u"], zs = ["l"], y = "y"> (k, u, l)', ["dh", "du"],
     lambda d: of_head(d, d["k"], ["h", "u"])),
    ("itself", f'dh = {GRADIENT} <xs = ["h"], y = "h"> (h)', ["dh"], lambda d: [np.ones(SHAPES["k"])]),
    ("second", f'du = {GRADIENT} <xs = ["u"], y = "y"> (u)\n    m = Mul (du, g)\n    n = ReduceSum <keepdims = 0> (m)\n'
     f'    ddu, ddw = {GRADIENT} <xs = ["u", "w"], y = "n"> (u, w)', ["ddu", "ddw"], along),
]


def model_of(asked, results, fed):
    def declare(names):
        return ", ".join(f"double[{','.join(map(str, SHAPES[name]))}] {name}" for name in names)
    of = {"dw": "w", "dv": "v", "du": "u", "ds": "s", "dx": "x", "dh": "k", "ddu": "u", "ddw": "w"}
    outputs = ", ".join(f"double[{','.join(map(str, SHAPES[of[name]]))}] {name}" for name in results)
    inputs = [name for name in SHAPES if name not in fed]
    model = onnx.parser.parse_model(HEADER + f"asked ({declare(inputs)}) => (double y, {outputs})\n"
                                    f"{{{FORWARD}    {asked}\n}}")
    for name in fed:  # weights: a scalar is one as well
        model.graph.initializer.append(onnx.numpy_helper.from_array(DATA[name], name))
    return model


def check_limits(tempoc):
    """Many gradients, and gradients of gradients of gradients: soon made, or soon refused."""
    def model(lines):
        onnx.save(onnx.parser.parse_model(HEADER + "g (float x) => (float y) { y0 = Tanh (x)\n" + "\n".join(lines) +
                                          "}"), path("m.onnx"))
    for count, code in ((200, 0), (600, 4)):
        lines = [f'y{i + 1} = Tanh (y{i})\n d{i} = {GRADIENT} <xs = ["y{i}"], y = "y{i + 1}"> (y{i})'
                 for i in range(count)]
        model(lines + [f"y = Sum ({', '.join(f'd{i}' for i in range(count))})"])
        said = run(tempoc, path("m.onnx"), "-q", code=code, timeout=60).err
        assert code == 0 or "this is number 513" in said, (count, said)
    for order, code in ((6, 0), (40, 4)):
        lines = [f'd{i} = {GRADIENT} <xs = ["x"], y = "{f"d{i - 1}" if i else "y0"}"> (x)' for i in range(order)]
        model(lines + [f"y = Neg (d{order - 1})"])
        said = run(tempoc, path("m.onnx"), "-q", code=code, timeout=60).err
        assert code == 0 or "too many gradients" in said, (order, said)


def check(tools, asked, results, truth):
    weights, worst = ("w", "v", "u", "s"), 0
    source, out, inputs, outputs = (path(name) for name in ("m.onnx", "o.onnx", "i.npz", "r.npz"))
    np.savez(inputs, **{name: value for name, value in DATA.items() if name not in weights})
    onnx.save(model_of(asked, results, weights), source)
    for recipe in ("none", "exact", "portable"):
        run(tools[0], source, "-o", out, "-q", "--verify-each", f"--recipe={recipe}")
        run(tools[1], out, "--inputs", inputs, "--outputs", outputs)
        got = load(outputs)
        for result, value in zip(results, truth(DATA)):
            far = max_error(got[result], value, least=1)
            worst = max(worst, far)
            assert far < SMOOTH, f"{recipe}, {result}: {far}"
    return None, f"worst difference {worst:.2g}"


for title, *request in CASES:
    case(title, check, sys.argv[1:3], *request)
case("limits", check_limits, sys.argv[1])
finish()
