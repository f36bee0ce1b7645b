#!/usr/bin/env python3
"""Times one training step, forward and backward pass: Tempo, PyTorch where there is one, and the step's matrix products
alone.

usage: step.py BUILD_DIR [--case NAME] [--torch PYTHON] [--json FILE] [--rounds N] [--times N] [--threads N]
[--processor]
All contenders run on the same cores in one run, one after the other in each of N rounds, so that what else the machine
does meets all of them. It tells the least time and the median of the rounds' medians, and ratios to PyTorch's eager
mode and to the products. Then where Tempo's time goes, by op, against what the machine can do, measured in the same run
(bench/machine.c). With --processor, times are those of the processor, for one thread: what else the machine does hardly
changes them. --torch names a Python that has PyTorch; without PyTorch only Tempo and the products are timed. No time is
ever asserted.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import bert
import profiles
from bench_common import machine_line, measured, processor, run, table

RECIPES = ("exact", "tiled", "none", "portable")
PEERS = (("PyTorch eager", "eager", ""), ("PyTorch eager, AdamW's step too", "eager", " adamw"),
         ("PyTorch eager, its own attention", "sdpa", ""), ("torch.compile", "compile", ""))
CASES = {"base": bert.Bert(),
         "narrow": bert.Bert(layers=12, hidden=64, heads=4, batch=4, sequence=32, vocabulary=1000),
         "long": bert.Bert(layers=2, batch=1, sequence=2048),
         "wide": bert.Bert(layers=2, hidden=1024, heads=16, batch=2, sequence=512),
         "tiny": bert.Bert(layers=1, hidden=32, heads=2, batch=2, sequence=8, vocabulary=50, dropout=0.0)}


def processor_seconds(args, command, feed=None):
    """Of one repetition, as a list of one: those of a process with some repetitions less those of a process with
    one."""
    spent = [measured(args.build, *command(n), feed=feed)[1]["cpu"] for n in (1, args.times + 1)]
    return [(spent[1] - spent[0]) / args.times]


class Tempo:
    """tempo-run's own times. Each round is a new process, whose first run touches all memory for the first time: one
    run more, the slowest left out."""

    def __init__(self, args, model, recipe):
        self.name, self.args, self.path = f"Tempo, {recipe}", args, os.path.join(os.path.dirname(model),
                                                                                 f"{recipe}.onnx")
        run(args.tempoc, model, f"--recipe={recipe}", "-o", self.path)

    def whole_command(self, *more):
        inputs = os.path.join(os.path.dirname(self.path), "inputs.npz")
        return self.args.tempo_run, self.path, "--inputs", inputs, "--threads", str(self.args.threads), *more

    def command(self, *more):
        return run(*self.whole_command(*more))

    def seconds(self):
        if self.args.processor:
            return processor_seconds(self.args, lambda n: self.whole_command("--repeat", str(n)))
        trace_path = self.path + ".json"
        self.command("--repeat", str(self.args.times + 1), "--profile", trace_path)
        return sorted(profiles.run_seconds(trace_path))[:-1]

    def loss(self):
        return float(self.command().split("loss", 1)[1].split()[1])


class Products:
    name = "matrix products alone"

    def __init__(self, args, products):
        self.args, self.feed = args, "".join(f"{' '.join(map(str, p))}\n" for p in products)

    def whole_command(self, times):
        return self.args.machine, "products", str(times), str(self.args.threads)

    def seconds(self):
        if self.args.processor:
            return processor_seconds(self.args, self.whole_command, feed=self.feed)
        return sorted(json.loads(run(*self.whole_command(self.args.times + 1), feed=self.feed)))[:-1]


class Peer:
    """A mode of torch_step.py, which stays alive and waits between rounds."""
    alive = {}

    def __init__(self, args, case, name, mode, update):
        self.name, self.mode, self.line = name, mode, f"{args.times}{update}\n"
        if mode not in self.alive:
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_step.py")
            self.alive[mode] = subprocess.Popen([args.torch, script, mode, "--threads", str(args.threads),
                                                 *(["--processor"] if args.processor else []), *case.arguments()],
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                stderr=subprocess.DEVNULL, text=True)
        self.last_loss = None

    def seconds(self):
        process = self.alive[self.mode]
        process.stdin.write(self.line)
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            sys.exit(f"{self.name}: torch_step.py {self.mode} ended")
        answer = json.loads(answer)
        self.last_loss = answer["loss"]
        return sorted(answer["seconds"])

    @classmethod
    def end(cls):
        for process in cls.alive.values():
            process.stdin.close()
            process.wait()


def has_torch(python):
    return python and subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0


def compete(contenders, rounds):
    least, medians = {c.name: [] for c in contenders}, {c.name: [] for c in contenders}
    for i in range(rounds):
        for c in contenders[i % len(contenders):] + contenders[:i % len(contenders)]:
            seconds = c.seconds()
            least[c.name].append(seconds[0])
            medians[c.name].append(statistics.median(seconds))
    return {name: {"least": min(least[name]), "median": statistics.median(medians[name])} for name in least}


def tell_times(title, times):
    eager, products = times.get("PyTorch eager"), times[Products.name]
    rows = [("one step", "least ms", "median ms", "median to products") + (("to PyTorch eager",) if eager else ())]
    for name, t in times.items():
        rows.append((name, f"{1e3 * t['least']:.1f}", f"{1e3 * t['median']:.1f}",
                     f"{t['median'] / products['median']:.2f}")
                    + ((f"{t['median'] / eager['median']:.2f}",) if eager else ()))
    table(title, rows)


def tell_ops(ops):
    rows = [("op", "nodes", "ms", "share", "GFLOP/s", "GB/s", "of its limit")]
    total = sum(op["seconds"] for op in ops)
    for op in ops:
        seconds = max(op["seconds"], 1e-9)
        rows.append((op["op"], str(op["nodes"]), f"{1e3 * seconds:.2f}", f"{100 * seconds / total:.1f} %",
                     f"{op['flops'] / seconds / 1e9:.0f}" if op["flops"] else "", f"{op['bytes'] / seconds / 1e9:.1f}",
                     f"{100 * op['bound'] / seconds:.0f} %"))
    table("Where Tempo's time goes (exact; least of the runs for each node; bytes of operands and first result):", rows)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--case", choices=CASES, default="base")
    parser.add_argument("--torch", default="")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor", action="store_true")
    args = parser.parse_args()
    args.threads = 1 if args.processor else args.threads
    args.tempoc, args.tempo_run = os.path.join(args.build, "tempoc"), os.path.join(args.build, "tempo-run")
    args.machine = os.path.join(args.build, "bench", "machine")
    return args


def check_losses(tempo, peers):
    """Without dropout both compute one thing; a benchmark of two things would say nothing."""
    ours = tempo.loss()
    for peer in peers:
        if abs(ours - peer.last_loss) > 1e-4 * abs(ours):
            sys.exit(f"{peer.name} has loss {peer.last_loss}, Tempo {ours}: they are not the same network")


def measure(args, case, folder):
    model = os.path.join(folder, "model.onnx")
    bert.write(model, case)
    tempo = [Tempo(args, model, recipe) for recipe in RECIPES]
    first = tempo[0].path + ".first.json"
    tempo[0].command("--profile", first)
    with_torch = has_torch(args.torch)
    if not with_torch:
        print("no PyTorch (--torch=PYTHON, or meson configure -Dtorch_python=PYTHON): Tempo and its products only")
    peers = [Peer(args, case, *peer) for peer in PEERS] if with_torch else []
    try:
        times = compete(tempo + [Products(args, profiles.products(first, tempo[0].path))] + peers, args.rounds)
    finally:
        Peer.end()
    if case.dropout == 0:
        check_losses(tempo[0], peers)
    limits = json.loads(run(args.machine, "limits", str(args.threads)))
    profile = os.path.join(folder, "profile.json")
    tempo[0].command("--repeat", str(args.times + 2), "--profile", profile)
    return {"times": times, "limits": limits, "ops": profiles.by_op(profile, tempo[0].path, limits)}


def main():
    args = arguments()
    case = CASES[args.case]
    print(f"{args.case}: {case}\n{machine_line(args.threads)}")
    with tempfile.TemporaryDirectory(prefix="tempo-bench-") as folder:
        result = measure(args, case, folder)
    clock = "Processor time of one thread" if args.processor else "Time"
    tell_times(f"{clock} of a forward and backward pass, every gradient made:", result["times"])
    limits = result["limits"]
    print(f"\nThe machine: {limits['flops'] / 1e9:.0f} GFLOP/s in a product of 1024, {limits['memory'] / 1e9:.1f} GB/s "
          f"from memory, "
          f"{limits['cache'] / 1e9:.1f} GB/s from the cache")
    tell_ops(result["ops"])
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"case": args.case, "network": vars(case), "processor": processor(), "threads": args.threads,
                       "clock": "processor" if args.processor else "wall", **result}, f, indent=1)


if __name__ == "__main__":
    main()
