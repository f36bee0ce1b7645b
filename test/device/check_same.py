#!/usr/bin/env python3
"""The same bits on two devices, and on the first one with --check-memory, which finds nothing wrong: every model of
models/ under each recipe, dropout drawing from --seed.

usage: check_same.py TEMPOC TEMPO_RUN OTHER_TEMPO_RUN MODEL_FOLDER...
"""
import itertools
import os
import sys

from compare import load, same_bits
from programs import case, finish, path, run


def outputs(program, inputs):
    run(*program, path("train.onnx"), "--inputs", inputs, "--outputs", path("out.npz"), "--seed", 5)
    return load(path("out.npz"))


def check(tempoc, one, other, model, recipe):
    inputs = os.path.join(model, "inputs.npz")
    run(tempoc, os.path.join(model, "model.onnx"), "-o", path("train.onnx"), f"--recipe={recipe}")
    expected = outputs([one], inputs)
    for way in ([other], [one, "--check-memory"]):
        got = outputs(way, inputs)
        if not same_bits(got, expected):
            differ = [name for name in expected if name not in got or not same_bits(got[name], expected[name])]
            return f"{' '.join(way)}: {len(differ)} outputs differ, {differ[:3]}"
    return None


for folder, how in itertools.product(sys.argv[4:], ("none", "exact", "tiled", "chunked", "portable")):
    case(f"{os.path.basename(folder)} {how}", check, *sys.argv[1:4], folder, how)
finish()
