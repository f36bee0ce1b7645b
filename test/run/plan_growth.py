#!/usr/bin/env python3
"""Compiling and planning cost time and memory linear in the graph, or in the rules: each kind is made four times as
large, where a quadratic cost would be sixteen times. Seconds are those of the process alone.

usage: plan_growth.py TEMPO_RUN TEMPOC
"""
import os
import resource
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper

from programs import check, finish, path
from tool import TOOL

TEMPOC = sys.argv[2]


def save(nodes, weights, result, shape):
    value = helper.make_tensor_value_info
    tensors = [helper.make_tensor(w, 1, [4], [1, 2, 3, int(w[1:])]) for w in weights]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [4])], [value(result, 1, shape)], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path("m.onnx"))


def row(n, op, weight=None):
    """n nodes, each of which reads the one before, and perhaps a weight."""
    return [helper.make_node(op, [f"v{i}" if i else "x"] + ([weight(i)] if weight else []), [f"v{i + 1}"])
            for i in range(n)]


RUN = [TOOL, path("m.onnx"), "--inputs", path("x.npz"), "--threads", "1", "--outputs", path("out.npz")]
COMPILE = [TEMPOC, path("m.onnx"), "-q", "-o", path("t.onnx")]


def chain(n):
    save(row(n, "Neg"), [], f"v{n}", [4])
    return [RUN]


def parameters(n):
    save(row(n, "Add", lambda i: f"w{i}"), [f"w{i}" for i in range(n)], f"v{n}", [4])
    return [RUN]


def fan(n):
    """n results live side by side, and one node with n operands, in a trace, too."""
    nodes = [helper.make_node("Neg", ["x"], [f"v{i}"]) for i in range(n)]
    save(nodes + [helper.make_node("Sum", [f"v{i}" for i in range(n)], ["y"])], [], "y", [4])
    return [RUN + ["--profile", path("trace.json")]]


def training(n):
    nodes = row(n, "Mul", lambda i: f"w{i}") + [helper.make_node("ReduceSum", [f"v{n}"], ["loss"], keepdims=0)]
    save(nodes, [f"w{i}" for i in range(n)], "loss", [])
    return [COMPILE, [TOOL, path("t.onnx")] + RUN[2:]]


def rules(n):
    save(row(8, "Relu"), [], "v8", [4])
    with open(path("many.rules"), "w", encoding="utf-8") as file:
        for i in range(n):
            file.write(f"rule r{i} match (x) => (y) {{ y = Mul(Relu(x), {i + 2}) }} replace {{ y = Mul(x, {i}) }}\n")
    return [COMPILE + ["--recipe=forward", "--rules", path("many.rules")]]


def cost(command):
    """User seconds and peak bytes."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == 0, f"exit code {process.returncode}: {command}")
    return usage.ru_utime, usage.ru_maxrss << 10


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    np.savez(path("x.npz"), x=np.ones(4, "f4"))
    for make, n in ((chain, 5000), (parameters, 10000), (fan, 5000), (training, 2500), (rules, 2500)):
        least = []
        for k in (1, 4):
            commands = make(n * k)
            runs = [[cost(command) for command in commands] for _ in range(3)]
            least.append([[min(r[i][what] for r in runs) for i in range(len(commands))] for what in (0, 1)])
        print(make.__name__, n, least)
        for i in range(len(least[0][0])):
            (time, peak), (time4, peak4) = ((least[k][0][i], least[k][1][i]) for k in (0, 1))
            check(time4 < 8 * time + 0.1, f"{make.__name__}: {time:.3f} s, four times as large {time4:.3f} s")
            check(peak4 < 6 * max(peak, 32 << 20), f"{make.__name__}: {peak} bytes, four times as large {peak4}")


main()
finish()
