"""--dropout-rng=ort: masks and results of Dropout with a seed of its own are those that ONNX Runtime draws in the same
run of a session, bit for bit (of doubles masks alone: ONNX Runtime takes 1 - ratio of floats): for shapes, ratios,
seeds, types and threads; in a graph as it is and compiled; forward and, by a formula, backward, under every recipe.
What no file tells is refused by name.

usage: ort_dropout.py TEMPO_RUN TEMPOC [rounded]       rounded: results may differ by a rounding, but no mask
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from compare import by_onnxruntime, load, near, session
from programs import check, finish, path, told
from tolerances import DROPPED_GRADIENT, DROPPED_ONCE
from tool import model, run

ROUNDED = sys.argv[3:] == ["rounded"]
RNG = np.random.default_rng(5)
KINDS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
# shape, ratio, seed, type, threads; the last shapes are more than one thread's share
CASES = [((1,), 0.5, 1, np.float32, 1), ((7,), 0.1, 0, np.float32, 1), ((), 0.25, 12, np.float32, 1),
         ((0, 3), 0.25, 12, np.float32, 1), ((2, 4, 16, 16), 0.1, 1000, np.float32, 1),
         ((2, 4, 16, 16), 0.1, 1000, np.float64, 2), ((31, 33), 0.9999999, 3, np.float32, 1),
         ((31, 33), 1e-7, 2147483646, np.float32, 1), ((5, 11), 0.3, 2147483647, np.float32, 1),
         ((5, 11), 0.3, 123456789012345, np.float32, 2), ((5, 11), 0.3, -1, np.float32, 1),
         ((5, 11), 0.3, -5, np.float32, 1), ((5, 11), 0.3, -9223372036854775808, np.float32, 1),
         ((3, 70001), 0.1, 1001, np.float32, 1), ((3, 70001), 0.1, 1001, np.float32, 2),
         ((130, 1027), 0.5, 77, np.float64, 2)]


def one_dropout(shape, ratio, seed, kind):
    x = helper.make_tensor_value_info("x", KINDS[kind], shape)
    outputs = [helper.make_tensor_value_info("y", KINDS[kind], shape),
               helper.make_tensor_value_info("kept", TensorProto.BOOL, shape)]
    constants = [helper.make_tensor("ratio", TensorProto.FLOAT, [], [ratio]),
                 helper.make_tensor("on", TensorProto.BOOL, [], [True])]
    node = helper.make_node("Dropout", ["x", "ratio", "on"], ["y", "kept"], seed=seed)
    graph = helper.make_graph([node], "one", [x], outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, path("one.onnx"))
    return path("one.onnx")


def tempoc(source, recipe, *more):
    to = path(recipe + ".onnx")
    told(sys.argv[2], source, "-q", "-o", to, "--recipe=" + recipe, *more)
    return to


def tempo(graph, inputs, threads=1):
    np.savez(path("in.npz"), **inputs)
    run(graph, "--inputs", path("in.npz"), "--outputs", path("out.npz"), f"--threads={threads}", "--dropout-rng=ort")
    return load(path("out.npz"))


def same(got, want, what):
    for name in want:
        rounds = ROUNDED or got[name].dtype == np.float64
        equal = near(got[name], want[name], DROPPED_ONCE) if rounds and name != "kept" else np.array_equal(
            got[name], want[name])
        check(got[name].dtype == want[name].dtype and equal, f"{what}: {name}")


def against_onnxruntime():
    for shape, ratio, seed, kind, threads in CASES:
        what = f"{shape}, ratio {ratio}, seed {seed}, {kind.__name__}, {threads} threads"
        one = one_dropout(shape, ratio, seed, kind)
        x = np.asarray(RNG.normal(size=shape)).astype(kind)
        compiled, made = tempoc(one, "forward"), session(one)
        for k in range(3):
            want = by_onnxruntime(made, {"x": x})
            if k == 0:
                same(tempo(one, {"x": x}, threads), want, what + ", as it is")
            same(tempo(compiled, {"x": x, "tempo.seed": np.array([9, k])}, threads), want, f"{what}, run {k}")


# Attention between two Dropouts, one of whose switches is an input.
TRAIN = """
g (float[2,3,5,4] q, float[2,3,4,6] kt, float[2,3,6,4] v, float[2,3,5,4] c, bool later) =>
  (float loss, bool[2,3,5,4] kept)
<float[4] w = {1, 2, -1, 0.5}, float[4] w2 = {-1, 1, 2, 3}, float ratio = {0.25}, bool on = {1}, float two = {2}>
{
  s = MatMul (q, kt)
  t = Div (s, two)
  p = Softmax <axis = -1> (t)
  ["of the map"] d = Dropout <seed = 1005> (p, ratio, on)
  a = MatMul (d, v)
  z = Mul (a, w)
  ["at a switch"] y, kept = Dropout <seed = 1006> (z, ratio, later)
  u = Mul (y, w2)
  h = Tanh (u)
  e = Mul (h, c)
  loss = ReduceSum <keepdims = 0> (e)
}
"""


def minstd_mask(shape, ratio, seed):
    """What std::minstd_rand0 and ONNX Runtime's rule give: x <- 16807 x mod 2^31 - 1, and float32 from there on."""
    states, x = [], seed % 2147483647 or 1
    for _ in range(int(np.prod(shape))):
        x = x * 16807 % 2147483647
        states.append(x - 1)
    u = np.array(states, np.int64).astype(np.float32) / np.float32(2147483646)
    return (u >= np.float32(ratio)).reshape(shape)


def gradients_of(feeds, later, step):
    """In double: kept, loss and the gradients of w and w2."""
    q, kt, v, c = (feeds[name].astype(np.float64) for name in ("q", "kt", "v", "c"))
    w, w2 = np.array([1, 2, -1, 0.5]), np.array([-1, 1, 2, 3.0])
    s = np.exp(q @ kt / 2)
    p = s / s.sum(-1, keepdims=True)
    a = (p * minstd_mask(p.shape, 0.25, 1005 + step) / 0.75) @ v
    kept = minstd_mask(a.shape, 0.25, 1006 + step) if later else np.ones(a.shape, bool)
    factor = kept / 0.75 if later else 1.0
    h = np.tanh(a * w * factor * w2)
    du = c * (1 - h * h)
    return {"kept": kept, "loss": (h * c).sum(), "w_grad": (du * w2 * factor * a).sum((0, 1, 2)),
            "w2_grad": (du * a * w * factor).sum((0, 1, 2))}


def backward():
    source = model("train.onnxt", TRAIN)
    feeds = {"q": RNG.normal(size=(2, 3, 5, 4)), "kt": RNG.normal(size=(2, 3, 4, 6)),
             "v": RNG.normal(size=(2, 3, 6, 4)), "c": RNG.normal(size=(2, 3, 5, 4))}
    feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    for recipe in ("none", "exact", "tiled", "portable"):
        compiled = tempoc(source, recipe)
        onnx.checker.check_model(compiled, full_check=True)
        session(compiled)  # it loads with the seeds in it
        for later in (True, False):
            for step in (0, 3):
                got = tempo(compiled, feeds | {"later": np.array(later), "tempo.seed": np.array([0, step])})
                for name, want in gradients_of(feeds, later, step).items():
                    check(near(got[name], want, DROPPED_GRADIENT), f"{recipe}, {later}, {step}: {name}")


def refuse(name, graph, recipe, inputs, *says):
    compiled = tempoc(model(name, graph), recipe) if recipe else model(name, graph)
    np.savez(path("in.npz"), **inputs)
    run(compiled, "--inputs", path("in.npz"), "--dropout-rng=ort", code=3, says=says)
    return compiled


def refused():
    feeds = {"q": np.ones((2, 3, 5, 4), "f4"), "kt": np.ones((2, 3, 4, 6), "f4"), "v": np.ones((2, 3, 6, 4), "f4"),
             "c": np.ones((2, 3, 5, 4), "f4"), "later": np.array(True)}
    unseeded = TRAIN.replace(" <seed = 1005>", "").replace(" <seed = 1006>", "")
    one = TRAIN.replace(" <seed = 1006>", "")
    for recipe in ("", "none", "exact", "tiled"):
        refuse("one.onnxt", one, recipe, feeds, "at a switch", "without a seed of its own", "attribute seed")
    refuse("map.onnxt", TRAIN.replace(" <seed = 1005>", ""), "exact", feeds, "without a seed of its own")
    for graph in (unseeded, one):
        refuse("portable.onnxt", graph, "portable", feeds, "tempo.seed", "without a seed of its own")
    ratio = TRAIN.replace("bool later)", "bool later, float r)").replace("(z, ratio, later)", "(z, r, on)")
    refuse("ratio.onnxt", ratio, "portable", feeds | {"r": np.array(0.5, "f4")}, "ratio", "another recipe")
    run(tempoc(path("ratio.onnxt"), "exact"), "--inputs", path("in.npz"), "--dropout-rng=ort")
    loop = """g (float[3] x, int64 n, bool go) => (float[3] y) <float ratio = {0.25}, bool on = {1}, int64 two = {2}> {
      y = Loop (%s, go, x) <body = turn (int64 i, bool c, float[3] s) => (bool again, float[3] d) {
        again = Identity (c)
        ["in a turn"] d = Dropout <seed = 7> (s, ratio, on)
      }>
    }"""
    for turns in ("n", "two"):
        for recipe in ("", "forward"):
            refuse("loop.onnxt", loop % turns, recipe,
                   {"x": np.ones(3, "f4"), "n": np.array(2), "go": np.array(True)}, "in a turn", "in a loop")
    marked = """g (float[3] x) => (bool[3] y) <float z = {0}> { y = Greater <__tempo_seed = 3> (x, z) }"""
    run(model("marked.onnxt", marked), "--inputs", inputs_of(x=np.ones(3, "f4")), "--dropout-rng=ort", code=2,
             says=("__tempo_seed", "no mask"))
    if "emulated" in run("--list-devices"):  # there is one in builds with -Dcuda=emulated
        run(path("off.onnxt"), "--device=cuda", "--dropout-rng=ort", code=3, says=("ONNX Runtime", "'cuda'"))


def switched_off():
    off = """g (float[3] x) => (float[3] y, bool[3] kept) <float ratio = {0.25}, bool off = {0}> {
      y, kept = Dropout (x, ratio, off) }"""
    run(model("off.onnxt", off), "--inputs", inputs_of(x=np.ones(3, "f4")), "--dropout-rng=ort")


def inputs_of(**arrays):
    np.savez(path("in.npz"), **arrays)
    return path("in.npz")


against_onnxruntime()
backward()
switched_off()
refused()
finish()
