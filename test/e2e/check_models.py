#!/usr/bin/env python3
"""Compiles exported models, runs them, and compares loss and gradients with those PyTorch computed (models/export.py).

usage: check_models.py TEMPOC TEMPO_RUN [--flags "..."] [--run-flags "..."] [--ort] [--exactly] CASE_DIR ...
For each case: tempoc, onnx.checker with full_check on the result, tempo-run; with --ort also stock ONNX Runtime on the
result. With --exactly there may be no gradients but those expected. A tensor's error is ||got - want|| / (||want|| +
0.01 * m * sqrt(size)), m being the median root mean square over the case's gradients: a gradient that is zero but for
rounding (the bias of an attention key) is judged on the scale of the others. Limit: LIMIT, or what `limit` of the
expected numbers says, for models in 16 bits twice the error of PyTorch's own. With the graphs of ONNX Runtime's
training tools come its gradients, with the masks that it drew.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx

LIMIT = 1e-4  # fp32 sums in another order differ by about 1e-6 here; a wrong term shows at 1e-3 and above


def rms(a):
    return float(np.sqrt(np.mean(np.square(a.astype(np.float64))))) if a.size else 0.0


def arrays(path):
    """Those of a .npz; numpy has no bfloat16 and reads its elements as two bytes."""
    got = dict(np.load(path))
    return {name: a.view(ml_dtypes.bfloat16) if a.dtype == "V2" else a for name, a in got.items()}


def total(got, names):
    """The sum of the tensors whose names are joined by '+'; NaN where one is missing."""
    return sum(np.asarray(got.get(name, np.nan), np.float64) for name in names.split("+"))


def worst(got, want):
    """(error, name) of the tensor that differs most; a missing one counts as wrong."""
    median = float(np.median([rms(v) for k, v in want.items() if k != "loss"]))
    rows = []
    for name, w in want.items():
        g = total(got, name)
        if name == "loss":
            g = g.reshape(w.shape)
        scale = 0.0 if name == "loss" else 0.01 * median * np.sqrt(w.size)
        fits = g.shape == w.shape
        rows.append((float(np.linalg.norm(g - w) / (np.linalg.norm(w) + scale + 1e-30)) if fits else float("inf"),
                     name))
    return max(rows, key=lambda row: (not row[0] <= LIMIT, row[0]))  # NaN counts as wrong


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode == 0:
        return None
    return f"{os.path.basename(command[0])} exit {done.returncode}: {done.stderr.strip()}"


def by_onnxruntime(path, feeds):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    known = {i.name for i in session.get_inputs()}
    return dict(zip([o.name for o in session.get_outputs()],
                    session.run(None, {k: v for k, v in feeds.items() if k in known})))


def check(case, o, folder):
    """None and a note when the case is right, else what is wrong."""
    want = dict(np.load(os.path.join(case, "expected.npz")))
    limit = float(want.pop("limit", LIMIT))
    inputs = os.path.join(case, "inputs.npz")
    out, got = os.path.join(folder, "out.onnx"), os.path.join(folder, "got.npz")
    why = run(o.tempoc, os.path.join(case, "model.onnx"), "-o", out, *o.flags.split())
    if why:
        return why, ""
    onnx.checker.check_model(out, full_check=True)
    why = run(o.tempo_run, out, "--inputs", inputs, "--outputs", got, *o.run_flags.split())
    if why:
        return why, ""
    found = arrays(got)
    extra = {name for name in found if name.endswith("_grad")} - {part for name in want for part in name.split("+")}
    if o.exactly and extra:
        return f"nothing is expected of {', '.join(sorted(extra))}", ""
    error, name = worst(found, want)
    if not error <= limit:
        return f"{name} is off by {error:.1e}", ""
    note = f"{len(want) - 1} gradients, worst error {error:.1e}"
    if o.ort:
        error, name = worst(by_onnxruntime(out, dict(np.load(inputs))), want)
        if not error <= limit:
            return f"ONNX Runtime: {name} is off by {error:.1e}", ""
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
    failed = 0
    for case in o.cases:
        name = os.path.basename(os.path.normpath(case))
        with tempfile.TemporaryDirectory() as folder:
            try:
                why, note = check(case, o, folder)
            except Exception as e:  # a broken out.onnx must fail its own case only
                why = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
        failed += why is not None
        print(f"FAIL {name}: {why}" if why else f"ok   {name}: {note}", flush=True)
    print(f"{len(o.cases) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
