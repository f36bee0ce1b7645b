#!/usr/bin/env python3
"""A run of tempo-train that stops and goes on computes the bits of one that does not: weights, moments, losses, the
order of samples and dropout, at any number of threads; whatever ended it.

usage: train_resume.py TEMPO_TRAIN
"""
import os
import shutil
import signal
import time

import train_tool as t

STEPS = 20
COMMON = ("--loss=loss", "--batch=4", "--lr=0.05", "--seed=11", "--clip-norm=1", "--checkpoint-every=5", "--keep=9")


def command(name, *more):
    folder = t.path(name)
    return (t.path("model.onnxt"), "--data", t.path("train.npz"), *COMMON, "--checkpoint", folder, "--log",
            f"{folder}.jsonl", "--save-weights", f"{folder}.safetensors", *more)


def same(one, other, what):
    with open(t.path(f"{one}.safetensors"), "rb") as a, open(t.path(f"{other}.safetensors"), "rb") as b:
        t.check(a.read() == b.read(), f"{what}: weights differ")
    states = [t.safetensors(os.path.join(t.path(name), f"step-{STEPS}", "optimizer.safetensors")) for name in
              (one, other)]
    t.check(states[0].keys() == states[1].keys() and len(states[0]) > 0, f"{what}: states differ in names")
    for key, state in states[0].items():
        t.check(state.tobytes() == states[1][key].tobytes(), f"{what}: {key} differs")
    of = [{r["step"]: r["loss"] for r in t.records(f"{name}.jsonl")[0]} for name in (one, other)]
    t.check(of[0] == of[1] and sorted(of[0]) == list(range(1, STEPS + 1)), f"{what}: losses differ: {of}")


def go_on(whole, name, *flags):
    """From the checkpoint in the middle of a run."""
    os.mkdir(t.path(name))
    shutil.copytree(os.path.join(t.path(whole), "step-10"), os.path.join(t.path(name), "step-10"))
    said = t.run(*command(name, "--steps", STEPS, "--resume", *flags), says=["after update 10"])
    t.check("other options" not in said, said)
    with open(t.path(f"{whole}.jsonl"), encoding="utf-8") as file:
        head = file.readlines()[:10]
    with open(t.path(f"{name}.jsonl"), encoding="utf-8") as file:
        tail = file.readlines()
    with open(t.path(f"{name}.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(head + tail)
    same(whole, name, f"{name} {flags}")


def main():
    t.classifier("model.onnxt", dropout=0.3)
    t.data("train.npz", 22)
    t.run(*command("whole", "--steps", STEPS, "--threads=1"))
    t.run(*command("few", "--steps", STEPS, "--keep=3"))
    for name, steps in (("whole", [5, 6, 10, 12, 15, 18, 20]), ("few", [15, 18, 20])):  # 6 updates are an epoch
        kept = sorted(os.listdir(t.path(name)))
        t.check(kept == sorted(f"step-{step}" for step in steps), f"checkpoints that stay: {kept}")
    varied = [r["loss"] for r in t.records("whole.jsonl")[0]]
    t.check(len(set(varied)) == STEPS, "losses repeat")

    # 20 updates are 10 and 10 more. The schedule is that of 20: the first process is ended behind the tenth.
    t.run(*command("threads", "--steps", STEPS, "--threads=2"))
    same("whole", "threads", "two threads")
    for name, threads in (("one", 1), ("two", 2)):
        go_on("whole", name, f"--threads={threads}")

    # Whatever else an update goes by: groups of batches, the norm of the one before, the scale of losses.
    for name, flags in (("groups", ("--accumulate=3",)), ("last", ("--clip-last", "--clip-norm=0.5", "--no-shuffle")),
                        ("scaled", ("--precision=fp16", "--batch=1", "--accumulate=2"))):
        t.run(*command(name, "--steps", STEPS, *flags))
        go_on(name, f"{name}-on", *flags)
    left_out = [r["step"] for r in t.records("scaled.jsonl")[0] if r.get("skipped")]
    t.check(left_out and min(left_out) <= 10, f"the scale has not changed before the checkpoint: {left_out}")

    # Another seed draws otherwise; the checkpoint's own seed counts where none is given.
    t.run(*command("one", "--steps", STEPS, "--resume", "--seed=12"), code=64, says=["--seed=12", "of a run with 11"])
    t.run(*command("one", "--steps", STEPS), code=64, says=["has checkpoints already", "--resume"])
    t.run(*command("one", "--steps=21", "--resume", "--optimizer=sgd"),
          says=["is of another optimizer", ".moment1, which sgd does not keep, is not loaded",
                "--steps=21 (was 20), --optimizer=sgd (was adamw); the run goes on"])
    t.run(*command("one", "--steps=22", "--resume", "--optimizer=sgd", "--lr=0.1", "--schedule=constant",
                   "--weight-decay=0.1", "--freeze=b1", "--freeze=b2"),
          says=["--steps=22 (was 21), --lr=0.1 (was 0.05), --schedule=constant (was linear), "
                "--weight-decay=0.1 (was 0), --freeze=b1 freeze=b2 (was none); the run goes on"])

    endings()
    t.finish()


def wait_for(name, what=None):
    """Until the run has written its first update, or `what`."""
    path = what or t.path(f"{name}.jsonl")
    for _ in range(600):
        if os.path.exists(path) and (what or os.path.getsize(path) > 0):
            return
        time.sleep(0.02)
    t.check(False, f"{path} did not come")


def endings():
    """Signals end a run behind a whole update, and ask for a checkpoint now."""
    long = ("--steps=2000000", "--checkpoint-every=0", "--schedule=constant")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGXCPU, signal.SIGPIPE):
        name = f"end{number:d}"
        process = t.begin(*command(name, *long))
        wait_for(name)
        for _ in range(3):  # a group's and a process' own come together
            process.send_signal(number)
        t.end(process, number, 128 + number, says=["stopped after update", "--resume"])
        done = t.records(f"{name}.jsonl")[0][-1]["step"]
        t.check(os.path.isdir(os.path.join(t.path(name), f"step-{done}")),
                f"no checkpoint of update {done}: {os.listdir(t.path(name))}")
        t.check(not os.path.exists(t.path(f"{name}.safetensors")), "results were written though the run was ended")
    process = t.begin(t.path("model.onnxt"), "--data", t.path("train.npz"), *COMMON, "--log", t.path("no.jsonl"),
                      "--steps=2000000", "--checkpoint-every=0")
    wait_for("no")
    t.end(process, signal.SIGTERM, 143, says=["; nothing is saved then without --checkpoint"])
    process = t.begin(*command("now", *long, "--no-shuffle"))
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        wait_for("now")
        before = set(os.listdir(t.path("now")))
        process.send_signal(number)
        for _ in range(600):
            new = [name for name in set(os.listdir(t.path("now"))) - before if "tmp" not in name]
            if new:
                break
            time.sleep(0.02)
        t.check(new, f"{number} brought no checkpoint")
    t.end(process, signal.SIGKILL, -9)


if __name__ == "__main__":
    main()
