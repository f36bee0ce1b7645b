#!/usr/bin/env python3
"""train_parallel.py TEMPO_TRAIN MPIRUN [CASE ...] [--trials=N]: mpirun -n N tempo-train.

  - Losses, scores and weights over 2 and 4 ranks are those of one process with the whole batch, up to the order of
    summation, also where parts of the last batch differ in size or are empty; twice with the same bits.
  - Losses of real models (CASE: folders of models/ with PyTorch's curve) over 2 and 4 ranks are PyTorch's.
  - One rank writes the log and the checkpoints; a run goes on from one with the bits of a run that never stopped.
  - What is wrong is said once, and its exit code is mpirun's.
  - A rank that is killed or stopped: all end, it is named, no process stays, and the run goes on from its checkpoint.
    N trials of each.
"""
import argparse
import os
import re
import shutil
import signal
import sys
import time

import numpy as np
import onnx

from programs import bytes_of, text_of, write
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "train"))
import saved_models  # noqa: E402
import train_counts  # noqa: E402
import train_metrics  # noqa: E402
import train_tool as t  # noqa: E402
from rank_job import ENVIRONMENT, GONE_IN, SILENT_IN, Job  # noqa: E402

arguments = argparse.ArgumentParser()
arguments.add_argument("tempo_train")
arguments.add_argument("mpirun")
arguments.add_argument("cases", nargs="*")
arguments.add_argument("--trials", type=int, default=1)
o = arguments.parse_args()


def command(ranks, *args):
    return ([o.mpirun, "-n", str(ranks)] if ranks > 1 else []) + [t.TOOL, *map(str, args)]


def run(ranks, *args, code=0):
    return t.told(*command(ranks, *args), code=code, env=ENVIRONMENT, timeout=100)


def training(ranks, name, *more, batch=8, code=0):
    """A run over so many ranks with this batch in all."""
    return run(ranks, t.path("model.onnxt"), "--data", t.path("train.npz"), "--loss=loss", f"--batch={batch // ranks}",
               "--seed=5", "--threads=1", "--rank-timeout", SILENT_IN, "--log", t.path(f"{name}.jsonl"),
               "--save-weights", t.path(f"{name}.safetensors"), *more, code=code)


def content(name):
    return bytes_of(t.path(name))


# --- numbers -------------------------------------------------------------------------------------

def means():
    t.classifier("model.onnxt")
    t.data("eval.npz", 13, seed=9)
    flags = ("--epochs=4", "--eval-data", t.path("eval.npz"))
    for samples in (22, 17):  # the last batch has 6, over 4 ranks 1, 2, 1 and 2; or 1, and three ranks have none
        t.data("train.npz", samples)
        for rule in (("--optimizer=sgd", "--momentum=0.9", "--lr=0.1"), ("--lr=0.01",),
                     ("--lr=0.01", "--accumulate=2", "--clip-norm=0.2")):
            training(1, "whole", *flags, *rule)
            for ranks in (2, 4):
                said = training(ranks, "parts", *flags, *rule)
                what = f"{samples} samples, {ranks} ranks, {rule}"
                t.check(said.count("trains ") == 1 and f"{ranks} ranks, each with {8 // ranks}" in said, said)
                steps, evaluations = t.records("whole.jsonl")
                mine, judged = t.records("parts.jsonl")
                t.close([r["loss"] for r in mine], [r["loss"] for r in steps], f"{what}: losses")
                t.check([r["step"] for r in mine] == [r["step"] for r in steps], f"{what}: {mine}")
                for score in ("loss", "accuracy"):
                    t.close([r[score] for r in judged], [r[score] for r in evaluations], f"{what}: {score}")
                whole, parts = (t.safetensors(t.path(f"{name}.safetensors")) for name in ("whole", "parts"))
                for key, value in whole.items():
                    t.close(parts[key], value, f"{what}: {key}", t.tolerances.TRAINED_PART)
                os.remove(t.path("parts.jsonl"))
    os.remove(t.path("whole.jsonl"))


def counts():
    """Parts in which labels are ignored, some in all, weigh as in one batch."""
    data = train_counts.samples()
    np.savez(t.path("train.npz"), **data)
    for name in "cross entropy", "sum by sum", "sum", "numbers":
        ending, of = train_counts.LOSSES[name]
        train_counts.write("model.onnxt", ending)
        loss, weights, _ = train_counts.expected(of, data)
        for ranks, group in ((2, 1), (3, 1), (2, 4)):
            each = -(-7 // ranks // group)
            run(ranks, t.path("model.onnxt"), "--data", t.path("train.npz"), f"--batch={each}", "--optimizer=sgd",
                f"--accumulate={group}", "--lr", train_counts.RATE, "--freeze=cw", "--log", t.path("parts.jsonl"),
                "--save-weights", t.path("w"), "--eval-data", t.path("train.npz"))
            found, what = t.safetensors(t.path("w")), f"{name}, {ranks} ranks, {group} batches"
            t.close(t.losses("parts.jsonl"), [loss], f"{what}: loss", t.tolerances.EVALUATED)
            t.close(np.concatenate([found["W"].ravel(), found["b"]]), weights, f"{what}: weights",
                    t.tolerances.TRAINED_WEIGHT)
            os.remove(t.path("parts.jsonl"))


def metrics():
    """Accuracy, F1 and perplexity of parts of batches, of which some are empty."""
    for name in "two classes", "four classes, one never seen", "tokens":
        want = train_metrics.prepare(name)
        for ranks in (2, 3):
            run(ranks, t.path("model.onnxt"), "--data", t.path("data.npz"), "--eval-data", t.path("data.npz"), "--lr=0",
                "--batch=4", "--freeze=cw", "--log", t.path("log.jsonl"))
            train_metrics.compare(want, f"{name}, {ranks} ranks")


def statistics():
    """What a file keeps beside weights, a mean and a count: they are rank 0's, of its part of each batch."""
    text = """<ir_version: 10, opset_import: ["" : 21],
     metadata_props: ["tempo.keep.seen_new" : "seen", "tempo.keep.runs_new" : "runs"]>
    g (float[n,4] x, float[n] t, float[4] seen = {0, 0, 0, 0}, int64 runs = {0})
      => (float loss, float[4] seen_new, int64 runs_new)
     <float[4,1] w = {0.5, -0.25, 1, 2}, int64[1] rows = {0}, int64[1] flat = {-1}, float half = {0.5}, int64 one = {1}>
    { mean = ReduceMean <keepdims = 0> (x, rows) a = Mul (seen, half) b = Mul (mean, half) seen_new = Add (a, b)
      runs_new = Add (runs, one) y = MatMul (x, w) z = Reshape (y, flat) d = Sub (z, t) dd = Mul (d, d)
      loss = ReduceMean <keepdims = 0> (dd) }"""
    draw = np.random.default_rng(3)
    x, rows = draw.standard_normal((24, 4)).astype("f4"), 8
    np.savez(t.path("seen.npz"), x=x, t=x.sum(1))
    write(t.path("seen.onnxt"), text)
    for ranks, group in ((1, 1), (2, 1), (4, 1), (2, 3)):
        folder, wanted = t.path(f"seen{ranks}{group}"), np.zeros(4)
        for begin in range(0, 24, rows):
            wanted = 0.5 * wanted + 0.5 * x[begin:begin + rows // ranks].astype("f8").mean(0)
        run(ranks, t.path("seen.onnxt"), "--data", t.path("seen.npz"), "--loss=loss", f"--batch={rows // ranks}",
            "--no-shuffle", "--checkpoint", folder, f"--accumulate={group}")
        kept = t.safetensors(os.path.join(folder, f"step-{3 // group}", "weights.safetensors"))
        t.close(kept["seen"], wanted, f"a running mean on {ranks} ranks")
        t.check(kept["runs"] == 3, f"a count on {ranks} ranks: {kept['runs']}")


def real_models():
    """PyTorch's own curve in float is a fortieth of the tolerance off from that in float64 at most."""
    for folder in o.cases:
        model = saved_models.without_dropout(onnx.load(os.path.join(folder, "model.onnx")))
        onnx.save(model, t.path("real.onnx"))
        with np.load(os.path.join(folder, "expected.npz")) as file:
            e = dict(file)
        for ranks in (2, 4):
            run(ranks, t.path("real.onnx"), f"--data={folder}/data.npz", f"--batch={e['batch'] // ranks}", "-q",
                "--no-shuffle", f"--epochs={e['epochs']}", f"--lr={e['rate']}", "--schedule=constant", "--loss=loss",
                f"--weight-decay={e['decay']}", "--log", t.path("real.jsonl"))
            t.close(t.losses("real.jsonl"), e["loss"], f"{os.path.basename(folder)} on {ranks} ranks",
                    t.tolerances.CURVE_OF_RANKS)
            os.remove(t.path("real.jsonl"))


def going_on():
    t.classifier("model.onnxt", dropout=0.3)
    t.data("train.npz", 22)
    flags = ("--steps=12", "--checkpoint-every=3", "--keep=9", "--checkpoint")
    for name in ("one", "two"):
        training(2, name, *flags, t.path(name))
    t.check(content("one.safetensors") == content("two.safetensors"), "two runs differ")
    kept = sorted(os.listdir(t.path("one")))
    t.check(kept == sorted(f"step-{step}" for step in (3, 6, 9, 12)), f"checkpoints: {kept}")
    for step in (9, 12):
        shutil.rmtree(os.path.join(t.path("two"), f"step-{step}"))
    said = training(2, "two", *flags, t.path("two"), "--resume")
    t.check(said.count("after update 6") == 1, said)
    t.check(content("one.safetensors") == content("two.safetensors"), "a run that goes on differs")
    said = training(2, "two", *flags, t.path("two"), code=64)
    t.check(said.count("has checkpoints already") == 1, said)
    shutil.rmtree(os.path.join(t.path("two"), "step-12"))
    said = training(4, "two", *flags, t.path("two"), "--resume")
    t.check(said.count("is of 2 ranks, and there are 4 now") == 1, said)


# --- what is wrong -------------------------------------------------------------------------------

def wrong():
    t.classifier("model.onnxt")
    t.data("train.npz", 22)
    t.classifier("other.onnxt", dropout=0.1)
    t.data("other.npz", 20)
    own = [t.path("model.onnxt"), "--data", t.path("train.npz"), "--loss=loss", "-q"]
    options = "was started with other options than rank 0: "
    for theirs, words in ((own + ["--seed=3"], options + "--seed=3 (rank 0: 0)"),
                          (own + ["--lr=0.5"], options + "--lr=0.5 (rank 0: 5e-05)"),
                          (own + ["--data", t.path("other.npz")], "reads other data than rank 0: --data="),
                          ([t.path("other.onnxt")] + own[1:], "was started with another model than rank 0")):
        said = t.told(o.mpirun, "-n", "1", t.TOOL, *own, ":", "-n", "1", t.TOOL, *theirs, code=64, env=ENVIRONMENT,
                      timeout=100)
        t.check(said.count("error:") == 1 and "rank 1 of 2 " in said and words in said, said)
    x = t.samples(22)
    np.savez(t.path("short.npz"), x=x["x"])
    said = run(4, t.path("model.onnxt"), "--data", t.path("short.npz"), "--loss=loss", code=2)
    t.check(said.count("error:") == 1 and "labels" in said, said)
    said = run(2, t.path("nothing.onnx"), "--data", t.path("train.npz"), code=5)
    t.check(said.count("error:") == 1, said)
    said = training(4, "nan", "--optimizer=sgd", "--lr=1e38", "--steps=9", code=6)
    t.check(said.count("error:") == 1 and "rank 0 of 4: update " in said, said)
    x["x"][5, 1] = np.nan  # of the first eight samples the second half
    np.savez(t.path("train.npz"), **x)
    said = training(2, "nan", "--no-shuffle", "--steps=9", code=6)
    t.check(said.count("error:") == 1 and "rank 1 of 2: update 1, epoch 1: " in said and "'x'" in said, said)
    said = run(4, t.path("model.onnxt"), "--data", t.path("train.npz"), "--rank-timeout=0", code=64)
    t.check(said.count("--rank-timeout") == 1, said)
    said = run(4, t.path("model.onnxt"), "--nothing", code=64)
    t.check(said.count("--nothing") == 1, said)


# --- ranks that go -------------------------------------------------------------------------------

def environment_of(process):
    try:
        return dict(item.split(b"=", 1) for item in bytes_of(f"/proc/{process}/environ").split(b"\0") if b"=" in item)
    except OSError:
        return {}


def ranks_of(mpirun, ranks):
    """The processes of a job, by rank: children of mpirun."""
    found, until = {}, time.monotonic() + 30
    while len(found) < ranks and time.monotonic() < until:
        time.sleep(0.02)
        children = [int(child) for child in text_of(f"/proc/{mpirun}/task/{mpirun}/children").split()]
        found = {int(e[b"OMPI_COMM_WORLD_RANK"]): child for child in children
                 for e in [environment_of(child)] if b"OMPI_COMM_WORLD_RANK" in e}
    return found


class Run(Job):
    """A run without an end, once it has written a checkpoint."""

    def __init__(self, ranks, name):
        flags = ("--data", t.path("train.npz"), "--loss=loss", "--batch", 8 // ranks, "--threads=1", "--resume",
                 "--steps=100000000", "--checkpoint-every=50", "--checkpoint", t.path(name),
                 "--rank-timeout", SILENT_IN)
        super().__init__(command(ranks, t.path("model.onnxt"), *flags), ENVIRONMENT)
        self.processes = ranks_of(self.mpirun.pid, ranks)
        newest, until = self.newest(name), time.monotonic() + 30
        while self.newest(name) == newest and time.monotonic() < until:
            time.sleep(0.02)
        t.check(self.newest(name) > newest, f"no checkpoint is written: {self.text()}")

    @staticmethod
    def newest(name):
        files = os.listdir(t.path(name)) if os.path.exists(t.path(name)) else []
        return max((int(f[5:]) for f in files if re.fullmatch(r"step-\d+", f)), default=0)


def going():
    t.classifier("model.onnxt")
    t.data("train.npz", 64)
    times = {}
    for trial in range(o.trials):
        for ranks in (2, 4):
            victim = trial % ranks
            for number in (signal.SIGKILL, signal.SIGSTOP):
                job = Run(ranks, "job")  # it goes on where the last one was ended
                time.sleep(0.013 * (trial % 20))
                names = job.disturb(victim, number)
                stops = number == signal.SIGSTOP
                took, code = job.end(GONE_IN + (SILENT_IN if stops else 0), f"rank {victim} got {number.name}",
                                     *names)
                t.check(code == 5 or code == 137 and not stops, f"mpirun ends with {code}")
                times.setdefault((ranks, number.name), []).append(took)
        job = Run(2, "job")
        os.kill(job.processes[1], signal.SIGTERM)  # a rank that is asked to end asks all
        before = Run.newest("job")
        _, code = job.end(GONE_IN, "rank 1 got SIGTERM", "stopped after update")
        t.check(code == 143 and Run.newest("job") >= before, f"a rank got SIGTERM: mpirun ends with {code}")
        for number in (signal.SIGTERM, signal.SIGKILL):
            job = Run(2, "job")
            job.mpirun.send_signal(number)
            times.setdefault((2, "mpirun " + number.name), []).append(job.end(GONE_IN, f"mpirun {number.name}")[0])
    for (ranks, name), took in times.items():
        print(f"{ranks} ranks, {name}: {len(took)} trials, all ended in {max(took):.2f} s, no process left", flush=True)


means()
counts()
metrics()
statistics()
real_models()
going_on()
wrong()
going()
t.finish()
