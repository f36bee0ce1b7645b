#!/usr/bin/env python3
"""Runs every model under memory budgets and compares with the run without.

usage: check_budgets.py TEMPOC TEMPO_RUN CASE_DIR ...      CASE_DIR: model.onnx, inputs.npz (models/)

For recipe none and each budget, and once for exact: outputs are those of the same recipe without a budget, bit for bit,
on one thread and on two, dropout's masks among them; the arena of the run is the one that the report tells; a plan that
says that it met its budget did, and tempoc's exit code says so, too; arenas shrink as budgets do. Where everything in
the backward pass that can be is made again (--recompute=.), too. A plan compiled again under its own budget stays as it
is, byte for byte. On the curve (--pareto), which changes no file, arenas fall and costs rise, every point is met, and a
chosen plan is as good as it.
"""
import os
import re
import sys

from compare import dims_of, load, same_bits
from programs import check, finish, json_of, path, run

MET, MISSED = 0, 4
BUDGETS = ("75%", "50%", "35%", "25%", "min")


class Checker:
    def __init__(self, tempoc, tempo_run):
        self.tempoc, self.tempo_run = tempoc, tempo_run

    def compile(self, model, out, *options):
        done = run(self.tempoc, model, "-o", path(out), f"--report={path('report.json')}", "-q", *options, code=None)
        if done.code not in (MET, MISSED) or not os.path.exists(path("report.json")):
            return done.code, None
        report = json_of(path("report.json"))
        os.remove(path("report.json"))
        return done.code, report

    def run(self, model, inputs, threads):
        out = path(f"out{threads}.npz")
        text = run(self.tempo_run, path(model), "--inputs", inputs, "--outputs", out, "--memory", "--threads",
                   threads).out
        return load(out), int(re.search(r"(\d+) .* arena:", text).group(1))

    def plan(self, name, model, inputs, expected, options):
        """Compiles under a budget, runs, compares; returns the report's plan."""
        status, report = self.compile(model, "plan.onnx", *options)
        check(status in (MET, MISSED) and report, f"{name}: exit code {status}")
        if not report:
            return None
        plan = report["plan"]
        for threads in (1, 2):
            got, arena = self.run("plan.onnx", inputs, threads)
            differing = [k for k in expected if k in got and not same_bits(got[k], expected[k])]
            check(same_bits(got, expected), f"{name}: other bits in {differing}")
            check(arena == plan["arena"], f"{name}: {arena} bytes allocated, {plan['arena']} planned")
        check(plan["met"] == (plan["arena"] <= plan["budget"]) == (status == MET),
                   f"{name}: arena {plan['arena']} of {plan['budget']}, exit code {status}")
        check(plan["arena"] >= plan["floor"], f"{name}: arena {plan['arena']}, floor {plan['floor']}")
        return plan

    def case(self, case, recipe, budgets):
        model, inputs = os.path.join(case, "model.onnx"), os.path.join(case, "inputs.npz")
        common = [f"--recipe={recipe}", *dims_of(case)]
        status, _ = self.compile(model, "base.onnx", *common)
        if status == 3:
            check(True, "a model that is there to be refused")
            return
        expected, whole = self.run("base.onnx", inputs, 1)
        name = f"{os.path.basename(os.path.normpath(case))} {recipe}"
        arenas, last = [], whole
        for budget in budgets:
            seconds = 0.3 if budget == "min" else 0.1  # the least there is takes more looking for
            plan = self.plan(f"{name} {budget}", model, inputs, expected,
                             [*common, f"--memory-budget={budget}", "--best-effort", f"--remat-time={seconds}"])
            if not plan:
                continue
            arenas.append(plan["arena"])
            if plan["met"]:
                check(plan["arena"] <= last, f"{name} {budget}: {plan['arena']} bytes, before it {last}")
                last = plan["arena"]
            if plan["met"] and budget != "min":
                self.again(name, plan)
        self.plan(f"{name} again", model, inputs, expected,
                  [*common, "--memory-budget=1GiB", "--recompute=.", "--remat-time=0.1"])
        if recipe == "none":
            self.curve(f"{name} curve", model, common)
        print(f"{name}: {whole} bytes, {' '.join(map(str, arenas))}")

    def curve(self, name, model, common):
        """--pareto=5, alone and with a budget in the middle of the curve."""
        options = [*common, "--pareto=5", "--remat-time=0.1"]
        _, report = self.compile(model, "curve.onnx", *options)
        same = open(path("curve.onnx"), "rb").read() == open(path("base.onnx"), "rb").read()
        check(same and "plan" not in report, f"{name}: a curve changes the file")
        points = report["pareto"]
        for a, b in zip(points, points[1:]):
            check(a["budget"] >= b["budget"] and a["arena"] >= b["arena"] and a["cost"] <= b["cost"],
                       f"{name}: from {a} to {b}")
        for p in points:
            check(p["met"] and p["arena"] <= p["budget"], f"{name}: not met: {p}")
        _, again = self.compile(model, "curve.onnx", *options)
        check(again["pareto"] == points, f"{name}: another curve")
        status, report = self.compile(model, "curve.onnx", *options, f"--memory-budget={points[2]['budget']}")
        plan = report and report["plan"]
        check(status == MET and plan["met"] and all(
            p["cost"] >= plan["cost_after"] for p in report["pareto"] if p["arena"] <= plan["budget"]),
            f"{name}: {plan} is below {report and report['pareto']}")

    def again(self, name, plan):
        """--passes= and the same budget."""
        status, _ = self.compile(path("plan.onnx"), "twice.onnx", "--passes=budget",
                                 f"--memory-budget={plan['budget']}")
        check(status == MET, f"{name}: the plan does not fit itself: exit code {status}")
        check(open(path("plan.onnx"), "rb").read() == open(path("twice.onnx"), "rb").read(),
                   f"{name}: the plan of a plan is another one")


def main():
    tempoc, tempo_run, *cases = sys.argv[1:]
    checker = Checker(tempoc, tempo_run)
    for case in cases:
        checker.case(case, "none", BUDGETS)
        checker.case(case, "exact", ("85%", "50%"))
    finish()


if __name__ == "__main__":
    main()
