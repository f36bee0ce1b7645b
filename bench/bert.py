#!/usr/bin/env python3
"""Writes a BERT in training mode as ONNX, spelled as PyTorch's exporter spells it: what the benchmarks compile and run.

usage: bert.py OUT.onnx [--layers N] [--hidden N] ... [--no-data]
A BERT with a head of its own for masked words (no tied weights) and the loss, weights in OUT.onnx.data unless
--no-data, inputs in inputs.npz beside it. torch_step.py builds the same network from the same `parameters`, so that
both can be compared.
"""
import argparse
import dataclasses
import os

import numpy as np

LOWEST = float(np.finfo(np.float32).min)


@dataclasses.dataclass
class Bert:
    layers: int = 4
    hidden: int = 768
    heads: int = 12
    batch: int = 8
    sequence: int = 128
    vocabulary: int = 30522
    dropout: float = 0.1

    def arguments(self):
        return [f"--{key}={value}" for key, value in dataclasses.asdict(self).items()]


def shapes(c):
    """Name and shape of every parameter, in the order of use; matrices are [in, out]."""
    h = c.hidden
    norm = lambda name: [(f"{name}.weight", (h,)), (f"{name}.bias", (h,))]
    linear = lambda name, m, n: [(f"{name}.weight", (m, n)), (f"{name}.bias", (n,))]
    out = [("embeddings.word.weight", (c.vocabulary, h)), ("embeddings.segment.weight", (2, h)),
           ("embeddings.position.weight", (max(c.sequence, 512), h))] + norm("embeddings.norm")
    for i in range(c.layers):
        at = f"encoder.layer.{i}"
        for name in ("query", "key", "value", "output"):
            out += linear(f"{at}.attention.{name}", h, h)
        out += norm(f"{at}.attention.norm") + linear(f"{at}.intermediate", h, 4 * h) + linear(f"{at}.output", 4 * h, h)
        out += norm(f"{at}.output.norm")
    return out + linear("head.transform", h, h) + norm("head.norm") + linear("head.decoder", h, c.vocabulary)


def parameters(c):
    """(name, float32 array) of every parameter; no two are equal."""
    draw = np.random.default_rng(7)
    for name, shape in shapes(c):
        value = draw.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        yield name, value + np.float32(1) if name.endswith("norm.weight") else value


def inputs(c):
    ids = np.random.default_rng(1).integers(0, c.vocabulary, (c.batch, c.sequence))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": ids.copy()}


class Graph:
    """Nodes in order; each method appends one and gives its result's name back."""

    def __init__(self, c, helper):
        self.c, self.helper, self.nodes, self.constants, self.count = c, helper, [], {}, 0

    def op(self, op_type, *operands, **attributes):
        self.count += 1
        name = f"val_{self.count}"
        self.nodes.append(self.helper.make_node(op_type, operands, [name], name=f"node_{self.count}", **attributes))
        return name

    def constant(self, value, dtype=np.float32):
        value = np.asarray(value, dtype)
        return self.constants.setdefault((str(value.dtype), value.shape, value.tobytes()),
                                         (f"c_{len(self.constants)}", value))[0]

    def linear(self, x, name):
        return self.op("Add", self.op("MatMul", x, f"{name}.weight"), f"{name}.bias")

    def norm(self, x, name):
        return self.op("LayerNormalization", x, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=1e-12)

    def dropout(self, x):
        return self.op("Dropout", x, self.constant(self.c.dropout),
                       self.constant(True, bool)) if self.c.dropout > 0 else x

    def gelu(self, x):
        erf = self.op("Erf", self.op("Div", x, self.constant(2**0.5)))
        return self.op("Mul", x, self.op("Mul", self.constant(0.5), self.op("Add", erf, self.constant(1))))

    def heads(self, x, name, perm):
        split = self.constant([0, 0, self.c.heads, self.c.hidden // self.c.heads], np.int64)
        return self.op("Transpose", self.op("Reshape", self.linear(x, name), split), perm=perm)

    def layer(self, x, at, mask):
        q, k = self.heads(x, f"{at}.attention.query", [0, 2, 1, 3]), self.heads(x, f"{at}.attention.key", [0, 2, 3, 1])
        v = self.heads(x, f"{at}.attention.value", [0, 2, 1, 3])
        scores = self.op("Mul", self.op("MatMul", q, k), self.constant((self.c.hidden // self.c.heads) ** -0.5))
        p = self.dropout(self.op("Softmax", self.op("Add", scores, mask), axis=-1))
        joined = self.op("Transpose", self.op("MatMul", p, v), perm=[0, 2, 1, 3])
        context = self.op("Reshape", joined, self.constant([0, 0, self.c.hidden], np.int64))
        x = self.norm(self.op("Add", self.dropout(self.linear(context, f"{at}.attention.output")), x),
                      f"{at}.attention.norm")
        inner = self.gelu(self.linear(x, f"{at}.intermediate"))
        return self.norm(self.op("Add", self.dropout(self.linear(inner, f"{at}.output")), x), f"{at}.output.norm")

    def whole(self):
        c = self.c
        row = np.arange(c.sequence).reshape(1, -1)
        x = self.op("Add", self.op("Gather", "embeddings.word.weight", "input_ids"),
                    self.op("Gather", "embeddings.segment.weight", self.constant(0 * row, np.int64)))
        x = self.op("Add", x, self.op("Gather", "embeddings.position.weight", self.constant(row, np.int64)))
        x = self.dropout(self.norm(x, "embeddings.norm"))
        there = self.op("Unsqueeze", self.op("Cast", "attention_mask", to=1), self.constant([1, 2], np.int64))
        mask = self.op("Mul", self.op("Sub", self.constant(1), there), self.constant(LOWEST))
        for i in range(c.layers):
            x = self.layer(x, f"encoder.layer.{i}", mask)
        x = self.linear(self.norm(self.gelu(self.linear(x, "head.transform")), "head.norm"), "head.decoder")
        logits = self.op("Reshape", x, self.constant([-1, c.vocabulary], np.int64))
        labels = self.op("Reshape", "labels", self.constant([-1], np.int64))
        self.nodes.append(self.helper.make_node("SoftmaxCrossEntropyLoss", [logits, labels], ["loss"], name="node_loss",
                                                reduction="mean"))


def external(onnx, name, shape, location, offset):
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=shape,
                              data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", 4 * int(np.prod(shape)))):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def write(path, c, data=True):
    """The model at `path`, its weights at `path`.data where `data`, its inputs in inputs.npz beside it."""
    import onnx
    from onnx import helper, numpy_helper
    graph = Graph(c, helper)
    graph.whole()
    initializers, offset = [], 0
    for name, shape in shapes(c):
        initializers.append(external(onnx, name, shape, os.path.basename(path) + ".data", offset))
        offset += 4 * int(np.prod(shape))
    initializers += [numpy_helper.from_array(value, name) for name, value in graph.constants.values()]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [c.batch, c.sequence])
              for name in ("input_ids", "attention_mask", "labels")]
    loss = helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, [])
    model = helper.make_model(helper.make_graph(graph.nodes, "bert", values, [loss], initializers),
                              opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    if data:
        with open(path + ".data", "wb") as f:
            for _, value in parameters(c):
                f.write(value.tobytes())
    np.savez(os.path.join(os.path.dirname(path), "inputs.npz"), **inputs(c))


def add_arguments(parser, default=Bert()):
    for key, value in dataclasses.asdict(default).items():
        parser.add_argument(f"--{key}", type=type(value), default=value)


def from_arguments(args):
    return Bert(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Bert)})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--no-data", action="store_true")
    add_arguments(parser)
    args = parser.parse_args()
    write(args.path, from_arguments(args), not args.no_data)


if __name__ == "__main__":
    main()
