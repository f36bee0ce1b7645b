"""Blocks of a transformer as exporters write them under PyTorch's autocast, and what they compute, in numpy.

autocast leaves parameters and embeddings in float and casts at each product: operands down to 16 bits, and, before a
norm, a softmax or a loss, what comes of it up to float again. What is added to something wider is cast up, too.
"""
import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from in_half import NUMPY, ONNX

B, S, H, A, F, V = 2, 4, 8, 2, 16, 7
SPELLINGS = {
    # drop: the type in which the map is dropped out; mask: scores get a mask in float; norm: "mixed", an operand of 16
    # bits beside weights in float; gelu: in its parts or as the op; whole: all is of 16 bits, as after model.half();
    # pre: norms stand before attention and products, and what branches add up to is never normalized itself
    "eager": dict(drop="float"),
    "masked": dict(drop="float", mask=True),
    "cast first": dict(gelu="op"),
    "mixed norms": dict(norm="mixed", gelu="op"),
    "half": dict(whole=True, gelu="op"),
    "norms first": dict(gelu="op", pre=True),
}


class Graph:
    """A model in the making; a method adds nodes and gives the name of their result."""

    def __init__(self, half, ratio, drop="half", mask=False, norm="float", gelu="erf", whole=False, pre=False):
        self.half, self.ratio, self.drop, self.mask = half, ratio, drop, mask
        self.norm_type, self.gelu_form, self.whole, self.pre = norm, gelu, whole, pre
        self.rng = np.random.default_rng(5)
        self.nodes, self.inits, self.weights = [], [], {}
        self.wide = {}  # name -> whether it is float
        self.heads, self.flat = self.ints("heads", [B, S, A, H // A]), self.ints("flat", [B, S, H])
        self.training = self.const("training", True, bool)

    def const(self, name, value, dtype=np.float32):
        self.inits.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, name, value):
        return self.const(name, value, np.int64)

    def typed(self, name, value, wide):
        if not wide:
            raw = np.asarray(value, NUMPY[self.half])
            self.inits.append(helper.make_tensor(name, ONNX[self.half], raw.shape, raw.tobytes(), raw=True))
        else:
            self.const(name, value)
        self.wide[name] = wide
        return name

    def weight(self, name, *shape):
        value = self.rng.normal(0, 0.5, shape) + (1 if name.endswith("norm.weight") else 0)
        value = value.astype(NUMPY[self.half]).astype(np.float32)  # exact in both types
        self.weights[name] = value.astype(np.float64)
        return self.typed(name, value, not self.whole)

    def op(self, kind, *operands, name, wide, **attrs):
        self.nodes.append(helper.make_node(kind, operands, [name], name=name, **attrs))
        self.wide[name] = wide
        return name

    def cast(self, x, wide):
        if self.wide[x] == wide or self.whole:
            return x
        name = f"{x}.{'up' if wide else 'down'}{len(self.nodes)}"
        return self.op("Cast", x, name=name, wide=wide, to=TensorProto.FLOAT if wide else ONNX[self.half])

    def linear(self, x, name, n_in, n_out):
        """As torch.nn.Linear, of [out, in]; its weights are cast at each use."""
        w = self.cast(self.weight(f"{name}.weight", n_out, n_in), False)
        w = self.op("Transpose", w, name=f"{name}.wt", wide=False, perm=[1, 0])
        product = self.op("MatMul", self.cast(x, False), w, name=f"{name}.product", wide=False)
        bias = self.cast(self.weight(f"{name}.bias", n_out), False)
        return self.op("Add", product, bias, name=name, wide=False)

    def norm(self, x, name):
        wide = self.norm_type == "float" and not self.whole
        return self.op("LayerNormalization", self.cast(x, wide), self.weight(f"{name}.weight", H),
                       self.weight(f"{name}.bias", H), name=name, wide=wide, axis=-1)

    def add(self, a, b, name):
        wide = self.wide[a] or self.wide[b]
        return self.op("Add", self.cast(a, wide), self.cast(b, wide), name=name, wide=wide)

    def dropout(self, x, name):
        if self.ratio == 0:
            return x
        ratio = self.const(f"{name}.ratio", self.ratio)
        return self.op("Dropout", x, ratio, self.training, name=name, wide=self.wide[x])

    def gelu(self, x, name):
        if self.gelu_form == "op":
            return self.op("Gelu", x, name=name, wide=False)
        numbers = [self.typed(f"{name}.{i}", value, False) for i, value in enumerate((math.sqrt(2), 1, 0.5))]
        erf = self.op("Erf", self.op("Div", x, numbers[0], name=f"{name}.div", wide=False), name=f"{name}.erf",
                      wide=False)
        more = self.op("Add", erf, numbers[1], name=f"{name}.more", wide=False)
        return self.op("Mul", self.op("Mul", x, more, name=f"{name}.mul", wide=False), numbers[2], name=name,
                       wide=False)

    def attention(self, x, name):
        def split(part, perm):
            heads = self.op("Reshape", self.linear(x, f"{name}.{part}", H, H), self.heads,
                            name=f"{name}.{part}.heads", wide=False)
            return self.op("Transpose", heads, name=f"{name}.{part}.t", wide=False, perm=perm)

        q, k, v = split("q", [0, 2, 1, 3]), split("k", [0, 2, 3, 1]), split("v", [0, 2, 1, 3])
        scores = self.op("MatMul", q, k, name=f"{name}.qk", wide=False)
        scores = self.op("Div", scores, self.typed(f"{name}.root", math.sqrt(H / A), False), name=f"{name}.scores",
                         wide=False)
        if self.mask:
            scores = self.add(scores, "mask", f"{name}.masked")
        p = self.op("Softmax", self.cast(scores, True), name=f"{name}.p", wide=not self.whole, axis=-1)
        if self.drop == "half":
            p = self.cast(p, False)
        p = self.cast(self.dropout(p, f"{name}.dropped"), False)
        context = self.op("MatMul", p, v, name=f"{name}.context", wide=False)
        context = self.op("Transpose", context, name=f"{name}.back", wide=False, perm=[0, 2, 1, 3])
        context = self.op("Reshape", context, self.flat, name=f"{name}.flat", wide=False)
        return self.linear(context, f"{name}.out", H, H)

    def products(self, x, name):
        return self.linear(self.gelu(self.linear(x, f"{name}.up", H, F), f"{name}.gelu"), f"{name}.down", F, H)

    def block(self, x, name):
        for i, branch in enumerate((self.attention, self.products), 1):
            y = branch(self.norm(x, f"{name}.{i}norm") if self.pre else x, f"{name}.{i}")
            x = self.add(self.dropout(y, f"{name}.drop{i}"), x, f"{name}.sum{i}")
            x = x if self.pre else self.norm(x, f"{name}.{i}norm")
        return x


MASK = np.where(np.arange(S) < np.array([S, S - 1])[:, None], 0, np.finfo(np.float32).min)[:, None, None, :]


def build(blocks, half, spelling, ratio=0.0):
    """The model, what to feed it, and its parameters in double."""
    g = Graph(half, ratio, **SPELLINGS[spelling])
    if g.mask:
        g.typed("mask", MASK, True)
    x = g.op("Gather", g.weight("embeddings.weight", V, H), "ids", name="embedded", wide=not g.whole)
    x = g.dropout(g.norm(x, "embeddings.norm"), "embeddings.dropped")
    for i in range(blocks):
        x = g.block(x, f"layer{i}")
    logits = g.linear(x, "head", H, V)
    rows = g.op("Reshape", g.cast(logits, True), g.ints("rows", [B * S, V]), name="rows.logits", wide=not g.whole)
    labels = g.op("Reshape", "labels", g.ints("each", [-1]), name="each.label", wide=False)
    g.op("SoftmaxCrossEntropyLoss", rows, labels, name="loss", wide=not g.whole, reduction="mean")
    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, [B, S]) for n in ("ids", "labels")]
    loss = [helper.make_tensor_value_info("loss", ONNX[half] if g.whole else TensorProto.FLOAT, [])]
    graph = helper.make_graph(g.nodes, "autocast", ids, loss, g.inits)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {n: g.rng.integers(0, V, (B, S)) for n in ("ids", "labels")}, g.weights


# --- the same in numpy ------------------------------------------------------------------------------------------------

ERF = np.vectorize(math.erf)


def norm(x, w, name):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def attention(x, w, name, masked):
    q, k, v = (linear(x, w, f"{name}.{n}").reshape(B, S, A, H // A).transpose(0, 2, 1, 3) for n in "qkv")
    s = q @ k.transpose(0, 1, 3, 2) / math.sqrt(H / A) + (MASK if masked else 0)
    p = np.exp(s - s.max(-1, keepdims=True))
    y = (p / p.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(B, S, H)
    return linear(y, w, f"{name}.out")


def products(x, w, name):
    f = linear(x, w, f"{name}.up")
    return linear(f * 0.5 * (1 + ERF(f / math.sqrt(2))), w, f"{name}.down")


def loss_of(w, feeds, blocks, mask=False, pre=False):
    x = norm(w["embeddings.weight"][feeds["ids"]], w, "embeddings.norm")
    for i in range(blocks):
        for k, branch in (1, lambda x, name: attention(x, w, name, mask)), (2, lambda x, name: products(x, w, name)):
            name = f"layer{i}.{k}norm"
            x = x + branch(norm(x, w, name) if pre else x, f"layer{i}.{k}")
            x = x if pre else norm(x, w, name)
    z = linear(x, w, "head").reshape(B * S, V)
    z = z - z.max(-1, keepdims=True)
    logs = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -logs[np.arange(B * S), feeds["labels"].reshape(-1)].mean()


def slopes(w, feeds, blocks, how, step=1e-5):
    """The loss's gradient for each parameter, by central differences in double. `how`: of SPELLINGS."""
    how = {k: v for k, v in how.items() if k in ("mask", "pre")}
    out = {}
    for name, value in w.items():
        out[name] = np.zeros_like(value)
        for at in np.ndindex(value.shape):
            kept = value[at]
            value[at] = kept + step
            above = loss_of(w, feeds, blocks, **how)
            value[at] = kept - step
            out[name][at] = (above - loss_of(w, feeds, blocks, **how)) / (2 * step)
            value[at] = kept
    return out
