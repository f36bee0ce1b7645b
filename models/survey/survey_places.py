"""Counts, in an export as it is, the places that could become one op (attention, LayerNorm, RMSNorm, GELU), and in a
compiled graph the ops that they became: two counts that know nothing of each other."""
import collections
import re

import numpy as np
from onnx import numpy_helper

PRODUCTS = {"MatMul", "Gemm", "Einsum"}
MOVES = {"Cast", "Identity", "Reshape", "Transpose", "Slice", "Unsqueeze", "Squeeze", "Expand", "Flatten", "Split"}
BEHIND = MOVES | {"Dropout", "Where", "Mul"}
BEFORE = MOVES | {"Add", "Mul", "Div", "Sub", "Where", "Max", "Min", "Clip", "Tanh", "Concat", "Neg", "Sum"}
OPS = {"Attention": "attention", "LayerNormalization": "layernorm", "RMSNormalization": "rmsnorm", "Gelu": "gelu"}
RAISED = {"attention": r"DotProductAttention", "layernorm": r"LayerNormalization", "rmsnorm": r"RMSNormalization",
          "gelu": r"Gelu"}


class Graph:
    def __init__(self, model):
        self.nodes = list(model.graph.node)
        self.makers = {out: n for n in self.nodes for out in n.output if out}
        self.readers = collections.defaultdict(list)
        for n in self.nodes:
            for name in n.input:
                self.readers[name].append(n)
        self.initializers = {i.name: i for i in model.graph.initializer}

    def constant(self, name):
        if name in self.initializers:
            return True
        maker = self.makers.get(name)
        return maker is not None and (maker.op_type == "Constant" or maker.op_type in MOVES and
                                      self.constant(maker.input[0]))

    def number(self, name):
        """The only element of a constant, or None"""
        tensor = self.initializers.get(name)
        maker = self.makers.get(name)
        if tensor is None and maker is not None and maker.op_type == "Constant":
            held = [a for a in maker.attribute if a.name in ("value", "value_float", "value_int")]
            if held and held[0].name != "value":
                return float(held[0].f or held[0].i)
            tensor = held[0].t if held else None
        if tensor is None or int(np.prod(tensor.dims)) != 1 or tensor.external_data:
            return None
        return float(numpy_helper.to_array(tensor).reshape(()))

    def product(self, node):
        return node.op_type in PRODUCTS and len(node.input) > 1 and not any(self.constant(i) for i in node.input[:2])

    def back(self, name, through, found, depth):
        """Is there a node that `found` likes among those that make the value, through such ops?"""
        maker = self.makers.get(name)
        if maker is None or depth < 0:
            return False
        return found(maker) or maker.op_type in through and any(
            self.back(i, through, found, depth - 1) for i in maker.input if i)

    def ahead(self, name, through, found, depth):
        return depth >= 0 and any(
            found(n) or n.op_type in through and self.ahead(n.output[0], through, found, depth - 1)
            for n in self.readers[name])


def square(graph, node):
    """x of x * x or x ** 2, or None"""
    if node.op_type == "Mul" and node.input[0] == node.input[1]:
        return node.input[0]
    if node.op_type == "Pow" and graph.number(node.input[1]) == 2:
        return node.input[0]
    return None


def norm(graph, node):
    """layernorm or rmsnorm where the node is the root of a mean square of a row and something small"""
    root = node.op_type == "Sqrt" or node.op_type == "Pow" and graph.number(node.input[1]) == -0.5
    made = graph.makers.get(node.input[0]) if root else None
    for _ in range(3):  # Add of epsilon, Cast, Identity
        if made is not None and made.op_type in ("Add", "Cast", "Identity", "Max", "Clip"):
            made = graph.makers.get(made.input[0]) or graph.makers.get(made.input[-1])
    if made is None or made.op_type != "ReduceMean":
        return None
    axes = [list(a.ints) for a in made.attribute if a.name == "axes"]
    if axes == [[0]] or len(made.input) > 1 and graph.number(made.input[1]) == 0:
        return None  # of a batch
    inner = graph.makers.get(made.input[0])
    x = square(graph, inner) if inner is not None else None
    maker = graph.makers.get(x)
    while maker is not None and maker.op_type in ("Cast", "Identity"):
        maker = graph.makers.get(maker.input[0])
    if x is None:
        return None
    centred = maker is not None and maker.op_type == "Sub" and any(
        graph.makers.get(i) is not None and graph.makers[i].op_type == "ReduceMean" for i in maker.input)
    return "layernorm" if centred else "rmsnorm"


def cube(graph, node):
    if node.op_type == "Pow" and graph.number(node.input[1]) == 3:
        return True
    inner = [graph.makers.get(i) for i in node.input] if node.op_type == "Mul" else []
    return any(n is not None and n.op_type == "Mul" and n.input[0] == n.input[1] and n.input[0] in node.input
               for n in inner)


def place(graph, node):
    """What the node is the heart of, or None"""
    if node.op_type in OPS:
        return OPS[node.op_type]
    if node.op_type == "Softmax":
        both = graph.back(node.input[0], BEFORE, graph.product, 16) and \
            graph.ahead(node.output[0], BEHIND, graph.product, 8)
        return "attention" if both else None
    if node.op_type == "Erf":
        return "gelu"
    if node.op_type == "Tanh":
        inside = graph.back(node.input[0], {"Mul", "Add"}, lambda n: cube(graph, n), 4)
        return "gelu" if inside else None
    return norm(graph, node)


def places(model):
    """how many of each kind an export has"""
    graph = Graph(model)
    return dict(collections.Counter(filter(None, (place(graph, n) for n in graph.nodes))))


def raised(model):
    """how many of each kind a graph has that was compiled with recipe forward"""
    return {kind: sum(re.fullmatch(rf"{op}(_\w+)?", n.op_type) is not None for n in model.graph.node)
            for kind, op in RAISED.items()}
