"""Dropout whose training_mode is told at the run: a graph input, one with a default, a computed value. Under every
recipe it draws the mask that the definition says, from tempo.seed and its number, or drops nothing; loss, results and
gradients are the same bits under none and exact, in both modes; the bodies draw the same in ONNX Runtime.

usage: dropout_modes.py TEMPO_RUN TEMPOC
"""
import sys

import numpy as np

from compare import by_onnxruntime, load, near, same_bits
from programs import check, finish, path, told
from tolerances import DROPPED
from tool import model, run

RATIO, SEED, STEP = 0.25, 77, 5
RNG = np.random.default_rng(3)
X, W, C = (RNG.normal(size=(5, 7)).astype(np.float32) for _ in range(3))
GRAPH = """
dropout (float[5,7] x, float[5,7] c, %(inputs)s) => (float loss, float[5,7] y, bool[5,7] kept)
<float[5,7] w = {%(w)s}, float ratio = {0.25}, float level = {0.5}%(default)s, bool on = {1}>
{
  %(compute)s
  first = Dropout (x, ratio, on)
  z = Mul (x, w)
  y, kept = Dropout (z, ratio, %(mode)s)
  t = Tanh (y)
  p = Mul (t, c)
  loss = ReduceSum <keepdims = 0> (p)
  u = Identity (first)
}
"""
KINDS = {
    "an input": dict(inputs="bool mode", default="", compute="", mode="mode"),
    "a default": dict(inputs="bool mode", default=", bool mode = {1}", compute="", mode="mode"),
    "a default of no": dict(inputs="bool[1] mode", default=", bool[1] mode = {0}", compute="", mode="mode"),
    "computed": dict(inputs="float amount", default="", compute="m = Greater (amount, level)", mode="m"),
}


def philox(block, node):
    """The words of elements 8 block to 8 block + 7."""
    c, k, low = [block & 0xFFFFFFFF, block >> 32, node, STEP], [SEED & 0xFFFFFFFF, SEED >> 32], 0xFFFFFFFF
    for _ in range(7):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & low, (a >> 32) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def mask(node):
    words = [word for block in range((X.size + 7) // 8) for word in philox(block, node)]
    halves = [half for word in words for half in (word & 0xFFFF, word >> 16)][:X.size]
    return (np.array(halves) >= RATIO * 65536).reshape(X.shape)


def expected(training):
    kept = mask(1) if training else np.ones(X.shape, bool)
    factor = kept / (1 - RATIO) if training else 1.0
    y = np.float64(X) * W * factor
    return {"y": y, "kept": kept, "loss": (np.tanh(y) * C).sum(),
            "w_grad": C * (1 - np.tanh(y) ** 2) * factor * X}


def inputs_of(kind, training):
    inputs = {"x": X, "c": C, "tempo.seed": np.array([SEED, STEP])}
    if kind == "computed":
        return inputs | {"amount": np.array(0.9 if training else 0.1, np.float32)}
    if kind == "a default" and training or kind == "a default of no" and not training:
        return inputs
    shape = (1,) if kind == "a default of no" else ()
    return inputs | {"mode": np.full(shape, training)}


def compile_to(recipe, source):
    told(sys.argv[2], source, "-q", "-o", path(f"{recipe}.onnx"), "--recipe=" + recipe)
    return path(f"{recipe}.onnx")


for kind, words in KINDS.items():
    graph = model("model.onnxt", GRAPH % dict(words, w=", ".join(str(float(v)) for v in W.flat)))
    for training in (True, False):
        want, bits = expected(training), {}
        inputs = inputs_of(kind, training)
        for recipe in ("none", "exact", "tiled", "portable"):
            compiled = compile_to(recipe, graph)
            np.savez(path("in.npz"), **inputs)
            run(compiled, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
            results = {"tempo-run": load(path("out.npz")), "ONNX Runtime": by_onnxruntime(compiled, inputs)}
            for runtime, got in results.items():
                wrong = [name for name in want if name not in got or not near(got[name], want[name], DROPPED)]
                check(not wrong, f"{kind}, training {training}, {recipe} in {runtime}: {wrong} differ")
                check(np.array_equal(got["kept"], want["kept"]),
                      f"{kind}, training {training}, {recipe} in {runtime}: the mask")
            bits[recipe] = {name: results["tempo-run"][name] for name in want}
        check(same_bits(bits["exact"], bits["none"]), f"{kind}, training {training}: the bits of none and exact")

finish()
