#!/usr/bin/env python3
"""What it costs to fit training graphs into a part of their memory: every .onnx file of the folders under tempoc's
--memory-budget, as a table.

usage: budget_plans.py BUILD_DIR FOLDER... [--budgets 50 25] [--machine NAME] [--recipes none exact] [--dim NAME=VALUE]
[--only REGEX] [--seed N] [--remat-time S] [--no-unit]

Budgets are percent of what the arena takes under recipe none. Extra cost is that of the plan beside a run under recipe
none, by the roofline of a machine and, planned anew, by unit costs. Seconds are the processor's, of one thread, for
the whole of tempoc. A budget is met, refused where no schedule could need so little, or missed: then extra cost and
arena are those of the best plan. Weights are not needed. Means are of the budgets that were met.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from bench_common import machine_line

GOOD, MISSED = 0, 4


@dataclass
class Plan:
    """One compile under a budget."""
    outcome: str    # met, refused, missed
    extra: float    # of recipe none's cost, percent
    share: float    # arena of recipe none's arena, percent
    arena: int
    nodes: int
    seconds: float


def processor_seconds(command):
    """Exit code, standard error, and the processor's seconds of a program."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return process.returncode, errors.read(), used.ru_utime + used.ru_stime


def plan_of(options, path, recipe, budget, costs, report):
    """A Plan, or the line that tells why there is none."""
    command = [options.tempoc, path, "-q", "--best-effort", f"--recipe={recipe}", f"--memory-budget={budget}%",
               f"--report={report}", f"--seed={options.seed}", *costs, *(f"--dim={d}" for d in options.dim)]
    if options.remat_time:
        command.append(f"--remat-time={options.remat_time}")
    if os.path.exists(report):
        os.remove(report)
    status, errors, seconds = processor_seconds(command)
    if status not in (GOOD, MISSED) or not os.path.exists(report):
        return next((line for line in errors.splitlines() if "error" in line), f"exit code {status}")
    with open(report, encoding="utf-8") as file:
        told = json.load(file)
    plan, cost, before = told["plan"], told["cost"], told["arena_bytes"]["before"]
    met = plan["arena"] <= plan["budget"]
    if met != plan["met"] or met != (status == GOOD):
        sys.exit(f"{path}: arena {plan['arena']} of {plan['budget']}, met: {plan['met']}, exit code {status}")
    outcome = "met" if met else "refused" if plan["budget"] < plan["floor"] else "missed"
    return Plan(outcome, 100 * (cost["after"] / max(cost["before"], 1) - 1), 100 * plan["arena"] / max(before, 1),
                plan["arena"], told["nodes"]["after"], seconds)


def cells(plan):
    how = "" if plan.outcome == "met" else f" {plan.outcome}, {plan.share:.1f}% of none"
    return f"{plan.extra:+.2f}%{how} | {plan.seconds:.1f}"


def row(name, recipe, budget, plans):
    first = plans[0]
    print(f"| {name} | {first.nodes:,} | {recipe} | {budget:g}% | {first.arena / 2**20:,.1f} | "
          f"{' | '.join(cells(p) for p in plans)} |", flush=True)


def tell_means(options, found):
    """found[(recipe, budget)]: lists of Plans, one for each kind of costs."""
    print("\n| recipe | budget | costs | met | mean extra cost | worst | mean seconds | most |\n" + "|---" * 8 + "|")
    for (recipe, budget), rows in found.items():
        for i, (costs, _) in enumerate(options.costs):
            plans = [plans[i] for plans in rows]
            met = [p.extra for p in plans if p.outcome == "met"]
            extra = f"{statistics.mean(met):+.2f}% | {max(met):+.2f}%" if met else "| "
            taken = [p.seconds for p in plans]
            print(f"| {recipe} | {budget:g}% | {costs} | {len(met)} of {len(plans)} | {extra} | "
                  f"{statistics.mean(taken):.1f} | {max(taken):.1f} |")


def name_of(path):
    name = os.path.basename(path)[:-len(".onnx")]
    return os.path.basename(os.path.dirname(os.path.abspath(path))) if name == "model" else name


def models(options):
    paths = [os.path.join(f, n) for f in options.folders for n in sorted(os.listdir(f)) if n.endswith(".onnx")]
    if not paths:
        sys.exit(f"no .onnx file in {' '.join(options.folders)}")
    return [p for p in paths if re.search(options.only, name_of(p))]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--budgets", type=float, nargs="+", default=[50, 25])
    parser.add_argument("--machine", default="a100")
    parser.add_argument("--recipes", nargs="+", default=["none", "exact"])
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--remat-time", type=float)
    parser.add_argument("--no-unit", action="store_true")
    options = parser.parse_args()
    options.tempoc = os.path.join(options.build, "tempoc")
    options.costs = [(options.machine, [f"--machine={options.machine}"])]
    if not options.no_unit:
        options.costs.append(("unit", ["--cost=unit"]))
    return options


def main():
    options = arguments()
    names = [costs for costs, _ in options.costs]
    print(f"{machine_line(1)}\n\n| graph | nodes | recipe | budget | arena, MiB | "
          f"{' | '.join(f'extra cost, {n} | seconds' for n in names)} |\n{'|---' * (5 + 2 * len(names))}|")
    found = {}
    with tempfile.TemporaryDirectory(prefix="tempo-bench-") as folder:
        report = os.path.join(folder, "report.json")
        for path in models(options):
            name = name_of(path)
            for recipe in options.recipes:
                for budget in options.budgets:
                    plans = [plan_of(options, path, recipe, budget, costs, report) for _, costs in options.costs]
                    wrong = [p for p in plans if not isinstance(p, Plan)]
                    if wrong:
                        print(f"| {name} | | {recipe} | {budget:g}% | | {wrong[0]} |", flush=True)
                        continue
                    found.setdefault((recipe, budget), []).append(plans)
                    row(name, recipe, budget, plans)
    tell_means(options, found)


if __name__ == "__main__":
    main()
