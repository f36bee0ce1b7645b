#!/usr/bin/env python3
"""If, Loop and Scan whose course is known, and If on data: compiled, they are plain nodes that compute what ONNX
Runtime computes of the model as it is, and their gradients are central differences of that.
usage: check_unroll.py TEMPOC"""
import re
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from compare import by_onnxruntime, near
from programs import case, finish, path, run, write
from tolerances import DOUBLE_LOSS, GRADCHECK, GRADCHECK_STEP as EPS

rng = np.random.default_rng(3)
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
# name, what makes y (and more) of x: double[3,4] and the trained w: double[4]; results beside y
CASES = [
    ("if", """s = Shape (x) rows = Gather (s, zero) small = Less (rows, five)
      y = If (small) <then_branch = t () => (p) { q = Mul (x, w) p = Tanh (q) },
        else_branch = e () => (n) { n = Neg (x) }>""", []),
    ("if_else",
     """y = If (no) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (n) { n = Mul (w, x) }>""", []),
    ("if_data", """s = ReduceSum <keepdims = 0> (x2) d = CastLike (zero, s) c = Greater (s, d)
      y = If (c) <then_branch = t () => (p) { l = Log (s) p = Mul (l, x2) },
        else_branch = e () => (o) { a = Neg (s) r = Sqrt (a) n = Mul (w, r) o = Mul (n, x2) }>""", []),
    ("if_data_else", """s = ReduceSum <keepdims = 0> (x2) d = CastLike (zero, s) c = Less (s, d)
      y, z = If (c) <then_branch = t () => (p, v0) { a = Neg (s) l = Log (a) p = Mul (l, x2) v0 = Neg (w) },
        else_branch = e () => (o, v1) { r = Sqrt (s) o = Mul (x2, r) v1 = Mul (w, w) }>""", ["z"]),
    ("loop", """y = Loop (three, , x) <body = turn (int64 i, bool go, s) => (again, r) {
        again = Identity (go) f = Cast <to = 11> (i) m = Mul (s, w) a = Add (m, f) r = Tanh (a) }>""", []),
    ("loop_stacked", """y, rows = Loop (three, yes, x) <body = turn (int64 i, bool go, s) => (again, r, out) {
        again = Identity (go) m = Mul (s, w) r = Tanh (m) out = ReduceMean <keepdims = 0> (m) }>""", ["rows"]),
    ("loop_until",
     """y = Loop (, yes, x) <body = turn (int64 i, bool go, s) => (again, r) {
        again = Less (i, three) r = Mul (s, w) }>""", []),
    ("loop_none",
     """z = Loop (zero, , x) <body = turn (int64 i, bool go, s) => (again, r) {
        again = Identity (go) r = Mul (s, s) }> y = Mul (z, w)""", []),
    ("loop_grows", """z = Loop (three, , x) <body = turn (int64 i, bool go, s) => (again, r) {
        again = Identity (go) m = Mul (s, w) r = Concat <axis = 0> (s, m) }> y = ReduceSum <keepdims = 0> (z)""", []),
    ("loop_in_loop", """y = Loop (two, , x) <body = turn (int64 i, bool go, s) => (again, r) { again = Identity (go)
        r = Loop (i, , s) <body = inner (int64 j, bool on, u) => (more, t) {
        more = Identity (on) m = Mul (u, w) t = Tanh (m) }> }>""", []),
    ("branch_in_loop",
     """y = Loop (three, , x) <body = turn (int64 i, bool go, s) => (again, r) {
        again = Identity (go) first = Less (i, one)
        r = If (first) <then_branch = t () => (p) { p = Mul (s, w) }, else_branch = e () => (n) { n = Tanh (s) }> }>""",
        []),
    ("scan",
     """y, outs = Scan <num_scan_inputs = 1, body = step (s, row) => (n, out) {
        m = Mul (s, row) n = Add (m, row) out = Tanh (m) }> (w, x)""", ["outs"]),
    ("map", """s = SequenceConstruct (x, x2) v0 = SequenceConstruct (x2, x) m = SequenceMap (s, v0, w)
        <body = each (double[3,4] a, double[3,4] b, double[4] c) => (double[3,4] p) {
        q = Mul (a, c) r = Add (q, b) p = Tanh (r) }> f = SequenceAt (m, zero) g = SequenceAt (m, one)
        y = Mul (f, g)""", []),
    ("scan_axes",
     """y, outs = Scan <num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [1, 0],
        scan_output_axes = [1], scan_output_directions = [1], body = step (s, a, b) => (n, out) { m = Mul (a, b)
        n = Add (s, m) out = Sub (n, a) }> (v, x, x2)""", ["outs"]),
]
WEIGHTS = {"w": rng.standard_normal(4), "v": rng.standard_normal(3)}
X = rng.standard_normal((3, 4))


def model_of(body, results):
    terms = "\n".join(f"m{k} = Mul ({r}, {r}) l{k} = ReduceSum <keepdims = 0> (m{k})"
                      for k, r in enumerate(["y", *results]))
    loss = f"loss = Sum ({', '.join(f'l{k}' for k in range(len(results) + 1))})"
    model = onnx.parser.parse_model(
        HEADER +
        f"g (double[3,4] x) => (double loss) <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 three = "
        f"{{3}}, int64 five = {{5}}, "
        f"bool yes = {{1}}, bool no = {{0}}> {{ x2 = Mul (x, w) {body}\n{terms}\n{loss} }}")
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in WEIGHTS.items())
    return model


def loss_of(model, name, value):
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for tensor in other.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(value, name))
    return by_onnxruntime(other, {"x": X})["loss"]


def difference(model, name):
    out = np.zeros_like(WEIGHTS[name])
    for k in range(out.size):
        step = np.zeros_like(out)
        step[k] = EPS
        out[k] = (loss_of(model, name, WEIGHTS[name] + step) - loss_of(model, name, WEIGHTS[name] - step)) / (2 * EPS)
    return out


def check(tempoc, body, results):
    model = model_of(body, results)
    onnx.save(model, path("before.onnx"))
    run(tempoc, path("before.onnx"), "-o", path("after.onnx"), "--recipe=none", "--verify-each", "-q")
    compiled = onnx.load(path("after.onnx"))
    onnx.checker.check_model(compiled, full_check=True)
    left = {n.op_type for n in compiled.graph.node} & {"If", "Loop", "Scan", "SequenceMap"}
    if left:
        return f"{left} is left"
    got, want = by_onnxruntime(compiled, {"x": X}), by_onnxruntime(model, {"x": X})["loss"]
    if not near(got["loss"], want, DOUBLE_LOSS):
        return f"loss {got['loss']}, expected {want}"
    for name in sorted(n[:-len("_grad")] for n in got if n != "loss"):
        if not near(got[f"{name}_grad"], difference(model, name), GRADCHECK):
            return f"gradient of {name}: {got[f'{name}_grad']}, expected {difference(model, name)}"
    return None if "w_grad" in got else "there is no gradient of w"


def stays(tempoc, text):
    """What would become too many nodes stays, and that is found out without making them all, of many such loops too."""
    write(path("many.onnxt"), HEADER + text)
    said = run(tempoc, path("many.onnxt"), "-o", "-", "--emit=text", "--passes=shapes,canonicalize", "-q").out
    return None if "Loop" in said else "it was unrolled"


def too_many():
    branch = "\n".join(f"n{k + 1} = Neg (n{k})" for k in range(3000))
    nested = f"""g (float[3] x, bool q) => (float[3] y) <int64 ten = {{10}}> {{
        y = Loop (ten, "", x) <body = turn (int64 i, bool go, float[3] s) => (bool go, float[3] r) {{
        r = If (q) <then_branch = t () => (float[3] n3000) {{ n0 = Neg (s) {branch} }},
            else_branch = e () => (float[3] s) {{ }}> }}> }}"""
    loops = "\n".join(f"""y{k} = Loop ("", "", x) <
        body = turn{k} (int64 i, bool go, float[3] s) => (bool go, float[3] r) {{ r = Neg (s) }}>"""
                      for k in range(1000))
    return [("nested", nested), ("endless", f"g (float[3] x) => (float[3] y999) {{ {loops} }}")]


def deep(tempoc, name, depth=24):
    """Names of what lies deep grow with the depth, and do not double with each level."""
    inner, read = "y0 = Neg (x)", "x"
    for k in range(depth):
        label = f"[n{k}] " if name else ""
        inner = f"""{label}y{k + 1} = If (yes) <then_branch = t{k} () => (float[3] y{k}) {{ {inner} }},
            else_branch = e{k} () => (float[3] z{k}) {{ z{k} = Abs ({read}) }}>""" if name != "loops" else \
            f"""{label}y{k + 1} = Loop (one, "", x) <body = b{k} (int64 i{k}, bool go{k}, float[3] s{k}) =>
            (bool go{k}, float[3] y{k}) {{ {inner} }}>"""
    with open(path("deep.onnxt"), "w", encoding="utf-8") as out:
        out.write(f"{HEADER} g (float[3] x) => (float[3] y{depth}) <bool yes = {{1}}, int64 one = {{1}}> {{ {inner} }}")
    said = run(tempoc, path("deep.onnxt"), "-o", "-", "--emit=text", "--passes=shapes,canonicalize", "-q").out
    longest = max(re.findall(r"[\w/]+", said), key=len)
    return None if "Neg (x)" in said and len(longest) < 12 * depth else f"{len(longest)} characters: {longest[:90]}"


for title, *graph in CASES:
    case(title, check, sys.argv[1], *graph)
for title, graph in too_many():
    case(title, stays, sys.argv[1], graph)
for title in ("", "named", "loops"):
    case(f"deep {title}", deep, sys.argv[1], title)
finish()
