#!/usr/bin/env python3
"""Loops that reduce rows bag by bag, as PyTorch's exporters write EmbeddingBag: compiled, they compute what numpy says
of the bags, and their gradients are central differences of that, in tempo-run and in ONNX Runtime.
usage: check_bags.py TEMPOC TEMPO_RUN"""
import itertools
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from compare import by_onnxruntime, load, near
from programs import case, finish, path, run
from tolerances import DOUBLE, GRADCHECK, GRADCHECK_STEP as EPS

rng = np.random.default_rng(7)
TABLE = rng.standard_normal((9, 4))
PICKS = rng.integers(0, 9, 12)
FACTORS = rng.standard_normal(12)
BEGINS = {"equal": [0, 4, 8], "uneven": [0, 3, 3, 4, 11], "empty last": [0, 5, 12], "last": [0, 3, 3, 10, 12]}
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
INITS = """<int64 zero = {0}, int64[1] zeros = {0}, int64 one = {1}, int64[1] ones = {1}, int64[1] twos = {2},
  int64[1] all = {9223372036854775807}, int64[1] minus = {-1}, bool yes = {1}>"""
REDUCE = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}
# The index of a turn and the rows of its bag are looked up in the turn, results are stacked.
STACKED = """ends = Slice (table, ones, all, zeros) shape = Shape (ends) turns = Squeeze (shape, zeros)
  y = Loop (turns, yes) <body = turn (int64 i, bool go) => (again, out) { again = Identity (go)
    a = Gather (table, i) b = Gather (ends, i) a1 = Unsqueeze (a, zeros) b1 = Unsqueeze (b, zeros)
    c = Slice (picks, a1, b1, zeros) d = Gather (w, c) %s out = %s <keepdims = 0> (e, zeros) }>"""
STACKED_FACTORS = "f = Slice (factors, a1, b1, zeros) f1 = Unsqueeze (f, ones) e = Mul (d, f1)"
# Rows are looked up before the loop; results go into a sequence; branches take care of empty bags and the last one.
LISTED = """size = Shape (picks) bags = Size (%s) none = SequenceEmpty <dtype = 11> () some = Less (zero, count)
  d = Gather (w, picks) %s
  k, list = Loop ("", some, zero, none) <body = turn (int64 i, bool go, int64 j, s) => (again, j1, s1) {
    v = Reshape (j, minus) v1 = Add (v, ones) v2 = Add (v, twos) a = Slice (table, v, v1) b = Slice (table, v1, v2)
    same = Equal (a, b)
    r = If (same) <then_branch = t () => (double[1,4] z) <double[1,4] z = {0, 0, 0, 0}> {},
      else_branch = o () => (q) { %s }>
    s1 = SequenceInsert (s, r) j1 = Add (j, one) again = Less (j1, count) }>
  y = ConcatFromSequence <axis = 0> (list)"""
LISTED_FACTORS = "f = Unsqueeze (factors, ones) e = Mul (d, f)"
LISTED_REDUCE = {
    "sum": "p = Slice (e, a, b) q = ReduceSum (p, zeros)",
    "mean": """p = Slice (e, a, b) m = Sub (count, one) last = Equal (j, m)
      q = If (last) <then_branch = t1 () => (q1) { q2 = ReduceSum (p, zeros) n = Sub (size, a) some1 = Greater (n, zero)
        q1 = If (some1) <then_branch = t2 () => (q3) { n1 = CastLike (n, e) q3 = Div (q2, n1) },
          else_branch = o2 () => (q4) { q4 = Identity (q2) }> },
        else_branch = o1 () => (q5) { q5 = ReduceMean (p, zeros) }>""",
    "max": """m = Sub (count, one) last = Equal (j, m)
      p = If (last) <then_branch = t1 () => (p1) { p1 = Slice (e, a, size) },
        else_branch = o1 () => (p2) { p2 = Slice (e, a, b) }> q = ReduceMax (p, zeros)""",
}


def model_of(idiom, kind, factors, begins):
    if idiom == "stacked":
        body = STACKED % (STACKED_FACTORS if factors else "e = Identity (d)", REDUCE[kind])
    else:
        body = LISTED % ("begins", LISTED_FACTORS if factors else "e = Identity (d)", LISTED_REDUCE[kind])
    if begins == "last":
        table = "table = Identity (begins) sized = Size (begins) count = Sub (sized, one)"
    elif begins == "equal":
        table = """total = Size (picks) four = Div (total, three) range = Range (zero, total, four)
          total1 = Shape (picks) table = Concat <axis = 0> (range, total1) count = Size (range)"""
    else:
        table = "total = Shape (picks) table = Concat <axis = 0> (begins, total) count = Size (begins)"
    inits = INITS.replace("<int64 zero", "<int64 three = {3}, int64 zero")
    model = onnx.parser.parse_model(
        HEADER + f"g (int64[rows] picks, int64[n] begins, double[rows] factors) => (double loss, double[bags,4] y) "
        f"{inits} {{ {table} {body} m0 = Mul (y, y) loss = ReduceSum <keepdims = 0> (m0) }}")
    model.graph.initializer.append(numpy_helper.from_array(TABLE, "w"))
    return model


def bags_of(weights, kind, factors, begins):
    bounds = BEGINS[begins] if begins == "last" else [*BEGINS[begins], len(PICKS)]
    rows = weights[PICKS] * (FACTORS[:, None] if factors else 1)
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[kind]
    return np.stack([reduce(rows[a:b], axis=0) if b > a else np.zeros(4) for a, b in zip(bounds, bounds[1:])])


def difference(kind, factors, begins):
    out = np.zeros_like(TABLE)
    for at in np.ndindex(*out.shape):
        step = np.zeros_like(out)
        step[at] = EPS
        above, below = ((bags_of(TABLE + s, kind, factors, begins)**2).sum() for s in (step, -step))
        out[at] = (above - below) / (2 * EPS)
    return out


def compare(name, got, want, gradient):
    if not near(got["y"], want, DOUBLE):
        return f"{name}: bags {got['y']}, expected {want}"
    if not near(got["w_grad"], gradient, GRADCHECK):
        return f"{name}: gradient {got['w_grad']}, expected {gradient}"
    return None


def check(tools, idiom, kind, factors, begins):
    before, after, inputs, outputs = (path(n) for n in ("in.onnx", "out.onnx", "in.npz", "out.npz"))
    onnx.save(model_of(idiom, kind, factors, begins), before)
    feeds = {"picks": PICKS, "begins": np.array(BEGINS[begins]), "factors": FACTORS}
    np.savez(inputs, **feeds)
    run(tools[0], before, "-o", after, "--loss=loss", "--verify-each", "-q")
    run(tools[1], after, "--inputs", inputs, "--outputs", outputs)
    compiled = onnx.load(after)
    onnx.checker.check_model(compiled, full_check=True)
    if any(n.op_type in ("Loop", "If") for n in compiled.graph.node):
        return "a loop is left"
    want, gradient = bags_of(TABLE, kind, factors, begins), difference(kind, factors, begins)
    return (compare("tempo-run", load(outputs), want, gradient) or
            compare("onnxruntime", by_onnxruntime(after, feeds), want, gradient))


for row in itertools.product(("stacked", "listed"), REDUCE, (False, True), BEGINS):
    case(" ".join(map(str, row)), check, sys.argv[1:], *row)
finish()
