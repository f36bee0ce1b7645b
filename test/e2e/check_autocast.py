#!/usr/bin/env python3
"""Graphs of mixed precision: gradients against numpy's in double, the same bits under `none` and `exact`, and no Cast
between float and 16 bits of which the backward pass keeps both sides; nor is a weight kept that was cast. Under
--loss-scale gradients are so many times as large, and the loss stays.

usage: check_autocast.py TEMPOC TEMPO_RUN
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import autocast_graphs as graphs
import in_half

# Of the norm of the gradient, on the scale of all: products are rounded to 2^-11 and 2^-8 of themselves.
LIMITS = {"float16": 2e-2, "bfloat16": 1e-1}
RECIPES = "none", "exact", "tiled", "portable"
SAME = {"Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{os.path.basename(command[0])}: {done.stderr}")


def in_double(values, dtype):
    """Arrays of bfloat16 come as bytes."""
    if values.dtype.kind == "V" or values.dtype == np.uint16:
        values = values.view(in_half.NUMPY[dtype])
    return values.astype(np.float64)


def compiled(tools, path, recipe, folder, feeds, *flags):
    """The model, what it computes, and the report."""
    out, got, report, inputs = (os.path.join(folder, n) for n in ("out.onnx", "got.npz", "report.json", "inputs.npz"))
    np.savez(inputs, **feeds)
    run(tools[0], path, "-o", out, f"--recipe={recipe}", f"--report={report}", "-q", *flags)
    run(tools[1], out, "--inputs", inputs, "--outputs", got, "--seed", "7")
    with open(report) as f:
        return onnx.load(out), dict(np.load(got)), json.load(f)


def kept_twice(model, report, weights):
    """A source, a weight or a value, of which more than one form is saved, or a weight of which any is."""
    producer = {o: n for n in model.graph.node for o in n.output}
    forms = {}
    for row in report["saved"]["after"]:
        name = row["name"]
        while name in producer and producer[name].op_type in SAME:
            name = producer[name].input[0]
        forms.setdefault(name, []).append(row["name"])
    for name, rows in forms.items():
        if len(rows) > 1 or name in weights:
            return f"{', '.join(rows)} of {name} saved"
    return None


def off(got, want):
    """The gradient that differs most, on the scale of all: (error, name)."""
    scale = 0.1 * np.median([np.sqrt(np.mean(np.square(w))) for w in want.values()])
    norm = np.linalg.norm
    return max((norm(got[n] - w) / (norm(w) + scale * np.sqrt(w.size)), n) for n, w in want.items())


def check(tools, spelling, dtype, ratio, want, folder):
    model, feeds, weights = graphs.build(1, dtype, spelling, ratio)
    path = os.path.join(folder, "in.onnx")
    onnx.save(model, path)
    reference = None
    for recipe in RECIPES:
        made, values, report = compiled(tools, path, recipe, folder, feeds)
        reference = reference or values
        if recipe == "exact" and any(values[n].tobytes() != v.tobytes() for n, v in reference.items()):
            return "exact has not the bits of none"
        why = kept_twice(made, report, weights) if recipe != "none" else None
        if why:
            return f"{recipe}: {why}"
        if ratio == 0:
            error, name = off({n: in_double(values[n + "_grad"], dtype) for n in want}, want)
            if not error <= LIMITS[dtype]:
                return f"{recipe}: {name} is off by {error:.1e}"
    return None


def check_scale(tools, spelling, dtype, folder):
    """By a power of two, so that only what is subnormal is rounded otherwise."""
    model, feeds, weights = graphs.build(1, dtype, spelling, 0.25)
    path = os.path.join(folder, "in.onnx")
    onnx.save(model, path)
    _, plain, _ = compiled(tools, path, "exact", folder, feeds)
    _, same, _ = compiled(tools, path, "exact", folder, feeds, "--loss-scale")
    _, scaled, _ = compiled(tools, path, "exact", folder, {**feeds, "tempo.loss_scale": np.float32(256)},
                            "--loss-scale")
    if any(same[n].tobytes() != v.tobytes() for n, v in plain.items()) or scaled["loss"] != plain["loss"]:
        return "a scale of 1, or the loss under another, has other bits"
    want = {n: in_double(v, dtype) for n, v in plain.items() if n.endswith("_grad")}
    error, name = off({n: in_double(scaled[n], dtype) / 256 for n in want}, want)
    return None if error <= 1e-3 else f"{name} under a scale is off by {error:.1e}"


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for spelling, how in graphs.SPELLINGS.items():
            for dtype in LIMITS:
                model, feeds, weights = graphs.build(1, dtype, spelling)
                want = graphs.slopes(weights, feeds, 1, how)
                for ratio in 0.0, 0.25:
                    why = check(sys.argv[1:3], spelling, dtype, ratio, want, folder)
                    failed += why is not None
                    print(f"{'ok  ' if why is None else 'FAIL'} {spelling} in {dtype}, dropout {ratio}"
                          f"{': ' + why if why else ''}", flush=True)
                why = check_scale(sys.argv[1:3], spelling, dtype, folder)
                failed += why is not None
                print(f"{'ok  ' if why is None else 'FAIL'} {spelling} in {dtype}, scaled{': ' + why if why else ''}",
                      flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
