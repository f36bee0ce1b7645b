#!/usr/bin/env python3
"""Curves of tempo-train beside a loop of numpy's in double: optimizers, schedules, warmup, decay, clipping, accumulated
gradients, short last batches, evaluations. The order of samples is the file's here.

usage: train_curves.py TEMPO_TRAIN
Optimizers are those of the papers, as PyTorch documents them: AdamW (decoupled decay), Adam and SGD (decay as a part of
the gradient), momentum with and without Nesterov's look ahead, and LAMB.
"""
import numpy as np

from programs import text_of, write
import train_tool as t

SAMPLES, BATCH = 22, 4  # 5 batches of 4, and one of 2
DECAYED = ("W1", "W2")


def batches(accumulate):
    """The groups of an epoch, of (first, last) each."""
    cuts = [(at, min(at + BATCH, SAMPLES)) for at in range(0, SAMPLES, BATCH)]
    return [cuts[at:at + accumulate] for at in range(0, len(cuts), accumulate)]


def rate_of(schedule, peak, update, updates, warmup):
    if update <= warmup:
        return peak * update / (warmup + 1)
    at = (update - 1 - warmup) / (updates - warmup)
    return peak * {"linear": 1 - at, "cosine": (1 + np.cos(np.pi * at)) / 2, "constant": 1}[schedule]


def adam(decoupled, lamb=False, b1=0.9, b2=0.999, e=1e-8, decay=0.0):
    state = {}

    def step(key, w, g, rate, update):
        d = decay if key in DECAYED else 0
        m, v = state.get(key, (0, 0))
        g = g if decoupled else g + d * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        state[key] = m, v
        direction = m / (1 - b1 ** update) / (np.sqrt(v / (1 - b2 ** update)) + e)
        if not lamb:
            return w - rate * (direction + (d * w if decoupled else 0))
        direction = direction + d * w
        norm, length = np.linalg.norm(w), np.linalg.norm(direction)
        return w - rate * (norm / length if norm > 0 and length > 0 else 1) * direction
    return step


def sgd(momentum=0.0, nesterov=False, decay=0.0):
    state = {}

    def step(key, w, g, rate, update):
        g = g + (decay if key in DECAYED else 0) * w
        m = momentum * state[key] + g if key in state else g
        state[key] = m
        return w - rate * (g + momentum * m if nesterov else m)
    return step


def train(step, peak, schedule="linear", warmup=0, epochs=3, accumulate=1, clip=0.0, clip_last=False):
    data = t.samples(SAMPLES)
    w = {key: value.astype(np.float64) for key, value in t.initial().items()}
    groups, losses, update, last_norm = batches(accumulate), [], 0, None
    for _ in range(epochs):
        for group in groups:
            update += 1
            total, sums, loss = sum(b - a for a, b in group), {key: 0 for key in w}, 0
            for a, b in group:
                value, gradients, _ = t.forward(w, data["x"][a:b], data["labels"][a:b])
                loss += value * (b - a) / total
                sums = {key: sums[key] + gradients[key] * (b - a) / total for key in w}
            norm = np.sqrt(sum(np.sum(g * g) for g in sums.values()))
            by = last_norm if clip_last else norm
            if clip and by is not None and by > clip:
                sums = {key: g * clip / by for key, g in sums.items()}
            last_norm = norm
            rate = rate_of(schedule, peak, update, epochs * len(groups), warmup)
            w = {key: step(key, w[key], sums[key], rate, update) for key in w}
            losses.append(loss)
    return losses, w


def compare(name, options, step, peak, **how):
    want, weights = train(step, peak, **how)
    t.run(t.path("model.onnxt"), "--data", t.path("train.npz"), "--batch", BATCH, "--no-shuffle", "--loss=loss",
          "--log", t.path("log.jsonl"), "--save-weights", t.path("w.safetensors"), "--lr", peak, "--epochs=3", *options,
          says=["epoch 3/3"])
    got = t.losses("log.jsonl")
    t.close(got, want, f"{name}: losses")
    found = t.safetensors(t.path("w.safetensors"))
    t.check(sorted(found) == sorted(weights), f"{name}: weights are {sorted(found)}")
    for key in weights:
        t.close(found[key], weights[key], f"{name}: {key}", t.tolerances.TRAINED_WEIGHT)
    rates = [r["rate"] for r in t.records("log.jsonl")[0]]
    schedule = {"schedule": "linear", "warmup": 0, **how}
    t.close(rates, [rate_of(schedule["schedule"], peak, u + 1, len(want), schedule["warmup"])
                    for u in range(len(want))], f"{name}: rates", t.tolerances.RATE)


def evaluations():
    """Scores behind each epoch are those of the weights then, over all samples, the last short batch included."""
    t.data("eval.npz", 11, seed=5)
    held = t.samples(11, seed=5)
    t.run(t.path("model.onnxt"), "--data", t.path("train.npz"), "--eval-data", t.path("eval.npz"), "--batch", BATCH,
          "--no-shuffle", "--loss=loss", "--log", t.path("log.jsonl"), "--lr", 0.05, "--epochs=3")
    got = t.records("log.jsonl")[1]
    t.check([r["step"] for r in got] == [6, 12, 18], f"evaluations behind {[r['step'] for r in got]}")
    _, weights = train(adam(True), 0.05)
    loss, _, accuracy = t.forward(weights, held["x"], held["labels"])
    t.close(got[-1]["loss"], loss, "evaluation: loss", t.tolerances.EVALUATED)
    t.close(got[-1]["accuracy"], accuracy, "evaluation: accuracy")


def half_precision():
    """Under fp16 gradients overflow at a scale of 65536: updates are left out, and the scale halves, until they do not.
    What is left is the curve of numpy over the other batches, and Adam counts just those."""
    t.run(t.path("model.onnxt"), "--data", t.path("train.npz"), "--batch=1", "--no-shuffle", "--loss=loss",
          "--epochs=2", "--log", t.path("log.jsonl"), "--lr=0.05", "--schedule=constant", "--precision=fp16",
          "--eval-data", t.path("train.npz"), "--save-weights", t.path("w.safetensors"))
    got, scores = t.records("log.jsonl")
    loss, _, accuracy = t.forward(t.safetensors(t.path("w.safetensors")), **t.samples(SAMPLES))
    t.close([scores[-1]["loss"], scores[-1]["accuracy"]], [loss, accuracy], "fp16: evaluation in floats",
            t.tolerances.EVALUATED)
    left_out = [r["step"] for r in got if r.get("skipped")]
    t.check(0 < len(left_out) < 12, f"updates left out: {left_out}")
    scale = 65536.0
    for r in got:
        t.check(r["loss_scale"] == scale, f"step {r['step']}: scale {r['loss_scale']}, not {scale}")
        scale *= 0.5 if r.get("skipped") else 1
    data, step, update = t.samples(SAMPLES), adam(True), 0
    w = {key: value.astype(np.float64) for key, value in t.initial().items()}
    for r in got:
        at = (r["step"] - 1) % SAMPLES
        loss, gradients, _ = t.forward(w, data["x"][at:at + 1], data["labels"][at:at + 1])
        t.close(r["loss"], loss, f"fp16: loss of step {r['step']}", t.tolerances.TRAINED_FP16)
        if not r.get("skipped"):
            update += 1
            w = {key: step(key, w[key], gradients[key], 0.05, update) for key in w}


def loss_scale():
    """A scale that is a power of two changes no float that is no tiny one."""
    want, _ = train(adam(True), 0.05)
    t.run(t.path("model.onnxt"), "--data", t.path("train.npz"), "--batch", BATCH, "--no-shuffle", "--loss=loss",
          "--log", t.path("log.jsonl"), "--lr=0.05", "--epochs=3", "--loss-scale")
    got = t.records("log.jsonl")[0]
    t.close([r["loss"] for r in got], want, "loss scale: losses")
    t.check(all(r["loss_scale"] == 65536 and r["grad_norm"] > 0 for r in got), "loss scale: records")


def loss_of_16_bits():
    """A loss that the file rounds to 16 bits is read as such, in training and in evaluations."""
    text = text_of(t.path("model.onnxt")).replace("float loss", "float16 loss").replace("    loss = ", "    exact = ")
    write(t.path("rounded.onnxt"), text.replace("    best = ", "    loss = Cast <to = 10> (exact)\n    best = "))
    want, weights = train(adam(True), 0.05)
    t.run(t.path("rounded.onnxt"), "--data", t.path("train.npz"), "--eval-data", t.path("train.npz"), "--loss=loss",
          "--batch", BATCH, "--no-shuffle", "--log", t.path("log.jsonl"), "--lr=0.05", "--epochs=3")
    data = t.samples(SAMPLES)
    t.close(t.losses("log.jsonl"), want, "float16: losses", t.tolerances.TRAINED_FLOAT16)
    t.close(t.records("log.jsonl")[1][-1]["loss"], t.forward(weights, data["x"], data["labels"])[0],
            "float16: evaluation", t.tolerances.TRAINED_FLOAT16)


def main():
    t.classifier("model.onnxt", extra="")
    t.data("train.npz", SAMPLES)
    compare("adamw", [], adam(True), 0.05)
    compare("decay of 0.3", ["--weight-decay=0.3"], adam(True, decay=0.3), 0.05)
    compare("betas", ["--beta1=0.7", "--beta2=0.9", "--epsilon=1e-3"], adam(True, b1=0.7, b2=0.9, e=1e-3), 0.05)
    compare("adam", ["--optimizer=adam", "--weight-decay=0.1"], adam(False, decay=0.1), 0.05)
    compare("sgd", ["--optimizer=sgd"], sgd(), 0.5)
    compare("momentum", ["--optimizer=sgd", "--momentum=0.9", "--weight-decay=0.02"], sgd(0.9, decay=0.02), 0.1)
    compare("nesterov", ["--optimizer=sgd", "--momentum=0.9", "--nesterov"], sgd(0.9, True), 0.1)
    compare("lamb", ["--optimizer=lamb", "--weight-decay=0.01"], adam(True, lamb=True, decay=0.01), 0.05)
    compare("cosine", ["--schedule=cosine", "--warmup=4"], adam(True), 0.05, schedule="cosine", warmup=4)
    compare("constant", ["--schedule=constant", "--warmup=30%"], adam(True), 0.05, schedule="constant", warmup=6)
    compare("accumulate", ["--accumulate=4", "--steps=6"], adam(True), 0.05, accumulate=4)
    compare("clip", ["--clip-norm=0.3"], adam(True), 0.05, clip=0.3)
    compare("clip and accumulate", ["--clip-norm=0.3", "--accumulate=2", "--optimizer=sgd"], sgd(), 0.5, clip=0.3,
            accumulate=2)
    compare("clip by the last norm", ["--clip-norm=0.3", "--clip-last", "--optimizer=sgd"], sgd(), 0.5, clip=0.3,
            clip_last=True)
    loss_scale()
    loss_of_16_bits()
    half_precision()
    evaluations()
    t.finish()


if __name__ == "__main__":
    main()
