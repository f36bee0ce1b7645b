"""train_statistics.py TOOL TEMPOC TEMPO_RUN: running statistics of BatchNormalization move with each batch, as PyTorch
moves them (momentum 0.3 there, 0.7 in ONNX; the variance of n - 1), are saved, evaluated with, and gone on from.
Expected: numpy in double. The norm reads the data, and weights stay (a rate of 0), so that all follows from the data. A
second norm calls the first one's module again; another has the same first numbers, and ones, which a constant has, too.
The inference form of the same model, in a new and an old opset, does all this with --restore-batch-norm, and nothing
without.
"""
import re
import sys

import numpy as np
import onnx
import train_tool as t

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
norms (float[batch,2,3] x) => (float loss, float[batch,2,3] y)
<float[2] w = {1.5, -0.5}, float[2] b = {0.25, 1}, float[2] one = {1, 1}, float[2] m = {0, 0}, float[2] v = {1, 1},
 float[2] m2 = {0, 0}, float[2] v2 = {1, 1}> {
    y, rm, rv = BatchNormalization <training_mode = 1, momentum = 0.7> (x, w, b, m, v)
    half = Constant <value = float {0.5}> ()
    x2 = Mul (x, half)
    y2, rm2, rv2 = BatchNormalization <training_mode = 1, momentum = 0.7> (x2, w, b, rm, rv)
    y3, rm3, rv3 = BatchNormalization <training_mode = 1, momentum = 0.7> (x2, one, b, m2, v2)
    s1 = Add (y, y2)
    s2 = Mul (s1, y3)
    s = Mul (s2, s2)
    loss = ReduceMean <keepdims = 0> (s)
}
"""
SAMPLES, BATCH = 10, 4
W, B = np.array([1.5, -0.5])[:, None], np.array([0.25, 1.0])[:, None]


def moved(stats, x):
    """m, v, m2, v2 behind a batch."""
    m, v, m2, v2 = stats
    for part in x, x / 2:
        m, v = 0.7 * m + 0.3 * part.mean((0, 2)), 0.7 * v + 0.3 * part.var((0, 2)) * part[:, 0].size / (
            part[:, 0].size - 1)
    half = x / 2
    return m, v, 0.7 * m2 + 0.3 * half.mean((0, 2)), 0.7 * v2 + 0.3 * half.var((0, 2)) * half[:, 0].size / (
        half[:, 0].size - 1)


def score(stats, x):
    m, v, m2, v2 = (s[:, None] for s in stats)
    y = [(p - m) / np.sqrt(v + 1e-5) * W + B for p in (x, x / 2)]
    return np.mean(((y[0] + y[1]) * ((x / 2 - m2) / np.sqrt(v2 + 1e-5) + B)) ** 2)


def check(found, stats, what):
    for name, want in zip(("m", "v", "m2", "v2"), stats):
        t.close(found[name], want, f"{what}: {name}")


def check_inference(same, stats):
    """`stats`: those that training leaves."""
    form = TEXT.replace("training_mode = 1, ", "").replace("rm, rv)", "m, v)")
    form = re.sub(r"(y\d?), rm\d?, rv\d? =", r"\1 =", form)
    first = [np.zeros(2), np.ones(2)] * 2
    for opset in 21, 9:
        with open(t.path("inference.onnxt"), "w", encoding="utf-8") as file:
            file.write(form.replace('"" : 21', f'"" : {opset}'))
        for flags, want, says in ((["--restore-batch-norm"], stats, "BatchNormalization of y, y2, y3 is in training"),
                                  ([], first, "in inference mode: it uses its running statistics")):
            t.run(t.path("inference.onnxt"), *same[1:], *flags, "--save", t.path("saved.onnx"), says=[says])
            saved = onnx.load(t.path("saved.onnx"))
            check({i.name: onnx.numpy_helper.to_array(i) for i in saved.graph.initializer}, want, f"inference, {flags}")
            t.check(all(len(n.output) == 1 for n in saved.graph.node), "--save: the file is not as it was")


def main():
    x = (np.random.default_rng(5).standard_normal((SAMPLES, 2, 3)) * [[2.0], [0.5]] + 1).astype(np.float32)
    np.savez(t.path("train.npz"), x=x)
    with open(t.path("model.onnxt"), "w", encoding="utf-8") as file:
        file.write(TEXT)
    stats = np.zeros(2), np.ones(2), np.zeros(2), np.ones(2)
    for _ in range(2):
        for at in range(0, SAMPLES, BATCH):
            stats = moved(stats, x[at:at + BATCH].astype(np.float64))
    after_two_epochs = stats
    same = [t.path("model.onnxt"), "--data", t.path("train.npz"), "--eval-data", t.path("train.npz"), "--batch", BATCH,
            "--no-shuffle", "--epochs=2", "--lr=0", "--loss=loss", "--freeze=one", "--log", t.path("log.jsonl")]
    for group in 1, 2:  # each batch of a group moves them
        t.run(*same, "--accumulate", group, "--save-weights", t.path(f"w{group}"), "--save", t.path("saved.onnx"),
              says=["trains 4 numbers"])
        check(t.safetensors(t.path(f"w{group}")), stats, f"groups of {group}")
        t.close(t.records("log.jsonl")[1][-1]["loss"], score(stats, x), "evaluation", t.tolerances.EVALUATED)
        saved = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(t.path("saved.onnx")).graph.initializer}
        check(saved, stats, "--save")
    t.run(*same, "--checkpoint", t.path("kept"), "--steps=4", "--schedule=constant")
    t.run(*same, "--checkpoint", t.path("kept"), "--resume", "--save-weights", t.path("again"))
    with open(t.path("w1"), "rb") as one, open(t.path("again"), "rb") as other:
        t.check(one.read() == other.read(), "a run that goes on has other statistics")
    t.told(sys.argv[2], t.path("model.onnxt"), "-o", t.path("step.onnx"), "--update=sgd", "--freeze=one", "--loss=loss")
    np.savez(t.path("one.npz"), x=x, **{"tempo.rate": np.float32(0), "tempo.update": np.int64(1)})
    t.told(sys.argv[3], t.path("step.onnx"), "-i", t.path("one.npz"), "--repeat=3", "-o", t.path("out.npz"))
    stats = np.zeros(2), np.ones(2), np.zeros(2), np.ones(2)
    for _ in range(3):
        stats = moved(stats, x.astype(np.float64))
    with np.load(t.path("out.npz")) as out:
        check({name[:-4]: out[name] for name in out.files if name.endswith(".new")}, stats, "tempo-run --repeat")
    check_inference(same, after_two_epochs)
    with open(t.path("none.onnxt"), "w", encoding="utf-8") as file:
        file.write(TEXT.replace("momentum = 0.7> (x2, one", "momentum = 0.0> (x2, one"))
    t.run(t.path("none.onnxt"), *same[1:], says=["momentum 0", "momentum=None"])
    with open(t.path("none.onnxt"), "w", encoding="utf-8") as file:
        file.write(TEXT.replace("one, b, m2, v2", "m2, b, m2, v2"))
    t.run(t.path("none.onnxt"), *same[1:], says=["its running statistics are not updated: the file uses 'm2'"])
    with open(t.path("flat.onnxt"), "w", encoding="utf-8") as file:
        file.write(TEXT.replace("[batch,2,3]", "[batch,2]"))
    np.savez(t.path("flat.npz"), x=x[:5, :, 0])
    t.run(t.path("flat.onnxt"), "--data", t.path("flat.npz"), "--batch=4", "--loss=loss", code=2,
          says=["more than one value of each channel", "--drop-last"])
    t.finish()


if __name__ == "__main__":
    main()
