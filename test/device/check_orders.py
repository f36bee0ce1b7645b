#!/usr/bin/env python3
"""check_orders.py TEMPOC TEMPO_RUN_EMULATED: a graph on the emulated CUDA device gives the same bits in every order of
threads and blocks (EMU_ORDER), and the CPU's numbers."""
import sys

import numpy as np

from compare import load, near, same_bits
from programs import check, finish, path, run, write
from tolerances import ROW_SUM

GRAPH = """<ir_version: 10, opset_import: ["": 20]>
orders (float[67,129] x, float[129] scale, float[129] bias) => (float[67,129] y)
{
   normed = LayerNormalization <axis = -1> (x, scale, bias)
   y = Gelu (normed)
}
"""
ORDERS = ("0", "1", "7", "12345")


def computed(device, order):
    run(sys.argv[2], path("g.onnx"), "-i", path("in.npz"), "-o", path("out.npz"), f"--device={device}",
        env={"EMU_ORDER": order})
    return load(path("out.npz"))["y"]


random = np.random.default_rng(1)
write(path("g.onnxt"), GRAPH)
run(sys.argv[1], path("g.onnxt"), "--recipe=forward", "-o", path("g.onnx"))
np.savez(path("in.npz"), x=random.normal(size=(67, 129)).astype(np.float32),
         scale=random.normal(size=129).astype(np.float32), bias=random.normal(size=129).astype(np.float32))
results = {order: computed("cuda", order) for order in ORDERS}
cpu = computed("cpu", "0")
for order, got in results.items():
    check(same_bits(got, results["0"]), f"order {order}: other bits than order 0")
check(near(results["0"], cpu, ROW_SUM), f"off by {np.abs(results['0'] - cpu).max()} from the CPU")
finish()
