#!/usr/bin/env python3
"""Compiles exported models, runs them, and compares loss and gradients with those PyTorch computed (models/export.py).

usage: check_models.py TEMPOC TEMPO_RUN [--flags "..."] [--run-flags "..."] [--ort] [--exactly] CASE_DIR ...
For each case: tempoc, onnx.checker with full_check on the result, tempo-run; with --ort also stock ONNX Runtime on the
result. With --exactly there may be no gradients but those expected. A tensor's error is ||got - want|| / (||want|| +
0.01 * m * sqrt(size)), m being the median root mean square over the case's gradients: a gradient that is zero but for
rounding (the bias of an attention key) is judged on the scale of the others. Limit: GRADIENT, or what `limit` of the
expected numbers says, for models in 16 bits twice the error of PyTorch's own. With the graphs of ONNX Runtime's
training tools come its gradients, with the masks that it drew.
"""
import argparse
import os

import onnx

from compare import by_onnxruntime, load, worst
from programs import case, finish, path, run
from tolerances import GRADIENT


def check(folder, o):
    """None and a note when the case is right, else what is wrong."""
    want = load(os.path.join(folder, "expected.npz"))
    limit = float(want.pop("limit", GRADIENT))
    inputs, out, got = os.path.join(folder, "inputs.npz"), path("out.onnx"), path("got.npz")
    run(o.tempoc, os.path.join(folder, "model.onnx"), "-o", out, *o.flags.split())
    onnx.checker.check_model(out, full_check=True)
    run(o.tempo_run, out, "--inputs", inputs, "--outputs", got, *o.run_flags.split())
    found = load(got)
    extra = {name for name in found if name.endswith("_grad")} - {part for name in want for part in name.split("+")}
    if o.exactly and extra:
        return f"nothing is expected of {', '.join(sorted(extra))}"
    error, name = worst(found, want)
    if not error <= limit:
        return f"{name} is off by {error:.1e}"
    note = f"{len(want) - 1} gradients, worst error {error:.1e}"
    if o.ort:
        error, name = worst(by_onnxruntime(out, load(inputs)), want)
        if not error <= limit:
            return f"ONNX Runtime: {name} is off by {error:.1e}"
        note += f", by ONNX Runtime {error:.1e}"
    return None, note


def main():
    a = argparse.ArgumentParser()
    a.add_argument("tempoc")
    a.add_argument("tempo_run")
    a.add_argument("--flags", default="")
    a.add_argument("--run-flags", default="")
    a.add_argument("--ort", action="store_true")
    a.add_argument("--exactly", action="store_true")
    a.add_argument("cases", nargs="+")
    o = a.parse_args()
    for folder in o.cases:
        case(os.path.basename(os.path.normpath(folder)), check, folder, o)
    finish()


if __name__ == "__main__":
    main()
