#!/usr/bin/env python3
"""Rows that a mask picks, as many as the data says: compiled, graphs have fixed shapes and compute what ONNX Runtime
computes of the model as it is, where some rows are picked, all, or none; gradients are central differences of that.
usage: check_masks.py TEMPOC TEMPO_RUN"""
import sys

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from compare import by_onnxruntime, load, near, session
from programs import case, finish, path, run
from tolerances import DOUBLE_MASKED_LOSS, GRADCHECK, GRADCHECK_STEP as EPS

rng = np.random.default_rng(11)
WEIGHTS = {"w": rng.standard_normal((4, 4)), "v": rng.standard_normal(4)}
LABELS = rng.integers(0, 4, (2, 3))
HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
# h = x w, [2,3,4]; m = bools [2,3] that follow from x; `at` [n,2] and `rows` [n,4] are what m picks.
PICK = "nz = NonZero (m) at = Transpose <perm = [1, 0]> (nz) rows = GatherND (h, at)"
# name, what makes y of these, whether y is there where nothing is picked
CASES = [
    ("mean", "y = ReduceMean <keepdims = 0> (rows)", False),
    ("mean_rows", "s = ReduceMean <keepdims = 0> (rows, zeros) y = Mul (s, v)", False),
    ("sum", "t = Tanh (rows) y = ReduceSum <keepdims = 0> (t)", True),
    ("squares", "y = ReduceSumSquare <keepdims = 1> (rows, zeros)", True),
    ("norm", "y = ReduceL2 <keepdims = 0> (rows)", False),
    ("largest", "y = ReduceMax <keepdims = 0> (rows, zeros)", False),
    ("smallest", "y = ReduceMin <keepdims = 0> (rows, zeros)", False),
    ("within_rows", "s = Softmax <axis = -1> (rows) l = Log (s) p = Mul (l, s) y = ReduceSum <keepdims = 0> (p)", True),
    ("logarithm", "a = Abs (rows) l = Log (a) y = ReduceMean <keepdims = 0> (l)", False),
    ("picked_elements", """g = Greater (h, none) nz2 = NonZero (g) at2 = Transpose <perm = [1, 0]> (nz2)
      e = GatherND (h, at2) l = Log (e) y = ReduceMean <keepdims = 0> (l)""", False),
    ("compress", """flat = Reshape (h, rowshape) mf = Reshape (m, minus) c = Compress <axis = 0> (flat, mf)
      y = ReduceSum <keepdims = 0> (c, zeros)""", True),
    ("compress_flat", "g = Less (h, none) gf = Reshape (g, minus) c = Compress (h, gf) y = ReduceSum (c)", True),
    ("softmax_over_rows", """s = Softmax <axis = 0> (rows) l = Mul (s, rows) y = ReduceSum <keepdims = 0> (l, zeros)""",
     True),
    ("log_softmax_over_rows", "s = LogSoftmax <axis = 0> (rows) y = ReduceMean <keepdims = 0> (s)", False),
    ("similarity", """t = Transpose <perm = [1, 0]> (rows) s = MatMul (rows, t) e = Exp (s)
      y = ReduceSum <keepdims = 0> (e)""", True),
    ("product_over_rows", "t = Transpose <perm = [1, 0]> (rows) y = MatMul (t, rows)", True),
    ("gemm", "y = Gemm <transA = 1> (rows, rows)", True),
    ("centred", """s = ReduceMean <keepdims = 1> (rows, zeros) d = Sub (rows, s) q = Mul (d, d)
      y = ReduceMean <keepdims = 0> (q)""", False),
    ("counted", """s = ReduceSum <keepdims = 0> (rows) shape = Shape <end = 1> (rows) n = Squeeze (shape)
      f = Cast <to = 11> (n) one11 = Cast <to = 11> (one) f1 = Add (f, one11) y = Div (s, f1)""", True),
    ("sized", """s = ReduceSum <keepdims = 0> (rows) n = Size (rows) f = Cast <to = 11> (n)
      one11 = Cast <to = 11> (one) f1 = Add (f, one11) y = Div (s, f1)""", True),
    ("loss", """l = GatherND (labels, at) y = SoftmaxCrossEntropyLoss (rows, l)""", False),
    ("loss_each", """l = GatherND (labels, at) e = SoftmaxCrossEntropyLoss <reduction = "none"> (rows, l)
      q = Mul (e, e) y = ReduceSum <keepdims = 0> (q)""", False),
    ("put_back", """t = Tanh (rows) y = ScatterND (h, at, t)""", True),
    ("put_back_flat", """t = Tanh (rows) flat = Reshape (t, minus) m3 = Unsqueeze (m, twos) hs = Shape (h)
      m4 = Expand (m3, hs) nz4 = NonZero (m4) at4 = Transpose <perm = [1, 0]> (nz4) n4 = Shape <end = 1> (at4)
      f4 = Slice (flat, zeros, n4, zeros) y = ScatterND (h, at4, f4)""", False),
    ("put_number", """mi = Cast <to = 7> (m) n = ReduceSum <keepdims = 0> (mi) n1 = Unsqueeze (n, zeros)
      shape = Concat <axis = 0> (n1, fours) u = Expand (v, shape) y = ScatterND (h, at, u)""", True),
    ("put_to_rows", """mf = Reshape (m, minus) nz1 = NonZero (mf) i = Squeeze (nz1, zeros)
      flat = Reshape (h, rowshape)
      r = Gather (flat, i) t = Tanh (r) i1 = Unsqueeze (i, ones) y = ScatterND (flat, i1, t)""", True),
    ("put_elements", """mf = Reshape (m, minus) nz1 = NonZero (mf) i = Squeeze (nz1, zeros)
      flat = Reshape (h, rowshape)
      r = Gather (flat, i) t = Tanh (r) i1 = Unsqueeze (i, ones) ts = Shape (t) i2 = Expand (i1, ts)
      y = ScatterElements <axis = 0> (flat, i2, t)""", True),
    ("add_to_rows", """two = Slice (at, zeros, ones, ones) z = ConstantOfShape (outshape) zd = Cast <to = 11> (z)
      t = Tanh (rows) y = ScatterND <reduction = "add"> (zd, two, t)""", True),
    ("experts", """t = MatMul (rows, w) a = Tanh (t) z = ConstantOfShape (shape3) zd = Cast <to = 11> (z)
      b = ScatterND <reduction = "add"> (zd, at, a) n = Not (m) nz5 = NonZero (n) at5 = Transpose <perm = [1, 0]> (nz5)
      r5 = GatherND (h, at5) a5 = Mul (r5, v) y = ScatterND <reduction = "add"> (b, at5, a5)""", True),
    ("normalized", "s = LayerNormalization <axis = -1> (rows, v) y = ReduceSum <keepdims = 0> (s, zeros)", True),
]
X = rng.standard_normal((2, 3, 4))
INPUTS = {"some": X, "all": np.abs(X), "none": -np.abs(X)}


def model_of(body, pick=PICK):
    text = f"""g (double[batch,3,4] x, int64[batch,3] labels) => (double loss) <int64[1] zeros = {{0}},
      int64[1] ones = {{1}}, int64[1] twos = {{2}}, int64[1] fours = {{4}}, int64[1] minus = {{-1}}, int64 one = {{1}},
      int64[2] rowshape = {{-1, 4}}, int64[2] outshape = {{2, 4}}, int64[3] shape3 = {{2, 3, 4}}, double none = {{0}}>
    {{ h = MatMul (x, w) s0 = ReduceSum <keepdims = 0> (x, minus) m = Greater (s0, none) {pick} {body}
      yy = Mul (y, y) loss = ReduceSum <keepdims = 0> (yy) }}"""
    model = onnx.parser.parse_model(HEADER + text)
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in WEIGHTS.items())
    return model


def computed(model, x):
    return by_onnxruntime(model, {"x": x, "labels": LABELS})


def difference(model, name, x):
    """In one session, whose weight is an input."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    value = other.graph.input.add()
    value.CopyFrom(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, WEIGHTS[name].shape))
    made = session(other)
    out = np.zeros_like(WEIGHTS[name])
    for at in np.ndindex(*out.shape):
        step = np.zeros_like(out)
        step[at] = EPS
        above, below = (by_onnxruntime(made, {"x": x, "labels": LABELS, name: WEIGHTS[name] + s})["loss"]
                        for s in (step, -step))
        out[at] = (above - below) / (2 * EPS)
    return out


def compiled(tempoc, model):
    onnx.save(model, path("in.onnx"))
    run(tempoc, path("in.onnx"), "-o", path("out.onnx"), "--verify-each", "-q")
    return onnx.load(path("out.onnx"))


def compare(name, got, model, x):
    try:
        want = computed(model, x)["loss"]
    except Exception as error:  # pylint: disable=broad-except
        return f"onnxruntime on the model as it is: {error}"
    if not near(got["loss"], want, DOUBLE_MASKED_LOSS):
        return f"{name}: loss {got['loss']}, expected {want}"
    for weight in (n[:-len("_grad")] for n in got if n.endswith("_grad")):
        expected = difference(model, weight, x)
        if not near(got[f"{weight}_grad"], expected, GRADCHECK):
            return f"{name}: gradient of {weight}: {got[f'{weight}_grad']}, expected {expected}"
    return None


def check(tools, body, kinds):
    model = model_of(body)
    made = compiled(tools[0], model)
    onnx.checker.check_model(made, full_check=True)
    if any(n.op_type in ("NonZero", "Compress") for n in made.graph.node):
        return "shapes depend on data"
    for kind in kinds:
        np.savez(path("in.npz"), x=INPUTS[kind], labels=LABELS)
        run(tools[1], path("out.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"))
        why = (compare(f"tempo-run, {kind}", load(path("out.npz")), model, INPUTS[kind]) or
               compare(f"onnxruntime, {kind}", computed(made, INPUTS[kind]), model, INPUTS[kind]))
        if why:
            return why
    return None


def parts(tools):
    """Places cut into as many parts as were picked where the model was traced: one without any rows counts for
    nothing, as in the loop over experts that the model was."""
    body = """g4 = Slice (h, zeros, ones, zeros) g5 = Squeeze (g4, zeros) e = ReduceSum <keepdims = 0> (g5, ones)
      t = Greater (e, none) nz7 = NonZero (t) at7 = Transpose <perm = [1, 0]> (nz7)
      p0, p1 = Split <axis = 0> (at7, sizes) i0 = Squeeze (p0) i1 = Squeeze (p1) y0 = Gather (g5, i0)
      y1 = Gather (g5, i1) y = Add (y0, y1)"""
    model = model_of(body)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 1]), "sizes"))
    made = compiled(tools[0], model)
    for x in (rng.standard_normal((2, 3, 4)) for _ in range(40)):
        try:
            want = computed(model, x)["loss"]
        except Exception:  # pylint: disable=broad-except
            continue  # another number is picked: the model as it is does not run
        got = computed(made, x)["loss"]
        if not near(got, want, DOUBLE_MASKED_LOSS):
            return f"loss {got}, expected {want}"
    return None


for title, rows, none in CASES:
    case(title, check, sys.argv[1:], rows, ["some", "all"] + ["none"] * bool(none))
case("parts", parts, sys.argv[1:])
finish()
