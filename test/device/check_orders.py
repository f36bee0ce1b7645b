#!/usr/bin/env python3
"""check_orders.py TEMPOC TEMPO_RUN_EMULATED: a graph on the emulated CUDA device gives the same bits in every order of
threads and blocks (EMU_ORDER), and the CPU's numbers."""
import os
import subprocess
import sys
import tempfile

import numpy as np

GRAPH = """<ir_version: 10, opset_import: ["": 20]>
orders (float[67,129] x, float[129] scale, float[129] bias) => (float[67,129] y)
{
   normed = LayerNormalization <axis = -1> (x, scale, bias)
   y = Gelu (normed)
}
"""
ORDERS = ("0", "1", "7", "12345")
TOLERANCE = 1e-5  # of numbers below 10: the CPU sums a row in another order


def run(tempo_run, folder, device, order):
    out = os.path.join(folder, f"{device}{order}.npz")
    subprocess.run([tempo_run, os.path.join(folder, "g.onnx"), "-i", os.path.join(folder, "in.npz"), "-o", out,
                    f"--device={device}"], check=True, env={**os.environ, "EMU_ORDER": order})
    with np.load(out) as file:
        return file["y"]


def main():
    tempoc, tempo_run = sys.argv[1:]
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "g.onnxt"), "w", encoding="utf-8") as file:
            file.write(GRAPH)
        subprocess.run([tempoc, os.path.join(folder, "g.onnxt"), "--recipe=forward", "-o",
                        os.path.join(folder, "g.onnx")], check=True, capture_output=True)
        np.savez(os.path.join(folder, "in.npz"), x=random.normal(size=(67, 129)).astype(np.float32),
                 scale=random.normal(size=129).astype(np.float32), bias=random.normal(size=129).astype(np.float32))
        results = {order: run(tempo_run, folder, "cuda", order) for order in ORDERS}
        cpu = run(tempo_run, folder, "cpu", "0")
    failed = [f"order {order}: other bits than order 0" for order in ORDERS
              if results[order].tobytes() != results["0"].tobytes()]
    if not np.allclose(results["0"], cpu, rtol=0, atol=TOLERANCE):
        failed.append(f"off by {np.abs(results['0'] - cpu).max()} from the CPU")
    for line in failed:
        print(line)
    print(f"{len(ORDERS)} orders, {len(failed)} failures")
    return len(failed) > 0


if __name__ == "__main__":
    sys.exit(main())
