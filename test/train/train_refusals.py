#!/usr/bin/env python3
"""What tempo-train refuses: each with its exit code, with what is wrong and with what to do; nothing is written then.

usage: train_refusals.py TEMPO_TRAIN TEMPOC MODELS
"""
import os
import re
import resource
import subprocess
import sys

import numpy as np

import train_tool as t

TEMPOC, MODELS = sys.argv[2:4]


def usage():
    model, data = t.path("model.onnxt"), t.path("train.npz")
    good = (model, "--data", data, "--loss=loss", "--batch=4")
    t.run(code=64, says=["no model given", "for example: tempo-train"])
    t.run(model, code=64, says=["no data given"])
    t.run(model, model, "--data", data, code=64, says=["one model at a time: unexpected " + model])
    for options, words in (
            (["--optimizer=AdamW"], "did you mean adamw"),
            (["--schedule=step"], "expected linear, cosine or constant"),
            (["--warmup=2.5"], "--warmup=100, or --warmup=6%"),
            (["--warmup=120%"], "--warmup=120%"),
            (["--warmup=many"], "--warmup=many"),
            (["--seed=-1"], "--seed=-1: expected"),
            (["--beta1=1"], "--beta1=1: expected a number from 0 to below 1"),
            (["--lr=-1"], "--lr=-1: expected a number that is not negative"),
            (["--momentum=0.5"], "--momentum needs --optimizer=sgd"),
            (["--nesterov"], "--nesterov needs --momentum"),
            (["--clip-last"], "--clip-last needs --clip-norm"),
            (["--accumulate=0"], "--accumulate of 1 or more"),
            (["--epochs=0"], "there is nothing to do"),
            (["--epochs=9223372036854775807"], "--epochs=9223372036854775807: expected at most 1000000000"),
            (["--accumulate=9223372036854775807"], "--accumulate=9223372036854775807: expected at most"),
            (["--keep=1", "--checkpoint", t.path("c")], "--keep"),
            (["--resume"], "--resume needs --checkpoint"),
            (["--checkpoint-every=3"], "--checkpoint-every needs --checkpoint"),
            (["--recipe=auto"], "tempoc"),
            (["--recipe=best"], "the recipes are"),
            (["--batchs=3"], "did you mean --batch"),
            (["--threads=5000"], "--threads: expected a number from 0 to 4096")):
        t.run(*good, *options, code=64, says=[words])
    t.run(*good, "--save", t.path("none/out.onnx"), code=5, says=["none"])
    t.run(*good, "--log", t.path("none/l.jsonl"), code=5)
    t.run(*good, "--checkpoint", t.path("none/c"), code=5)
    t.run(*good, "--tensorboard", t.path("none/t"), code=5, says=["--tensorboard"])
    t.run(t.path("none.onnx"), "--data", data, code=5)
    t.check("tempo-train --help" not in t.run("--help=all"), "--help=all says to read itself")
    t.run("--version", says=["tempo-train"])


def files():
    model, data = t.path("model.onnxt"), t.path("train.npz")
    t.run(model, "--data", t.path("none.npz"), "--loss=loss", code=5, says=["none.npz"])
    np.savez(t.path("half.npz"), x=t.samples(8)["x"])
    t.run(model, "--data", t.path("half.npz"), "--loss=loss", code=2, says=["labels"])
    for name, content, words in (("text.npz", b"hello", "as numpy.savez writes it"), ("cut.npz", b"PK\3", "cut off"),
                                 ("one.npz", b"\x93NUMPY\1\0", "this is one array, as numpy.save writes it")):
        with open(t.path(name), "wb") as file:
            file.write(content)
        t.run(model, "--data", t.path(name), "--loss=loss", code=2, says=["no whole zip archive", words])
    t.run(model, "--data", t.path("no folder"), "--loss=loss", code=5, says=["No such file"])
    t.run(model, "--data", data, code=64, says=["--loss"])  # two outputs could be it
    t.run(model, "--data", data, "--loss=loss", "--freeze=*", code=2,
          says=["nothing", "--train-list and --freeze select"])
    t.classifier("fixed.onnxt", batch=6)
    t.data("few.npz", 5)
    t.run(t.path("fixed.onnxt"), "--data", t.path("few.npz"), "--loss=loss", code=2,
          says=["5 samples, fewer than a batch of 6", "--batch"])
    t.run(t.path("fixed.onnxt"), "--data", data, "--loss=loss", "--log", t.path("fixed.jsonl"),
          says=["the last 4 samples"])
    t.check(len(t.losses("fixed.jsonl")) == 3, "22 samples in batches of 6 are 3 updates")
    t.run(t.path("fixed.onnxt"), "--data", data, "--loss=loss", "--batch=11", "--log", t.path("fixed.jsonl"))
    t.check(len(t.losses("fixed.jsonl")) == 2, "22 samples in batches of 11 are 2 updates")
    bad = t.samples(8)
    bad["labels"][5] = 7
    np.savez(t.path("bad.npz"), **bad)
    t.run(model, "--data", t.path("bad.npz"), "--loss=loss", "--save", t.path("bad.onnx"), code=2, says=["7"])
    t.check(not os.path.exists(t.path("bad.onnx")), "a run that failed has saved a model")


def weights_apart():
    """A backward pass whose weights are inputs without a value trains nothing: what gives them values is told."""
    t.run(os.path.join(MODELS, "bertcls-ort_14", "model.onnx"), "--data", t.path("train.npz"), code=2,
          says=["no gradient of an initializer", "tempoc FILE --checkpoint=WEIGHTS -o TRAIN.onnx"])


def compiled():
    """What tempoc wrote is trained as it is, at its own batch, and saved without its backward pass."""
    model, data, train = t.path("model.onnxt"), t.path("train.npz"), t.path("train.onnx")
    t.told(TEMPOC, model, "-q", "-o", train, "--loss=loss")
    for name, source in (("plain", model), ("compiled", train)):
        t.run(source, "--data", data, "--batch=4", "--loss=loss", "--lr=0.05", "--log", t.path(f"{name}.jsonl"),
              "--save-weights", t.path(f"{name}.safetensors"))
    t.check(t.losses("plain.jsonl") == t.losses("compiled.jsonl"), "a compiled file trains otherwise")
    t.run(train, "--data", data, "--batch=4", "--lr=0.05", "--save", t.path("forward.onnx"),
          says=["forward graph alone"])
    plain, found = (t.safetensors(t.path(f"{name}.safetensors")) for name in ("plain", "compiled"))
    t.check(plain.keys() == found.keys() and all(np.array_equal(plain[k], found[k]) for k in plain),
            "weights of a compiled file differ")
    t.run(model, "--data", data, "--loss=loss", "--dim=batch=6", "--batch=4", code=64,
          says=["--batch=4, but the graph takes batches of 6", "--dim"])
    # What a fixed batch leaves out is told, of what is trained on and of what is evaluated.
    t.run(model, "--data", data, "--eval-data", data, "--loss=loss", "--dim=batch=6", "--steps=1",
          says=["the last 4 samples of each epoch's order are left out: the graph takes whole batches alone",
                "of each epoch 4 of 22 samples, which make no whole batch, are left out"])


def numbers():
    """NaN and infinity end a run with exit code 6, and nothing that there was is written over."""
    model, data = t.path("model.onnxt"), t.path("train.npz")
    broken = t.samples(8)
    broken["x"][6] = np.nan
    np.savez(t.path("nan.npz"), **broken)
    t.run(model, "--data", t.path("nan.npz"), "--loss=loss", "--batch=4", "--no-shuffle", "--save", t.path("nan.onnx"),
          "--checkpoint", t.path("nan"), "--checkpoint-every=1", code=6,
          says=["update 2, epoch 1: 'x', float[4,5], comes from no node and holds NaN: element [2,0]", "isfinite"])
    t.check(not os.path.exists(t.path("nan.onnx")), "a model was saved though NaN came up")
    t.check(sorted(os.listdir(t.path("nan"))) == ["step-1"], f"checkpoints: {os.listdir(t.path('nan'))}")
    # A scaled loss is stepped over where gradients overflow, but not for ever: one batch of two is broken.
    text = t.run(model, "--data", t.path("nan.npz"), "--loss=loss", "--batch=4", "--loss-scale", "--steps=200",
                 "--save", t.path("nan.onnx"), code=6, says=["'x', float[4,5], comes from no node and holds NaN"])
    t.check("update 66," in text or "update 65," in text, f"33 halvings of 65536 were to be tried:\n{text}")
    t.check(not os.path.exists(t.path("nan.onnx")), "a model was saved though NaN came up again and again")
    for weights in ("weights", "optimizer"):
        found = t.safetensors(os.path.join(t.path("nan"), "step-1", f"{weights}.safetensors"))
        t.check(all(np.isfinite(w).all() for w in found.values()), "a checkpoint holds what is not finite")
    t.run(model, "--data", data, "--loss=loss", "--lr=1e38", "--optimizer=sgd", "--epochs=9", code=6,
          says=["update", "epoch", "a smaller --lr"])


def limited(megabytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


def memory():
    """A batch that memory cannot hold is refused before the first update, with one that it can, and with a budget: both
    run then. A program with sanitizers, which takes more by itself, is not asked."""
    draw = np.random.default_rng(1)
    ids = draw.integers(1, 90, (4096, 12))
    np.savez(t.path("ids.npz"), input_ids=ids, attention_mask=np.ones_like(ids), labels=ids)
    limit = 208 + (os.path.getsize(t.TOOL) >> 20)  # the kernels of CUDA are mapped with the program
    if subprocess.run([t.TOOL, "--version"], preexec_fn=limited(limit), capture_output=True, check=False).returncode:
        return
    for name in ("bert-ts_14", "bert-dyn_18"):  # open shapes; a batch of 2
        command = [t.TOOL, os.path.join(MODELS, name, "model.onnx"), "--data", t.path("ids.npz"), "--threads=1",
                   "--steps=1", "--log", t.path("memory.jsonl")]

        def limited_run(*options, of=tuple(command)):
            done = subprocess.run([*of, *options], preexec_fn=limited(limit), capture_output=True, text=True,
                                  check=False)
            return done.returncode, done.stdout + done.stderr
        code, words = limited_run("--batch=4096")
        t.check(code == 4 and "not enough memory: a batch of 4096 takes" in words, f"{code}: {words}")
        told = [float(n) for n in re.findall(r"(\d+\.\d) (?:MiB, |of it weights|results of nodes|the model as)", words)]
        t.check(len(told) == 4 and abs(told[0] - sum(told[1:])) < 0.3, f"the parts are not the whole: {words}")
        t.check(not os.path.exists(t.path("memory.jsonl")), "a record was written though the run was refused")
        batch = re.search(r"--batch=\d+", words)
        budget = re.search(r"--memory-budget=\d+MiB(?: --dim \S+)*", words)
        t.check(batch and budget, f"neither a batch nor a budget that would fit: {words}")
        for options in ([batch.group()], ["--batch=4096", *budget.group().split()]) if batch and budget else ():
            code, words = limited_run(*options)
            t.check(code == 0, f"{options} do not fit: {words}")
            os.remove(t.path("memory.jsonl"))


def main():
    t.classifier("model.onnxt")
    t.data("train.npz", 22)
    usage()
    files()
    weights_apart()
    compiled()
    numbers()
    memory()
    t.finish()


if __name__ == "__main__":
    main()
