"""check_canonicalize.py TEMPOC MODEL_FOLDER...: canonicalize changes no result by a bit, a second run of it changes
nothing, and with all dims bound no shape arithmetic is left. ONNX Runtime, its own optimizations off, runs each model
before and after."""
import collections
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(3)
SHAPE_OPS = {"Shape", "Size", "ConstantOfShape", "Range", "Identity"}
failures = 0


def compile_model(tempoc, source, target, passes, *flags):
    subprocess.run([tempoc, source, "-q", "--verify-each", "--passes=" + passes, *flags, "-o", target], check=True,
                   timeout=60)
    return onnx.load(target)


def run(path, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options)
    names = {i.name for i in session.get_inputs()}
    return session.run(None, {k: v for k, v in inputs.items() if k in names})


def bindings(model, inputs):
    dims = {d.dim_param: inputs[i.name].shape[n] for i in model.graph.input if i.name in inputs
            for n, d in enumerate(i.type.tensor_type.shape.dim) if d.dim_param}
    return [f"--dim={name}={value}" for name, value in dims.items()]


for folder in sys.argv[2:]:
    tempoc, source = sys.argv[1], os.path.join(folder, "model.onnx")
    inputs = dict(np.load(os.path.join(folder, "inputs.npz")))
    with tempfile.TemporaryDirectory() as temp:
        before, after, again, bound = (os.path.join(temp, name + ".onnx")
                                       for name in ("before", "after", "again", "bound"))
        compile_model(tempoc, source, before, "upgrade,inline,shapes,bodies")
        first = compile_model(tempoc, source, after, "upgrade,inline,shapes,canonicalize,bodies")
        second = compile_model(tempoc, after, again, "shapes,canonicalize,bodies")
        flags = bindings(first, inputs)
        fixed = compile_model(tempoc, source, bound, "upgrade,inline,shapes,canonicalize,bodies", *flags)
        expected = run(before, inputs)
        left = {k: v for k, v in collections.Counter(n.op_type for n in fixed.graph.node).items() if k in SHAPE_OPS}
        problems = [what for what, bad in (
            ("results differ", not all(np.array_equal(a, b) for a, b in zip(expected, run(after, inputs)))),
            ("results with bound dims differ",
             not all(np.array_equal(a, b) for a, b in zip(expected, run(bound, inputs)))),
            ("a second run changes it", first.graph != second.graph),
            (f"left with bound dims: {left}", left)) if bad]
        failures += bool(problems)
        print("FAIL" if problems else "ok  ", os.path.basename(folder), len(first.graph.node), "nodes", *problems)
sys.exit(failures > 0)
