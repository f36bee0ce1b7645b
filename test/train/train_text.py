"""train_text.py TEMPO_TRAIN: rows of different lengths, padded, in buckets and packed, give the losses that the same
rows give as numpy pads them, and numpy's own first one; a run in buckets resumes with the same bits."""
import numpy as np

from train_tool import check, close, finish, losses, path, run, tolerances

WORDS, WIDTH, ROWS, LONGEST = 11, 6, 26, 21
rng = np.random.default_rng(3)
weights = {"E": rng.normal(size=(WORDS, WIDTH)).astype("f4"), "W": rng.normal(size=(WIDTH, WORDS)).astype("f4")}
rows = [rng.integers(0, WORDS, n) for n in rng.integers(2, LONGEST + 1, ROWS)]


def model():
    """The mean of a row's tokens, added to each, decides the label of each."""
    values = ", ".join(f"float[{a},{b}] {name} = {{{','.join(repr(float(v)) for v in w.ravel())}}}"
                       for name, w in weights.items() for a, b in [w.shape])
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
text (int64[batch,length] input_ids, int64[batch,length] attention_mask, int64[batch,length] labels) => (float loss)
<{values}> {{
    words = Gather (E, input_ids)
    real = Cast <to = 1> (attention_mask)
    last = Constant <value_ints = [2]> ()
    ones = Unsqueeze (real, last)
    kept = Mul (words, ones)
    tokens = Constant <value_ints = [1]> ()
    sum = ReduceSum <keepdims = 1> (kept, tokens)
    count = ReduceSum <keepdims = 1> (ones, tokens)
    mean = Div (sum, count)
    both = Add (words, mean)
    bent = Tanh (both)
    scores = MatMul (bent, W)
    flat = Constant <value_ints = [-1, {WORDS}]> ()
    flat_scores = Reshape (scores, flat)
    one_axis = Constant <value_ints = [-1]> ()
    flat_labels = Reshape (labels, one_axis)
    loss = SoftmaxCrossEntropyLoss <ignore_index = -100> (flat_scores, flat_labels)
}}
"""
    with open(path("text.onnxt"), "w", encoding="utf-8") as file:
        file.write(text)


def numpy_loss(some):
    """Of rows, their own labels, in double."""
    lost = []
    for row in some:
        words = weights["E"].astype("f8")[row]
        scores = np.tanh(words + words.mean(0)) @ weights["W"].astype("f8")
        lost += list(np.log(np.exp(scores).sum(1)) - scores[np.arange(len(row)), row])
    return np.mean(lost)


def train(data, *options, **changes):
    run(path("text.onnxt"), "--data", path(data), "--batch", 4, "--optimizer", "sgd", "--lr", 0.5, "--schedule",
        "constant", "--weight-decay", 0, "--log", path("log.jsonl"), *options, **changes)
    return losses("log.jsonl")


model()
tokens, offsets = np.concatenate(rows), np.concatenate([[0], np.cumsum([len(r) for r in rows])])
np.savez(path("rows.npz"), **{"input_ids": tokens.astype("u1"), "input_ids.offsets": offsets, "labels": tokens})
pad = lambda value: np.stack([np.pad(r, (0, LONGEST - len(r)), constant_values=value) for r in rows])
np.savez(path("padded.npz"), input_ids=pad(0), labels=pad(-100), attention_mask=(pad(-1) >= 0).astype("i8"))
np.savez(path("whole.npz"), **{n: tokens[:len(tokens) // 16 * 16].reshape(-1, 16) for n in ("input_ids", "labels")},
         attention_mask=np.ones((len(tokens) // 16, 16), "i8"))

# Sums over rows of other lengths are rounded otherwise: a few units of float32 in each of some steps.
for options in (("--no-shuffle",), ("--seed", 5, "--epochs", 3)):
    ragged = train("rows.npz", *options)
    close(ragged, train("padded.npz", *options), f"padded to the batch's longest, {options}", tolerances.EVALUATED)
    check(len(ragged) == 7 * (3 if "--epochs" in options else 1), f"updates: {len(ragged)}")
close(train("rows.npz", "--no-shuffle", "--steps", 1), [numpy_loss(rows[:4])], "numpy's first loss",
      tolerances.FIRST_LOSS)
for options in (("--no-shuffle",), ("--seed", 5, "--epochs", 2)):
    check(train("rows.npz", "--pack", 16, *options) == train("whole.npz", *options), f"packed, {options}: other bits")

buckets = ("--bucket", 3, "--epochs", 3, "--seed", 9)
whole = train("rows.npz", *buckets)
check(len(whole) == 21 and whole != train("rows.npz", *buckets[2:]), "buckets are another order")
first = train("rows.npz", *buckets, "--steps", 10, "--checkpoint", path("kept"), "--checkpoint-every", 5)
again = train("rows.npz", *buckets, "--resume", "--checkpoint", path("kept"))
check(first == whole[:10] and again[-11:] == whole[10:], f"resumed in a bucket: {first} {again}, not {whole}")
run(path("text.onnxt"), "--data", path("rows.npz"), "--pad", "input_ids=99", "--batch", 4, code=2, says=("Gather",))
finish()
