#!/usr/bin/env python3
"""Random graphs of elementwise ops on the emulated CUDA device, where chains of them are one launch, beside the CPU:
the same bits of floats and doubles, 16 bits within a rounding of each op; and chains there are. Then norms with chains
around them, beside the same graph with a Reshape behind each node, which keeps them apart: the same bits of all types.

usage: check_chains.py TEMPO_RUN TEMPO_RUN_EMULATED
"""
import random
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from compare import load, near, same_bits
from programs import check, finish, path, run, text_of
from tolerances import CHAIN

TYPES = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
         TensorProto.BFLOAT16: ml_dtypes.bfloat16}
SHAPE = [3, 5, 24]
OPERANDS = [SHAPE, [24], [1], [5, 1], [3, 1, 1], [5, 24], [3, 1, 24]]  # the last one is no link's
WIDTHS = [24, 24, 20, 7, 1032]  # of rows of norms: some are no whole packs
NORMS = ["LayerNormalization", "LayerNormalizationXhat", "RMSNormalization", "RMSNormalizationXhat"]
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


class Norms:
    """Chains of sums and dropouts, norms, and gradients of norms, in a row; apart: each node by itself."""

    def __init__(self, pick, dtype, apart):
        self.pick, self.dtype, self.apart, self.nodes, self.outputs = pick, dtype, apart, [], []
        self.made = 0
        self.shape = [3, 4, pick.choice(WIDTHS)]
        wide = self.shape[-1:]
        self.inputs = {"x0": self.shape, "x1": self.shape, "row": wide, "scale": wide, "bias": wide,
                       "places": [4, wide[0]], "one": [1]}

    def add(self, op, operands, results=1, domain="", **attributes):
        """The first result; it may be an output, and is read late."""
        self.made += 1
        names = [f"v{self.made}_{k}" for k in range(results)]
        self.nodes.append(helper.make_node(op, operands, names, domain=domain, **attributes))
        self.outputs += [name for name in names if self.pick.random() < 0.3]
        if not self.apart:
            return names
        self.nodes.append(helper.make_node("Reshape", [names[0], "shape"], [names[0] + "_apart"]))
        return [names[0] + "_apart"] + names[1:]

    def chain(self, value, others):
        for _ in range(self.pick.randint(0, 3)):
            if self.pick.random() < 0.3:
                value = self.add("Dropout", [value, "ratio", "tempo.seed"], 2, "ai.tempo", node=self.made)[0]
            elif self.pick.random() < 0.1:
                value = self.add("Tanh", [value])[0]
            else:
                other = self.pick.choice(["x1", "row", "places", "one", self.pick.choice(others)])
                value = self.add("Add", [value, other] if self.pick.random() < 0.6 else [other, value])[0]
        return value

    def norm(self, value, kept):
        op = self.pick.choice(NORMS)
        results = 3 if op != "RMSNormalization" else 2
        tempo = {} if op == "LayerNormalization" else {"domain": "ai.tempo"}
        biased = op.startswith("Layer") and self.pick.random() < 0.5
        got = self.add(op, [value, "scale"] + ["bias"] * biased, results, epsilon=1e-3, **tempo)
        statistics = got[1:] if op.endswith("Xhat") else [value, *got[1:]]
        kept.append((op + "Grad", statistics))
        return got[0]

    def model(self):
        value, values, kept = "x0", ["x0"], []
        for _ in range(self.pick.randint(1, 3)):
            value = self.chain(value, values)
            values.append(value)
            value = self.norm(value, kept)
            values.append(value)
        for op, (x, *statistics) in reversed(kept):
            value = self.chain(value, values)
            value = self.add(op, [value, x, "scale", *statistics], 3 if op.startswith("Layer") else 2, "ai.tempo")[0]
            values.append(value)
        value = self.chain(value, values)
        outputs = sorted({value.removesuffix("_apart"), *self.outputs})
        constants = [onnx.numpy_helper.from_array(np.array(self.shape), "shape"),
                     onnx.numpy_helper.from_array(np.array(0.4, np.float32), "ratio")]
        inputs = [helper.make_tensor_value_info(name, self.dtype, dims) for name, dims in self.inputs.items()]
        inputs.append(helper.make_tensor_value_info("tempo.seed", TensorProto.INT64, [2]))
        graph = helper.make_graph(self.nodes, "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs],
                                  constants)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 21),
                                                                     helper.make_opsetid("ai.tempo", 1)])


def norms(tool):
    """How many results differ, and how many launches the graphs have less than where nodes are apart."""
    differ = saved = 0
    for seed in range(48):
        dtype = list(TYPES)[seed % len(TYPES)]
        runs = []
        for apart in (True, False):
            graph = Norms(random.Random(seed), dtype, apart)
            onnx.save(graph.model(), path("g.onnx"))
            draw = np.random.RandomState(seed)
            numbers = {name: draw.uniform(-2, 2, dims).astype(TYPES[dtype]) for name, dims in graph.inputs.items()}
            np.savez(path("in.npz"), **numbers, **{"tempo.seed": np.array([77, 3])})
            runs.append(computed(tool))
        differ += sum(not same_bits(runs[0][0][name], got) for name, got in runs[1][0].items())
        saved += runs[0][2] - runs[1][2]
    return differ, saved


def computed(tool):
    run(tool, path("g.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), "--profile", path("out.csv"),
        "--repeat", 3)
    text = text_of(path("out.csv"))
    return load(path("out.npz")), text.count(",Chain,"), text.count("\n")


def main():
    cpu, emulated = sys.argv[1:]
    chains = 0
    for seed in range(40):
        pick = random.Random(seed)
        dtype = list(TYPES)[seed % len(TYPES)]
        onnx.save(graph(pick, dtype), path("g.onnx"))
        draw = np.random.RandomState(seed)
        np.savez(path("in.npz"), **{f"x{i}": draw.uniform(-2, 2, dims).astype(TYPES[dtype])
                                    for i, dims in enumerate(OPERANDS)})
        want, _, _ = computed(cpu)
        got, n, _ = computed(emulated)
        chains += n
        for name, w in want.items():
            exact = dtype in (TensorProto.FLOAT, TensorProto.DOUBLE)
            same = same_bits(got[name], w) if exact else near(got[name], w.astype(np.float64), CHAIN, nan=True)
            check(same, f"seed {seed}: {name} differs")
    differ, saved = norms(emulated)
    print(f"40 graphs, {chains} chains; 48 of norms, {saved} launches less")
    check(chains >= 40, f"{chains} chains")
    check(differ == 0, f"{differ} results of norms differ")
    check(saved >= 250, f"{saved} launches less")
    finish()


if __name__ == "__main__":
    main()
