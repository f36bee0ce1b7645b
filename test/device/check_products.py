#!/usr/bin/env python3
"""Linear layers with what stands beside them on the emulated CUDA device, where it is one launch with the product:
biases, sums of products and other values, gradients of biases; and graphs that differ in one point, where it is not.
Beside numpy in double precision.

usage: check_products.py TEMPO_RUN_EMULATED
"""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, parser

from compare import load, near
from programs import case, finish, path, run, text_of
from tolerances import LINEAR

TYPES = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "double": np.float64}
DIMS = {"x": [2, 3, 8], "w": [8, 16], "v": [8, 16], "u": [8, 16], "b": [16], "c": [2, 3, 16], "r": [2, 3, 1],
        "d": [2, 3, 16], "g": [6, 16], "h": [6, 8], "o": [16, 8]}
AXES = {"rows": [0, 1], "lines": [0], "all": [0, 1, 2]}

# Name, nodes, launches that are left, and how many of them are products with something beside them.
CASES = [("a bias", "y = MatMul(x, w) z = Add(y, b)", 1, 1), ("a bias first", "y = MatMul(x, w) z = Add(b, y)", 1, 1),
         ("a bias behind a view", "y = Gemm(h, w) s = Reshape(y, shape) z = Add(s, b)", 1, 1),
         ("a number for each row is no bias", "y = MatMul(x, w) z = Add(y, r)", 2, 0),
         ("read twice", "y = MatMul(x, w) z = Add(y, b) e = Relu(y)", 3, 0),
         ("a bias that comes late", "y = MatMul(x, w) e = Neg(b) z = Add(y, e)", 3, 0),
         ("a second bias", "y = MatMul(x, w) a = Add(y, b) z = Add(a, b)", 2, 1),
         ("a Gemm with its bias, and a value", "y = Gemm(h, w, b) z = Add(y, g)", 2, 0),
         ("a value", "y = MatMul(x, w) z = Add(y, c)", 1, 1), ("two values", "y = MatMul(x, w) z = Sum(c, y, d)", 2, 1),
         ("two products", "y = MatMul(x, w) e = MatMul(x, v) z = Add(y, e)", 2, 1),
         ("three products and a value", "y = MatMul(x, w) e = MatMul(x, v) f = MatMul(x, u) z = Sum(y, c, f, e)", 3, 3),
         ("a product and itself", "y = MatMul(x, w) z = Add(y, y)", 2, 0),
         ("a value that comes late", "y = MatMul(x, w) e = Neg(c) z = Add(y, e)", 2, 0),
         ("a value that the first cannot take", "y = MatMul(x, w) e = Exp(c) f = MatMul(x, v) z = Sum(e, y, f)", 4, 1),
         ("the gradients of a weight and a bias", "y = Gemm<transA=1>(h, g) z = ReduceSum<keepdims=0>(g, lines)", 1, 1),
         ("the sums come first", "z = ReduceSum(g, lines) y = Gemm<transA=1>(h, g)", 1, 1),
         ("of the left operand", "y = Gemm<transA=1>(g, h) z = ReduceSum<keepdims=0>(g, lines)", 1, 1),
         ("behind a view", "f = Reshape(c, flat) y = Gemm<transA=1>(h, f) z = ReduceSum<keepdims=0>(c, rows)", 1, 1),
         ("sums over everything", "f = Reshape(c, flat) y = Gemm<transA=1>(h, f) z = ReduceSum(c, all)", 2, 0),
         ("sums of the other dim", "y = Gemm(g, o) z = ReduceSum(g, lines)", 2, 0),
         ("sums that are read before", "z = ReduceSum<keepdims=0>(g, lines) e = Exp(z) y = Gemm<transA=1>(h, g)", 3, 0),
         ("sums and a value", "y = Gemm<transA=1>(h, g) z = ReduceSum(g, lines) q = Add(y, w)", 2, 1)]


def model(text, kind):
    """The graph; what nothing reads is an output, and so is what comes out twice."""
    used = [name for name in DIMS if name in text.replace("(", " ").replace(",", " ").replace(")", " ").split()]
    inputs = ", ".join(f"{kind}[{','.join(map(str, DIMS[name]))}] {name}" for name in used)
    made = [part.split()[-1] for part in text.split("=")[:-1] if part.split()[-1] not in ("<transA", "<keepdims")]
    made = [name for name in made if "<" not in name]
    operands = [word for part in text.split("(")[1:] for word in part.split(")")[0].replace(",", " ").split()]
    outputs = [name for name in made if name not in operands]
    constants = {**AXES, "shape": [2, 3, 16], "flat": [6, 16]}
    init = ", ".join(f"int64[{len(values)}] {name} = {{{', '.join(map(str, values))}}}"
                     for name, values in constants.items() if name in operands)
    out = ", ".join(f"{kind}[] {name}" for name in outputs)
    graph = f'<ir_version: 10, opset_import: ["": 22]> g ({inputs}) => ({out}) <{init}> {{ {text} }}'
    m = parser.parse_model(graph.replace("<>", ""))
    for value in m.graph.output:
        value.type.tensor_type.ClearField("shape")
    return m, used, outputs


def expected(m, feeds):
    """By numpy in double precision, node by node."""
    values = {name: np.asarray(x, np.float64) for name, x in feeds.items()}
    values |= {t.name: onnx.numpy_helper.to_array(t) for t in m.graph.initializer}
    for node in m.graph.node:
        x = [values[name] for name in node.input]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = {
            "MatMul": lambda: x[0] @ x[1],
            "Gemm": lambda: (x[0].T if attributes.get("transA") else x[0]) @ x[1] + (x[2] if len(x) > 2 else 0),
            "Add": lambda: x[0] + x[1], "Sum": lambda: sum(x), "Neg": lambda: -x[0], "Exp": lambda: np.exp(x[0]),
            "Relu": lambda: np.maximum(x[0], 0), "Reshape": lambda: x[0].reshape(x[1]),
            "ReduceSum": lambda: x[0].sum(axis=tuple(x[1]), keepdims=attributes.get("keepdims", 1) != 0),
        }[node.op_type]()
    return values


def check(tool, kind, name, text, launches, products):
    m, used, outputs = model(text, kind)
    onnx.save(m, path("g.onnx"))
    draw = np.random.RandomState(len(name))
    feeds = {key: draw.uniform(-1, 1, DIMS[key]).astype(TYPES[kind]) for key in used}
    np.savez(path("in.npz"), **feeds)
    run(tool, "--device=cuda", path("g.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), "--profile",
        path("p.csv"), "--repeat", 3)
    want, got = expected(m, feeds), load(path("out.npz"))
    off = [key for key in outputs if not near(got[key], want[key], LINEAR[kind])]
    if off:
        return f"{', '.join(off)} off"
    ops = [line.split(",")[1] for line in text_of(path("p.csv")).splitlines()[1:]]
    if kind == "double":  # the library does none of it
        return "a product of doubles takes something in" if "Product" in ops else None
    return None if (len(ops), ops.count("Product")) == (launches, products) else f"launches are {', '.join(ops)}"


for row in CASES:
    for element in TYPES:
        case(f"{row[0]}, {element}", check, sys.argv[1], element, *row)
finish()
