#!/usr/bin/env python3
"""Gradients where elements are equal and at the edges of what is cut off, which ONNX leaves open, against what PyTorch
2.15 gives for the function named: one of several equal ones gets all, or they share, or nobody gets any. Nodes with a
call are as the dynamo exporter writes them. usage: check_ties.py TEMPOC"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from compare import near  # noqa: E402
from programs import check, finish, path, run  # noqa: E402
from tolerances import TIE  # noqa: E402
from torch_metadata import node  # noqa: E402

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
]


def gradient(tempoc, call, op, x, others, attributes):
    weights = [numpy_helper.from_array(np.array(x, np.float32), "x")]
    for i, other in enumerate(others):
        value = other if isinstance(other, np.ndarray) else np.array(other, np.float32)
        weights.append(numpy_helper.from_array(value, f"c{i}"))
    nodes = [node(call, op, [w.name for w in weights], ["y"], **attributes),
             helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "g", [], [loss], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path("in.onnx"))
    run(tempoc, path("in.onnx"), "-o", path("out.onnx"), "-q", "--train=x")
    return ReferenceEvaluator(path("out.onnx")).run(["x_grad"], {})[0]


for function, call, op, x, others, attributes, want in CASES:
    got = gradient(os.path.abspath(sys.argv[1]), call, op, x, others, attributes)
    check(near(got, want, TIE), f"{function}: {np.asarray(got).tolist()}, expected {want}")
finish()
