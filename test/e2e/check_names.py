#!/usr/bin/env python3
"""Checks --names=pytorch: gradients of exports have PyTorch's names and layouts.

usage: check_names.py TEMPOC TEMPO_RUN CASE_DIR ...
The numbers that PyTorch computed stand in expected.npz under the file's names; what the compiled file's metadata says
of an initializer (tempo.parameter.NAME) has to lead from there to the output that PyTorch's name finds, as
docs/exporting.md tells.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

SHAPES = {"": lambda a: a, "transposed": lambda a: a.T, "flattened": lambda a: a.reshape(-1)}


def check(tempoc, tempo_run, case, folder):
    out, got = os.path.join(folder, "out.onnx"), os.path.join(folder, "got.npz")
    subprocess.run([tempoc, "-q", os.path.join(case, "model.onnx"), "--names=pytorch", "-o", out], check=True)
    subprocess.run([tempo_run, out, "--inputs", os.path.join(case, "inputs.npz"), "--outputs", got], check=True,
                   stdout=subprocess.DEVNULL)
    want, found = dict(np.load(os.path.join(case, "expected.npz"))), dict(np.load(got))
    told = {p.key[len("tempo.parameter."):]: (p.value.split() + [""])[:2]
            for p in onnx.load(out).metadata_props if p.key.startswith("tempo.parameter.")}
    renamed = 0
    for key, value in want.items():
        initializer = key[:-len("_grad")]
        name, how = told.get(initializer, (initializer, ""))
        if key == "loss" or "+" in key or how not in SHAPES:
            continue
        value, gradient = SHAPES[how](value), found[name + "_grad"]
        assert gradient.shape == value.shape, f"{name} is {gradient.shape}, in PyTorch {value.shape}"
        assert np.allclose(gradient, value, rtol=1e-3, atol=1e-5), f"{name} differs"
        renamed += name != initializer
    assert renamed > 0, "nothing has another name in PyTorch"
    return renamed


def main(tempoc, tempo_run, cases):
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{os.path.basename(case)}: {check(tempoc, tempo_run, case, folder)} gradients renamed")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
