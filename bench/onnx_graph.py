"""What the benchmarks' networks share: nodes spelled as PyTorch's exporter spells them, parameters drawn, files."""
import os

import numpy as np


def drawn(shapes):
    """(name, float32 array) of every parameter of [(name, shape)]; no two are equal."""
    draw = np.random.default_rng(7)
    for name, shape in shapes:
        value = draw.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        yield name, value + np.float32(1) if name.endswith("norm.weight") else value


class Graph:
    """Nodes in order; each method appends one and gives its result's name back. c: the network, of which `dropout`
    is read here."""

    def __init__(self, c):
        from onnx import helper  # not for those who want shapes and parameters only
        self.c, self.helper, self.nodes, self.constants, self.count = c, helper, [], {}, 0

    def ops(self, op_type, results, *operands, **attributes):
        self.count += 1
        names = [f"val_{self.count}" + (f"_{i}" if i > 0 else "") for i in range(results)]
        self.nodes.append(self.helper.make_node(op_type, operands, names, name=f"node_{self.count}", **attributes))
        return names

    def op(self, op_type, *operands, **attributes):
        return self.ops(op_type, 1, *operands, **attributes)[0]

    def constant(self, value, dtype=np.float32):
        value = np.asarray(value, dtype)
        return self.constants.setdefault((str(value.dtype), value.shape, value.tobytes()),
                                         (f"c_{len(self.constants)}", value))[0]

    def linear(self, x, name):
        return self.op("Add", self.op("MatMul", x, f"{name}.weight"), f"{name}.bias")

    def norm(self, x, name, epsilon=1e-12):
        return self.op("LayerNormalization", x, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=epsilon)

    def dropout(self, x):
        return self.op("Dropout", x, self.constant(self.c.dropout),
                       self.constant(True, bool)) if self.c.dropout > 0 else x

    def gelu(self, x):
        erf = self.op("Erf", self.op("Div", x, self.constant(2**0.5)))
        return self.op("Mul", x, self.op("Mul", self.constant(0.5), self.op("Add", erf, self.constant(1))))

    def loss(self, scores, labels):
        self.nodes.append(self.helper.make_node("SoftmaxCrossEntropyLoss", [scores, labels], ["loss"], name="node_loss",
                                                reduction="mean"))


def external(onnx, name, shape, location, offset):
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=shape,
                              data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", 4 * int(np.prod(shape)))):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def write(path, graph, shapes, parameters, inputs):
    """The model at `path`, its weights at `path`.data unless `parameters` is None, its inputs in inputs.npz beside
    it."""
    import onnx
    from onnx import helper, numpy_helper
    initializers, offset = [], 0
    for name, shape in shapes:
        initializers.append(external(onnx, name, shape, os.path.basename(path) + ".data", offset))
        offset += 4 * int(np.prod(shape))
    initializers += [numpy_helper.from_array(value, name) for name, value in graph.constants.values()]
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
              for name, value in inputs.items()]
    loss = helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, [])
    model = helper.make_model(helper.make_graph(graph.nodes, "network", values, [loss], initializers),
                              opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    if parameters:
        with open(path + ".data", "wb") as f:
            for _, value in parameters:
                f.write(value.tobytes())
    np.savez(os.path.join(os.path.dirname(path), "inputs.npz"), **inputs)
