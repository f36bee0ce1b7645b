#!/usr/bin/env python3
"""Random small image models with their gradients on the emulated CUDA device, whose convolutions are cuDNN's (its
double) or, with --no-cudnn, products of patches, beside the CPU: loss and gradients of weights within rounding; the
same bits of a recorded run and of another process's first; and cuDNN has all three kinds of convolutions to do.

usage: check_convs.py TEMPOC TEMPO_RUN TEMPO_RUN_EMULATED
"""
import random
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import load, same_bits
from programs import check, finish, path, run
from tolerances import CONV

MODELS = 24
TYPES = {TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64"}
KINDS = ("forward of", "gradient of data of", "gradient of filters of", "products of patches (no such pads)")


class Model:
    """Layers on x [images, channels, size...]; the loss is the mean of their squares."""

    def __init__(self, seed):
        self.pick, self.draw = random.Random(seed), np.random.RandomState(seed)
        self.dtype = list(TYPES)[seed % len(TYPES)]
        self.rank = 1 + seed % 3
        self.nodes, self.weights = [], []
        self.size = [self.pick.randint(5, 8) for _ in range(self.rank)]
        self.channels = 4
        self.x = self.draw.uniform(-1, 1, [2, 4, *self.size]).astype(TYPES[self.dtype])

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        array = self.draw.uniform(-0.5, 0.5, shape).astype(TYPES[self.dtype])
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def layer(self, x):
        pick, rank = self.pick, self.rank
        groups = pick.choice([1, 1, 2 if self.channels % 2 == 0 else 1, self.channels])
        kernel = [pick.randint(1, 3) for _ in range(rank)]
        stride = [pick.choice([1, 1, 2]) for _ in range(rank)]
        dilation = [pick.choice([1, 1, 2]) for _ in range(rank)]
        begin = [pick.randint(0, 2) for _ in range(rank)]
        end = begin if pick.random() < 0.75 else [pick.randint(0, 2) for _ in range(rank)]
        filters = groups * pick.randint(1, 4)
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        attributes = {"kernel_shape": kernel, "strides": stride, "dilations": dilation, "pads": begin + end,
                      "group": groups}
        if pick.random() < 0.7:
            size = [(n + b + e - r) // s + 1 for n, b, e, r, s in zip(self.size, begin, end, reach, stride)]
            op, shape = "Conv", (filters, self.channels // groups, *kernel)
        else:
            size = [(n - 1) * s + r - b - e for n, b, e, r, s in zip(self.size, begin, end, reach, stride)]
            op, shape = "ConvTranspose", (self.channels, filters // groups, *kernel)
        if min(size) < 2 or max(size) > 12:
            return x
        operands = [x, self.weight(*shape)] + ([self.weight(filters)] if pick.random() < 0.5 else [])
        n = len(self.nodes)
        self.nodes += [helper.make_node(op, operands, [f"y{n}"], **attributes),
                       helper.make_node("Tanh", [f"y{n}"], [f"t{n}"])]
        self.size, self.channels = size, filters
        return f"t{n}"

    def write(self, to):
        x, layers = "x", self.pick.randint(2, 4)
        while len(self.nodes) < 2 * layers:
            x = self.layer(x)
        self.nodes += [helper.make_node("Mul", [x, x], ["squares"]),
                       helper.make_node("ReduceMean", ["squares"], ["loss"], keepdims=0)]
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", self.dtype, self.x.shape)],
                                  [helper.make_tensor_value_info("loss", self.dtype, [])], self.weights)
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 21)]), to)


def computed(tool, *options):
    said = run(tool, path("train.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), *options).out
    return load(path("out.npz")), said


def differences(got, want, tolerance):
    """Names of what is further from the CPU's than rounding goes, of the largest element of each."""
    assert got.keys() == want.keys()
    return [name for name, w in want.items() if np.abs(got[name] - w).max() > tolerance * (np.abs(w).max() + 1e-3)]


def main():
    tempoc, cpu, emulated = sys.argv[1:]
    kinds, gradients = dict.fromkeys(KINDS, 0), 0
    for seed in range(MODELS):
        model = Model(seed)
        model.write(path("model.onnx"))
        np.savez(path("in.npz"), x=model.x)
        run(tempoc, path("model.onnx"), "-o", path("train.onnx"), "-q")
        want, _ = computed(cpu)
        by_cudnn, told = computed(emulated, "--products", "--repeat=3")
        again, _ = computed(emulated)
        patches, silent = computed(emulated, "--products", "--no-cudnn")
        gradients += len(want) - 1
        for kind in KINDS:
            kinds[kind] += len(re.findall(re.escape(kind), told))
        for what, got in (("cuDNN", by_cudnn), ("patches", patches)):
            off = differences(got, want, CONV[TYPES[model.dtype]])
            check(not off, f"seed {seed}, {what}: {off}")
        check(same_bits(again, by_cudnn), f"seed {seed}: another run has other bits")
        check("cuDNN" not in silent, f"seed {seed}: cuDNN is asked all the same")
    print(f"{MODELS} models, {gradients} gradients; " + ", ".join(f"{n} {kind}" for kind, n in kinds.items()))
    check(min(kinds.values()) >= 10, f"too few of a kind: {kinds}")
    finish()


if __name__ == "__main__":
    main()
