#!/usr/bin/env python3
"""Loss curves of real models on real data: PyTorch's, and the same bits whatever is kept in memory.

usage: train_pytorch.py TEMPO_TRAIN CASE
CASE   a folder of models/ with model.onnx, data.npz and expected.npz, which has PyTorch's curve without dropout
With dropout, and without: losses under `none`, `exact`, `tiled` and within a budget are the same bits. Without: theirs,
and those of `paper`, are PyTorch's to a relative 1e-4; PyTorch's own curve in float is a fortieth of that off from that
in float64 at most. Behind the last step evaluation has PyTorch's loss (and accuracy), and so has ONNX Runtime
with the model that --save wrote; --save-weights has all of its weights by PyTorch's names.
"""
import os
import sys

import numpy as np
import onnx
import saved_models
from train_tool import check, finish, losses, path, records, run, safetensors, tolerances

FOLDER = sys.argv[2]
TIED = {"lm_head.weight": "transformer.wte.weight"}  # GPT-2's, as named_parameters() calls it
BUDGET = "45%"  # of the memory of `none`; in models so small the loss and an update take a third of that


def read(name):
    with np.load(os.path.join(FOLDER, name)) as file:
        return dict(file)


DATA, EXPECTED = read("data.npz"), read("expected.npz")


def train(model, log, *flags):
    e = EXPECTED
    run(model, "--data", os.path.join(FOLDER, "data.npz"), "--batch", e["batch"], "--no-shuffle", "--epochs",
        e["epochs"], "--lr", e["rate"], "--schedule=constant", "--optimizer=adamw", "--weight-decay", e["decay"],
        "--loss=loss", "--seed=1", "--log", path(log), *flags)


def ways():
    """Flags of what keeps the bits, by name. A budget holds for one size of batch, so that the last one, where it is
    short, is left out of training: there is none then."""
    flags = {recipe: [f"--recipe={recipe}"] for recipe in ("none", "exact", "tiled")}
    if len(DATA["labels"]) % EXPECTED["batch"] == 0:
        length = [f"--dim=sequence={DATA['input_ids'].shape[1]}"] if "input_ids" in DATA else []
        flags["budget"] = ["--recipe=none", f"--memory-budget={BUDGET}", *length]
    return flags


def curve(model, *flags):
    train(model, "run.jsonl", *flags)
    return losses("run.jsonl")


def same_bits(model):
    """The one curve of all ways."""
    curves = {name: curve(model, *flags) for name, flags in ways().items()}
    for name, got in curves.items():
        check(got == curves["none"], f"losses under {name} are not those of none")
    return curves["none"]


def near(got, wanted, what):
    got = np.asarray(got)
    apart = np.max(np.abs(got / wanted - 1)) if got.shape == np.shape(wanted) else np.inf
    check(apart < tolerances.CURVE, f"{what}: {apart:.1e} off PyTorch's")
    return f"{what} {apart:.1e}"


def weights(model):
    return {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(model).graph.initializer}


def results(plain):
    """What is written behind the last step."""
    saved, told = path("saved.onnx"), path("weights.safetensors")
    train(plain, "run.jsonl", "--recipe=exact", "--save", saved, "--save-weights", told, "--eval-data",
          os.path.join(FOLDER, "data.npz"))
    last = records("run.jsonl")[1][-1]
    feeds = {name: x if x.dtype == np.float32 else x.astype(np.int64) for name, x in DATA.items()}
    for name, score in saved_models.scores(saved_models.session_of(onnx.load(saved)), [feeds]).items():
        near(last[name], EXPECTED[f"final_{name}"], f"{name} by evaluation")
        near(score, EXPECTED[f"final_{name}"], f"{name} of the saved model by ONNX Runtime")
    before, after, by_name = weights(plain), weights(saved), safetensors(told)
    for name, a in before.items():
        if a.dtype == np.float32 and a.ndim:
            check(not np.array_equal(a, after[name]), f"{name} is not trained")
            first = TIED.get(name, name)
            check(first in by_name and np.array_equal(by_name[first], after[name]), f"{first} is not in --save-weights")


def main():
    model, plain = os.path.join(FOLDER, "model.onnx"), path("plain.onnx")
    dropped = same_bits(model)
    check(np.mean(np.array(dropped, np.float32) != EXPECTED["loss"]) > 0.9, "dropout does not drop")
    onnx.save(saved_models.without_dropout(onnx.load(model)), plain)
    apart = [near(same_bits(plain), EXPECTED["loss"], "exact"), near(curve(plain, "--recipe=paper"), EXPECTED["loss"],
                                                                     "paper")]
    results(plain)
    print(f"{len(dropped)} steps of {os.path.basename(FOLDER)}, off PyTorch's: {', '.join(apart)}")


main()
finish()
