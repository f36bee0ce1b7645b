#!/usr/bin/env python3
"""Random graphs of elementwise ops on the emulated CUDA device, where chains of them are one launch, beside the CPU:
the same bits of floats and doubles, 16 bits within a rounding of each op; and chains there are.

usage: check_chains.py TEMPO_RUN TEMPO_RUN_EMULATED
"""
import os
import random
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
         TensorProto.BFLOAT16: ml_dtypes.bfloat16}
SHAPE = [3, 5, 24]
OPERANDS = [SHAPE, [24], [1], [5, 1], [3, 1, 1], [5, 24], [3, 1, 24]]  # the last one is no link's
UNARY = ["Neg", "Relu", "Tanh", "Sigmoid", "Gelu", "Mish", "Sqrt"]
BINARY = ["Add", "Sub", "Mul", "Div", "Sum"]


def graph(pick, dtype):
    """Each node takes an earlier result, mostly the last; some results are outputs, some are read late."""
    inputs = [helper.make_tensor_value_info(f"x{i}", dtype, dims) for i, dims in enumerate(OPERANDS)]
    nodes, results = [], ["x0"]
    for i in range(pick.randint(2, 20)):
        a = results[-1] if pick.random() < 0.7 else pick.choice(results)
        if pick.random() < 0.4:
            op, operands = pick.choice(UNARY), [a]
        else:
            b = pick.choice(results) if pick.random() < 0.2 else f"x{pick.randrange(len(OPERANDS))}"
            op, operands = pick.choice(BINARY), [a, b] if pick.random() < 0.7 else [b, a]
        if op == "Sqrt":
            nodes.append(helper.make_node("Abs", [a], [f"a{i}"]))
            operands = [f"a{i}"]
        if op == "Div":
            nodes.append(helper.make_node("Exp", [operands[1]], [f"a{i}"]))
            operands[1] = f"a{i}"
        nodes.append(helper.make_node(op, operands, [f"r{i}"]))
        results.append(f"r{i}")
    outputs = sorted({results[-1], *pick.sample(results[1:], pick.randint(0, min(3, len(results) - 1)))})
    outputs = [helper.make_tensor_value_info(name, dtype, SHAPE) for name in outputs]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=8,
                             opset_imports=[helper.make_opsetid("", 21)])


def run(tool, folder, name):
    out = os.path.join(folder, name)
    subprocess.run([tool, os.path.join(folder, "g.onnx"), "--inputs", os.path.join(folder, "in.npz"), "--outputs", out,
                    "--profile", out + ".csv", "--repeat", "3"], check=True, stdout=subprocess.DEVNULL)
    return dict(np.load(out)), open(out + ".csv", encoding="utf-8").read().count(",Chain,")


def main():
    cpu, emulated = sys.argv[1:]
    wrong = chains = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(40):
            pick = random.Random(seed)
            dtype = list(TYPES)[seed % len(TYPES)]
            model = graph(pick, dtype)
            onnx.save(model, os.path.join(folder, "g.onnx"))
            draw = np.random.RandomState(seed)
            np.savez(os.path.join(folder, "in.npz"), **{f"x{i}": draw.uniform(-2, 2, dims).astype(TYPES[dtype])
                                                        for i, dims in enumerate(OPERANDS)})
            want, _ = run(cpu, folder, "want.npz")
            got, n = run(emulated, folder, "got.npz")
            chains += n
            for name, w in want.items():
                g = got[name]
                if dtype == TensorProto.BFLOAT16:
                    w, g = w.view(ml_dtypes.bfloat16), g.view(ml_dtypes.bfloat16)
                exact = dtype in (TensorProto.FLOAT, TensorProto.DOUBLE)
                same = w.tobytes() == g.tobytes() if exact else np.allclose(
                    g.astype(np.float64), w.astype(np.float64), rtol=0.1, atol=0.1, equal_nan=True)
                if not same:
                    wrong += 1
                    print(f"seed {seed}: {name} differs")
    print(f"40 graphs, {chains} chains, {wrong} results differ")
    sys.exit(wrong > 0 or chains < 40)


if __name__ == "__main__":
    main()
