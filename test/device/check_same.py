#!/usr/bin/env python3
"""The same bits on two devices, and on the first one with --check-memory, which finds nothing wrong: every model of
models/ under each recipe, dropout drawing from --seed.

usage: check_same.py TEMPOC TEMPO_RUN OTHER_TEMPO_RUN MODEL_FOLDER...
"""
import itertools
import os
import subprocess
import sys
import tempfile

import numpy as np


def outputs(run, graph, inputs, to):
    subprocess.run([*run, graph, "--inputs", inputs, "--outputs", to, "--seed", "5"], check=True)
    with np.load(to) as arrays:
        return {name: arrays[name] for name in arrays.files}


def main():
    tempoc, run, other, *models = sys.argv[1:]
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        graph, to = os.path.join(folder, "train.onnx"), os.path.join(folder, "out.npz")
        for model, recipe in itertools.product(models, ("none", "exact", "tiled", "chunked", "portable")):
            inputs = os.path.join(model, "inputs.npz")
            subprocess.run([tempoc, os.path.join(model, "model.onnx"), "-o", graph, f"--recipe={recipe}"],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            expected = outputs([run], graph, inputs, to)
            for way in ([other], [run, "--check-memory"]):
                got = outputs(way, graph, inputs, to)
                differ = [name for name in expected if expected[name].tobytes() != got[name].tobytes()]
                total += 1
                if differ or expected.keys() != got.keys():
                    wrong += 1
                    print(f"{os.path.basename(model)} {recipe}, {' '.join(way)}: {len(differ)} outputs differ, "
                          f"{differ[:3]}")
    print(f"{total - wrong} of {total} runs give the same bits")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
