#!/usr/bin/env python3
"""Exports of one model whose exporters lost its dropout in different ways give what the first gives, of which nothing
was lost, with the same seed and under every recipe.

usage: check_drops.py TEMPOC TEMPO_RUN CASE_DIR ...
Masks follow from the seed, the place of the Dropout and that of the element. Errors and their limit: check_models.py.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

from check_models import LIMIT, worst


def outputs(tempoc, tempo_run, case, recipe, seed):
    with tempfile.TemporaryDirectory() as folder:
        out, got = os.path.join(folder, "out.onnx"), os.path.join(folder, "got.npz")
        model, inputs = os.path.join(case, "model.onnx"), os.path.join(case, "inputs.npz")
        for command in ([tempoc, model, "-q", "-o", out, f"--recipe={recipe}"],
                        [tempo_run, out, "--inputs", inputs, "--outputs", got, f"--seed={seed}"]):
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        return dict(np.load(got))


def main(tempoc, tempo_run, cases):
    failed = 0
    want = outputs(tempoc, tempo_run, cases[0], "none", 5)
    other = outputs(tempoc, tempo_run, cases[0], "none", 6)
    runs = [(case, recipe) for case in cases for recipe in ("exact", "tiled", "none", "portable")]
    for case, recipe in runs:
        got = outputs(tempoc, tempo_run, case, recipe, 5)
        error, name = worst(got, want)
        right = error <= LIMIT and len(want) > 1 and np.any(other["loss"] != want["loss"])
        failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {os.path.basename(case)}, recipe {recipe}: apart by {error:.1e} ({name})")
    print(f"{len(runs) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
