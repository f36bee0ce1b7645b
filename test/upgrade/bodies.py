#!/usr/bin/env python3
"""The function bodies of ai.tempo ops that stand for newer ops: onnx's own backend cases go through tempoc, the result
passes onnx.checker and gives in ONNX Runtime what onnx's reference evaluator said. bfloat16 is left out: ONNX Runtime
has no kernels for it. usage: bodies.py tempoc"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx.backend.test.loader import load_model_tests

ort.set_default_logger_severity(4)
# op: least number of cases
OPS = {"Attention": 80, "RMSNormalization": 19, "RotaryEmbedding": 8, "Swish": 1, "SwiGLU": 3, "TensorScatter": 3}


def check(tempoc, folder, case):
    before, after = os.path.join(folder, "before.onnx"), os.path.join(folder, "after.onnx")
    onnx.save(case.model, before)
    done = subprocess.run([tempoc, before, "-o", after, "--passes=upgrade,shapes,bodies", "--verify-each", "-q"],
                          capture_output=True, text=True)
    if done.returncode:
        return f"tempoc: {done.returncode} {done.stderr.strip()}"
    out = onnx.load(after)
    onnx.checker.check_model(out, full_check=True)
    inputs, outputs = list(case.data_sets)[0]
    session = ort.InferenceSession(after, providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: v for i, v in zip(case.model.graph.input, inputs)})
    for a, b in zip(got, outputs, strict=True):
        tolerance = dict(rtol=1e-3, atol=1e-2) if a.dtype == np.float16 else dict(rtol=1e-4, atol=1e-5)
        if a.shape != b.shape or a.dtype != b.dtype or not np.allclose(a, b, equal_nan=True, **tolerance):
            return f"{out.graph.node[0].op_type}: the numbers differ"
    return None


def main():
    count, failed = dict.fromkeys(OPS, 0), 0
    with tempfile.TemporaryDirectory() as folder:
        for case in load_model_tests(kind="node"):
            nodes = case.model.graph.node
            types = {i.type.tensor_type.elem_type for i in case.model.graph.input}
            if len(nodes) != 1 or nodes[0].op_type not in OPS or onnx.TensorProto.BFLOAT16 in types:
                continue
            try:
                error = check(sys.argv[1], folder, case)
            except Exception as e:  # what any library says of a case is that case's failure
                error = f"{type(e).__name__}: {e}"
            count[nodes[0].op_type] += error is None
            if error:
                print(f"FAIL {case.name}: {error}")
                failed += 1
    print(", ".join(f"{op} {n}" for op, n in count.items()), "agree")
    few = [op for op, least in OPS.items() if count[op] < least]
    if few:
        print("fewer cases than there should be:", ", ".join(few))
    sys.exit(1 if failed or few else 0)


main()
