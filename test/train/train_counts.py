"""train_counts.py TOOL TEMPOC: an update of several batches, and a score of several, are those of one batch of all
samples, whatever the loss ends in and however unevenly what it counts is spread: a sample has 0 to 4 labels that are
not ignored. Expected: numpy's loss of all samples, and its central differences, in double."""
import sys

import numpy as np
import train_tool as t

TOKENS, WIDTH, CLASSES, RATE = 4, 5, 3, 0.5
COUNTS = [4, 3, 0, 1, 4, 2, 1]
HEAD = """<ir_version: 10, opset_import: ["" : 21, "ai.tempo" : 1]>
counted (float[batch,4,5] x, int64[batch,4] labels, float[batch,4] mask) => (float loss)
<float[5,3] W = {%s}, float[3] b = {0.1, -0.2, 0.3}, float[3] cw = {1.0, 2.0, 4.0}> {
    s0 = MatMul (x, W)
    s = Add (s0, b)
    minus1 = Constant <value = int64[1] {-1}> ()
    zero = Constant <value = float {0.0}> ()
    one = Constant <value = float {1.0}> ()
    row = Constant <value = int64[2] {-1, 3}> ()
    rows = Reshape (s, row)
    flat = Reshape (labels, minus1)
    none = Constant <value = int64 {0}> ()
    valid = Max (labels, none)
    turned = Transpose <perm = [0, 2, 1]> (s)
    each = SoftmaxCrossEntropyLoss <reduction = "none"> (turned, valid)
    kept = Mul (each, mask)
    sum = ReduceSum <keepdims = 0> (kept)
    n = ReduceSum <keepdims = 0> (mask)
    square = Mul (s, s)
    squares = ReduceMean <keepdims = 0> (square)
    %s
}
"""


def parts(w, b, data):
    """What losses are made of, in double: nll, mask, weights of labels, scores, W."""
    s = data["x"].astype(np.float64) @ w + b
    log = s - np.log(np.exp(s).sum(-1, keepdims=True))
    valid = np.maximum(data["labels"], 0)
    nll = -np.take_along_axis(log, valid[..., None], -1)[..., 0]
    m = data["mask"].astype(np.float64)
    return nll, m, m * np.array([1.0, 2.0, 4.0])[valid], s, w


def mean(nll, m, *_):
    return (nll * m).sum() / m.sum()


SCE = "SoftmaxCrossEntropyLoss <ignore_index = -100%s> (rows, flat%s)"
# name: (ONNX, numpy)
LOSSES = {
    "cross entropy": ("loss = " + SCE % ("", ""), mean),
    "sum": ("loss = " + SCE % (', reduction = "sum"', ""), lambda nll, m, *_: (nll * m).sum()),
    "log-likelihood": ("p = LogSoftmax (rows) loss = NegativeLogLikelihoodLoss <ignore_index = -100> (p, flat)", mean),
    "fused": ("loss = ai.tempo.LinearCrossEntropy <ignore_index = -100> (x2, W, flat, b)", mean),
    "sum by sum": ("loss = Div (sum, n)", mean),
    "by 1 at least": ("i = Cast <to = 7> (n) o = Constant <value_int = 1> () e = Clip (i, o) d = Cast <to = 1> (e) "
                      "r = ReduceSum <keepdims = 0> (square) loss = Div (r, d)",  # also of a sample without a label
                      lambda nll, m, c, s, w: (s * s).sum() / m.sum()),
    "each": ("by = Constant <value_ints = [1]> () a = ReduceSum <keepdims = 0> (kept, by) "
             "c = ReduceSum <keepdims = 0> (mask, by) d = Max (c, one) q = Div (a, d) "
             "loss = ReduceMean <keepdims = 0> (q)", lambda nll, m, *_: ((nll * m).sum(1) / m.sum(1).clip(1)).mean()),
    "mean by 1 at least": ("a = ReduceMean <keepdims = 1> (kept) c = ReduceMean <keepdims = 1> (mask) d = Max (c, one) "
                           "q = Div (a, d) loss = Squeeze (q)", lambda nll, m, *_: (nll * m).mean()),
    "chosen": ("some = Greater (n, zero) q = Div (sum, n) loss = Where (some, q, zero)", mean),
    "sum of quotients": ("d = Div (mask, n) q = Mul (each, d) loss = ReduceSum <keepdims = 0> (q)", mean),
    "numbers": ("d = Max (n, one) a0 = Add (zero, sum) a1 = Div (a0, d) a = Reshape (a1, minus1) "
                "c = Reshape (squares, minus1) z = Concat <axis = 0> (c, a) "
                "by = Constant <value_floats = [1.5, 2.0]> () m = ReduceMean <keepdims = 0> (z) p = MatMul (z, by) "
                "loss = Sub (p, m)", lambda nll, m, c, s, w: (s * s).mean() + 1.5 * mean(nll, m)),
    "mean by mean": ("a = ReduceMean <keepdims = 0> (kept) c = ReduceMean <keepdims = 0> (mask) loss = Div (a, c)",
                     mean),
    "dot": ("e = Reshape (each, minus1) m = Reshape (mask, minus1) d = MatMul (e, m) loss = Div (d, n)", mean),
    "by samples": ("shape = Shape <end = 1> (x) k = Squeeze (shape) f = Cast <to = 1> (k) loss = Div (sum, f)",
                   lambda nll, m, *_: (nll * m).sum() / len(m)),
    "mean, sum and decay": ("a = " + SCE % ("", ", cw") + " c = Add (a, sum) r = ReduceSumSquare <keepdims = 0> (W) "
                            "loss = Sum (c, squares, r)", lambda nll, m, c, s, w:
                            (nll * c).sum() / c.sum() + (nll * m).sum() + (s * s).mean() + (w * w).sum()),
}
W = np.random.default_rng(3).standard_normal((WIDTH, CLASSES)).astype(np.float32)
B = np.array([0.1, -0.2, 0.3], np.float32)


def samples():
    draw = np.random.default_rng(4)
    labels = draw.integers(0, CLASSES, (len(COUNTS), TOKENS))
    mask = np.arange(TOKENS) < np.array(COUNTS)[:, None]
    return {"x": draw.standard_normal((len(COUNTS), TOKENS, WIDTH)).astype(np.float32),
            "labels": np.where(mask, labels, -100), "mask": mask.astype(np.float32)}


def write(name, ending, batch="batch"):
    if "x2" in ending:
        ending = "wide = Constant <value = int64[2] {-1, 5}> () x2 = Reshape (x, wide) " + ending
    with open(t.path(name), "w", encoding="utf-8") as file:
        text = HEAD % (", ".join(repr(float(v)) for v in W.ravel()), ending.replace(") ", ")\n    "))
        file.write(text.replace("[batch", "[" + batch))


def expected(of, data):
    """The loss, and weights and loss behind one step."""
    start, delta, moved = np.concatenate([W.ravel(), B]).astype(np.float64), 1e-6, []
    at = lambda p: of(*parts(p[:-CLASSES].reshape(W.shape), p[-CLASSES:], data))  # noqa: E731
    for i in range(len(start)):
        step = delta * (np.arange(len(start)) == i)
        moved.append(start[i] - RATE * (at(start + step) - at(start - step)) / (2 * delta))
    return at(start), np.array(moved), at(np.array(moved))


def train(name, *options, **how):
    return t.run(t.path(name), "--data", t.path("train.npz"), "--optimizer=sgd", "--lr", RATE, "--schedule=constant",
                 "--log", t.path("log.jsonl"), *options, **how)


def compare(name, of, data, model="model.onnxt"):
    loss, weights, behind = expected(of, data)
    for batch, group in (2, 4), (3, 3), (1, 7):
        if name == "each" and batch == 1:  # in the file, too: no axis of open size tells samples
            write(model, LOSSES[name][0], "1")
        train(model, "--batch", batch, "--accumulate", group, "--save-weights", t.path("w"), "--freeze=cw",
              "--eval-data", t.path("train.npz"))
        found = t.safetensors(t.path("w"))
        what = f"{name}, {group} batches of {batch}"
        t.close([t.losses("log.jsonl")[0], t.records("log.jsonl")[1][-1]["loss"]], [loss, behind], f"{what}: losses",
                t.tolerances.EVALUATED)
        t.close(np.concatenate([found["W"].ravel(), found["b"]]), weights, f"{what}: weights",
                t.tolerances.TRAINED_WEIGHT)


def main():
    data = samples()
    np.savez(t.path("train.npz"), **data)
    for name, (ending, of) in LOSSES.items():
        write("model.onnxt", ending)
        compare(name, of, data)
    for name in "cross entropy", "sum by sum":  # the backward pass is in the file
        write("model.onnxt", LOSSES[name][0])
        t.told(sys.argv[2], t.path("model.onnxt"), "-o", t.path("compiled.onnx"), "--freeze=cw")
        compare(f"{name}, compiled", mean, data, "compiled.onnx")
    unknown = "weighted by their samples, as if all counted equally"
    write("model.onnxt", LOSSES["numbers"][0])
    t.told(sys.argv[2], t.path("model.onnxt"), "-o", t.path("compiled.onnx"), "--freeze=cw")
    train("compiled.onnx", "--batch=4", "--accumulate=2", says=[unknown, "the file has its backward pass"])
    for ending in ("loss = Sqrt (squares)",  # and samples that meet others
                   "f = Flatten (s) o = Transpose (f) y = MatMul (f, o) loss = ReduceSum <keepdims = 0> (y)",
                   "d = Sub (mask, n) q = Mul (each, d) loss = ReduceMean <keepdims = 0> (q)"):
        write("model.onnxt", ending)
        train("model.onnxt", "-b2", "--accumulate=2", "--eval-data", t.path("train.npz"), says=[unknown, "--batch"])
    write("model.onnxt", "a0 = Neg (squares) a1 = Neg (a0) " +
          "".join(f"a{i + 2} = Add (a{i + 1}, a{i}) " for i in range(50)) + "loss = Identity (a51)")  # 2e10 terms
    train("model.onnxt", "--batch=2", "--accumulate=2", "--steps=1", says=[unknown])
    write("model.onnxt", LOSSES["cross entropy"][0])  # PyTorch: NaN, gradients of 0
    train("model.onnxt", "--batch=1", "--no-shuffle", "--freeze=cw", says=["update 3: the loss has nothing to count"])
    t.check([loss is None for loss in t.losses("log.jsonl")] == [i == 2 for i in range(7)], "one loss of nothing")
    train("model.onnxt", "--batch=1", "--no-shuffle", "--freeze=cw", "--lr=1e-9")
    nll, mask = parts(W, B, data)[:2]
    each = [mean(nll[i], mask[i]) for i in range(7) if i != 2]
    t.close([loss for loss in t.losses("log.jsonl") if loss is not None], each, "losses of single samples",
            t.tolerances.EVALUATED)
    write("model.onnxt", LOSSES["sum by sum"][0])  # PyTorch: gradients are NaN, too
    train("model.onnxt", "--batch=1", "--no-shuffle", code=6, says=["update 3", "clamp(min=1)"])
    data["x"][3] = np.inf
    np.savez(t.path("train.npz"), **data)
    train("model.onnxt", "--batch=1", "--no-shuffle", "--accumulate=7", code=6,
          says=["update 1", "MatMul 's0' made NaN", "a smaller --lr"])
    t.finish()


if __name__ == "__main__":
    main()
