#!/usr/bin/env python3
"""Checks that an embedding exported by PyTorch's dynamo exporter gets no gradient for its padding row: the call that
the exporter keeps in the node's metadata names it. usage: check_padding.py TEMPOC"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from programs import check, finish, path, run

CALL = "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%w, %ids{}), kwargs = {{}})"


def gradient(tempoc, arguments, *flags):
    node = helper.make_node("Gather", ["w", "ids"], ["e"], name="node_embedding")
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.fx_node", CALL.format(arguments)
    total = helper.make_node("ReduceSum", ["e"], ["loss"], keepdims=0)
    graph = helper.make_graph([node, total], "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [4])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(np.ones((5, 2), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path("in.onnx"))
    said = run(tempoc, path("in.onnx"), "-o", path("out.onnx"), "-q", *flags).err
    check(("scale_grad_by_freq" in said) == ("True" in arguments), said)
    return ReferenceEvaluator(path("out.onnx")).run(["w_grad"], {"ids": np.array([2, 0, 2, 4])})[0][:, 0].tolist()


for arguments, flags, want in (("", [], [1, 0, 2, 0, 1]), (", 2", [], [1, 0, 0, 0, 1]), (", 0", [], [0, 0, 2, 0, 1]),
                               (", 2", ["--train-padding"], [1, 0, 2, 0, 1]), (", -1", [], [1, 0, 2, 0, 1]),
                               (", 2, True", [], [1, 0, 0, 0, 1])):
    got = gradient(os.path.abspath(sys.argv[1]), arguments, *flags)
    check(got == want, f"arguments (w, ids{arguments}) {flags}: {got}, expected {want}")
finish()
