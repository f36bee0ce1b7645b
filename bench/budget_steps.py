#!/usr/bin/env python3
"""Runs training steps under memory budgets: what a plan promises beside what is measured.

usage: budget_steps.py BUILD_DIR [--case NAME] [--recipes none exact] [--budgets 100 75 50 35 25] [--rounds N]
[--times N] [--threads N] [--processor] [--seed N] [--remat-time S] [--machine NAME] [--torch PYTHON] [--json FILE]

Memory: the arena that tempoc promised, and the most that a run had resident, less inputs and what a run of the same
network with batch 1 had beside its arena. Time: the least of several runs, all plans in turn in each of N rounds,
beside what costs say that tempoc planned by (`tempo-run --profile` of the graph without a budget) and what the roofline
of a machine says of the same plan. Gradients are those without a budget, bit for bit, or the benchmark ends with 1.
With --processor, times are the processor's, for one thread. --torch names a Python with PyTorch: torch_budget.py runs
the same network under its activation checkpointing and its activation_memory_budget.
"""
import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile

import bert
import gpt2
import numpy as np
import resnet
from bench_common import machine_line, measured, run, table

CASES = {"bert": (bert, bert.Bert(layers=3, batch=8, sequence=128, vocabulary=2048)),
         "gpt2": (gpt2, gpt2.Gpt2(layers=3, batch=8, sequence=128, vocabulary=2048)),
         "resnet": (resnet, resnet.Resnet(blocks=2, width=32, batch=64)),
         "tiny-bert": (bert, bert.Bert(layers=2, hidden=64, heads=2, batch=8, sequence=64, vocabulary=100)),
         "tiny-gpt2": (gpt2, gpt2.Gpt2(layers=2, hidden=64, heads=2, batch=8, sequence=64, vocabulary=100)),
         "tiny-resnet": (resnet, resnet.Resnet(blocks=1, width=8, batch=8))}
MISSED = 4


@dataclasses.dataclass
class Plan:
    name: str
    path: str
    arena: int
    outcome: str  # met, refused, missed
    resident: int = 0
    seconds: list = dataclasses.field(default_factory=list)
    costs: tuple = ()  # of a step, by the profile and by the roofline

    def least(self):
        return min(self.seconds) if self.seconds else 0


class Steps:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.model, self.feed = os.path.join(folder, "model.onnx"), os.path.join(folder, "inputs.npz")
        self.times = os.path.join(folder, "times.csv")

    def tempo_run(self, path, *more):
        return (os.path.join(self.args.build, "tempo-run"), path, "--inputs", self.feed, "--threads",
                str(self.args.threads), *more)

    def compile(self, name, *options):
        """A Plan; of the best there is where the budget was missed."""
        path, report = os.path.join(self.folder, name + ".onnx"), os.path.join(self.folder, name + ".json")
        command = [os.path.join(self.args.build, "tempoc"), self.model, "-o", path, f"--report={report}", "-q",
                   *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, MISSED):
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        with open(report, encoding="utf-8") as f:
            told = json.load(f)
        plan = told.get("plan")
        if not plan:
            return Plan(name, path, told["arena_bytes"]["after"], "")
        outcome = "met" if plan["met"] else "refused" if plan["budget"] < plan["floor"] else "missed"
        return Plan(name, path, plan["arena"], outcome)

    def costs(self, path):
        last = run(os.path.join(self.args.build, "bench", "node_costs"), path, self.times,
                   self.args.machine).splitlines()[-1].split()
        return float(last[-1]), float(last[-2])

    def outputs(self, plan):
        out = os.path.join(self.folder, "out.npz")
        run(*self.tempo_run(plan.path, "--outputs", out))
        with np.load(out) as arrays:
            return {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}

    def measure(self, plan):
        """One process: seconds of its least run, and what was resident at most without the inputs."""
        times = self.args.times
        text, took = measured(self.args.build, *self.tempo_run(plan.path, "--repeat", str(times + 1)))
        with np.load(self.feed) as arrays:
            plan.resident = max(plan.resident, took["resident"] - sum(a.nbytes for a in arrays.values()))
        if self.args.processor:
            once = measured(self.args.build, *self.tempo_run(plan.path))[1]["cpu"]
            plan.seconds.append((took["cpu"] - once) / times)
        else:
            plan.seconds.append(float(re.search(r"min ([\d.]+) ms", text)[1]) * 1e-3)

    def beyond(self, module, network):
        """What is resident beside arena and inputs: parameters, program, code that was made, nodes. Of batch 1,
        the most of as many runs as a plan gets."""
        path = os.path.join(self.folder, "small", "model.onnx")
        os.mkdir(os.path.dirname(path))
        module.write(path, dataclasses.replace(network, batch=1))
        small = Steps(self.args, os.path.dirname(path))
        plan = small.compile("none", "--recipe=none")
        for _ in range(self.args.rounds):
            small.measure(plan)
        return plan.resident - plan.arena


def make_plans(steps, args):
    base = steps.compile("none", "--recipe=none")
    run(*steps.tempo_run(base.path, "--repeat", str(args.times + 1), "--profile", steps.times))
    plans, search = [base], [f"--remat-time={args.remat_time}"] if args.remat_time else []
    for recipe in args.recipes:
        for budget in args.budgets:
            plans.append(steps.compile(f"{recipe}-{budget:g}", f"--recipe={recipe}", f"--memory-budget={budget:g}%",
                                       f"--cost={steps.times}", "--best-effort", f"--seed={args.seed}", *search))
    return plans


def check_outputs(steps, plans):
    """The number of plans whose outputs are other ones."""
    want, wrong = steps.outputs(plans[0]), 0
    for plan in plans[1:]:
        got = steps.outputs(plan)
        differing = [name for name in want if got.get(name) != want[name]]
        wrong += bool(differing) or got.keys() != want.keys()
        if differing:
            print(f"{plan.name}: other bits in {', '.join(differing[:5])}")
    return wrong


def measure(steps, args, plans, beyond):
    for plan in plans:
        plan.costs = steps.costs(plan.path)
    for i in range(args.rounds):
        for plan in plans[i % len(plans):] + plans[:i % len(plans)]:
            steps.measure(plan)
    for plan in plans:
        plan.resident -= beyond


def tell(args, plans):
    base = plans[0]
    rows = [("plan", "", "arena MiB", "of none", "resident MiB", "to arena", "least ms", "extra time", "by profile",
             f"by {args.machine}")]
    for p in plans:
        extra = [f"{100 * (value / of - 1):+.1f}%" for value, of in
                 ((p.least(), base.least()), (p.costs[0], base.costs[0]), (p.costs[1], base.costs[1]))]
        rows.append((p.name, p.outcome, f"{p.arena / 2**20:.1f}", f"{100 * p.arena / base.arena:.1f}%",
                     f"{p.resident / 2**20:.1f}", f"{100 * (p.resident / p.arena - 1):+.2f}%", f"{1e3 * p.least():.1f}",
                     *extra))
    clock = "the processor's, one thread" if args.processor else f"the clock's, {args.threads} threads"
    table(f"Steps under budgets, percent of the arena of recipe none; time is {clock}:", rows)


def is_monotone(plans, recipes):
    """Resident bytes fall, or stay, as arenas do: to a half percent, which is what processes differ by."""
    for recipe in recipes:
        own = sorted((p for p in plans if p.name.startswith(recipe + "-")), key=lambda p: -p.arena)
        for more, less in zip(own, own[1:]):
            if less.resident > more.resident + more.arena / 200:
                return False
    return True


def tell_torch(args):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_budget.py")
    print(run(args.torch, script, args.case, "--threads", str(args.threads), "--times", str(args.times),
              "--rounds", str(args.rounds), *(["--processor"] if args.processor else [])))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--case", choices=CASES, default="bert")
    parser.add_argument("--recipes", nargs="+", default=["none", "exact"])
    parser.add_argument("--budgets", type=float, nargs="+", default=[100, 75, 50, 35, 25])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--remat-time", type=float)
    parser.add_argument("--machine", default="cpu2")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--torch")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.threads = 1 if args.processor else args.threads
    return args


def main():
    args = arguments()
    module, network = CASES[args.case]
    print(f"{args.case}: {network}\n{machine_line(args.threads)}")
    with tempfile.TemporaryDirectory(prefix="tempo-bench-") as folder:
        steps = Steps(args, folder)
        module.write(steps.model, network)
        plans = make_plans(steps, args)
        wrong = check_outputs(steps, plans)
        measure(steps, args, plans, steps.beyond(module, network))
    tell(args, plans)
    print(f"\noutputs, gradients among them: {'other bits in some' if wrong else 'those of none, bit for bit'}; "
          f"resident bytes fall with the arena: {'yes' if is_monotone(plans, args.recipes) else 'no'}")
    if args.torch:
        tell_torch(args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump([vars(p) for p in plans], f, indent=1)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
