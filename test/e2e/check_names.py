#!/usr/bin/env python3
"""Checks --names=pytorch: gradients of exports have PyTorch's names and layouts.

usage: check_names.py TEMPOC TEMPO_RUN CASE_DIR ...
The numbers that PyTorch computed stand in expected.npz under the file's names; what the compiled file's metadata says
of an initializer (tempo.parameter.NAME) has to lead from there to the output that PyTorch's name finds, as
docs/howto/exporting.md tells.
"""
import os
import sys

import onnx

from compare import load, near
from programs import case, finish, path, run
from tolerances import LAYOUT

SHAPES = {"": lambda a: a, "transposed": lambda a: a.T, "flattened": lambda a: a.reshape(-1)}


def check(tempoc, tempo_run, folder):
    out, got = path("out.onnx"), path("got.npz")
    run(tempoc, "-q", os.path.join(folder, "model.onnx"), "--names=pytorch", "-o", out)
    run(tempo_run, out, "--inputs", os.path.join(folder, "inputs.npz"), "--outputs", got)
    want, found = load(os.path.join(folder, "expected.npz")), load(got)
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
        assert near(gradient, value, LAYOUT), f"{name} differs"
        renamed += name != initializer
    assert renamed > 0, "nothing has another name in PyTorch"
    return None, f"{renamed} gradients renamed"


for model_folder in sys.argv[3:]:
    case(os.path.basename(model_folder), check, *sys.argv[1:3], model_folder)
finish()
