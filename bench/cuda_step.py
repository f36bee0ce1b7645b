#!/usr/bin/env python3
"""Times training steps of BERT-Large on a GPU: Tempo, and PyTorch where there is one: steps and sequences a second, and
the most memory that tensors take.

usage: cuda_step.py BUILD_DIR [--torch PYTHON] [--case NAME ...] [--type TYPE] [--batch N] [--times N] [--json FILE]
[--tempo-run PROGRAM]
A step is forward and backward pass, every gradient made. All contenders run the same network with the same weights, one
after the other: Tempo with recipes exact and tiled, PyTorch eager and by torch.compile, both with its own attention.
float32 may use TF32 everywhere. No time is ever asserted. Without a GPU it says so and ends.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import bert
import numpy as np
from bench_common import run, table

CASES = {"128": bert.Bert(layers=24, hidden=1024, heads=16, batch=128, sequence=128),
         "512": bert.Bert(layers=24, hidden=1024, heads=16, batch=32, sequence=512),
         "tiny": bert.Bert(layers=1, hidden=32, heads=2, batch=2, sequence=8, vocabulary=50)}
PEERS = (("PyTorch eager, its own attention", "sdpa"), ("torch.compile, its own attention", "compile-sdpa"))


MOST = np.array(0x7F7F0000, np.uint32).view(np.float32)  # of bfloat16


def bits_of(a):
    """The nearest bfloat16 of each float, as its bits; the largest, not infinity."""
    bits = np.clip(a.astype(np.float32), -MOST, MOST).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def to_bfloat16(path):
    """Makes all floats of the model, and of its weights where they are there, numbers of 16 bits."""
    import onnx
    model = onnx.load(path, load_external_data=False)
    graph, kind = model.graph, onnx.TensorProto.BFLOAT16
    for tensor in graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        if tensor.external_data:
            for entry in tensor.external_data:
                entry.value = str(int(entry.value) // 2) if entry.key != "location" else entry.value
        else:
            tensor.raw_data = bits_of(onnx.numpy_helper.to_array(tensor)).tobytes()
        tensor.data_type = kind
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = kind
    graph.output[0].type.tensor_type.elem_type = kind
    onnx.save(model, path)
    weights = path + ".data"
    if os.path.exists(weights):
        bits_of(np.fromfile(weights, np.float32)).tofile(weights)


def tempo(args, model, recipe, feeds):
    """Seconds of a step, the median, and bytes."""
    step = os.path.join(os.path.dirname(model), f"{recipe}.onnx")
    run(os.path.join(args.build, "tempoc"), model, "-q", f"--recipe={recipe}", "-o", step)
    command = [args.tempo_run, "--device=cuda", step, "--inputs", feeds] + ["--tf32"] * (args.type == "float32")
    times = run(*command, "--repeat", str(args.times + 2))
    memory = run(*command, "--memory")
    seconds = float(re.search(r"median ([0-9.]+) ms", times)[1]) / 1e3
    parts = {name: int(n) for n, name in re.findall(r"^ *(\d+) +[0-9.]+ MiB +(parameters|inputs|arena)", memory, re.M)}
    return seconds, sum(parts.values())


def peer(args, case, mode):
    """The same of torch_step.py, which is given a line of how many steps."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_step.py")
    done = subprocess.run([args.torch, script, mode, "--device=cuda", f"--type={args.type}", *case.arguments()],
                          input=f"3\n{args.times}\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    answer = json.loads(done.stdout.splitlines()[-1])
    return statistics.median(answer["seconds"]), answer["bytes"]


def measure(args, case, folder):
    model = os.path.join(folder, "model.onnx")
    bert.write(model, case)
    if args.type == "bfloat16":
        to_bfloat16(model)
    rows = {f"Tempo, {recipe}": tempo(args, model, recipe, os.path.join(folder, "inputs.npz"))
            for recipe in ("exact", "tiled")}
    for name, mode in PEERS if args.torch else ():
        rows[name] = peer(args, case, mode)
    return rows


def tell(title, case, rows):
    cells = [("one step", "ms", "steps/s", "sequences/s", "MiB")]
    for name, (seconds, size) in rows.items():
        cells.append((name, f"{1e3 * seconds:.1f}", f"{1 / seconds:.2f}", f"{case.batch / seconds:.0f}",
                      f"{size / 2**20:.0f}") if seconds else (f"{name}: {size}", "", "", "", ""))
    table(title, cells)


def gpus(tempo_run):
    """The lines of --list-devices that name one."""
    return [line for line in run(tempo_run, "--list-devices").splitlines() if line.startswith("cuda:")]


def has_torch(python):
    code = "import torch, sys; sys.exit(not torch.cuda.is_available())"
    return python and subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--torch", default="python3")
    parser.add_argument("--case", choices=CASES, nargs="+", default=["128", "512"])
    parser.add_argument("--type", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--json")
    parser.add_argument("--tempo-run")
    args = parser.parse_args()
    args.tempo_run = args.tempo_run or os.path.join(args.build, "tempo-run")
    return args


def main():
    args = arguments()
    devices = gpus(args.tempo_run)
    if not devices:
        sys.exit(f"cuda_step: {args.tempo_run} finds no GPU here: these times need one")
    if not has_torch(args.torch):
        print("no PyTorch with CUDA (--torch=PYTHON): Tempo only")
        args.torch = None
    results = {}
    for name in args.case:
        case = CASES[name]
        case.batch = args.batch or case.batch
        with tempfile.TemporaryDirectory(prefix="tempo-bench-") as folder:
            results[name] = measure(args, case, folder)
        tell(f"{devices[0]}\n{case}, {args.type}", case, results[name])
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"devices": devices, "type": args.type, "seconds and bytes": results}, f, indent=1)


if __name__ == "__main__":
    main()
