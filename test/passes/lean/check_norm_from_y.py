#!/usr/bin/env python3
"""Gradients of norms that keep y and take x-hat from it, against numpy in double precision.

usage: check_norm_from_y.py TEMPOC TEMPO_RUN
Scales of 0, 1e-8, 1e-4 and 1e-2 beside a bias of 0.1, and biases up to 1024 times a scale, in some of the channels: the
gradients are as good as those from a stored x-hat, but for the factor that passes/rules/side_channels.c derives. A
division by the scale without a guard, and one by a scale that is clamped, fail the same limits. Where too many channels
are bad when the graph runs, it is refused, by tempo-run and by ONNX Runtime; where they are when it is compiled, x
stays. The last line is 'N passed, N failed'.
"""

import os
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from compare import by_onnxruntime, load, same_bits, session
from programs import check as holds, finish, path, run
from tolerances import NORM_FROM_Y as LIMITS, NORM_FROM_Y_ORT

ROWS, N = 1024, 128
TYPES = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
SIDES = [(0, 0.1), (1e-8, 0.1), (1e-4, 0.1), (1e-2, 0.1), (0, 0), (1e-8, 0), (1e-4, 0)]
SIDES += [(0.5, 0.5 * ratio) for ratio in (0.25, 1, 2, 4, 8, 64, 512, 1024)]
random = np.random.default_rng(5)


def check(what, right, told=""):
    holds(right, what, told)


def tensor(name, array):
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor(name, dtype, array.shape, array.tobytes(), raw=True)


def info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def training_graph(center, x, dy, scale, bias):
    """loss = sum of y dy, y = norm(x unit). x is trained, so that dx is a result; scale and bias may be fed, too."""
    unit = np.eye(x.shape[1], dtype=x.dtype)
    op, domain = ("LayerNormalization", "") if center else ("RMSNormalization", "ai.tempo")
    operands = ["h", "scale", "bias"] if center else ["h", "scale"]
    nodes = [helper.make_node("MatMul", ["x", "unit"], ["h"]),
             helper.make_node(op, operands, ["y"], domain=domain, name="the_norm"),
             helper.make_node("Mul", ["y", "dy"], ["weighted"]),
             helper.make_node("ReduceSum", ["weighted"], ["loss"], keepdims=0)]
    given = {"scale": scale, "bias": bias} if center else {"scale": scale}
    inputs = [info("dy", dy)] + [info(n, v) for n, v in given.items()]
    weights = [tensor(n, v) for n, v in {"x": x, "unit": unit, **given}.items()]
    outputs = [helper.make_tensor_value_info("loss", helper.np_dtype_to_tensor_dtype(x.dtype), []), info("y", x)]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path("in.onnx"))


class World:
    def __init__(self, tools):
        self.tools = tools

    def compile(self, way, *operands):
        """The compiled model's path, and the ops in it."""
        training_graph(*operands)
        done = run(self.tools[0], path("in.onnx"), "-o", path("out.onnx"), f"--layernorm={way}", "-q", "--train=x",
                   "--train=scale", "--train=bias", "--freeze=unit", "--verify-each", code=None)
        check("tempoc", done.code == 0, done.err)
        model = onnx.load(path("out.onnx"))
        onnx.checker.check_model(model, full_check=True)
        return path("out.onnx"), [n.op_type for n in model.graph.node]

    def run(self, model, feeds):
        """(exit code, what was said, results)"""
        np.savez(path("in.npz"), **feeds)
        done = run(self.tools[1], model, "--inputs", path("in.npz"), "--outputs", path("out.npz"), code=None)
        return done.code, done.err, load(path("out.npz")) if done.code == 0 else None


# --- the truth --------------------------------------------------------------------------------------------------------
def normalized(x, center):
    x = x.astype(np.float64)
    x = x - x.mean(1, keepdims=True) if center else x
    inv = 1 / np.sqrt((x**2).mean(1, keepdims=True) + np.float64(np.float32(1e-5)))
    return x * inv, inv


def gradients(xhat, inv, dy, scale, center):
    dy, g = dy.astype(np.float64), dy.astype(np.float64) * scale.astype(np.float64)
    dx = inv * (g - (g.mean(1, keepdims=True) if center else 0) - xhat * (g * xhat).mean(1, keepdims=True))
    return {"x_grad": dx, "scale_grad": (dy * xhat).sum(0), "bias_grad": dy.sum(0)}


def errors(got, want):
    """As LIMITS has them."""

    def worst(name, unit):
        with np.errstate(all="ignore"):
            error = np.max(np.abs(got[name].astype(np.float64) - want[name]) / unit)
        return error if np.isfinite(error) else np.inf

    unit = np.sqrt(np.mean(want["scale_grad"] ** 2))
    params = [worst(name, unit) for name in ("scale_grad", "bias_grad") if name in got]
    return max(params), worst("x_grad", np.max(np.abs(want["x_grad"])))


# --- cases ------------------------------------------------------------------------------------------------------------
def draw(dtype, sides):
    x, dy = [random.standard_normal((ROWS, N)).astype(dtype) for _ in "xy"]
    scale, bias = np.ones(N, dtype), np.zeros(N, dtype)
    for k, (gamma, beta) in enumerate(sides):
        scale[3 + 7 * k], bias[3 + 7 * k] = gamma, beta
    return x, dy, scale, bias


def accuracy(world, name, center):
    dtype, what = TYPES[name], f"{name}, {'layer' if center else 'RMS'}"
    x, dy, scale, bias = draw(dtype, SIDES)
    xhat, inv = normalized(x, center)
    want, got = gradients(xhat, inv, dy, scale, center), {}
    for way in "xhat", "y":
        model, ops = world.compile(way, center, x, dy, scale, bias)
        check(f"{what}: is y kept? {ops}", any("FromYGrad" in op for op in ops) == (way == "y"))
        code, told, got[way] = world.run(model, {"dy": dy})
        check(f"{what}: tempo-run", code == 0, told)
    if not got.get("y"):
        return
    off, stored = errors(got["y"], want), errors(got["xhat"], want)
    print(f"{what}: dscale off by {off[0]:.1e}, dx by {off[1]:.1e}; x-hat stored: {stored[0]:.1e}, {stored[1]:.1e}")
    check(f"{what}: bits of y", same_bits(got["y"]["y"], got["xhat"]["y"]))
    check(f"{what}: dscale", off[0] <= LIMITS[name][0], off)
    check(f"{what}: dx", off[1] <= LIMITS[name][1], off)
    if name == "float16" or name == "float":
        in_onnxruntime(what, model, dy, got["y"], want, name)
    sabotage(what, name, got["y"]["y"], dy, scale, bias if center else 0 * bias, inv, want, center)


def at_the_limit(world, name, limit):
    """Every channel has a bias as large as a side's least one; no channel is a side."""
    dtype = TYPES[name]
    x, dy, scale, bias = draw(dtype, ())
    scale[:] = 0.37
    bias[:] = scale * dtype(limit)
    model, _ = world.compile("y", True, x, dy, scale, bias)
    code, told, got = world.run(model, {"dy": dy})
    off = errors(got, gradients(*normalized(x, True), dy, scale, True)) if got else None
    print(f"{name}, biases of {limit} scales: dscale off by {off[0]:.1e}, dx by {off[1]:.1e}")
    check(f"{name}: biases at the limit", off[0] <= LIMITS[name][0] and off[1] <= LIMITS[name][1], (off, told))
    for more in 1, 1.01:
        few = bias.copy()
        few[:5] *= dtype(more)
        code, told, _ = world.run(model, {"dy": dy, "bias": few})
        check(f"{name}: sides begin above {limit}", code == (0 if more == 1 else 2), told)


def in_onnxruntime(what, model, dy, ours, want, name):
    off = errors(by_onnxruntime(model, {"dy": dy}), want)
    check(f"{what}: ONNX Runtime", all(o <= more * limit for o, more, limit in zip(off, NORM_FROM_Y_ORT, LIMITS[name])),
          off)


def sabotage(what, name, y, dy, scale, bias, inv, want, center):
    """What Tempo and Apex do: the first gives NaN, the second loses the scale's gradient."""
    y, gamma, beta = [a.astype(np.float64) for a in (y, scale, bias)]
    with np.errstate(all="ignore"):
        plain = errors(gradients((y - beta) / gamma, inv, dy, scale, center), want)
        clamped = np.where(np.abs(gamma) < 1e-5, 1e-5, gamma)
        clamp = errors(gradients((y - beta) / clamped, inv, dy, scale, center), want)
    check(f"{what}: a plain division passes", plain[0] > LIMITS[name][0] and plain[1] > LIMITS[name][1], plain)
    check(f"{what}: a clamped division passes", clamp[0] > LIMITS[name][0], clamp)


def refused(world, center):
    """Room for what the file holds and a few more; a run with more channels of scale 0 than that."""
    x, dy, scale, bias = draw(np.float32, SIDES[:2])
    model, _ = world.compile("y", center, x, dy, scale, bias)
    few, many = scale.copy(), scale.copy()
    few[40:44], many[40:45] = 0, 0  # beside two
    code, told, got = world.run(model, {"dy": dy, "scale": few})
    check("as many as there is room for", code == 0, told)
    want = gradients(*normalized(x, center), dy, few, center)
    check("right there", got and errors(got, want)[0] <= LIMITS["float"][0])
    code, told, _ = world.run(model, {"dy": dy, "scale": many})
    words = "the_norm", "--layernorm=xhat", f"{5 + center} channels"
    check("too many", code == 2 and all(w in told for w in words), told)
    made = session(model)
    made.run(None, {"dy": dy, "scale": few})
    try:
        made.run(None, {"dy": dy, "scale": many})
        check("ONNX Runtime takes too many", False)
    except Exception as error:
        check("ONNX Runtime says why", "out of" in str(error), str(error)[:200])


def hopeless(world):
    """A scale of zeros, as adaLN-zero begins with: x stays."""
    x, dy, scale, bias = draw(np.float32, ())
    model, ops = world.compile("y", True, x, dy, 0 * scale, bias)
    check("all scales are 0", not any("FromY" in op for op in ops), ops)
    code, told, got = world.run(model, {"dy": dy})
    want = gradients(*normalized(x, True), dy, 0 * scale, True)
    off = errors(got, want | {"x_grad": want["x_grad"] + 1}) if got else told  # dx is 0
    check("its gradient", code == 0 and off[0] <= LIMITS["float"][0], off)


def again(world, center):
    """Under a budget y is made again by a node that has no other result."""
    op, domain = ("LayerNormalization", "") if center else ("RMSNormalization", "ai.tempo")
    weights, nodes, sums = [tensor("scale", np.linspace(-1, 1, 65)[:64].astype(np.float32))], [], []
    for i in range(4):
        weights += [tensor(f"{name}{i}", random.standard_normal(shape).astype(np.float32))
                    for name, shape in (("x", (24, 64)), ("w", (64, 5)))]
        nodes += [helper.make_node("MatMul", [f"x{i}", "unit"], [f"h{i}"]),
                  helper.make_node(op, [f"h{i}", "scale"], [f"y{i}"], domain=domain),
                  helper.make_node("MatMul", [f"y{i}", f"w{i}"], [f"z{i}"]),
                  helper.make_node("ReduceSum", [f"z{i}"], [f"s{i}"], keepdims=0)]
        sums.append(f"s{i}")
    nodes.append(helper.make_node("Sum", sums, ["loss"]))
    unit = np.eye(64, dtype=np.float32)
    graph = helper.make_graph(nodes, "g", [info("unit", unit)], [info("loss", np.float32(0))], weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path("in.onnx"))
    results = []
    for budget in [], ["--memory-budget=min", "--remat-time=1"]:
        done = run(world.tools[0], path("in.onnx"), "-o", path("out.onnx"), "--recipe=exact", "--layernorm=y", "-q",
                   *budget, code=None)
        check("tempoc", done.code == 0, done.err)
        results.append(world.run(path("out.onnx"), {"unit": unit})[2])
    copies = [n for n in onnx.load(path("out.onnx")).graph.node if "__rc" in n.output[0] and "FromY" in n.op_type]
    check("a copy has y alone", any(sum(map(bool, n.output)) == 1 for n in copies), [list(n.output) for n in copies])
    check("it has the same bits", results[0] and results[1] and same_bits(*results), results[1] is None)


def main():
    world = World([os.path.abspath(t) for t in sys.argv[1:3]])
    for name in TYPES:
        for center in True, False:
            accuracy(world, name, center)
    for name, limit in ("float", 2), ("float16", 4), ("bfloat16", 1):
        at_the_limit(world, name, limit)
    for center in True, False:
        refused(world, center)
        again(world, center)
    hopeless(world)
    finish()


if __name__ == "__main__":
    main()
