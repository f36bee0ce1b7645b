#!/usr/bin/env python3
"""What tempoc promises is what tempo-run takes: the arena of every model and recipe, to the byte, on one thread, on two
and on sixteen; for another number of threads in the file, too, and only where the shapes are known.

usage: footprint.py TEMPO_RUN TEMPOC CASE_DIR ...      CASE_DIR: model.onnx, inputs.npz (models/)
"""
import os
import re
import sys

import numpy as np
import onnx

from compare import dims_of, load
from programs import check, finish, json_of, path, run as run_any, told
from tool import model, run

TEMPOC, CASES = sys.argv[2], sys.argv[3:]


def promised(file, *options):
    """The line that tempoc prints, and the report's numbers; the compiled file is out.onnx."""
    command = [TEMPOC, file, "-o", path("out.onnx"), f"--report={path('report.json')}", *options]
    printed = told(*command, timeout=60)
    line = re.search(r"^arena .* allocated by a run: (\d+) bytes$", printed, re.M)
    numbers = json_of(path("report.json"))
    arena, bound = numbers["arena_bytes"]["after"], numbers["arena_bound_bytes"]["after"]
    check((int(line.group(1)) if line else None) == arena, f"printed and reported arena of {command}")
    return arena, bound


def taken(inputs, threads):
    text = run(path("out.onnx"), "--inputs", inputs, "--memory", "--threads", threads)
    arena, bound = (int(re.search(rf"(\d+) .* {what}", text).group(1)) for what in ("arena:", "lower bound:"))
    return arena, bound


def models():
    for case in CASES:
        for recipe in ("none", "exact", "tiled", "chunked", "portable"):
            promise = promised(os.path.join(case, "model.onnx"), f"--recipe={recipe}", *dims_of(case))
            inputs = os.path.join(case, "inputs.npz")
            took = {threads: taken(inputs, threads) for threads in (1, 2, 16)}
            name = f"{os.path.basename(os.path.normpath(case))} {recipe}"
            check(set(took.values()) == {promise}, f"{name}: promised {promise}, took {took}")
            print(f"{name}: {promise[0]} bytes, {promise[0] / promise[1]:.4f} of the bound")


PRODUCT = "g (float16[3000,4] a, float16[4,6] b) => (float16[3000,6] y) { y = MatMul (a, b) }"  # 6 tiles


def threads():
    """Scratch is for the threads that the file states, here of a product in 16 bits; more of them keep to it, and
    compute the same."""
    rng = np.random.default_rng(1)
    inputs = path("ab.npz")
    np.savez(inputs, a=rng.normal(size=(3000, 4)).astype("f2"), b=rng.normal(size=(4, 6)).astype("f2"))
    file = model("product.onnxt", PRODUCT)
    sizes, results = [], set()
    for n in (1, 4, 64):
        promise = promised(file, "--passes=upgrade,shapes", f"--threads={n}")
        took = {threads: taken(inputs, threads) for threads in (1, 4, 100)}
        check(set(took.values()) == {promise}, f"--threads={n}: promised {promise}, took {took}")
        sizes.append(promise[0])
        run(path("out.onnx"), "--inputs", inputs, "--threads", "100", "--outputs", path("y.npz"))
        results.add(load(path("y.npz"))["y"].tobytes())
        stated = {p.key: p.value for p in onnx.load(path("out.onnx")).metadata_props}
        check(stated.get("tempo.threads") == str(n), f"the file states {stated}")
    check(sizes[0] < sizes[1] < sizes[2], f"scratch for more threads is larger: {sizes}")
    check(len(results) == 1, "the same results")
    os.rename(path("out.onnx"), path("stated.onnx"))
    again = promised(path("stated.onnx"), "--passes=")
    check(again[0] == sizes[2], "what the file states stays")
    for wrong in ("0", "many", "4097", "-3", "8 "):
        bad = onnx.load(path("out.onnx"))
        bad.metadata_props[0].value = wrong
        onnx.save(bad, path("bad.onnx"))
        run(path("bad.onnx"), "--inputs", inputs, code=2, says=("tempo.threads", f"'{wrong}'", "from 1 to 4096"))
    told(TEMPOC, file, "--threads=4097", code=64, says=("--threads: expected a number from 0 to 4096",))


def unknown():
    """Without a value for a dim there is no promise; with it there is; that a kernel is missing is said."""
    file = model("symbolic.onnxt", "g (float[n,4] x) => (float[n,4] y) { y = Exp (x) }")
    check(promised(file, "--passes=upgrade,shapes") == (None, None), "a promise for an unknown dim")
    check(promised(file, "--passes=upgrade,shapes", "--dim", "n=4") == (64, 64), "the arena of one buffer")
    file = model("missing.onnxt", "g (float[4,4] x) => (float[4,4] y) { y = MeanVarianceNormalization (x) }")
    said = run_any(TEMPOC, file, "--passes=upgrade,shapes", code=None).out
    check("64 bytes; there is no kernel for MeanVarianceNormalization yet" in said, f"the missing kernel: {said}")


models()
threads()
unknown()
finish()
