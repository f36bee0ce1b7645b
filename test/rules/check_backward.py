#!/usr/bin/env python3
"""Whether the rules of the pass raise match a node or leave it, its backward pass is the same: float operands of each
graph become weights, what it computes adds up to a loss, and gradients with and without raise, and under lean, agree.

usage: check_backward.py TEMPOC TEMPO_RUN GRAPH.onnxt...
Inputs of one element stay inputs, which no rule takes for constants.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import load
from programs import case, finish, path, run
from tolerances import RAISED_GRADIENT

FLOATS = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16, TensorProto.DOUBLE: np.float64}
APART = "shapes,canonicalize,autodiff,canonicalize,bodies"
PASSES = ("shapes,canonicalize,raise,autodiff,canonicalize,bodies",
          "shapes,canonicalize,raise,autodiff,canonicalize,lean,bodies")


def shape_of(value):
    return [d.dim_value or 3 for d in value.type.tensor_type.shape.dim]


def type_of(value):
    return value.type.tensor_type.elem_type


def with_weights(model, rng):
    """Changes the model in place; returns what to feed it."""
    graph, feeds = model.graph, {}
    inputs = list(graph.input)
    del graph.input[:]
    for value in inputs:
        shape = shape_of(value)
        draw = rng.standard_normal(shape)
        if type_of(value) in FLOATS and np.prod(shape) > 1:
            graph.initializer.append(numpy_helper.from_array(draw.astype(FLOATS[type_of(value)]), value.name))
            continue
        draw = np.asarray(np.abs(draw) + (type_of(value) not in FLOATS))  # as a mask, an integer hides nothing
        feeds[value.name] = draw.astype(helper.tensor_dtype_to_np_dtype(type_of(value)))
        graph.input.append(value)
    return feeds


def add_loss(model, rng, feeds):
    graph, terms = model.graph, []
    for value in list(graph.output):
        if type_of(value) not in FLOATS:
            continue
        name = value.name
        feeds[f"{name}.factor"] = rng.standard_normal(shape_of(value)).astype(np.float32)
        graph.input.append(helper.make_tensor_value_info(f"{name}.factor", TensorProto.FLOAT, shape_of(value)))
        graph.node.append(helper.make_node("Cast", [name], [f"{name}.float"], to=TensorProto.FLOAT))
        graph.node.append(helper.make_node("Mul", [f"{name}.float", f"{name}.factor"], [f"{name}.weighted"]))
        graph.node.append(helper.make_node("ReduceSum", [f"{name}.weighted"], [f"{name}.term"], keepdims=0))
        terms.append(f"{name}.term")
    graph.node.append(helper.make_node("Sum", terms, ["the.loss"]))
    graph.output.append(helper.make_tensor_value_info("the.loss", TensorProto.FLOAT, []))


def gradients(tools, passes):
    run(tools[0], path("in.onnx"), "-q", "--loss=the.loss", f"--passes={passes}", "-o", path("out.onnx"))
    run(tools[1], path("out.onnx"), "--inputs", path("feeds.npz"), "--outputs", path("got.npz"))
    ops = [n.op_type.partition("_")[0] for n in onnx.load(path("out.onnx")).graph.node]
    return {n: a.astype(np.float64) for n, a in load(path("got.npz")).items() if n.endswith("_grad")}, ops


def check(tools, graph):
    rng = np.random.default_rng(3)
    run(tools[0], graph, "--passes=shapes", "-q", "-o", path("in.onnx"))
    model = onnx.load(path("in.onnx"))
    del model.metadata_props[:]
    feeds = with_weights(model, rng)
    add_loss(model, rng, feeds)
    onnx.save(model, path("in.onnx"))
    np.savez(path("feeds.npz"), **feeds)
    half = any(type_of(v) == TensorProto.FLOAT16 for v in (*model.graph.output, *model.graph.value_info))
    want, apart = gradients(tools, APART)
    for passes in PASSES:
        got, ops = gradients(tools, passes)
        if len(ops) >= len(apart) or set(got) != set(want):
            return f"{passes}: nothing is raised, or gradients are missing"
        for name, w in want.items():
            error = np.linalg.norm(got[name] - w) / (np.linalg.norm(w) + 1e-6)
            if not error <= RAISED_GRADIENT["float16" if half else "float"]:
                return f"{passes}: {name} is off by {error:.1e}"
    return None


for file in sys.argv[3:]:
    case(os.path.basename(file), check, sys.argv[1:3], file)
finish()
