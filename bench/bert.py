#!/usr/bin/env python3
"""Writes a BERT in training mode as ONNX, spelled as PyTorch's exporter spells it: what the benchmarks compile and run.

usage: bert.py OUT.onnx [--layers N] [--hidden N] ... [--no-data]
A BERT with a head of its own for masked words (no tied weights) and the loss, weights in OUT.onnx.data unless
--no-data, inputs in inputs.npz beside it. torch_step.py builds the same network from the same `parameters`, so that
both can be compared.
"""
import argparse
import dataclasses

import numpy as np
import onnx_graph

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
    return onnx_graph.drawn(shapes(c))


def inputs(c):
    ids = np.random.default_rng(1).integers(0, c.vocabulary, (c.batch, c.sequence))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": ids.copy()}


class Graph(onnx_graph.Graph):
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
        self.loss(logits, labels)


def write(path, c, data=True):
    """The model at `path`, its weights at `path`.data where `data`, its inputs in inputs.npz beside it."""
    graph = Graph(c)
    graph.whole()
    onnx_graph.write(path, graph, shapes(c), parameters(c) if data else None, inputs(c))


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
