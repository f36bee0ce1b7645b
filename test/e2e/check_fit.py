#!/usr/bin/env python3
"""Checks --fit against what really runs: under a limit of addresses (ulimit -v) the batch that was found runs, and one
that is 3% larger does not. What the table counts is compared with onnx's and numpy's counts.

usage: check_fit.py TEMPOC TEMPO_RUN [--memory=MiB] [--recipe=RECIPE] [--search] CASE_DIR ...
--search also looks for the largest batch that runs, for docs/reference/benchmarks.md.
"""
import argparse
import math
import os
import re
import resource

import numpy as np
import onnx

from programs import case, finish, path, run

THREADS = 2
WITHIN = 1.03


def columns(line):
    return dict(zip(("batch", "arena", "gradients", "parameters", "optimizer", "inputs", "program", "total"),
                    map(int, re.findall(r"\d+", line))))


def fit(o, folder, optimizer):
    text = run(o.tempoc, os.path.join(folder, "model.onnx"), f"--fit={o.memory}MiB", f"--recipe={o.recipe}",
               f"--threads={THREADS}", f"--optimizer={optimizer}", "-o", path("fit.onnx")).out
    batch = int(re.match(r"fit +batch = (\d+) is the largest", text)[1])
    return batch, next(columns(line) for line in text.splitlines() if re.match(rf" +{batch} ", line))


def runs(o, folder, batch):
    """Whether tempo-run runs at that batch under the limit; refusals name it, and anything else is wrong."""
    graph, inputs = path("out.onnx"), path("in.npz")
    run(o.tempoc, "-q", os.path.join(folder, "model.onnx"), f"--dim=batch={batch}", f"--recipe={o.recipe}",
        f"--threads={THREADS}", "-o", graph)
    np.savez(inputs, **{k: np.resize(v, (batch, *v.shape[1:]))
                        for k, v in np.load(os.path.join(folder, "inputs.npz")).items()})
    done = run(o.tempo_run, graph, "--inputs", inputs, f"--threads={THREADS}", code=None,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (o.memory << 20,) * 2))
    assert done.code in (0, 4), f"exit code {done.code}: {done.err}"
    assert done.code == 0 or "not enough memory" in done.err, done.err
    return done.code == 0


def largest(o, folder, batch):
    """By halves, between 0.9 and 1.1 of the batch."""
    low, high = int(batch * 0.9), int(batch * 1.1)
    while high - low > max(1, batch // 2000):
        middle = (low + high) // 2
        low, high = (middle, high) if runs(o, folder, middle) else (low, middle)
    return low


def check_counts(o, folder):
    """Everything in the table but the arena and the program."""
    _, row = fit(o, folder, "adamw")
    graph = onnx.load(path("fit.onnx")).graph
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    shape = lambda v: [d.dim_value for d in v.type.tensor_type.shape.dim]
    size = lambda v: math.prod(shape(v)) * np.dtype(onnx.helper.tensor_dtype_to_np_dtype(
        v.type.tensor_type.elem_type)).itemsize
    gradients = [v for v in graph.output if v.name.endswith("_grad")]
    want = {"parameters": sum(a.nbytes for a in arrays.values()), "gradients": sum(map(size, gradients)),
            "optimizer": 8 * sum(arrays[v.name[:-5]].size for v in gradients),
            "inputs": sum(size(v) for v in graph.input if v.name not in arrays)}
    got = {key: row[key] for key in want}
    assert got == want, f"the table says {got}, the file {want}"
    assert row["total"] == sum(row[k] for k in ("arena", "parameters", "optimizer", "inputs", "program")), row
    assert row["total"] <= o.memory << 20, row


def check(o, folder):
    check_counts(o, folder)
    batch, _ = fit(o, folder, "none")
    assert runs(o, folder, batch), f"batch {batch} does not run in {o.memory} MiB"
    more = math.ceil(batch * WITHIN)
    assert not runs(o, folder, more), f"batch {more} runs in {o.memory} MiB, {batch} was found"
    found = f", {largest(o, folder, batch)} runs" if o.search else ""
    return None, f"{batch} fits{found}"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tempoc")
    a.add_argument("tempo_run")
    a.add_argument("--memory", type=int, default=512)
    a.add_argument("--recipe", default="exact")
    a.add_argument("--search", action="store_true")
    a.add_argument("cases", nargs="+")
    o = a.parse_args()
    for folder in o.cases:
        case(f"{os.path.basename(os.path.normpath(folder))}, {o.recipe}, {o.memory} MiB", check, o, folder)
    finish()


if __name__ == "__main__":
    main()
