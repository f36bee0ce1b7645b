"""GPT-2 blocks with dropout and a head of their own as ONNX, spelled as PyTorch's exporter spells them."""
import dataclasses

import bert
import numpy as np
import onnx_graph


@dataclasses.dataclass
class Gpt2(bert.Bert):
    """Sizes are those of a Bert."""


def shapes(c):
    """Name and shape of every parameter, in the order of use; matrices are [in, out]."""
    h = c.hidden
    norm = lambda name: [(f"{name}.weight", (h,)), (f"{name}.bias", (h,))]
    linear = lambda name, m, n: [(f"{name}.weight", (m, n)), (f"{name}.bias", (n,))]
    out = [("embeddings.word.weight", (c.vocabulary, h)), ("embeddings.position.weight", (c.sequence, h))]
    for i in range(c.layers):
        at = f"blocks.{i}"
        out += norm(f"{at}.attention.norm") + linear(f"{at}.attention.joined", h, 3 * h)
        out += linear(f"{at}.attention.output", h, h)
        out += norm(f"{at}.inner.norm") + linear(f"{at}.inner.up", h, 4 * h) + linear(f"{at}.inner.down", 4 * h, h)
    return out + norm("head.norm") + linear("head.decoder", h, c.vocabulary)


def parameters(c):
    return onnx_graph.drawn(shapes(c))


def inputs(c):
    ids = np.random.default_rng(1).integers(0, c.vocabulary, (c.batch, c.sequence + 1))
    return {"input_ids": np.ascontiguousarray(ids[:, :-1]), "labels": np.ascontiguousarray(ids[:, 1:])}


class Graph(onnx_graph.Graph):
    def gelu_tanh(self, x):
        inner = self.op("Add", x, self.op("Mul", self.constant(0.044715), self.op("Pow", x, self.constant(3))))
        tanh = self.op("Tanh", self.op("Mul", self.constant((2 / np.pi)**0.5), inner))
        return self.op("Mul", self.op("Mul", self.constant(0.5), x), self.op("Add", tanh, self.constant(1)))

    def heads(self, x, perm):
        split = self.constant([0, 0, self.c.heads, self.c.hidden // self.c.heads], np.int64)
        return self.op("Transpose", self.op("Reshape", x, split), perm=perm)

    def attention(self, x, at):
        c = self.c
        q, k, v = self.ops("Split", 3, self.linear(x, f"{at}.joined"), axis=2, num_outputs=3)
        later = np.triu(np.full((c.sequence, c.sequence), bert.LOWEST), 1)
        scores = self.op("MatMul", self.heads(q, [0, 2, 1, 3]), self.heads(k, [0, 2, 3, 1]))
        scores = self.op("Mul", scores, self.constant((c.hidden // c.heads) ** -0.5))
        p = self.dropout(self.op("Softmax", self.op("Add", scores, self.constant(later)), axis=-1))
        joined = self.op("Transpose", self.op("MatMul", p, self.heads(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        context = self.op("Reshape", joined, self.constant([0, 0, c.hidden], np.int64))
        return self.dropout(self.linear(context, f"{at}.output"))

    def block(self, x, at):
        x = self.op("Add", x, self.attention(self.norm(x, f"{at}.attention.norm", 1e-5), f"{at}.attention"))
        inner = self.gelu_tanh(self.linear(self.norm(x, f"{at}.inner.norm", 1e-5), f"{at}.inner.up"))
        return self.op("Add", x, self.dropout(self.linear(inner, f"{at}.inner.down")))

    def whole(self):
        c = self.c
        rows = self.constant(np.arange(c.sequence).reshape(1, -1), np.int64)
        x = self.dropout(self.op("Add", self.op("Gather", "embeddings.word.weight", "input_ids"),
                                 self.op("Gather", "embeddings.position.weight", rows)))
        for i in range(c.layers):
            x = self.block(x, f"blocks.{i}")
        x = self.linear(self.norm(x, "head.norm", 1e-5), "head.decoder")
        self.loss(self.op("Reshape", x, self.constant([-1, c.vocabulary], np.int64)),
                  self.op("Reshape", "labels", self.constant([-1], np.int64)))


def write(path, c):
    graph = Graph(c)
    graph.whole()
    onnx_graph.write(path, graph, shapes(c), parameters(c), inputs(c))
