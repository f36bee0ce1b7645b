#!/usr/bin/env python3
"""Gradients where elements are equal, at the edges of what is cut off, and where slopes are infinite, against what
PyTorch 2.15 gives for the function named: one of several equal ones gets all, or they share, or nobody gets any; NaN
where it gives NaN. Nodes with a call are as the dynamo exporter writes them. usage: check_ties.py TEMPOC"""
import os
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from compare import near
from programs import check, finish, path, run
from tolerances import TIE
from torch_metadata import node

LINE = [-1.0, -2, 1, 2, 0]
TABLE = [[1.0, 3, 3, 2], [5, 1, 5, 5]]
CASES = [  # PyTorch's function, the node's call, op, x, other operands, attributes, the gradient of the results' sum
    ("hardtanh", "", "Clip", LINE, [-1.0, 1.0], {}, [0, 0, 0, 0, 1]),
    ("clamp(-1, 1)", "%y = aten.clamp.default(%x, -1, 1)", "Clip", LINE, [-1.0, 1.0], {}, [0, 0, 0, 0, 1]),
    ("clamp(min=-1)", "%y = aten.clamp.Tensor(%x, %lo)", "Max", LINE, [-1.0], {}, [0, 0, 1, 1, 1]),
    ("clamp(max=1)", "%y = aten.clamp.Tensor(%x, None, %hi)", "Min", LINE, [1.0], {}, [1, 1, 0, 0, 1]),
    ("clamp of a tensor", "%y = aten.clamp.Tensor(%x, %lo)", "Max", LINE, [[-1.0] * 5], {}, [.5, 0, 1, 1, 1]),
    ("maximum", "%y = aten.maximum.default(%x, %z)", "Max", LINE, [-1.0], {}, [.5, 0, 1, 1, 1]),
    ("max(1)", "%y = aten.max.dim(%x, 1)", "ReduceMax", TABLE, [np.array([1])], {}, [[0, 1, 0, 0], [1, 0, 0, 0]]),
    ("min(0)", "%y = aten.min.dim(%x, 0)", "ReduceMin", TABLE, [np.array([0])], {"keepdims": 0},
     [[1, 0, 1, 1], [0, 1, 0, 0]]),
    ("amax(1)", "%y = aten.amax.default(%x, [1])", "ReduceMax", TABLE, [np.array([1])], {},
     [[0, .5, .5, 0], [1 / 3, 0, 1 / 3, 1 / 3]]),
    ("max()", "%y = aten.max.default(%x)", "ReduceMax", TABLE, [], {}, [[0, 0, 0, 0], [1 / 3, 0, 1 / 3, 1 / 3]]),
    ("adaptive_max_pool1d(1)", "", "GlobalMaxPool", [TABLE], [], {}, [[[0, 1, 0, 0], [1, 0, 0, 0]]]),
    ("scatter_reduce(amax)", "", "ScatterElements", [1.0, 2, 3], [np.array([1, 1, 0, 1]), [2.0, 1, 0, 2]],
     {"reduction": "max"}, [1, 1 / 3, 1]),
    ("prelu", "", "PRelu", [-1.0, 0, 2], [[.25]], {}, [.25, .25, 1]),
]
CONSTANT = [[2.0, 2, 2], [1, -2, 3]]
ZEROS = [[0.0, 0, 0], [1, -2, 0]]
LOGITS = [-200.0, -30, -17, 0, 17, 30, 200]
LABELS = [0, 1, .25, .25, 0, 1, 0]
FAR = [[0.0, 200], [0, 30], [1, 0]]
CENTERED = "m = ReduceMean <keepdims = 1> (x, rows) c = Sub (x, m) q = Mul (c, c)"
CHANCES = "p = Sigmoid (x) n = Sub (one, p) a = Log (p) b = Log (n)"
WEIGHED = "s = Sub (one, t) u = Mul (t, {}) v = Mul (s, {}) w = Add (u, v) y = Neg (w)"
ANGLE = "q = Div ({0}, {1}) a = Atan (q) g = Greater ({0}, zero) o = Add (a, pi) u = Sub (a, pi) b = Where (g, o, u) " \
        "l = Less ({1}, zero) w = Where (l, b, a) n = IsNaN (w) y = Where (n, zero, w)"
GRAPHS = [  # PyTorch's function, the nodes that exporters write of it, x, the gradient of the results' sum
    ("std", CENTERED + "v = ReduceMean <keepdims = 0> (q, rows) w = Mul (v, three) d = Div (w, two) y = Sqrt (d)",
     CONSTANT, [[0, 0, 0], [.0662266, -.5298129, .4635863]]),
    ("sqrt of a mean of squares", "q = Mul (x, x) v = ReduceMean <keepdims = 0> (q, rows) y = Sqrt (v)", ZEROS,
     [[np.nan] * 3, [.2581989, -.5163978, 0]]),
    ("norm(p=3)", "a = Abs (x) q = Pow (a, three) s = ReduceSum <keepdims = 0> (q, rows) y = Pow (s, third)", ZEROS,
     [[0, 0, 0], [.2311204, -.9244817, 0]]),
    ("clamp(min=x.mean())", "m = ReduceMean <keepdims = 0> (x) y = Clip (x, m)", [0.0, 2, 1], [.5, 1.5, 1]),
    ("clamp(max, mean)", "h = ReduceMax <keepdims = 0> (x) m = ReduceMean <keepdims = 0> (x) y = Clip (x, h, m)",
     [0.0, 2, 1], [1, 1, 1]),
    ("norm(p=4)", "q = Pow (x, four) s = ReduceSum <keepdims = 0> (q, rows) y = Pow (s, quarter)", ZEROS,
     [[0, 0, 0], [.1194437, -.9555497, 0]]),
    ("cdist", "u = Unsqueeze (x, rows) v = Unsqueeze (x, top) d = Sub (u, v) q = Mul (d, d) "
     "s = ReduceSum <keepdims = 0> (q, last) y = Pow (s, script)", [[0.0, 0], [3, 4]], [[-1.2, -1.6], [1.2, 1.6]]),
    ("scatter_reduce(amax, include_self=False)", "e = ScatterElements <reduction = \"min\"> (none, at, lowest) "
     "y = ScatterElements <reduction = \"max\"> (e, at, x)", [0.0, -1, 0, 0], [1 / 3, 0, 1 / 3, .5]),
    ("powers of magnitudes", "a = Abs (x) q = Pow (a, third) y = ReduceSum <keepdims = 0> (q, rows)", [[0.0, 1]],
     [[np.nan, 1 / 3]]),
    ("binary_cross_entropy(sigmoid)", CHANCES + "c = Max (a, least) d = Max (b, least)" + WEIGHED.format("c", "d"),
     LOGITS, [0, -.0935762, -.25, .25, 0, 0, 0]),
    ("binary_cross_entropy_with_logits", CHANCES + WEIGHED.format("a", "b"), LOGITS, [0, -1, -.25, .25, 1, 0, 1]),
    ("log_softmax of a softmax", "p = Softmax (x) a = Log (p) y = Mul (a, first)", FAR,
     [[1, -1], [1, -1], [.2689414, -.2689414]]),
    ("scaled_dot_product_attention's softmax, guarded", "u = Add (x, mask) p = Softmax (u) n = IsNaN (p) "
     "w = Where (n, zero, p) y = Mul (w, first)", [[1.0, 2], [0, 1]], [[0, 0], [.1966119, -.1966119]]),
    ("atan2(x, sides)", ANGLE.format("x", "sides"), [0.0, 2, 1, 1], [0, 0, .5, -.5]),
    ("atan2(sides, x)", ANGLE.format("sides", "x"), [0.0, 2, 0, -1], [0, 0, -1, .5]),
    ("sinc", "u = Mul (x, pi) s = Sin (u) d = Div (s, u) z = Equal (x, zero) y = Where (z, one, d)", [0.0, .5, -1],
     [0, -1.2732396, 1]),
    ("xlog1py(x, exp(x))", "b = Exp (x) c = Add (b, one) l = Log (c) m = Mul (x, l) z = Equal (x, zero) "
     "w = Where (z, zero, m) n = IsNaN (b) y = Where (n, nan, w)", [0.0, 1], [.6931472, 2.0443203]),
    ("softmax", "u = Add (x, mask) p = Softmax (u) y = Mul (p, first)", [[1.0, 2], [0, 1]],
     [[np.nan, np.nan], [.1966119, -.1966119]]),
]
AXES = {"rows": [1], "at": [1, 1, 1, 2], "top": [0], "last": [2]}
NUMBERS = {"none": [0.0] * 4, "lowest": [-3.4028235e38] * 4, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0,
           "third": 1 / 3, "quarter": 0.25, "script": 0.49999976, "least": -100.0, "zero": 0.0, "t": LABELS,
           "pi": np.pi, "sides": [0.0, 0, 1, -1], "nan": np.nan, "first": [1.0, 0],
           "mask": [[-np.inf, -np.inf], [0, 0]]}


def gradient_of(tempoc, nodes, weights):
    nodes = [*nodes, helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [], [loss], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path("in.onnx"))
    run(tempoc, path("in.onnx"), "-o", path("out.onnx"), "-q", "--train=x")
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(path("out.onnx")).run(["x_grad"], {})[0]


def gradient(tempoc, call, op, x, others, attributes):
    weights = [numpy_helper.from_array(np.array(x, np.float32), "x")]
    for i, other in enumerate(others):
        value = other if isinstance(other, np.ndarray) else np.array(other, np.float32)
        weights.append(numpy_helper.from_array(value, f"c{i}"))
    return gradient_of(tempoc, [node(call, op, [w.name for w in weights], ["y"], **attributes)], weights)


def gradient_of_text(tempoc, text, x):
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    weights = [numpy_helper.from_array(np.array(value, None if name in AXES else np.float32), name)
               for name, value in [("x", x), *AXES.items(), *NUMBERS.items()] if name in words]
    return gradient_of(tempoc, onnx.parser.parse_graph("g () => () {" + text + "}").node, weights)


for function, call, op, x, others, attributes, want in CASES:
    got = gradient(os.path.abspath(sys.argv[1]), call, op, x, others, attributes)
    check(near(got, want, TIE), f"{function}: {np.asarray(got).tolist()}, expected {want}")
for function, text, x, want in GRAPHS:
    got = gradient_of_text(os.path.abspath(sys.argv[1]), text, x)
    check(near(got, want, TIE, nan=True), f"{function}: {np.asarray(got).tolist()}, expected {want}")
finish()
