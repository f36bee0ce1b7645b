"""Reads what tempo-train wrote, without anything of ours: models, weights, logs."""
import json

import numpy as np
import onnx
import onnxruntime


def without_dropout(model):
    """The model with a rate of 0 for each Dropout."""
    drops = [node for node in model.graph.node if node.op_type == "Dropout"]
    rates = {node.input[1] for node in drops}
    kept = [node for node in model.graph.node if not rates & set(node.output)]  # rates in Constant nodes
    zeros = [onnx.numpy_helper.from_array(np.zeros((), np.float32), name) for name in rates]
    initializers = [x for x in model.graph.initializer if x.name not in rates]
    for field, values in ((model.graph.node, kept), (model.graph.initializer, initializers + zeros)):
        del field[:]
        field.extend(values)
    return model


def session_of(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def scores(session, batches):
    """The mean over all samples of every scalar output; `batches` are feeds by name."""
    names = [o.name for o in session.get_outputs()]
    sizes = [len(batch["labels"]) for batch in batches]
    got = [session.run(names, batch) for batch in batches]
    return {name: float(np.average([values[i] for values in got], weights=sizes)) for i, name in enumerate(names)}


def read_safetensors(path):
    """Tensors in float by name: a length, a header of JSON and the bytes."""
    with open(path, "rb") as file:
        raw = file.read()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:begin])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(raw[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]],
                                np.float32).reshape(t["shape"]) for name, t in header.items() if t["dtype"] == "F32"}


def read_log(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
