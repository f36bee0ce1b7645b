#!/usr/bin/env python3
"""Exports of one model whose exporters lost its dropout in different ways give what the first gives, of which nothing
was lost, with the same seed and under every recipe.

usage: check_drops.py TEMPOC TEMPO_RUN CASE_DIR ...
Masks follow from the seed, the place of the Dropout and that of the element. Errors and their limit: check_models.py.
"""
import os
import sys

import numpy as np

from check_models import worst
from compare import load
from programs import case, finish, path, run
from tolerances import GRADIENT


def outputs(tempoc, tempo_run, folder, recipe, seed):
    run(tempoc, os.path.join(folder, "model.onnx"), "-q", "-o", path("out.onnx"), f"--recipe={recipe}")
    run(tempo_run, path("out.onnx"), "--inputs", os.path.join(folder, "inputs.npz"), "--outputs", path("got.npz"),
        f"--seed={seed}")
    return load(path("got.npz"))


def check(tools, folder, recipe, want, other):
    got = outputs(*tools, folder, recipe, 5)
    error, name = worst(got, want)
    right = error <= GRADIENT and len(want) > 1 and np.any(other["loss"] != want["loss"])
    note = f"apart by {error:.1e} ({name})"
    return (None, note) if right else note


def main(tempoc, tempo_run, folders):
    want = outputs(tempoc, tempo_run, folders[0], "none", 5)
    other = outputs(tempoc, tempo_run, folders[0], "none", 6)
    for folder in folders:
        for recipe in ("exact", "tiled", "none", "portable"):
            case(f"{os.path.basename(folder)}, recipe {recipe}", check, (tempoc, tempo_run), folder, recipe, want,
                 other)
    finish()


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
