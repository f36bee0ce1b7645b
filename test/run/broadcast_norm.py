"""LayerNormalization and RMSNormalization with a Scale and a Bias that broadcasting repeats, or that differ by row: as
they are in tempo-run, and with their gradients in every recipe, against numpy.

usage: broadcast_norm.py TEMPO_RUN TEMPOC
"""
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compare import load, near
from programs import check, finish, path, told
from tolerances import NORM, each
from tool import run

TEMPOC = sys.argv[2]
# X, Scale, Bias or None, axis
CASES = [((3, 4), (3, 4), (3, 4), -1), ((3, 4), (3, 1), (3, 1), -1), ((3, 4), (3, 1), None, -1),
         ((3, 4), (4,), None, -1), ((3, 4), (1,), (), -1), ((3, 4), (1, 4), (4,), -1),
         ((2, 2), (2, 1), (1, 2), -1), ((2, 3, 4), (4,), (3, 1), 1),
         ((2, 3, 4), (3, 1), (2, 1, 4), 1), ((2, 3, 4), (2, 1, 4), (4,), -1), ((2, 3, 4), (), (2, 3, 4), -1),
         ((5, 40, 33), (40, 1), (5, 1, 33), 2), ((2, 3, 4), (2, 3, 1), None, 0)]
random = np.random.default_rng(3)


def reduced(x, shape):
    """The gradient of an operand of this shape: x summed over what was repeated."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    return x.sum(tuple(d for d in range(len(shape)) if shape[d] == 1), keepdims=True).reshape(shape)


def defined(x, scale, bias, axis, centered, factor):
    """y, and the gradients of sum(y * factor)."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    middle = x - x.mean(axes, keepdims=True) * centered
    inv = 1 / np.sqrt((middle * middle).mean(axes, keepdims=True) + 1e-5)
    xhat, g = middle * inv, factor * scale
    dx = inv * (g - g.mean(axes, keepdims=True) * centered - xhat * (g * xhat).mean(axes, keepdims=True))
    wanted = {"y": xhat * scale, "x_grad": dx, "scale_grad": reduced(factor * xhat, scale.shape)}
    if bias is not None:
        wanted["y"] = wanted["y"] + bias
        wanted["bias_grad"] = reduced(factor, bias.shape)
    return wanted


def model(to, op, operands, axis, as_weights):
    """y = op(x, scale, bias); as weights they get gradients of loss = sum(y * factor), factor an input."""
    kind = helper.np_dtype_to_tensor_dtype(operands["x"].dtype)
    shape = operands["x"].shape
    given = {k: v for k, v in operands.items() if k != "factor"}
    nodes = [helper.make_node(op, list(given), ["y"], axis=axis, name="norm")]
    inputs = [helper.make_tensor_value_info(k, kind, v.shape) for k, v in given.items()]
    outputs = [helper.make_tensor_value_info("y", kind, shape)]
    weights = []
    if as_weights:
        nodes += [helper.make_node("Mul", ["y", "factor"], ["z"]),
                  helper.make_node("ReduceSum", ["z"], ["loss"], keepdims=0)]
        weights = [numpy_helper.from_array(v, k) for k, v in given.items()]
        inputs = [helper.make_tensor_value_info("factor", kind, shape)]
        outputs.insert(0, helper.make_tensor_value_info("loss", kind, []))
    graph = helper.make_graph(nodes, "norm", inputs, outputs, weights)
    opset = 21 if op == "LayerNormalization" else 23
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), to)


def compare(what, got, wanted, tolerance):
    for name, want in wanted.items():
        check(name in got and near(got[name], want, each(tolerance, tolerance)),
              f"{what}: {name} is {np.ravel(got.get(name))[:6]}, expected {np.ravel(want)[:6]}")


def results(graph, feeds):
    np.savez(path("in.npz"), **feeds)
    run(graph, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    return load(path("out.npz"))


def one(op, x, scale, bias, axis, dtype):
    operands = {"x": x, "scale": scale, "bias": bias, "factor": x}
    operands = {k: random.uniform(-1, 1, s).astype(dtype) for k, s in operands.items() if s is not None}
    exact = {k: v.astype(np.float64) for k, v in operands.items()}
    wanted = defined(exact["x"], exact["scale"], exact.get("bias"), axis, op == "LayerNormalization", exact["factor"])
    what = f"{op} {x} {scale} {bias} axis {axis} {np.dtype(dtype).name}"
    model(path("m.onnx"), op, operands, axis, False)
    given = {k: v for k, v in operands.items() if k != "factor"}
    compare(what, results(path("m.onnx"), given), {"y": wanted["y"]}, NORM[dtype])
    model(path("t.onnx"), op, operands, axis, True)
    for recipe in ("none", "exact", "portable"):
        told(TEMPOC, path("t.onnx"), "-o", path("o.onnx"), f"--recipe={recipe}", "--train=*")
        compare(f"{what} {recipe}", results(path("o.onnx"), {"factor": operands["factor"]}), wanted,
                NORM[dtype] * max(1, np.sqrt(np.prod(x) / 16)))


for name in ("LayerNormalization", "RMSNormalization"):
    for case in CASES:
        if name == "RMSNormalization":
            case = (*case[:2], None, case[3])
        for element in NORM:
            one(name, *case, element)
finish()
