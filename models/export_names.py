"""What export_training.py writes beside a model, and what it says of failures: which initializer holds which parameter,
which parameters the loss depends on, and what a message of PyTorch's exporters asks to be changed. numpy and onnx are
all it needs."""
import os
import re
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path[1:1] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")]
from tempo.errors import reason  # noqa: E402

__all__ = ["advice", "by_data", "how_stored", "names_of", "reason", "values_before"]

# What is seen in a message, and what to change in the module.
ADVICE = [
    (r"data-dependent|DataDependent|unbacked|\.item\(\)|_local_scalar_dense",
     "the module's course, or a size, depends on the elements of a tensor (if on a value, .item(), nonzero, x[mask]): "
     "write it with torch.where or by multiplying with the mask; experts: give each token to all, some by weight 0"),
    (r"[Nn]o (ONNX function|decompositions registered)|UnsupportedOperator|is not supported, ?please|Unsupported FX",
     "PyTorch's exporter has no ONNX form of this operator: write it with others"),
    (r"failed to unpack the object|PackedSequence|_pack_padded_sequence",
     "a size is taken from a tensor, as by pack_padded_sequence: hand recurrent layers the padded rows, and take the "
     "last step of each by its length, x[torch.arange(x.shape[0]), lengths - 1]"),
    (r"higher order operator|vmap|functorch|torch\.func",
     "torch.func (vmap, grad) is not exported: write the loop, or the broadcast, itself"),
    (r"fake tensor|FakeTensor|non-Fake",
     "a tensor that is no parameter, buffer or input takes part: register_buffer() it, or hand it over in the batch"),
    (r"complex|Complex", "ONNX has no complex numbers: real and imaginary parts as two tensors"),
    (r"is not PyTorch's", "x.detach() in the place of torch.no_grad() is kept by the dynamo exporter; what none keeps, "
     "tempoc --stop=VALUE stops, or leave it out of what is exported"),
]


def advice(message):
    """What to change, or None where the message is of no known kind."""
    return next((text for pattern, text in ADVICE if re.search(pattern, message)), None)


def by_data(message):
    """Whether it is of the first kind."""
    return re.search(ADVICE[0][0], message) is not None


def how_stored(stored, value):
    """`same`, `transposed`, `flattened` or `reshaped`: the layout in which an array is stored; None: it is another."""
    if stored.dtype != value.dtype or stored.size != value.size:
        return None
    if stored.shape == value.shape and np.array_equal(stored, value):
        return "same"
    if value.ndim == 2 and stored.shape == value.T.shape and np.array_equal(stored, value.T):
        return "transposed"
    if np.array_equal(stored.reshape(-1), value.reshape(-1)):
        return "flattened" if stored.ndim == 1 else "reshaped"
    return None


def names_of(path, parameters):
    """{parameter: {"initializer": name, "layout": how_stored's word}} of those that the file at `path` holds.

    parameters: {name: (all names that it has, a function that gives its elements)}; elements are compared where no
    initializer has one of the names."""
    graph = onnx.load(path, load_external_data=False).graph
    stored, folder = {init.name: init for init in graph.initializer}, os.path.dirname(os.path.abspath(path))
    found = {}
    for name, (names, elements) in parameters.items():
        named = next((n for n in [name, *names] if n in stored), None)
        if named is not None:
            found[name] = {"initializer": named, "layout": "same"}
            continue
        value = elements()
        for init in graph.initializer:
            if np.prod(init.dims, dtype=np.int64) != value.size:
                continue
            layout = how_stored(numpy_helper.to_array(init, folder), value)
            if layout:
                found[name] = {"initializer": init.name, "layout": layout}
                break
    return found


def values_before(graph, output):
    """Names of the values that the output depends on; what nested graphs read counts."""
    made = {result: node for node in graph.node for result in node.output if result}
    seen, left = set(), [output]

    def read(node):
        yield from node.input
        for attribute in node.attribute:
            for nested in [attribute.g, *attribute.graphs]:
                yield from (name for inner in nested.node for name in read(inner))
                yield from (value.name for value in nested.output)

    while left:
        name = left.pop()
        if name and name not in seen:
            seen.add(name)
            left += read(made[name]) if name in made else ()
    return seen
