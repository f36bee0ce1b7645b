#!/usr/bin/env python3
"""models/export_names.py: which initializer holds which parameter, what a loss depends on, and what failures ask for.

usage: check_export_names.py SOURCE_ROOT
"""
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(sys.argv[1], "models"))
import export_names  # noqa: E402


def check_layouts():
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    for stored, how in ((value, "same"), (value.T, "transposed"), (value.reshape(-1), "flattened"),
                        (value.reshape(1, 6), "reshaped"), (value + 1, None), (value.astype(np.float64), None),
                        (value[:1], None)):
        assert export_names.how_stored(np.ascontiguousarray(stored), value) == how, (stored, how)


def model():
    """y = If(c, x w, x w2): w is transposed in the file, w2 is read in a branch alone, and nothing reads `spare`."""
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    stored = {"onnx::MatMul_7": np.ascontiguousarray(w.T), "m.w2": w.T + 10, "spare": w + 20}
    branches = [helper.make_graph([helper.make_node("MatMul", ["x", name], [out])], out, [],
                                  [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 2])])
                for name, out in (("onnx::MatMul_7", "then"), ("m.w2", "else"))]
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]),
             helper.make_node("Neg", ["spare"], ["unused"])]
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []),
              helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
                              [numpy_helper.from_array(a, name) for name, a in stored.items()])
    return helper.make_model(graph), w


def check_names():
    made, w = model()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        onnx.save(made, path)
        got = export_names.names_of(path, {
            "w": (["w"], lambda: w), "tied": (["tied", "m.w2"], lambda: 1 / 0), "gone": (["gone"], lambda: w - 1)})
    assert got == {"w": {"initializer": "onnx::MatMul_7", "layout": "transposed"},
                   "tied": {"initializer": "m.w2", "layout": "same"}}, got


def check_values_before():
    seen = export_names.values_before(model()[0].graph, "y")
    assert {"x", "c", "onnx::MatMul_7", "m.w2"} <= seen and "spare" not in seen, seen


def check_advice():
    """Messages as PyTorch 2.15 writes them."""
    guard = "Could not guard on data-dependent expression u0 > 0 (unhinted: u0 > 0).  (Size-like symbols: u0)"
    assert "torch.where" in export_names.advice(guard) and export_names.by_data(guard)
    missing = "No ONNX function found for <OpOverload(op='aten.special_i0', overload='default')>. Failure message: ..."
    assert "no ONNX form" in export_names.advice(missing) and not export_names.by_data(missing)
    unpacked = ("zeros(): argument 'size' failed to unpack the object at pos 2 with error "
                '"type must be tuple of ints,but got FakeTensor"')
    assert "lengths - 1" in export_names.advice(unpacked)
    assert export_names.advice("disk full") is None


def check_reason():
    try:
        try:
            raise ValueError("the cause,\nin two lines\n\nand a trace")
        except ValueError as e:
            raise RuntimeError("\x1b[96mthis is step 1/3\x1b[0m") from e
    except RuntimeError as e:
        assert export_names.reason(e) == "the cause, in two lines"
    assert export_names.reason(RuntimeError("\x1b[96mthis is step 1/3\x1b[0m")) == "this is step 1/3"
    assert export_names.reason(KeyError()) == "KeyError"


for check in (check_layouts, check_names, check_values_before, check_advice, check_reason):
    check()
print("ok: layouts, names, what a loss depends on, advice")
