#!/usr/bin/env python3
"""Checks that an embedding exported by PyTorch's dynamo exporter gets no gradient for its padding row: the call that
the exporter keeps in the node's metadata names it. usage: check_padding.py TEMPOC"""
import os, subprocess, sys, tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

CALL = "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%w, %ids{}), kwargs = {{}})"


def gradient(tempoc, arguments, *flags):
    node = helper.make_node("Gather", ["w", "ids"], ["e"], name="node_embedding")
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.fx_node", CALL.format(arguments)
    total = helper.make_node("ReduceSum", ["e"], ["loss"], keepdims=0)
    graph = helper.make_graph([node, total], "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [4])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(np.ones((5, 2), np.float32), "w")])
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.onnx"), os.path.join(folder, "out.onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), source)
        said = subprocess.run([tempoc, source, "-o", target, "-q", *flags], check=True, capture_output=True, text=True)
        assert ("scale_grad_by_freq" in said.stderr) == ("True" in arguments), said.stderr
        ids = np.array([2, 0, 2, 4])
        return ReferenceEvaluator(target).run(["w_grad"], {"ids": ids})[0][:, 0].tolist()


failed = 0
for arguments, flags, want in (("", [], [1, 0, 2, 0, 1]), (", 2", [], [1, 0, 0, 0, 1]), (", 0", [], [0, 0, 2, 0, 1]),
                               (", 2", ["--train-padding"], [1, 0, 2, 0, 1]), (", -1", [], [1, 0, 2, 0, 1]),
                               (", 2, True", [], [1, 0, 0, 0, 1])):
    got = gradient(os.path.abspath(sys.argv[1]), arguments, *flags)
    if got != want:
        failed += 1
        print(f"FAIL arguments (w, ids{arguments}) {flags}: {got}, expected {want}")
sys.exit(failed > 0)
