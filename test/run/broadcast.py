"""Sum, Mean, Max and Min of two to five operands of random shapes that broadcast, and their gradients, against numpy.

usage: broadcast.py TEMPO_RUN TEMPOC
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import load, near
from programs import check, finish, path, told
from tolerances import FOLDED_SUM, FOLDED_SUM_GRADIENT, WHOLE_NUMBERS
from tool import run

TEMPOC = sys.argv[2]
COUNT = 80  # nodes of a graph
PLAIN = {"Sum": sum, "Mean": lambda xs: sum(xs) / len(xs), "Max": lambda xs: max_of(xs), "Min": lambda xs: min_of(xs)}
# Those of the first operands that repeat along the last dim, which only a later one has; one of them is longer than a
# block of 16-bit elements.
FIXED = [((4, 1), (4, 1), (4, 3)), ((), (), (2, 5)), ((1,), (3, 1), (7,)), ((2, 1), (1, 1), (2, 1), (1, 6)),
         ((3, 1), (3, 1), (3, 2500)), ((1, 1, 4), (5, 1, 1), (1, 6, 1))]
random = np.random.default_rng(11)


def max_of(xs):
    return xs[0] if len(xs) == 1 else np.maximum(xs[0], max_of(xs[1:]))


def min_of(xs):
    return -max_of([-x for x in xs])


def shapes():
    """Each operand has the last dims of a common shape, some of them as 1."""
    common = random.integers(1, 6, random.integers(0, 5))
    taken = [common[random.integers(0, len(common) + 1):] for _ in range(random.integers(2, 6))]
    return [tuple(int(d) if random.random() < 0.5 else 1 for d in dims) for dims in taken]


def numbers(shape, dtype):
    """No two that are close: of the largest of them, the gradient is a 1."""
    return (random.permutation(int(np.prod(shape))).reshape(shape) * 0.5 + random.uniform(-9, 9)).astype(dtype)


def graph(op, dtype, cases):
    """results y0, y1, ... of the operands x0_0, x0_1, ... ; where they are trained, loss = sum of y * factor."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node(op, [f"x{i}_{k}" for k in range(len(c))], [f"y{i}"]) for i, c in enumerate(cases)]
    inputs = [helper.make_tensor_value_info(f"x{i}_{k}", kind, x.shape) for i, c in enumerate(cases)
              for k, x in enumerate(c)]
    outputs = [helper.make_tensor_value_info(f"y{i}", kind, None) for i in range(len(cases))]
    return nodes, inputs, outputs


def save(to, nodes, inputs, outputs, initializers=()):
    made = helper.make_graph(nodes, "broadcast", inputs, outputs, list(initializers))
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), to)


def results(model, feeds):
    np.savez(path("in.npz"), **feeds)
    run(model, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    return load(path("out.npz"))


def forward(op, dtype):
    cases = [[numbers(s, dtype) for s in (FIXED[i] if i < len(FIXED) else shapes())] for i in range(COUNT)]
    save(path("m.onnx"), *graph(op, dtype, cases))
    got = results(path("m.onnx"), {f"x{i}_{k}": x for i, c in enumerate(cases) for k, x in enumerate(c)})
    for i, operands in enumerate(cases):
        want = PLAIN[op]([x.astype(np.float64) for x in operands])
        check(near(got[f"y{i}"], want, FOLDED_SUM.get(np.dtype(dtype).name, WHOLE_NUMBERS)),
              f"{op} of {[x.shape for x in operands]}, {np.dtype(dtype).name}")


def reduced(x, shape):
    """The gradient of an operand of this shape: x summed over what was repeated."""
    x = x.sum(tuple(range(x.ndim - len(shape))))
    return x.sum(tuple(d for d in range(len(shape)) if shape[d] == 1), keepdims=True).reshape(shape)


def gradients(op, recipe):
    cases = [[numbers(s, np.float64) for s in (FIXED[i] if i < len(FIXED) else shapes())] for i in range(COUNT // 2)]
    nodes, operands, _ = graph(op, np.float64, cases)
    factors = [random.uniform(0.5, 1.5, np.broadcast_shapes(*(x.shape for x in c))) for c in cases]
    inputs = [helper.make_tensor_value_info(f"f{i}", TensorProto.DOUBLE, f.shape) for i, f in enumerate(factors)]
    for i in range(len(cases)):
        nodes += [helper.make_node("Mul", [f"y{i}", f"f{i}"], [f"z{i}"]),
                  helper.make_node("ReduceSum", [f"z{i}"], [f"t{i}"], keepdims=0)]
    nodes.append(helper.make_node("Sum", [f"t{i}" for i in range(len(cases))], ["loss"]))
    weights = [numpy_helper.from_array(x, f"x{i}_{k}") for i, c in enumerate(cases) for k, x in enumerate(c)]
    assert len(weights) == len(operands)
    save(path("m.onnx"), nodes, inputs, [helper.make_tensor_value_info("loss", TensorProto.DOUBLE, [])], weights)
    told(TEMPOC, path("m.onnx"), "-o", path("t.onnx"), f"--recipe={recipe}", "--train=*")
    got = results(path("t.onnx"), {f"f{i}": f for i, f in enumerate(factors)})
    for i, (xs, factor) in enumerate(zip(cases, factors)):
        y = PLAIN[op](xs)
        for k, x in enumerate(xs):
            share = {"Sum": 1, "Mean": 1 / len(xs)}.get(op, x == y)
            want = reduced(np.broadcast_to(share * factor, factor.shape), x.shape)
            check(near(got[f"x{i}_{k}_grad"], want, FOLDED_SUM_GRADIENT),
                  f"{recipe}: the gradient of operand {k} of {op} of {[x.shape for x in xs]}")


for name in PLAIN:
    for element in (np.float32, np.float64, np.float16):
        forward(name, element)
    for how in ("none", "exact", "portable"):
        gradients(name, how)
for name in ("Max", "Min"):
    for element in (np.int8, np.int32, np.int64, np.uint16):
        forward(name, element)
finish()
