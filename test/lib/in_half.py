"""A float model as one of 16 bits: weights, inputs, results, constants and casts change their type, the rest is as it
was.

convert(model, "float16" | "bfloat16") changes the model in place. What is stored outside of the model's file keeps its
place there and is then shorter than said: such a model shows what is saved, but cannot be run.
"""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ONNX = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def narrow(values, name):
    """The nearest in 16 bits; finite numbers stay finite, as exporters have it for what stands for minus infinity."""
    limit = float(ml_dtypes.finfo(NUMPY[name]).max)
    return np.where(np.isfinite(values), np.clip(values, -limit, limit), values).astype(NUMPY[name])


def tensor(t, name):
    if t.data_type != TensorProto.FLOAT:
        return
    if t.data_location == TensorProto.EXTERNAL:
        t.data_type = ONNX[name]
        for entry in t.external_data:
            if entry.key == "length":
                entry.value = str(int(entry.value) // 2)
        return
    t.CopyFrom(helper.make_tensor(t.name, ONNX[name], t.dims, narrow(numpy_helper.to_array(t), name).tobytes(),
                                  raw=True))


def node_attributes(node, name):
    for a in node.attribute:
        if node.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
            a.i = ONNX[name]
        elif a.type == onnx.AttributeProto.TENSOR:
            tensor(a.t, name)
        elif a.type == onnx.AttributeProto.GRAPH:
            graph(a.g, name)
        elif node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
            values = np.asarray(a.f if a.name == "value_float" else a.floats, np.float32)
            raw = helper.make_tensor("value", ONNX[name], values.shape, narrow(values, name).tobytes(), raw=True)
            a.CopyFrom(helper.make_attribute("value", raw))
        elif node.op_type in ("RandomNormalLike", "EyeLike") and a.name == "dtype" and a.i == TensorProto.FLOAT:
            a.i = ONNX[name]


def graph(g, name):
    for value in (*g.input, *g.output, *g.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = ONNX[name]
    for t in g.initializer:
        tensor(t, name)
    for node in g.node:
        node_attributes(node, name)


def convert(model, name):
    """In place. Dropout's ratio may stay what it is; it becomes 16-bit with the rest."""
    graph(model.graph, name)
    for function in model.functions:
        for node in function.node:
            node_attributes(node, name)
    return model


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ONNX:
        sys.exit("usage: in_half.py IN.onnx float16|bfloat16 OUT.onnx")
    onnx.save(convert(onnx.load(sys.argv[1], load_external_data=False), sys.argv[2]), sys.argv[3])
