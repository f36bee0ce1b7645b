"""check_canonicalize.py TEMPOC MODEL_FOLDER...: canonicalize changes no result by a bit, a second run of it changes
nothing, and with all dims bound no shape arithmetic is left. ONNX Runtime, its own optimizations off, runs each model
before and after."""
import collections
import os
import sys

import numpy as np
import onnx

from compare import by_onnxruntime, dims_of, load
from programs import case, finish, path, run

SHAPE_OPS = {"Shape", "Size", "ConstantOfShape", "Range", "Identity"}


def compiled(tempoc, source, target, passes, *flags):
    run(tempoc, source, "-q", "--verify-each", "--passes=" + passes, *flags, "-o", target, timeout=60)
    return onnx.load(target)


def same(got, want):
    return got.keys() == want.keys() and all(np.array_equal(got[name], a) for name, a in want.items())


def check(tempoc, folder):
    source, inputs = os.path.join(folder, "model.onnx"), load(os.path.join(folder, "inputs.npz"))
    before, after, again, bound = (path(name + ".onnx") for name in ("before", "after", "again", "bound"))
    compiled(tempoc, source, before, "upgrade,inline,shapes,bodies")
    first = compiled(tempoc, source, after, "upgrade,inline,shapes,canonicalize,bodies")
    second = compiled(tempoc, after, again, "shapes,canonicalize,bodies")
    fixed = compiled(tempoc, source, bound, "upgrade,inline,shapes,canonicalize,bodies", *dims_of(folder))
    expected, *others = (by_onnxruntime(model, inputs, optimize=False) for model in (before, after, bound))
    left = {k: v for k, v in collections.Counter(n.op_type for n in fixed.graph.node).items() if k in SHAPE_OPS}
    problems = [what for what, bad in (
        ("results differ", not same(others[0], expected)),
        ("results with bound dims differ", not same(others[1], expected)),
        ("a second run changes it", first.graph != second.graph),
        (f"left with bound dims: {left}", left)) if bad]
    return ", ".join(problems), f"{len(first.graph.node)} nodes"


for model_folder in sys.argv[2:]:
    case(os.path.basename(model_folder), check, sys.argv[1], model_folder)
finish()
