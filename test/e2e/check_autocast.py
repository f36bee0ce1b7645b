#!/usr/bin/env python3
"""Graphs of mixed precision: gradients against numpy's in double, the same bits under `none` and `exact`, and no Cast
between float and 16 bits of which the backward pass keeps both sides; nor is a weight kept that was cast. Under
--loss-scale gradients are so many times as large, and the loss stays.

usage: check_autocast.py TEMPOC TEMPO_RUN
"""
import sys

import numpy as np
import onnx

import autocast_graphs as graphs
from compare import load, most, norm_error, rms, same_bits
from programs import case, finish, json_of, path, run
from tolerances import AUTOCAST, SCALED

RECIPES = "none", "exact", "tiled", "portable"
SAME = {"Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose"}


def compiled(tools, source, recipe, feeds, *flags):
    """The model, what it computes, and the report."""
    out, got, report, inputs = (path(n) for n in ("out.onnx", "got.npz", "report.json", "inputs.npz"))
    np.savez(inputs, **feeds)
    run(tools[0], source, "-o", out, f"--recipe={recipe}", f"--report={report}", "-q", *flags)
    run(tools[1], out, "--inputs", inputs, "--outputs", got, "--seed", 7)
    return onnx.load(out), load(got), json_of(report)


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


def off(got, want, limit):
    """The gradient that differs most, on the scale of all: (error, name)."""
    scale = 0.1 * np.median([rms(w) for w in want.values()])
    return most([(norm_error(got[n], w, scale), n) for n, w in want.items()], limit)


def check(tools, spelling, dtype, ratio, want):
    model, feeds, weights = graphs.build(1, dtype, spelling, ratio)
    source = path("in.onnx")
    onnx.save(model, source)
    reference = None
    for recipe in RECIPES:
        made, values, report = compiled(tools, source, recipe, feeds)
        reference = reference or values
        if recipe == "exact" and not same_bits(values, reference):
            return "exact has not the bits of none"
        why = kept_twice(made, report, weights) if recipe != "none" else None
        if why:
            return f"{recipe}: {why}"
        if ratio == 0:
            error, name = off({n: values[n + "_grad"] for n in want}, want, AUTOCAST[dtype])
            if not error <= AUTOCAST[dtype]:
                return f"{recipe}: {name} is off by {error:.1e}"
    return None


def check_scale(tools, spelling, dtype):
    """By a power of two, so that only what is subnormal is rounded otherwise."""
    model, feeds, weights = graphs.build(1, dtype, spelling, 0.25)
    source = path("in.onnx")
    onnx.save(model, source)
    _, plain, _ = compiled(tools, source, "exact", feeds)
    _, same, _ = compiled(tools, source, "exact", feeds, "--loss-scale")
    _, scaled, _ = compiled(tools, source, "exact", {**feeds, "tempo.loss_scale": np.float32(256)}, "--loss-scale")
    if not same_bits(same, plain) or scaled["loss"] != plain["loss"]:
        return "a scale of 1, or the loss under another, has other bits"
    want = {n: v for n, v in plain.items() if n.endswith("_grad")}
    error, name = off({n: scaled[n].astype(np.float64) / 256 for n in want}, want, SCALED)
    return None if error <= SCALED else f"{name} under a scale is off by {error:.1e}"


def main():
    for spelling, how in graphs.SPELLINGS.items():
        for dtype in AUTOCAST:
            model, feeds, weights = graphs.build(1, dtype, spelling)
            want = graphs.slopes(weights, feeds, 1, how)
            for ratio in 0.0, 0.25:
                case(f"{spelling} in {dtype}, dropout {ratio}", check, sys.argv[1:3], spelling, dtype, ratio, want)
            case(f"{spelling} in {dtype}, scaled", check_scale, sys.argv[1:3], spelling, dtype)
    finish()


if __name__ == "__main__":
    main()
