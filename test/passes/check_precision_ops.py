#!/usr/bin/env python3
"""Every row of passes/precision/precision.def: behind a product, the op takes 16 bits, has kernels and a gradient
there, and what the compiled graph computes is what `tempoc --verify` finds right, of both types.

usage: check_precision_ops.py TEMPOC PRECISION_DEF
"""
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from programs import case, check, finish, path, run, text_of

rng = np.random.default_rng(3)
TYPES = {"bf16": TensorProto.BFLOAT16, "fp16": TensorProto.FLOAT16}


def weight(*shape):
    return rng.uniform(0.25, 1, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


MAP, SQUARE, HEADS = (1, 4, 4, 4), (4, 4), (1, 2, 4, 4)
# op -> (shape of the operand that a product made, the other operands, attributes); "X": that operand again
FORMS = {
    "Conv": (MAP, [weight(4, 4, 2, 2), weight(4)], {}),
    "ConvTranspose": (MAP, [weight(4, 4, 2, 2), weight(4)], {}),
    "Einsum": (SQUARE, [weight(4, 3)], dict(equation="ij,jk->ik")),
    "Gemm": (SQUARE, [weight(3, 4), weight(3)], dict(transB=1)),
    "GRU": ((1, 4, 4), [weight(1, 9, 4), weight(1, 9, 3)], dict(hidden_size=3)),
    "LSTM": ((1, 4, 4), [weight(1, 12, 4), weight(1, 12, 3), weight(1, 24)], dict(hidden_size=3)),
    "RNN": ((1, 4, 4), [weight(1, 3, 4), weight(1, 3, 3)], dict(hidden_size=3)),
    "MatMul": (SQUARE, [weight(4, 3)], {}),
    "DotProductAttention": (HEADS, ["X", "X", weight(4, 4)], dict(scale=0.5)),
    "LayerNormalization": (SQUARE, [weight(4), weight(4)], {}),
    "RMSNormalization": (SQUARE, [weight(4)], {}),
    "Add": (SQUARE, [weight(4)], {}),
    "Concat": (SQUARE, [weight(1, 4)], dict(axis=0)),
    "Sum": (SQUARE, ["X", weight(4)], {}),
    "AveragePool": (MAP, [], dict(kernel_shape=[2, 2])),
    "Clip": (SQUARE, [np.float32(-1), np.float32(1)], {}),
    "DepthToSpace": (MAP, [], dict(blocksize=2)),
    "Expand": (SQUARE, [ints(2, 4, 4)], {}),
    "Gather": (SQUARE, [ints(1, 3)], {}),
    "GatherElements": (SQUARE, [np.array([[0, 1, 2, 3]])], {}),
    "GatherND": (SQUARE, [np.array([[1], [2]])], {}),
    "GlobalAveragePool": (MAP, [], {}),
    "MaxPool": (MAP, [], dict(kernel_shape=[2, 2])),
    "PRelu": (SQUARE, [weight(4)], {}),
    "Pad": (SQUARE, [ints(0, 1, 0, 1), np.float32(0.5)], {}),
    "Reshape": (SQUARE, [ints(2, 8)], {}),
    "Resize": (MAP, [np.zeros(0, np.float32), np.float32([1, 1, 2, 1.5])], dict(mode="linear")),
    "RotaryEmbedding": (HEADS, [weight(1, 4, 2), weight(1, 4, 2)], {}),
    "Slice": (SQUARE, [ints(1), ints(3)], {}),
    "SpaceToDepth": (MAP, [], dict(blocksize=2)),
    "Split": (SQUARE, [ints(1, 3)], {}),
    "Squeeze": ((1, 4, 4), [ints(0)], {}),
    "SwiGLU": (SQUARE, ["X"], {}),
    "Tile": (SQUARE, [ints(2, 1)], {}),
    "Unsqueeze": (SQUARE, [ints(0)], {}),
    "Where": (SQUARE, [np.eye(4, dtype=bool), "X", weight(4)], {}),  # the first operand is the condition
    **{op: (SQUARE, [weight(4)], {}) for op in ("Div", "Max", "Min", "Mul", "Sub")},
}
DROPPED = {"": [np.float32(0.25), np.array(True)], "ai.tempo": [np.float32(0.25), ints(3, 0)]}


def model_of(domain, op):
    shape, others, attrs = FORMS.get(op, (SQUARE, DROPPED[domain] if op == "Dropout" else [], {}))
    inits = [numpy_helper.from_array(weight(shape[-1], shape[-1]), "w")]
    names = [] if op == "Where" else ["x"]
    for i, other in enumerate(others):
        names.append("x" if isinstance(other, str) else f"o{i}")
        if not isinstance(other, str):
            inits.append(numpy_helper.from_array(np.asarray(other), f"o{i}"))
    results = ["y", "y2"] if op == "Split" else ["y"]
    nodes = [helper.make_node("MatMul", ["a", "w"], ["x"]),
             helper.make_node(op, names, results, domain=domain, **attrs),
             helper.make_node("Mul", ["y", "y"], ["square"]),
             helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0)]
    graph = helper.make_graph(nodes, "row", [helper.make_tensor_value_info("a", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)],
                             ir_version=10)


def right(tempoc, domain, op, precision):
    """What is wrong, or None."""
    onnx.save(model_of(domain, op), path("row.onnx"))
    text = run(tempoc, path("row.onnx"), "--passes=shapes,precision", f"--precision={precision}", "-q", "-o", "-",
               "--emit=text").out
    if not re.search(rf"square(_{precision})? = Mul \(y, y\)\n.*Cast <to: int = 1> \(square_{precision}\)", text):
        return f"the result is not of 16 bits:\n{text}"
    run(tempoc, path("row.onnx"), f"--precision={precision}", "--verify-each", "--verify", "-q")
    return None


ROWS = re.findall(r"^OP\(\w+, *\"([\w.]*)\", *(\w+),", text_of(sys.argv[2]), re.M)
check(len(ROWS) >= 50, f"{len(ROWS)} rows")
for row in ROWS:
    for bits in TYPES:
        case(f"{'.'.join(row)} in {bits}", right, sys.argv[1], *row, bits)
finish()
