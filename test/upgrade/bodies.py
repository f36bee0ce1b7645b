#!/usr/bin/env python3
"""The function bodies of ai.tempo ops that stand for newer ops: onnx's own backend cases go through tempoc, the result
passes onnx.checker and gives in ONNX Runtime what onnx's reference evaluator said. bfloat16 is left out: ONNX Runtime
has no kernels for it. usage: bodies.py tempoc"""
import sys

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from compare import near, session
from programs import case, check, finish, path, run
from tolerances import BODY, BODY_IN_HALF

# op: least number of cases
OPS = {"Attention": 80, "RMSNormalization": 19, "RotaryEmbedding": 8, "Swish": 1, "SwiGLU": 3, "TensorScatter": 3}


def agrees(tempoc, model, data):
    before, after = path("before.onnx"), path("after.onnx")
    onnx.save(model, before)
    run(tempoc, before, "-o", after, "--passes=upgrade,shapes,bodies", "--verify-each", "-q")
    onnx.checker.check_model(onnx.load(after), full_check=True)
    inputs, outputs = data
    got = session(after).run(None, {i.name: v for i, v in zip(model.graph.input, inputs)})
    for a, b in zip(got, outputs, strict=True):
        if a.dtype != b.dtype or not near(a, b, BODY_IN_HALF if a.dtype == np.float16 else BODY, nan=True):
            return "the numbers differ"
    return None


count = dict.fromkeys(OPS, 0)
for entry in load_model_tests(kind="node"):
    nodes = entry.model.graph.node
    types = {i.type.tensor_type.elem_type for i in entry.model.graph.input}
    if len(nodes) == 1 and nodes[0].op_type in OPS and onnx.TensorProto.BFLOAT16 not in types:
        count[nodes[0].op_type] += 1
        case(f"{nodes[0].op_type}, {entry.name}", agrees, sys.argv[1], entry.model, list(entry.data_sets)[0])
for op, least in OPS.items():
    check(count[op] >= least, f"{count[op]} cases of {op}, not {least} or more")
finish()
