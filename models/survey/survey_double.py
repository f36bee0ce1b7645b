"""A model's file with double in the place of float, so that the same graph tells whether a difference is float's
rounding. At the kink of an activation or between two candidates of a pool a value of 1e-8 may fall on either side, and
a gradient is off by that element; a wrong formula is wrong in double, too."""
import numpy as np
from onnx import AttributeProto, TensorProto, numpy_helper

TYPES = {"to", "dtype"}  # attributes that name an element type


def wide(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen_attribute(attribute):
    if attribute.type == AttributeProto.TENSOR:
        wide(attribute.t)
    elif attribute.type == AttributeProto.GRAPH:
        widen_graph(attribute.g)
    elif attribute.name in TYPES and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.DOUBLE


def widen_graph(graph):
    """In place. The factors of a Resize stay: ONNX has them in float alone."""
    factors = {n.input[2] for n in graph.node if n.op_type == "Resize" and len(n.input) > 2}
    for tensor in graph.initializer:
        if tensor.name not in factors:
            wide(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        kind = value.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT and value.name not in factors:
            kind.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        if not factors.intersection(node.output):
            for attribute in node.attribute:
                widen_attribute(attribute)


def widened(arrays):
    return {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in arrays.items()}
