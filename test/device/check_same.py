#!/usr/bin/env python3
"""The same bits on two devices: every model of models/ under each recipe, dropout drawing from --seed.

usage: check_same.py TEMPOC TEMPO_RUN OTHER_TEMPO_RUN MODEL_FOLDER...
"""
import os
import subprocess
import sys
import tempfile

import numpy as np


def outputs(run, graph, inputs, to):
    subprocess.run([run, graph, "--inputs", inputs, "--outputs", to, "--seed", "5"], check=True)
    with np.load(to) as arrays:
        return {name: arrays[name] for name in arrays.files}


def main():
    tempoc, run, other, *models = sys.argv[1:]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        graph, to = os.path.join(folder, "train.onnx"), os.path.join(folder, "out.npz")
        for model in models:
            for recipe in ("none", "exact", "tiled", "chunked", "portable"):
                subprocess.run([tempoc, os.path.join(model, "model.onnx"), "-o", graph, f"--recipe={recipe}"],
                               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                expected, got = (outputs(r, graph, os.path.join(model, "inputs.npz"), to) for r in (run, other))
                differ = [name for name in expected if expected[name].tobytes() != got[name].tobytes()]
                if differ or expected.keys() != got.keys():
                    wrong += 1
                    print(f"{os.path.basename(model)} {recipe}: {len(differ)} outputs differ, {differ[:3]}")
    print(f"{3 * len(models) - wrong} of {3 * len(models)} graphs give the same bits")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
