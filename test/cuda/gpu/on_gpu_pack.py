#!/usr/bin/env python3
"""Makes the data that on_gpu.sh takes along: the exports of models/, compiled, with inputs and PyTorch's numbers;
graphs whose results are draws; ONNX's node cases.

usage: on_gpu_pack.py FOLDER TEMPOC CASES [STEP...]
CASES: where the node cases are, or are made when they are not there. STEP: a case of bench/cuda_step.py, to be timed.
A model that tempoc refuses is left out, and named.
"""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import onnx
from onnx import helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
import bert  # noqa: E402
import cuda_step  # noqa: E402

RECIPES = ("exact", "none")  # the default, and the one whose gradients have the same bits where products are the same


def one_model(folder, tempoc, case):
    name = os.path.basename(case)
    to = os.path.join(folder, "models", name)
    os.makedirs(to)
    all_done = [subprocess.run([tempoc, os.path.join(case, "model.onnx"), "-q", f"--recipe={recipe}", "-o",
                                os.path.join(to, f"{recipe}.onnx")], capture_output=True, text=True, check=False)
                for recipe in RECIPES]
    if any(done.returncode != 0 for done in all_done):
        print(f"on_gpu: without {name}, which tempoc refuses")
        shutil.rmtree(to)
        return
    for file in ("inputs.npz", "expected.npz"):
        if os.path.exists(os.path.join(case, file)):
            shutil.copy(os.path.join(case, file), to)


def models(folder, tempoc):
    source = os.path.join(ROOT, "models")
    for name in sorted(os.listdir(source)):
        if os.path.exists(os.path.join(source, name, "model.onnx")):
            one_model(folder, tempoc, os.path.join(source, name))


def mask_graph(n, ratio, dtype):
    """Dropout with its mask, whose bits must be the same on every device."""
    constants = [onnx.numpy_helper.from_array(np.array(ratio, np.float32), "ratio"),
                 onnx.numpy_helper.from_array(np.array(True), "training")]
    value = lambda name, kind: helper.make_tensor_value_info(name, kind, [n])
    graph = helper.make_graph([helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], name="drop")],
                              "mask", [value("x", dtype)], [value("y", dtype), value("mask", onnx.TensorProto.BOOL)],
                              constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def masks(folder):
    for n, ratio in ((1, 0.5), (1000, 0.1), (70001, 0.9), (1 << 18, 0.25)):
        to = os.path.join(folder, "masks", f"dropout-{n}")
        os.makedirs(to)
        onnx.save(mask_graph(n, ratio, onnx.TensorProto.FLOAT), os.path.join(to, "exact.onnx"))
        np.savez_compressed(os.path.join(to, "inputs.npz"), x=np.arange(1, n + 1, dtype=np.float32) / np.float32(n))


def steps(folder, tempoc, names):
    """Training graphs of bench/cuda_step.py in bfloat16, without their weights: how many bytes is told."""
    for name in names:
        case, to = cuda_step.CASES[name], os.path.join(folder, "steps", f"bert-{name}")
        os.makedirs(to)
        with tempfile.TemporaryDirectory() as at:
            model = os.path.join(at, "model.onnx")
            bert.write(model, case, data=False)
            cuda_step.to_bfloat16(model)
            size = 2 * sum(int(np.prod(shape)) for _, shape in bert.shapes(case))
            with open(model + ".data", "wb") as f:
                f.truncate(size)
            for recipe in ("exact", "tiled"):
                step = os.path.join(at, f"{recipe}.onnx")
                subprocess.run([tempoc, model, "-q", f"--recipe={recipe}", "-o", step], check=True)
                shutil.copy(step, to)
            shutil.copy(os.path.join(at, "inputs.npz"), to)
        with open(os.path.join(to, "weights.json"), "w", encoding="utf-8") as f:
            json.dump({"file": "model.onnx.data", "bytes": size, "sequences": case.batch}, f)


def node_cases(folder, cases):
    if not os.path.exists(os.path.join(cases, "cases.txt")):
        subprocess.run([sys.executable, os.path.join(ROOT, "test", "backend", "make_cases.py"), cases], check=True,
                       capture_output=True)
    with tarfile.open(os.path.join(folder, "cases.tar.gz"), "w:gz") as archive:
        archive.add(cases, "cases")


def main():
    folder, tempoc, cases, *names = sys.argv[1:]
    models(folder, tempoc)
    masks(folder)
    steps(folder, tempoc, names)
    node_cases(folder, cases)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main()
