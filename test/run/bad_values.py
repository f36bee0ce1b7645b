"""bad_values.py TEMPO_RUN: operands whose values are wrong, known only when the graph runs: each is refused by the name
of the node, in little time and memory; extreme values that have a meaning are taken."""

import numpy as np

from programs import check, finish, path
from tolerances import LOGARITHM
from tool import model, run

BAD, UNSUPPORTED, LIMIT = 2, 3, 4
NAMES = {"f4": "float", "i8": "int64", "i4": "int32", "u8": "uint64", "b1": "bool"}
I = lambda *items: np.array(items, "i8")  # noqa: E731
F = lambda *items: np.array(items, "f4")  # noqa: E731
X = np.arange(16, dtype="f4").reshape(4, 4)
LEAST, MOST = -2**63, 2**63 - 1


def one(op, *operands, attrs="", results="r", **words):
    """Runs one node, named "culprit", whose operands are all inputs of the graph. words: see tool.run."""
    def declared(name, array):
        dims = ",".join(f"{name}{d}" for d in range(array.ndim))
        return f"{NAMES[array.dtype.str[1:]]}[{dims}] {name}"

    names = "abcde"[:len(operands)]
    text = 'g (%s) => (%s r) { ["culprit"] %s = %s %s (%s) }' % (
        ", ".join(map(declared, names, operands)), words.pop("type", "float"), results, op, attrs, ", ".join(names))
    np.savez(path("in.npz"), **dict(zip(names, operands)))
    run(model("m.onnxt", text), "--inputs", path("in.npz"), "--outputs", path("out.npz"), **words)
    if words.get("code", 0) == 0:
        with np.load(path("out.npz")) as out:
            return out["r"]
    return None


def refused(code, op, *operands, says=(), **more):
    one(op, *operands, code=code, says=("culprit", *says), **more)


def indices():
    for bad in (4, -5, LEAST, MOST):
        refused(BAD, "Gather", X, I(0, bad), says=("out of range", str(bad)))
        refused(BAD, "GatherElements", X, I(0, 0, 0, bad).reshape(1, 4), says=(str(bad),))
        refused(BAD, "GatherND", X, I(0, bad).reshape(1, 2), says=(str(bad),))
        refused(BAD, "ScatterElements", X, I(bad).reshape(1, 1), F(1).reshape(1, 1), says=(str(bad),))
        refused(BAD, "ScatterND", X, I(bad).reshape(1, 1), X[:1], says=(str(bad),))
    refused(BAD, "Gather", X, np.array([-2**31], "i4"), says=("-2147483648",))


def labels():
    scores = np.ones((2, 5), "f4")
    for reduction in ("none", "mean", "sum"):
        attrs = f'<reduction = "{reduction}">'
        for bad in (5, -1, -100, 2**62):
            refused(BAD, "SoftmaxCrossEntropyLoss", scores, I(0, bad), attrs=attrs, says=("labels go from 0", str(bad)))
            refused(BAD, "NegativeLogLikelihoodLoss", scores, I(0, bad), attrs=attrs, says=(str(bad),))
    loss = one("SoftmaxCrossEntropyLoss", scores, I(0, -100), attrs="<ignore_index = -100>")
    check(abs(loss - np.log(5)) < LOGARITHM, "an ignored label outside of the classes")
    refused(BAD, "SoftmaxCrossEntropyLoss", scores, I(0, 4), F(1, 1, 1), says=("5 and 3",))
    refused(BAD, "SoftmaxCrossEntropyLoss", scores, I(0, 1, 2), says=("3",))


def ratios():
    for bad in ("1", "1.5", "nan", "-0.1"):
        refused(BAD, "Dropout", X, np.float32(bad), np.True_, says=("not allowed", f"value {bad}"))


def sizes():
    refused(BAD, "Expand", F(1, 2, 3), I(4), says=("not allowed", "4"))
    refused(BAD, "Expand", F(1), I(-4), says=("-4",))
    check(one("Expand", F(1, 2, 3), I(1)).tolist() == [1, 2, 3], "Expand by a 1")
    refused(LIMIT, "Expand", F(1), I(2**40))
    refused(LIMIT, "OneHot", I(0, 1), I(2**60), F(0, 1))
    refused(BAD, "OneHot", I(0, 1), I(-3), F(0, 1))
    refused(BAD, "ConstantOfShape", I(-1))
    refused(LIMIT, "ConstantOfShape", I(2**40, 2**40))
    refused(BAD, "Tile", X, I(-1, 1))
    for repeats in (I(2**62, 2**62), I(MOST, 0), I(2**31, 2**31)):
        refused(LIMIT, "Tile", X, repeats)
    refused(BAD, "Tile", X, I(LEAST, 1), says=("negative",))
    for pads in (I(MOST, 0, MOST, 0), I(MOST, 0, 1, 0), I(2**62, 2**62, 0, 0), I(2**40, 0, 0, 0)):
        refused(LIMIT, "Pad", X, pads)
    for pads in (I(LEAST, 0, -1, 0), I(-5, 0, 0, 0), I(LEAST, 0, 0, 0)):
        refused(BAD, "Pad", X, pads, says=("negative",))
    check(one("Pad", X, I(LEAST, 0, MOST, 0)).tolist() == np.zeros((3, 4)).tolist(), "Pad from far off")
    for mode, cut, want in (("wrap", -2, [3, 4, 5, 3, 4]), ("edge", -2, [3, 4, 5, 5, 5]), ("edge", -5, [5, 5]),
                            ("reflect", -2, [3, 4, 5, 4, 3]), ("reflect", -4, [5, 4, 3])):  # PyTorch's
        check(one("Pad", F(1, 2, 3, 4, 5), I(cut, 2), attrs=f'<mode = "{mode}">').tolist() == want, f"{mode} {cut}")
    refused(LIMIT, "Range", np.int64(0), np.int64(2**62), np.int64(1), type="int64")
    refused(LIMIT, "Range", np.int64(LEAST), np.int64(MOST), np.int64(1), type="int64")
    check(one("Range", np.int64(MOST), np.int64(LEAST), np.int64(LEAST), type="int64").tolist() == [MOST, -1],
          "the longest step")
    f = np.float32
    for start, limit, delta in ((0, 10, "nan"), (0, "nan", 1), ("nan", 1, 1), ("inf", "inf", 1), (0, "inf", "inf")):
        refused(BAD, "Range", f(start), f(limit), f(delta), says=("nan" if "nan" in (start, limit, delta) else "inf",))
    for start, limit, delta in ((0, "inf", 1), ("-inf", 0, 1), (0, "-inf", -1), (0, 1e30, 1e-10)):
        refused(LIMIT, "Range", f(start), f(limit), f(delta))
    refused(BAD, "Range", np.int64(0), np.int64(9), np.int64(0), type="int64")
    refused(BAD, "Reshape", X, I(-1, -1))
    refused(LIMIT, "Reshape", X, I(2**62, 2**62))
    refused(BAD, "Slice", X, I(0), I(2), I(0), I(0), says=("step",))
    for start, end, step in ((-1, LEAST, LEAST), (LEAST, MOST, MOST), (2, LEAST, LEAST + 1), (MOST, LEAST, LEAST),
                             (0, MOST, LEAST), (3, 1, -MOST)):
        want = X[start:None if end == LEAST else end:step]
        got = one("Slice", X, I(start), I(end), I(0), I(step))
        check(got.tolist() == want.tolist(), f"Slice {start}:{end}:{step} is {got}, expected {want}")
    for start, end, step in ((-7, -9, -1), (-5, LEAST, -2), (LEAST, LEAST, -1)):  # ONNX: from the first element
        got = one("Slice", X, I(start), I(end), I(0), I(step))
        check(got.tolist() == X[:1].tolist(), f"Slice {start}:{end}:{step} is {got}, expected the first row")
    refused(BAD, "TopK", X, I(9), results="r, i")
    refused(BAD, "Split", X, I(1, 1), results="r, q")
    refused(BAD, "Split", X, I(-1, 5), results="r, q")
    # More than this machine has: told before the run, with the figure.
    with open("/proc/meminfo", encoding="ascii") as info:
        total = int(info.readline().split()[1]) << 10
    one("ConstantOfShape", I(total // 4 + 1), code=LIMIT, says=("not enough memory", "MiB", "culprit"))
    one("ConstantOfShape", I(2**20, 2**20), code=LIMIT, says=("takes 4194304.0 MiB",))


def resizes():
    linear, crop = "<mode = \"linear\"%s>", ', coordinate_transformation_mode = "tf_crop_and_resize"'
    refused(BAD, "Resize", F(), F(), F(), I(5), says=("do not fit together",))
    check(one("Resize", F(), F(), F(), I(0)).tolist() == [], "nothing of nothing")
    for roi in (F("nan", 1), F(0, "nan"), F("-inf", "inf")):
        got = one("Resize", X[0], roi, F(), I(5), attrs=linear % (crop + ", extrapolation_value = 7.0"))
        check(got.tolist() == [7] * 5, f"a place that is not a number is outside: {got}")


def integers():
    for op, a, b, want in (("Div", LEAST, -1, LEAST), ("Mod", LEAST, -1, 0), ("Mul", 2**62, 4, 0),
                           ("Add", MOST, 1, LEAST)):
        check(one(op, I(a), I(b), type="int64").tolist() == [want], f"{op} {a} {b} wraps")
    for op, want in (("Abs", LEAST), ("Neg", LEAST)):
        check(one(op, I(LEAST), type="int64").tolist() == [want], f"{op} of the least integer")
    for numbers in ((0, 1, 2, 3, 4), (3, 3, 3, 3, 3), (100, 0, 0, 1000, 1000), (-4, -5, -6, -7, -8)):
        want = np.trunc(max(numbers) + np.log(np.sum(np.exp(np.array(numbers, "f8") - max(numbers)))))
        got = one("ReduceLogSumExp", I(*numbers), type="int64")
        check(got.tolist() == [want], f"ReduceLogSumExp of {numbers} is {got}, expected {want}")
    check(one("ReduceLogSum", I(0, 1, 2, 3, 4), type="int64").tolist() == [2], "ReduceLogSum of integers")
    for to in (1, 2, 3, 5, 6, 7, 9, 11, 12, 13):  # whatever comes out, it is not a crash
        one("Cast", F(np.nan, np.inf, -np.inf, 1e30, -1e30), attrs=f"<to = {to}>", type="")
    check(one("Trilu", X, np.int64(MOST)).sum() == 0 and one("Trilu", X, np.int64(LEAST)).sum() == X.sum(),
          "Trilu far off")


def pieces():
    """Of Split, as many as a list of sizes tells, which is longer than what is evaluated while shapes are inferred."""
    count = 9000
    sizes = ", ".join(["1"] * (count - 1) + ["2"])
    names = ", ".join(f"y{i}" for i in range(count))
    text = (f"g (float[n] x) => (float[a] y0, float[b] y{count - 1}) <int64[{count}] sizes = {{{sizes}}}> "
            f"{{ {names} = Split <axis = 0> (x, sizes) }}")
    x = np.arange(count + 1, dtype="f4")
    np.savez(path("in.npz"), x=x)
    run(model("m.onnxt", text), "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    with np.load(path("out.npz")) as out:
        check(out["y0"].tolist() == [0] and out[f"y{count - 1}"].tolist() == [count - 1, count], "9000 pieces of Split")


indices()
labels()
ratios()
sizes()
resizes()
integers()
pieces()
finish()
