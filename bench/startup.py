#!/usr/bin/env python3
"""Times what tempo-run does before its first node runs, and the memory that it takes beyond the plan.

usage: startup.py BUILD_DIR [--json FILE] [--times N] [--layers N ...]
Small stacks of BERT blocks, compiled, are run once: start is the process's time without the run; beyond is the most
that was resident without arena, parameters and inputs: the program, its libraries, the graph, the plan, scratch of the
product library.
"""
import argparse
import json
import os
import re
import tempfile

import bert
import profiles
from bench_common import machine_line, measured, run, table


def started(args, layers, folder):
    model, out, trace = (os.path.join(folder, f"{layers}{end}") for end in (".onnx", ".out.onnx", ".json"))
    bert.write(model, bert.Bert(layers=layers, hidden=64, heads=4, batch=2, sequence=16, vocabulary=100))
    run(os.path.join(args.build, "tempoc"), model, "-o", out)
    command = (os.path.join(args.build, "tempo-run"), out, "--inputs", os.path.join(folder, "inputs.npz"), "--memory",
               "--profile", trace)
    starts, steps, resident = [], [], 0
    for _ in range(args.times):
        output, took = measured(args.build, *command)
        steps.append(profiles.run_seconds(trace)[0])
        starts.append(took["wall"] - steps[-1])
        resident = max(resident, took["resident"])
    planned = {what: int(n) for n, what in re.findall(r"^ *(\d+) +[\d.]+ MiB  (parameters|inputs|arena)", output, re.M)}
    return {"layers": layers, "nodes": len(profiles.events(trace)), "start": min(starts), "step": min(steps),
            "resident": resident, **planned}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--json")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--layers", type=int, nargs="*", default=[1, 12, 48, 192])
    args = parser.parse_args()
    print(machine_line(len(os.sched_getaffinity(0))))
    with tempfile.TemporaryDirectory(prefix="tempo-bench-") as folder:
        results = [started(args, layers, folder) for layers in args.layers]
    rows = [("layers", "nodes run", "start ms", "first step ms", "arena MiB", "parameters MiB", "resident MiB",
             "beyond MiB", "KiB a node")]
    for r in results:
        beyond = r["resident"] - r["arena"] - r["parameters"] - r["inputs"]
        mib = [f"{n / 2**20:.1f}" for n in (r["arena"], r["parameters"], r["resident"], beyond)]
        rows.append((str(r["layers"]), str(r["nodes"]), f"{1e3 * r['start']:.1f}", f"{1e3 * r['step']:.1f}", *mib,
                     f"{beyond / 2**10 / r['nodes']:.1f}"))
    table("tempo-run, recipe exact, hidden size 64:", rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
