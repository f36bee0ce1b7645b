#!/usr/bin/env python3
"""Times tempoc and tells its memory on stacks of BERT-base blocks, and on models that are named: does it grow with the
graph, and no faster?

usage: compile.py BUILD_DIR [--json FILE] [--times N] [--layers N ...] [MODEL.onnx ...]
Seconds are of the processor, the least of N runs; memory is the most that was resident. Weights are absent: tempoc does
not need them. Reports are made as well, as JSON (the model is compiled under `none` too, then).
"""
import argparse
import json
import os
import sys
import tempfile

import bert
from bench_common import machine_line, measured, table

RECIPES = ("none", "exact", "portable")


def compiled(args, model, recipe, folder):
    """Least seconds, most bytes, nodes before and after."""
    report, out = os.path.join(folder, "report.json"), os.path.join(folder, "out.onnx")
    command = (os.path.join(args.build, "tempoc"), model, f"--recipe={recipe}", "-o", out, f"--report={report}")
    runs = [measured(args.build, *command)[1] for _ in range(args.times)]
    with open(report, encoding="utf-8") as f:
        nodes = json.load(f)["nodes"]
    return {"recipe": recipe, "seconds": min(r["cpu"] for r in runs), "bytes": max(r["resident"] for r in runs),
            "nodes": nodes["before"], "compiled_nodes": nodes["after"]}


def name_of(path):
    """bert.onnx is bert, and so is bert/model.onnx."""
    name = os.path.basename(path).removesuffix(".onnx")
    return os.path.basename(os.path.dirname(os.path.abspath(path))) if name == "model" else name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--layers", type=int, nargs="*", default=[12, 24, 96, 384])
    args = parser.parse_intermixed_args()
    print(machine_line(1))
    results = []
    with tempfile.TemporaryDirectory(prefix="tempo-bench-") as folder:
        cases = [(os.path.join(folder, f"{n}.onnx"), f"{n} layers") for n in args.layers]
        for (path, _), layers in zip(cases, args.layers):
            bert.write(path, bert.Bert(layers=layers), data=False)
        for path, name in cases + [(m, name_of(m)) for m in args.models]:
            results += [{"model": name, **compiled(args, path, recipe, folder)} for recipe in RECIPES]
            print(f"{name} done", file=sys.stderr)
    rows = [("model", "recipe", "nodes", "compiled", "seconds", "us a node", "MiB", "KiB a node")]
    for r in results:
        rows.append((r["model"], r["recipe"], str(r["nodes"]), str(r["compiled_nodes"]), f"{r['seconds']:.3f}",
                     f"{1e6 * r['seconds'] / r['compiled_nodes']:.0f}", f"{r['bytes'] / 2**20:.0f}",
                     f"{r['bytes'] / 2**10 / r['compiled_nodes']:.1f}"))
    table("tempoc with --report (a node: of the compiled graph):", rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
