#!/usr/bin/env python3
"""The rules of the pass raise change no value: ONNX Runtime runs each test graph before and after, on the same random
operands.

usage: check_values.py TEMPOC GRAPH.onnxt...
Both sides go through the pass bodies, so that ops of ai.tempo are function calls. Rows that a mask closes are among the
operands. Tolerance: 1e-5 of 1 + |value| in float, 2e-3 in float16, which the op rounds less often than its pieces.
"""
import os, subprocess, sys, tempfile
import numpy as np, onnx, onnxruntime as ort

TYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16, 11: np.float64}
SYMBOL = 3  # size of every symbolic dim


def compiled(tempoc, path, passes, folder):
    out = os.path.join(folder, "out.onnx")
    subprocess.run([tempoc, path, "--passes=" + passes, "-q", "-o", out], check=True)
    return onnx.load(out)


def operand(info, rng):
    tensor = info.type.tensor_type
    shape = [d.dim_value or SYMBOL for d in tensor.shape.dim]
    x = rng.standard_normal(shape) * 2
    if tensor.elem_type == onnx.TensorProto.BOOL:
        x = x > -0.5
        x[(0,) * (x.ndim - 1)] = info.name != "mask" or not x.ndim
    elif info.name == "bias" and x.ndim:
        x[(0,) * (x.ndim - 1)] = -np.inf
    return np.asarray(x).astype(TYPES[tensor.elem_type])


def run(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def error(a, b):
    limit = 2e-3 if a.dtype == np.float16 else 1e-5
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        far = np.abs(a - b) / (1 + np.abs(a))
    return float(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, far).max()) / limit


def main():
    ort.set_default_logger_severity(3)
    tempoc, bad, count = sys.argv[1], 0, 0
    for path in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder:
            before = compiled(tempoc, path, "shapes,canonicalize,bodies", folder)
            after = compiled(tempoc, path, "shapes,canonicalize,raise,bodies", folder)
        rng = np.random.default_rng(len(os.path.basename(path)))
        feeds = {i.name: operand(i, rng) for i in before.graph.input}
        want, got = run(before, feeds), run(after, feeds)
        for name in want:
            count += 1
            worst = error(want[name], got[name])
            if not worst <= 1:
                bad += 1
                print(f"FAIL {os.path.basename(path)}: {name} differs by {worst:.3g} times the tolerance")
    print(f"{count - bad} values agree, {bad} differ")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
