#!/usr/bin/env python3
"""Builds and tests Tempo in each of its build folders, and says what failed and what took long: ./check calls it.

usage: gate.py [--deep[=K/N]] [--again] [--list] [--bless] [NAME...]

Without options the gate: every test that it runs, but for those whose programs, scripts and data are what they were
when they passed (gate_stamps.py). --deep runs what takes hours besides, or the K-th of N equal shares of it. --again
runs tests that nothing changed for, too. --list tells where each test runs, and runs nothing. NAME: only tests that
match one of these patterns (unit/*). --bless writes times.txt.

Each build folder keeps what its tests took; times.txt beside this file has what they took elsewhere. It decides what
starts first and what is in a share. dear.txt names the tests of the gate that may take more than 40 seconds of
processor time, and why.
"""
import argparse
import json
import os
import sys
import time

import gate_reach
import gate_stamps
import gate_tests
import gate_trees

HERE = os.path.dirname(os.path.abspath(__file__))
DEAR = 40  # seconds of processor time that a test of the gate may take
SLOWER = 3  # times as long may a test take on another machine than where times.txt was written
UNKNOWN = 2  # seconds for a test that was never measured
SANITIZED = 3  # times as long takes a test under sanitizers, where nobody has measured it
JOBS = (os.cpu_count() or 1) + 1  # tests side by side: some wait, for processes that they stop, or for the disk
FUZZ = {False: "10", True: "120"}  # seconds for each fuzz target, in the gate and in --deep


def table(name):
    """{test: what is behind the first blanks} of a file beside this one."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        rows = [line.split(None, 1) for line in file if line.strip() and not line.startswith("#")]
    return {row[0]: row[1].strip() for row in rows}


def kept_costs(tree):
    """{test: seconds of processor time} by times.txt: in this tree, else some times what it takes in another."""
    costs = {}
    for row, seconds in table("times.txt").items():
        folder, _, name = row.partition(":")
        if folder == tree.folder:
            costs[name] = float(seconds)
        else:
            costs.setdefault(name, float(seconds) * (SANITIZED if tree.slower > 1 else 1))
    return costs


def own_costs(tree):
    """{test: seconds of processor time} as measured in the build folder."""
    try:
        with open(os.path.join(tree.folder, "times.json"), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def bless():
    """Brings times.txt up to what the build folders keep."""
    rows = table("times.txt")
    for tree in gate_trees.TREES:
        rows.update({f"{tree.folder}:{name}": f"{seconds:.0f}" for name, seconds in own_costs(tree).items()})
    path = os.path.join(HERE, "times.txt")
    with open(path, encoding="utf-8") as file:
        comments = [line for line in file if line.startswith("#")]
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(comments)
        file.writelines(f"{name} {seconds}\n" for name, seconds in sorted(rows.items()) if float(seconds) >= UNKNOWN)


def share_of(tests, costs, share, shares):
    """The share-th (from 1) of shares parts of about equal cost: the dearest first, each to the part that has least."""
    parts = [[0.0, []] for _ in range(shares)]
    for test in sorted(tests, key=lambda test: (-costs.get(test.name, UNKNOWN), test.name)):
        least = min(parts, key=lambda part: part[0])
        least[0] += costs.get(test.name, UNKNOWN)
        least[1].append(test)
    return parts[share - 1][1]


class Progress:
    """Counts results, prints failures as they come, and keeps what each test took."""

    def __init__(self):
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.unchanged, self.took, self.stages, self.failures = 0, [], [], []

    def stage(self, name, seconds):
        self.stages.append((name, seconds))
        print(f"== {name}: {seconds // 60:.0f} min {seconds % 60:02.0f} s", flush=True)

    def fail(self, name, why):
        self.counts["failed"] += 1
        self.failures.append(name)
        print(f"FAILED {name}\n{why}", flush=True)

    def result(self, tree, test, result, number, total):
        name = f"{tree.folder}:{test.name}"
        if result.state == "failed":
            self.fail(name, f"{result.output}\nagain: {test.shell()}")
        else:
            self.counts[result.state] += 1
        self.took.append((result.processor, result.seconds, name))
        if sys.stdout.isatty():
            print(f"\r\033[K{number}/{total} {test.name} {result.seconds:.1f} s", end="\r", flush=True)
        elif number % 50 == 0:
            print(f"   {number} of {total}", flush=True)

    def summary(self):
        print("\nStages")
        for name, seconds in self.stages:
            print(f"  {seconds:7.0f} s  {name}")
        print("The ten dearest tests, in seconds of processor time (and of the clock)")
        for processor, seconds, name in sorted(self.took, reverse=True)[:10]:
            print(f"  {processor:7.1f} s ({seconds:.1f})  {name}")
        for name in self.failures:
            print(f"failed: {name}")
        if self.unchanged:
            print(f"{self.unchanged} of the passed tests did not run again: nothing that they read has changed")
        print(", ".join(f"{count} {state}" for state, count in self.counts.items() if count or state != "skipped"))


def chosen(tree, tests, options):
    """The tests of a tree that are to run: (gate's, deep's)."""
    tests = [test for test in tests if not options.names or test.matches(options.names)]
    gate = [test for test in tests if tree.gate(test)]
    return gate, [test for test in tests if tree.deep(test)] if options.deep else []


def run_tests(tree, name, tests, options, progress, fuzz):
    """Those that nothing changed for pass; the others run."""
    reach = gate_reach.Reach(tree.folder) if name == "tests" and tree.watched and gate_reach.Reach.works() else None
    stamps, own = gate_stamps.Stamps(tree.folder, name, reach), own_costs(tree)
    due = [test for test in tests if options.again or not stamps.unchanged(test)]
    progress.unchanged += len(tests) - len(due)
    progress.counts["passed"] += len(tests) - len(due)
    measured = {}

    def tell(test, result):
        measured[test.name] = round(result.processor, 1)
        stamps.note(test, result.state == "passed")
        with open(os.path.join(tree.folder, "times.json"), "w", encoding="utf-8") as file:
            json.dump({**own, **measured}, file, indent=0, sort_keys=True)
        progress.result(tree, test, result, len(measured), len(due))
    settings = {"FUZZ_SECONDS": os.environ.get("FUZZ_SECONDS", fuzz), **tree.settings}
    gate_tests.run_all(due, JOBS, {**kept_costs(tree), **own}, tree.slower,
                       lambda test: {**settings, **stamps.watch(test)}, tell)
    if reach:
        reach.close()
    return measured


def run_tree(tree, options, progress):
    if tree.gate is gate_trees.none and not options.deep:
        return
    print(f"\n== {tree.folder}: {tree.about}", flush=True)
    began = time.monotonic()
    why = gate_trees.configure(tree)
    if why:
        progress.fail(f"{tree.folder}:configure", why)
        return
    gate, deep = chosen(tree, gate_trees.tests_of(tree), options)
    if options.share:
        deep = share_of(deep, kept_costs(tree), *options.share)  # the same everywhere
    if not gate and not deep:
        return
    why = gate_trees.build(tree, gate + deep)
    progress.stage(f"{tree.folder}: built", time.monotonic() - began)
    if why:
        progress.fail(f"{tree.folder}:build", why)
        return
    for name, tests, fuzz in (("tests", gate, FUZZ[False]), ("deep tests", deep, FUZZ[True])):
        if not tests:
            continue
        began = time.monotonic()
        measured = run_tests(tree, name, tests, options, progress, fuzz)
        progress.stage(f"{tree.folder}: {len(measured)} of {len(tests)} {name} run", time.monotonic() - began)
        if name == "tests":
            too_dear(tree, measured, progress)


def too_dear(tree, measured, progress):
    """Fails as style/dear where a test of the gate takes more processor time than it may."""
    allowed, elsewhere = table("dear.txt"), table("times.txt")

    def most(name):
        known = float(elsewhere.get(f"{tree.folder}:{name}", 0))
        return max(DEAR, SLOWER * known) if known <= DEAR else DEAR
    over = {name: seconds for name, seconds in measured.items() if seconds > most(name) and name not in allowed}
    if over:
        progress.fail("style/dear", "\n".join(f"{name} takes {seconds:.0f} s of processor time, more than {DEAR}: make "
                                              "it cheaper, part it, or say why in test/gate/dear.txt"
                                              for name, seconds in over.items()))


def list_tests(options):
    for tree in gate_trees.TREES:
        why = gate_trees.configure(tree)
        if why:
            sys.exit(why)
        for test in gate_trees.tests_of(tree):
            for where, runs in (("gate", tree.gate(test)), ("deep", tree.deep(test))):
                if runs and (not options.names or test.matches(options.names)):
                    print(f"{test.name:48} {where}  {tree.folder}")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="check", add_help=False)
    parser.add_argument("--deep")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(["--deep=all" if word == "--deep" else word for word in arguments])
    options.share = None
    if options.deep and options.deep != "all":
        share, _, shares = options.deep.partition("/")
        if not (share.isdigit() and shares.isdigit() and 1 <= int(share) <= int(shares)):
            parser.error(f"--deep={options.deep}: K/N is wanted, as in 3/12")
        options.share = int(share), int(shares)
    return options


def main():
    options = parse(sys.argv[1:])
    os.chdir(gate_stamps.ROOT)
    if options.list:
        list_tests(options)
        return 0
    if options.bless:
        bless()
        return 0
    progress = Progress()
    for tree in gate_trees.TREES:
        run_tree(tree, options, progress)
    progress.summary()
    return progress.counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
