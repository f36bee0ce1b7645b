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
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

MET, MISSED = 0, 4
BUDGETS = ("75%", "50%", "35%", "25%", "min")


def dims_of(case):
    """--dim for the symbolic dims of the model's inputs, as the inputs at hand have them."""
    shapes = {k: v.shape for k, v in np.load(os.path.join(case, "inputs.npz")).items()}
    dims = {}
    for i in onnx.load(os.path.join(case, "model.onnx"), load_external_data=False).graph.input:
        for size, d in zip(shapes.get(i.name, ()), i.type.tensor_type.shape.dim):
            if d.dim_param:
                dims[d.dim_param] = size
    return [a for name, size in dims.items() for a in ("--dim", f"{name}={size}")]


class Checker:
    def __init__(self, tempoc, tempo_run, folder):
        self.tempoc, self.tempo_run, self.folder, self.failures = tempoc, tempo_run, folder, 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def check(self, good, what):
        if not good:
            print(f"FAILED: {what}")
            self.failures += 1

    def compile(self, model, out, *options):
        command = [self.tempoc, model, "-o", self.path(out), f"--report={self.path('report.json')}", "-q", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode not in (MET, MISSED):
            return done.returncode, None
        if not os.path.exists(self.path("report.json")):
            return done.returncode, None
        with open(self.path("report.json"), encoding="utf-8") as file:
            report = json.load(file)
        os.remove(self.path("report.json"))
        return done.returncode, report

    def run(self, model, inputs, threads):
        out = self.path(f"out{threads}.npz")
        text = subprocess.run([self.tempo_run, self.path(model), "--inputs", inputs, "--outputs", out, "--memory",
                               "--threads", str(threads)], capture_output=True, text=True, timeout=300, check=True)
        arrays = {k: (v.shape, v.dtype, v.tobytes()) for k, v in np.load(out).items()}
        return arrays, int(re.search(r"(\d+) .* arena:", text.stdout).group(1))

    def plan(self, name, model, inputs, expected, options):
        """Compiles under a budget, runs, compares; returns the report's plan."""
        status, report = self.compile(model, "plan.onnx", *options)
        self.check(status in (MET, MISSED) and report, f"{name}: exit code {status}")
        if not report:
            return None
        plan = report["plan"]
        for threads in (1, 2):
            got, arena = self.run("plan.onnx", inputs, threads)
            differing = [k for k in expected if got.get(k) != expected[k]]
            self.check(got.keys() == expected.keys() and not differing, f"{name}: other bits in {differing}")
            self.check(arena == plan["arena"], f"{name}: {arena} bytes allocated, {plan['arena']} planned")
        self.check(plan["met"] == (plan["arena"] <= plan["budget"]) == (status == MET),
                   f"{name}: arena {plan['arena']} of {plan['budget']}, exit code {status}")
        self.check(plan["arena"] >= plan["floor"], f"{name}: arena {plan['arena']}, floor {plan['floor']}")
        return plan

    def case(self, case, recipe, budgets):
        model, inputs = os.path.join(case, "model.onnx"), os.path.join(case, "inputs.npz")
        common = [f"--recipe={recipe}", *dims_of(case)]
        status, _ = self.compile(model, "base.onnx", *common)
        if status == 3:
            return  # a model that is there to be refused
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
                self.check(plan["arena"] <= last, f"{name} {budget}: {plan['arena']} bytes, before it {last}")
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
        same = open(self.path("curve.onnx"), "rb").read() == open(self.path("base.onnx"), "rb").read()
        self.check(same and "plan" not in report, f"{name}: a curve changes the file")
        points = report["pareto"]
        for a, b in zip(points, points[1:]):
            self.check(a["budget"] >= b["budget"] and a["arena"] >= b["arena"] and a["cost"] <= b["cost"],
                       f"{name}: from {a} to {b}")
        for p in points:
            self.check(p["met"] and p["arena"] <= p["budget"], f"{name}: not met: {p}")
        _, again = self.compile(model, "curve.onnx", *options)
        self.check(again["pareto"] == points, f"{name}: another curve")
        status, report = self.compile(model, "curve.onnx", *options, f"--memory-budget={points[2]['budget']}")
        plan = report and report["plan"]
        self.check(status == MET and plan["met"] and all(
            p["cost"] >= plan["cost_after"] for p in report["pareto"] if p["arena"] <= plan["budget"]),
            f"{name}: {plan} is below {report and report['pareto']}")

    def again(self, name, plan):
        """--passes= and the same budget."""
        status, _ = self.compile(self.path("plan.onnx"), "twice.onnx", "--passes=budget",
                                 f"--memory-budget={plan['budget']}")
        self.check(status == MET, f"{name}: the plan does not fit itself: exit code {status}")
        self.check(open(self.path("plan.onnx"), "rb").read() == open(self.path("twice.onnx"), "rb").read(),
                   f"{name}: the plan of a plan is another one")


def main():
    tempoc, tempo_run, *cases = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        checker = Checker(tempoc, tempo_run, folder)
        for case in cases:
            checker.case(case, "none", BUDGETS)
            checker.case(case, "exact", ("85%", "50%"))
    sys.exit(1 if checker.failures else 0)


if __name__ == "__main__":
    main()
