#!/usr/bin/env python3
"""Finds the largest batch that trains under a memory limit, and how many samples a second it trains there: Tempo under
several recipes and a budget, PyTorch with and without gradient checkpointing. The limit is a cgroup's, which counts
everything that a process touches: the same for all.

usage: memory_limit.py BUILD_DIR --torch PYTHON --limit BYTES [--case NAME ...] [--layers N] [--mode MODE ...]
[--times N] [--patience SECONDS] [--folder DIR] [--json FILE]
As root, with the memory controller of cgroup v1 or v2. A mode is one of Tempo's (none, paper, exact, tiled, chunked, or
NN%: tiled within so much of what none takes) or of hf_models.py's with pt- before it. Each trial is one process with
two steps, AdamW's update included; the largest batch is found by doubling and halving. Then it
runs N steps, whose median counts. PyTorch is also timed at smaller batches, halves of the largest, since its
best is not always there. No time is ever asserted.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import profiles
from bench_common import machine_line, run, table

HERE = os.path.dirname(os.path.abspath(__file__))
MOST = 4096


class Group:
    """A cgroup with a limit. v1 has a folder of its own for memory; swap is none of it."""

    def __init__(self, limit, patience):
        self.patience = patience
        v1 = "/sys/fs/cgroup/memory"
        root, self.key = (v1, "memory.limit_in_bytes") if os.path.isdir(v1) else ("/sys/fs/cgroup", "memory.max")
        self.path = os.path.join(root, f"tempo-bench-{os.getpid()}")
        os.mkdir(self.path)
        with open(os.path.join(self.path, self.key), "w", encoding="ascii") as f:
            f.write(str(limit))

    def run(self, command, feed=None):
        """Output, or None where the process did not end well, or not in time: near the limit a process that reads its
        own code again and again from the disk does not train."""
        def enter():
            with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as f:
                f.write(str(os.getpid()))
        try:
            done = subprocess.run(command, input=feed, capture_output=True, text=True, check=False, preexec_fn=enter,
                                  timeout=self.patience)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout if done.returncode == 0 else None

    def close(self):
        os.rmdir(self.path)


class Tempo:
    def __init__(self, args, case, mode):
        self.name, self.args, self.mode = f"Tempo, {mode}", args, mode
        self.folder = os.path.join(args.folder, case)
        with np.load(os.path.join(self.folder, "inputs.npz")) as feeds:
            self.feeds = {name: a[:1] for name, a in feeds.items()}

    def flags(self):
        if self.mode.endswith("%"):
            return ["--recipe=tiled", f"--memory-budget={self.mode}"]
        return [f"--recipe={self.mode}"]

    def seconds(self, group, batch, times):
        """Of `times` steps; None where the batch does not fit."""
        model, inputs = os.path.join(self.folder, "step.onnx"), os.path.join(self.folder, "step.npz")
        if not hasattr(self, "compiled") or self.compiled != batch:
            run(self.args.tempoc, os.path.join(self.folder, "model.onnx"), "-q", "--update=adamw", *self.flags(), "-o",
                model, f"--dim=batch={batch}")
            np.savez(inputs, **{name: np.repeat(a, batch, 0) for name, a in self.feeds.items()},
                     **{"tempo.rate": np.float32(1e-9), "tempo.update": np.int64(1)})
            self.compiled = batch
        trace = model + ".json"
        out = group.run([self.args.tempo_run, model, "--inputs", inputs, "--repeat", str(times), "--profile", trace])
        return profiles.run_seconds(trace) if out is not None else None


class Peer:
    def __init__(self, args, case, mode):
        self.name, self.args = f"PyTorch {mode[3:]}", args
        self.command = [args.torch, os.path.join(HERE, "hf_models.py"), case, mode[3:]]
        self.command += [f"--layers={args.layers}"] if args.layers else []

    def seconds(self, group, batch, times):
        out = group.run([*self.command, f"--batch={batch}"], feed=f"{times}\n")
        return json.loads(out)["seconds"] if out else None


def largest(contender, group):
    """The largest batch that fits; 0: none does."""
    fits, too_much = 0, None
    while too_much is None or too_much - fits > max(1, fits // 16):
        batch = (fits * 2 or 1) if too_much is None else (fits + too_much) // 2
        if batch <= MOST and contender.seconds(group, batch, 2) is not None:  # moments are there in the second
            fits = batch
        else:
            too_much = batch
    return fits


def rate(contender, group, batch, times):
    seconds = contender.seconds(group, batch, times + 1)
    return batch / statistics.median(seconds[1:]) if seconds else 0.0


def measure(args, case, group):
    if not os.path.exists(os.path.join(args.folder, case, "inputs.npz")):
        run(args.torch, os.path.join(HERE, "hf_models.py"), case, "export", os.path.join(args.folder, case),
            *([f"--layers={args.layers}"] if args.layers else []))
    rows, results = [("under the limit", "largest batch", "samples/s there", "best of smaller ones")], {}
    for mode in args.mode:
        contender = (Peer if mode.startswith("pt-") else Tempo)(args, case, mode)
        batch = largest(contender, group)
        there = rate(contender, group, batch, args.times) if batch else 0.0
        smaller = [(rate(contender, group, b, args.times), b) for b in (batch // 2, batch // 4) if b > 0]
        best = max(smaller, default=(0.0, 0)) if mode.startswith("pt-") else (0.0, 0)
        results[contender.name] = {"batch": batch, "rate": there, "smaller": smaller}
        rows.append((contender.name, str(batch), f"{there:.2f}", f"{best[0]:.2f} at {best[1]}" if best[1] else ""))
        print(f"  {' | '.join(rows[-1])}", file=sys.stderr)
    table(f"{case}, {args.limit / 2**30:.2f} GiB:", rows)
    return results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--case", nargs="+", default=["bert-large-128", "bert-large", "gpt2"])
    parser.add_argument("--layers", type=int)
    parser.add_argument("--mode", nargs="+", default=["pt-eager", "pt-sdpa", "pt-checkpoint", "none", "paper", "exact",
                                                      "tiled", "chunked", "50%"])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--patience", type=float, default=120, help="seconds that a trial may take")
    parser.add_argument("--folder")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.tempoc, args.tempo_run = os.path.join(args.build, "tempoc"), os.path.join(args.build, "tempo-run")
    return args


def main():
    args = arguments()
    print(machine_line(len(os.sched_getaffinity(0))))
    group, results = Group(args.limit, args.patience), {}
    try:
        with tempfile.TemporaryDirectory(prefix="tempo-limit-") as folder:
            args.folder = args.folder or folder
            for case in args.case:
                results[case] = measure(args, case, group)
                if args.json:
                    with open(args.json, "w", encoding="utf-8") as f:
                        json.dump({"limit": args.limit, **results}, f, indent=1)
    finally:
        group.close()


if __name__ == "__main__":
    main()
