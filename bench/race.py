#!/usr/bin/env python3
"""Times a training step of transformers' own models, AdamW's update included: Tempo and PyTorch in its several modes,
in turn, and the step's matrix products alone.

usage: race.py BUILD_DIR --torch PYTHON [--case NAME ...] [--mode MODE ...] [--rounds N] [--times N] [--threads N]
[--folder DIR] [--json FILE]
PYTHON has torch, transformers and onnxscript: hf_models.py runs there, exports the models (to DIR, where they are left)
and is the peer. Tempo compiles the export, with the optimizer's update in the graph, in float and with
--precision=bf16, and runs it by tempo-run. It tells the median step of all rounds, ratios to PyTorch's eager mode and
to the products, bytes saved for the backward pass and bytes resident at most. No time is ever asserted.
"""
import argparse
import json
import os
import statistics
import tempfile

import numpy as np
import profiles
from bench_common import machine_line, measured, run, table

FLAGS = {"exact": ["--recipe=exact"], "tiled": ["--recipe=tiled"], "none": ["--recipe=none"],
         "bf16": ["--recipe=exact", "--precision=bf16"]}
PEERS = ("eager", "sdpa", "compile", "bf16", "bf16-eager")
CASES = ("bert", "bert-large", "gpt2", "llama", "vit")
HERE = os.path.dirname(os.path.abspath(__file__))


class Tempo:
    def __init__(self, args, folder, flags):
        self.name, self.args = f"Tempo, {flags}", args
        self.path, report = os.path.join(folder, f"{flags}.onnx"), os.path.join(folder, f"{flags}.json")
        run(args.tempoc, os.path.join(folder, "model.onnx"), "-q", "--update=adamw", *FLAGS[flags], "-o", self.path,
            f"--report={report}", *args.dims)
        with open(report, encoding="utf-8") as f:
            self.saved = json.load(f)["saved_bytes"]["after"]
        self.inputs, self.resident = os.path.join(folder, "step.npz"), 0

    def command(self, *more):
        return [self.args.tempo_run, self.path, "--inputs", self.inputs, "--threads", str(self.args.threads), *more]

    def seconds(self):
        """Of all runs but the first, which touches all memory for the first time."""
        trace = self.path + ".trace.json"
        _, took = measured(self.args.build, *self.command("--repeat", str(self.args.times + 1), "--profile", trace))
        self.resident = max(self.resident, took["resident"])
        return profiles.run_seconds(trace)[1:]


class Products:
    name, saved, resident = "matrix products alone", None, None

    def __init__(self, args, products):
        self.args, self.feed = args, "".join(f"{' '.join(map(str, p))}\n" for p in products)

    def seconds(self):
        return json.loads(run(self.args.machine, "products", str(self.args.times + 1), str(self.args.threads),
                              feed=self.feed))[1:]


class Peer:
    """A mode of hf_models.py, a new process each round, since several of them alive would not fit in small machines."""

    def __init__(self, args, case, mode):
        self.name, self.args, self.saved, self.resident = f"PyTorch {mode}", args, 0, 0
        self.command = [args.torch, os.path.join(HERE, "hf_models.py"), case, mode, "--threads", str(args.threads)]

    def seconds(self):
        answers = run(*self.command, feed=f"1\n{self.args.times}\n").splitlines()
        answer = json.loads(answers[-1])
        self.resident = max(self.resident, answer["resident"])
        return answer["seconds"]

    def count_saved(self):
        if "compile" not in self.name:
            self.saved = json.loads(run(*self.command, "--saved", feed="1\n"))["saved"]


def compete(contenders, rounds):
    seconds = {c.name: [] for c in contenders}
    for i in range(rounds):
        for c in contenders[i % len(contenders):] + contenders[:i % len(contenders)]:
            seconds[c.name] += c.seconds()
    return {name: {"least": min(s), "median": statistics.median(s), "steps": len(s)} for name, s in seconds.items()}


def mib(count):
    return f"{count / 2**20:.0f}" if count else ""


def tell(title, contenders, times):
    eager, products = times.get("PyTorch eager"), times[Products.name]
    rows = [("one step", "median ms", "least ms", "to eager", "to products", "saved MiB", "resident MiB")]
    for c in contenders:
        t = times[c.name]
        rows.append((c.name, f"{1e3 * t['median']:.0f}", f"{1e3 * t['least']:.0f}",
                     f"{t['median'] / eager['median']:.2f}" if eager else "",
                     f"{t['median'] / products['median']:.2f}", mib(c.saved), mib(c.resident)))
    table(title, rows)


def measure(args, case, folder):
    if not os.path.exists(os.path.join(folder, "inputs.npz")):
        run(args.torch, os.path.join(HERE, "hf_models.py"), case, "export", folder)
    with np.load(os.path.join(folder, "inputs.npz")) as feeds:
        args.dims = [f"--dim=batch={next(iter(feeds.values())).shape[0]}"]
        np.savez(os.path.join(folder, "step.npz"), **feeds, **{"tempo.rate": np.float32(1e-9),
                                                               "tempo.update": np.int64(1)})
    tempo = [Tempo(args, folder, mode) for mode in args.mode if mode in FLAGS]
    trace = os.path.join(folder, "first.json")
    run(*tempo[0].command("--profile", trace))
    contenders = tempo + [Products(args, profiles.products(trace, tempo[0].path))]
    contenders += [Peer(args, case, mode[3:]) for mode in args.mode if mode.startswith("pt-")]
    times = compete(contenders, args.rounds)
    for c in contenders:
        if isinstance(c, Peer):
            c.count_saved()
    tell(f"{case}, AdamW's update included:", contenders, times)
    return {c.name: {**times[c.name], "saved": c.saved, "resident": c.resident} for c in contenders}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--torch", required=True)
    parser.add_argument("--case", nargs="+", default=CASES)
    parser.add_argument("--mode", nargs="+", choices=[*FLAGS, *(f"pt-{mode}" for mode in PEERS)],
                        default=["exact", "tiled", "bf16", *(f"pt-{mode}" for mode in PEERS)])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.tempoc, args.tempo_run = os.path.join(args.build, "tempoc"), os.path.join(args.build, "tempo-run")
    args.machine = os.path.join(args.build, "bench", "machine")
    return args


def main():
    args = arguments()
    print(machine_line(args.threads))
    results = {}
    with tempfile.TemporaryDirectory(prefix="tempo-race-") as folder:
        for case in args.case:
            results[case] = measure(args, case, os.path.join(args.folder or folder, case))
            if args.json:
                with open(args.json, "w", encoding="utf-8") as f:
                    json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
