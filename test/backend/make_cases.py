#!/usr/bin/env python3
"""Makes ONNX's node test cases from the onnx package: the suite that its backends are tested with.

usage: make_cases.py FOLDER

FOLDER/NAME/model.onnx and FOLDER/NAME/test_data_set_0/{input,output}_J.pb, for tempo-run --test-data FOLDER. They come
out the same each time. Cases with types that the runtime does not hold (strings, sequences, 8-bit floats, 4-bit
integers) are left out, as are ops outside ai.onnx but the optimizers of ai.onnx.preview.training; FOLDER/cases.txt
lists what was made: name, op, opset, element types, whether the case is an op's expanded body.
"""
import os
import sys

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

TYPES = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double", TensorProto.FLOAT16: "float16",
         TensorProto.BFLOAT16: "bfloat16",
         TensorProto.INT8: "int8", TensorProto.INT16: "int16", TensorProto.INT32: "int32", TensorProto.INT64: "int64",
         TensorProto.UINT8: "uint8", TensorProto.UINT16: "uint16", TensorProto.UINT32: "uint32",
         TensorProto.UINT64: "uint64",
         TensorProto.BOOL: "bool"}


def types_of(graph):
    """Element types of the graph's inputs and outputs, or None when one is not a tensor of ours."""
    found = []
    for value in list(graph.input) + list(graph.output):
        if not value.type.HasField("tensor_type") or value.type.tensor_type.elem_type not in TYPES:
            return None
        found.append(TYPES[value.type.tensor_type.elem_type])
    return found


def op_of(case, model):
    """The op that the case is about. Expanded bodies are named after the case they are the body of."""
    expanded = "_expanded" in case.name
    return ("expanded" if expanded else model.graph.node[0].op_type), expanded


def write_case(folder, case):
    data = os.path.join(folder, case.name, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    with open(os.path.join(folder, case.name, "model.onnx"), "wb") as file:
        file.write(case.model.SerializeToString())
    (inputs, outputs), = case.data_sets
    for kind, values, declared in (("input", inputs, case.model.graph.input),
                                   ("output", outputs, case.model.graph.output)):
        for j, value in enumerate(values):
            if not isinstance(value, TensorProto):
                value = numpy_helper.from_array(np.asarray(value), declared[j].name)
            with open(os.path.join(data, f"{kind}_{j}.pb"), "wb") as file:
                file.write(value.SerializeToString())


def main(folder):
    os.makedirs(folder, exist_ok=True)
    lines = []
    for case in load_model_tests(kind="node"):
        model = case.model
        types = types_of(model.graph)
        node, opsets = model.graph.node[0], {o.domain.replace("ai.onnx", "", 1): o.version for o in model.opset_import}
        if types is None or set(opsets) - {"", ".preview.training"} or node.op_type == "Gradient":
            continue
        write_case(folder, case)
        op, expanded = op_of(case, model)
        op = f"{node.domain}.{op}" if node.domain else op
        opset = opsets[node.domain.replace("ai.onnx", "", 1)]
        lines.append(f"{case.name} {op} {opset} {types[0]} {int(expanded)}")
    with open(os.path.join(folder, "cases.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(sorted(lines)) + "\n")
    print(f"{len(lines)} cases in {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
