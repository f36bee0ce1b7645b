"""train_metrics.py TEMPO_TRAIN TEMPOC: accuracy, F1 and perplexity of an evaluation are numpy's of all samples, by
scikit-learn's definitions, whatever the batches and however many labels are ignored; each is there only where it has a
meaning."""
import sys

import numpy as np
import train_tool as t

SAMPLES, TOKENS, WIDTH, CLASSES = 13, 4, 5, 4
SCE = "SoftmaxCrossEntropyLoss <ignore_index = -100%s> (%s)"
ROWS = "rows = Reshape (s, shape) each = Reshape (labels, minus1) "
IDS, X, POSITIONS = "int64[n,4] x", "float[n,5] x", "float[n,4,5] x"
PER_TOKEN, OF_SAMPLE = "int64[n,4] labels", "int64[n] labels"
LM = {"accuracy", "perplexity"}
BITS, MEAN = "float[n,%d] labels", " loss = ReduceMean <keepdims = 0> (%s)"
BINARY = ("one = Constant <value_float = 1.0> () r = Sub (one, labels) rx = Mul (r, s) p = Sigmoid (s) lp = Log (p) "
          "both = Sub (rx, lp)")
F1S = {2: {"accuracy", "f1"}, 4: {"accuracy", "f1_macro"}}
# name: (inputs, number of classes, the end of the graph, metrics)
CASES = {
    "two classes": (X, OF_SAMPLE, 2, "loss = " + SCE % ("", "s, labels"), F1S[2]),
    "four classes, one never seen": (X, OF_SAMPLE, 4, "loss = " + SCE % ("", "s, labels"), F1S[4]),
    "weighted, a column of int32": (
        X, "int32[n,1] labels", 4, "each = Reshape (labels, minus1) loss = " + SCE % ("", "s, each, cw"), F1S[4]),
    "positions": (POSITIONS, PER_TOKEN, 4, ROWS + "loss = " + SCE % ("", "rows, each"), {"accuracy"}),
    "tokens": (IDS, PER_TOKEN, 4, ROWS + "loss = " + SCE % ("", "rows, each"), LM),
    "tokens, a sum": (IDS, PER_TOKEN, 4, ROWS + "a = " + SCE % (', reduction = "sum"', "rows, each") +
                      " m = ReduceMean <keepdims = 0> (s) loss = Sub (a, m)", LM),
    "tokens, log softmax": (IDS, PER_TOKEN, 4, "r = Transpose <perm = [0, 2, 1]> (s) p = LogSoftmax <axis = 1> (r) "
                            "loss = NegativeLogLikelihoodLoss <ignore_index = -100> (p, labels)", LM),
    "weighted tokens": (IDS, PER_TOKEN, 4, ROWS + "loss = " + SCE % ("", "rows, each, cw"), {"accuracy"}),
    "one's own": (X, OF_SAMPLE, 2, "loss = " + SCE % ("", "s, labels") + " accuracy = ReduceMax <keepdims = 0> (b) ",
                  {"accuracy", "f1"}),
    "bits": (X, BITS % 4, 4, BINARY + MEAN % "both", F1S[4]),
    "bits, added by an option": (X, BITS % 4, 4, "", F1S[4]),
    "a column of bits": (X, BITS % 1, 1, "one = Constant <value_float = 1.0> () p = Sigmoid (s) lp = Log (p) "
                         "q = Sub (one, p) lq = Log (q) r = Sub (one, labels) a = Mul (labels, lp) c = Mul (r, lq) "
                         "both = Add (a, c) minus = Neg (both)" + MEAN % "minus", F1S[2]),
    "masked bits": (X, BITS % 4, 4, BINARY + " kept = Mul (both, labels)" + MEAN % "kept", set()),
    "classes, added by an option": (X, OF_SAMPLE, 4, "", F1S[4]),
    "two losses": (IDS, PER_TOKEN, 4, ROWS + "a = " + SCE % ("", "rows, each") + " turned = Neg (rows) c = " +
                   SCE % ("", "turned, each") + " loss = Add (a, c)", set()),
    "a mask later": (IDS, PER_TOKEN, 4, ROWS + "a = " + SCE % (', reduction = "none"', "rows, each") +
                     " c = Mul (a, a) loss = ReduceMean <keepdims = 0> (c)", set()),
    "another loss": (X, OF_SAMPLE, 2, "c = Mul (s, s) loss = ReduceMean <keepdims = 0> (c)", set()),
}
DRAW = np.random.default_rng(11)
E, W = (DRAW.standard_normal(shape).astype(np.float32) for shape in ((CLASSES, WIDTH), (WIDTH, CLASSES)))
B = np.array([0.1, -0.2, -99, 0.3], np.float32)  # class 2 is never predicted
COUNTS = np.array([4, 1, 0, 3, 2, 4, 0, 1, 4, 2, 0, 3, 1])


def text_of(array, name):
    return (f"float[{','.join(map(str, array.shape))}] {name} = "
            f"{{{', '.join(repr(float(v)) for v in array.ravel())}}}")


def model(inputs, labels, classes, ending):
    words = "h = Gather (E, x)" if inputs == IDS else "h = Identity (x)"
    given, outputs = f", {labels}", "float loss" + (", float accuracy" if "accuracy" in ending else "")
    if not ending:
        given, outputs = "", f"float[n,{classes}] s"
    weights = {"E": E, "W": W[:, :classes], "b": B[:classes], "cw": np.arange(1, classes + 1)}
    weights = ", ".join(text_of(array, name) for name, array in weights.items())
    return f"""<ir_version: 10, opset_import: ["" : 21]>
measured ({inputs}{given}) => ({outputs}) <{weights}> {{
    {words}
    s0 = MatMul (h, W)
    s = Add (s0, b)
    minus1 = Constant <value = int64[1] {{-1}}> ()
    shape = Constant <value = int64[2] {{-1, {classes}}}> ()
    {ending.replace(") ", ")" + chr(10) + "    ")}
}}
"""


def data(inputs, labels, classes):
    """Samples with 0 to 4 labels that count, or one or none; of classes 0, 1 and 3."""
    draw = np.random.default_rng(12)
    x = draw.integers(0, CLASSES, (SAMPLES, TOKENS)) if inputs == IDS else draw.standard_normal(
        (SAMPLES, TOKENS, WIDTH)[::1 if inputs == POSITIONS else 2]).astype(np.float32)
    if "float" in labels:
        return {"x": x, "labels": (draw.random((SAMPLES, classes)) > 0.6).astype(np.float32)}
    given = draw.choice([0, 1, 3] if classes == 4 else [0, 1], (SAMPLES, TOKENS))
    given = np.where(np.arange(TOKENS) < COUNTS[:, None], given, -100)
    if labels != PER_TOKEN:
        given = given[:, :1] if labels != OF_SAMPLE else given[:, 0]
    return {"x": x, "labels": given.astype(np.int32 if "int32" in labels else np.int64)}


def f1(right, labels, best, class_):
    return 2 * (right & (labels == class_)).sum() / ((labels == class_).sum() + (best == class_).sum())


def expected(inputs, classes, samples):
    h = E.astype(np.float64)[samples["x"]] if inputs == IDS else samples["x"].astype(np.float64)
    s = (h @ W[:, :classes] + B[:classes]).reshape(-1, classes)
    if samples["labels"].dtype == np.float32:
        best, ones = s > 0, samples["labels"] > 0.5
        each = 2 * (best & ones).sum(0) / np.maximum(1, best.sum(0) + ones.sum(0))
        return {"accuracy": (best == ones).mean(), "f1": each[0], "f1_macro": np.mean(each)}
    labels = samples["labels"].ravel()
    s, labels = s[labels != -100], labels[labels != -100]
    best = s.argmax(1)
    right = best == labels
    nll = np.log(np.exp(s).sum(1)) - s[np.arange(len(s)), labels]
    some = [f1(right, labels, best, c) for c in sorted({*labels, *best})]
    return {"accuracy": right.mean(), "f1": f1(right, labels, best, 1), "f1_macro": np.mean(some),
            "perplexity": np.exp(nll.mean())}


def prepare(name):
    inputs, labels, classes, ending, metrics = CASES[name]
    t.write(t.path("model.onnxt"), model(inputs, labels, classes, ending))
    samples = data(inputs, labels, classes)
    np.savez(t.path("data.npz"), **samples)
    want = {key: value for key, value in expected(inputs, classes, samples).items() if key in metrics}
    if "accuracy =" in ending:
        want["accuracy"] = B[:classes].max()
    return want


def compare(want, what):
    judged = t.records("log.jsonl")[1][-1]
    got = {key: value for key, value in judged.items()
           if key not in ("eval", "step", "epoch", "loss", "samples", "seconds")}
    if t.check(got.keys() == want.keys(), f"{what}: {got.keys()}, expected {want.keys()}"):
        t.close([got[key] for key in want], list(want.values()), what, t.tolerances.EVALUATED)


def train(model_name, *options, **how):
    return t.run(t.path(model_name), "--data", t.path("data.npz"), "--eval-data", t.path("data.npz"), "--lr=0",
                 "--freeze=cw", "--log", t.path("log.jsonl"), *options, **how)


def main():
    for name in CASES:
        want = prepare(name)
        loss = "--loss=loss" if CASES[name][3] else "--add-loss=bce,input=labels" if "bits" in name else (
            "--add-loss=cross-entropy")
        for batch in 1, 5:
            train("model.onnxt", loss, "--batch", batch, "--accumulate", 2,
                  says=[f"  {key} " for key in want])
            compare(want, f"{name}, batches of {batch}")
    for name in "four classes, one never seen", "tokens":  # the backward pass is in the file
        want = prepare(name)
        t.told(sys.argv[2], t.path("model.onnxt"), "-o", t.path("compiled.onnx"), "--freeze=cw")
        train("compiled.onnx", "--batch=3")
        compare(want, f"{name}, compiled")
    prepare("two classes")
    samples = {"x": np.ones((2, WIDTH), np.float32), "labels": np.full(2, -100)}
    np.savez(t.path("none.npz"), **samples)  # a mean of nothing
    train("model.onnxt", "--eval-data", t.path("none.npz"))
    judged = t.records("log.jsonl")[1][-1]
    t.check(judged["accuracy"] is None and judged["f1"] is None, f"no label counts: {judged}")
    t.finish()


if __name__ == "__main__":
    main()
