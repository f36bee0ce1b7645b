#!/usr/bin/env python3
"""Plants faults at random places of the C sources and finds out which of them the tests notice. Hours, by hand.

usage: plant.py FOLDER [--count=60] [--seed=1] [--python=FOLDER] [--jobs=2] [--leave-out-suite=NAME]...
       [--leave-out=PATTERN]... [--sanitizers] [--seconds=N] [--only-plant] [--only-fault=N]...

FOLDER gets a copy of the tracked tree, with all faults in it at once: which one is on says an environment variable
when a program runs (planted.h), so that sixty faults cost one build. A third of them lies in passes/, a third in the
CPU's kernels and a third in runtime/ and compiler/; draw_faults.py says what kinds there are. A fault for which the
compiler has an error or a warning is drawn again.

Each test runs once without a fault, which says how long it takes and which places it reaches. Then each fault is tried
on the tests that reach it, the cheapest first, until one fails, crashes, or takes five times as long (10 s at least).
What fails so is run again without the fault: a test that then fails too is left out from there on, and named. Left out
are also tests of the suites style and docs, of suites that --leave-out-suite names, and tests whose names match a
--leave-out, a pattern of fnmatch. With --sanitizers, what no test noticed is tried once more in a build by clang with
AddressSanitizer and UndefinedBehaviorSanitizer, which alone sees a free that is missing.

A run that was cut off goes on where it was: FOLDER/state.json has it all. More tests (fewer --leave-out), more
--seconds (of tests for each fault and build, no limit without) or --sanitizers go on from there, too. What came out
is in FOLDER/results.json and FOLDER/results.txt. --python: the Python environment of test/setup.sh (default: build/py
of this tree). The last line is 'N noticed, N not'.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import draw_faults

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AREAS = {"passes": ("passes/",), "kernels": ("kernels/",), "runtime, compiler": ("runtime/", "compiler/")}
# Programs of the build itself, what other builds are made of, and kernels' references, which decide what is right.
NOT_PLANTED = re.compile(r"kernels/activation/fit_curves\.c|passes/embedded/.*|.*_ref\.c|kernels/reference/.*|.*cuda.*")
RELEASE = ["-Dcuda=off", "-Doracles=enabled"]
SANITIZED = RELEASE + ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dbuildtype=debugoptimized"]
# As ./check has them; sanitizers end what takes too much memory by mistake.
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": os.path.join(ROOT, "test", "lib"),
               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
               "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:hard_rss_limit_mb=8000"}


class State:
    """What is known so far, as a dict that lies in a file, too."""

    def __init__(self, path):
        self.path, self.lock, self.saved = path, threading.Lock(), 0.0
        self.all = json.load(open(path)) if os.path.exists(path) else {"faults": [], "tests": {}, "tried": {}}

    def save(self, now=True):
        if now or time.monotonic() - self.saved > 5:
            with open(self.path + ".new", "w") as file:
                json.dump(self.all, file, indent=1)
            os.replace(self.path + ".new", self.path)
            self.saved = time.monotonic()


# --- planting ---------------------------------------------------------------------------------------------------------

def copy_tree(tree):
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for file in filter(None, files.split("\0")):
        os.makedirs(os.path.dirname(os.path.join(tree, file)), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, file), os.path.join(tree, file), follow_symlinks=False)


def configure(tree, name, options, python, compiler=None):
    build = os.path.join(tree, name)
    if not os.path.exists(os.path.join(build, "build.ninja")):
        os.makedirs(os.path.join(tree, "build"), exist_ok=True)
        if not os.path.lexists(os.path.join(tree, "build", "py")):
            os.symlink(python, os.path.join(tree, "build", "py"))
        environment = {**os.environ, **({"CC": compiler} if compiler else {})}
        subprocess.run(["meson", "setup", name, *options], cwd=tree, check=True, env=environment,
                       stdout=subprocess.DEVNULL)
    return build


def compilations(tree, build):
    """Of each planted file and template the commands that compile it, as words, without its output."""
    found, templates = {}, {}
    for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
        source = os.path.relpath(os.path.join(entry["directory"], entry["file"]), tree)
        words, command = shlex.split(entry["command"]), []
        for word in words:
            if word in ("-MD", "-c") or (command and command[-1] in ("-MQ", "-MF", "-o")):
                command = command[:-1] if word not in ("-MD", "-c") else command
                continue
            command.append(word)
        found.setdefault(source, command + ["-fsyntax-only"])
    for source in [s for s in found if s.startswith("kernels/")]:
        for name in re.findall(r'#include "(\w+_tmpl\.h)"', open(os.path.join(tree, source)).read()):
            templates.setdefault(os.path.join(os.path.dirname(source), name), []).append(found[source])
    planted = {source: [command] for source, command in found.items()}
    planted.update({t: commands for t, commands in templates.items() if os.path.exists(os.path.join(tree, t))})
    return planted


def with_faults(text, faults):
    """The text of a file with its faults, [(number, fault)], and planted.h; lines keep their numbers."""
    lines = text.split("\n")
    for number, fault in faults:
        lines[fault.line - 1] = fault.planted.replace("TEMPO_FAULT(%d)", f"TEMPO_FAULT({number})")
    depth = comment = last = 0  # the last line of an include outside of conditions, before the first fault
    for at in range(min(fault.line for _, fault in faults) - 1):
        line = lines[at]
        comment = comment or line.lstrip().startswith("/*")
        if not comment:
            depth += line.startswith("#if")
            depth -= line.startswith("#endif")
            last = at + 1 if depth == 0 and line.startswith("#include") else last
        comment = comment and "*/" not in line
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted.h")
    lines.insert(last, f'#include "{header}"\n#line {last + 1}')
    return "\n".join(lines)


def compiles(build, commands, *more):
    return all(subprocess.run([*command, *more], cwd=build, capture_output=True, check=False).returncode == 0
               for command in commands)


def plant(tree, build, count, seed):
    """Draws faults and writes them into the tree. Returns them as dicts."""
    commands = compilations(tree, build)
    drawn, texts, per_file = [], {}, {}
    chance = random.Random(seed)
    for index, (area, folders) in enumerate(AREAS.items()):
        lines = {}  # of each kind: the faults of each line
        for file in sorted(commands):
            if not file.startswith(folders) or NOT_PLANTED.fullmatch(file):
                continue
            texts[file] = open(os.path.join(tree, file)).read()
            for fault in draw_faults.faults_of_file(file, texts[file]):
                lines.setdefault(fault.kind, {}).setdefault((file, fault.line), []).append(fault)
        wanted = count // len(AREAS) + (index < count % len(AREAS))
        taken, kind = set(), None
        while wanted:  # few of some kinds compile: they are drawn until one does
            if not lines.get(kind):
                kind = chance.choice([k for k in draw_faults.KINDS if lines.get(k)])
            place = chance.choice(sorted(lines[kind]))
            fault = chance.choice(lines[kind][place])
            lines[kind][place].remove(fault)
            if not lines[kind][place]:
                del lines[kind][place]
            if place in taken:
                continue
            path, text = os.path.join(tree, fault.file), texts[fault.file]
            rows = text.split("\n")
            rows[fault.line - 1] = fault.plain
            number, others = len(drawn), per_file.get(fault.file, [])
            good = True
            for new, flags in (("\n".join(rows), ("-Werror",)),
                               (with_faults(text, others + [(number, fault)]), ("-Wno-error", "-w"))):
                open(path, "w").write(new)
                good = good and compiles(build, commands[fault.file], *flags)
            open(path, "w").write(with_faults(text, others) if others else text)
            if not good:
                continue
            taken.add(place)
            per_file.setdefault(fault.file, []).append((number, fault))
            open(path, "w").write(with_faults(text, per_file[fault.file]))
            drawn.append({"number": number, "area": area, **fault._asdict()})
            print(f"fault {number}: {fault.file}:{fault.line}: {fault.kind}", flush=True)
            wanted, kind = wanted - 1, None
    return drawn


# --- running tests ----------------------------------------------------------------------------------------------------

def tests_of(build, suites, patterns):
    """{name: test} of the tests that are asked, as Meson describes them."""
    done = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True)
    tests = {}
    for test in json.loads(done.stdout):
        own = {s.split(":")[-1] for s in test["suite"]} | {test["name"].split("/")[0]} & {"style", "docs"}
        if not own & suites and not any(fnmatch.fnmatchcase(test["name"], p) for p in patterns):
            tests[test["name"]] = test
    return tests


def run_test(build, test, more, limit):
    """('ok', 'skipped', or what was wrong; seconds; the end of what it printed)."""
    def own_limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    environment = {**os.environ, **ENVIRONMENT, **test["env"], **more}
    begun = time.monotonic()
    with open(os.path.join(build, f"planted-{threading.get_ident()}.log"), "w+b") as log:
        process = subprocess.Popen(test["cmd"], cwd=test["workdir"] or build, env=environment, stdout=log,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=own_limits)
        try:
            code = process.wait(limit)
            result = {0: "ok", 77: "skipped"}.get(code) or (f"signal {-code}" if code < 0 else f"exit code {code}")
        except subprocess.TimeoutExpired:
            result = "time"
        seconds = time.monotonic() - begun
        for how in (signal.SIGTERM, signal.SIGKILL):  # what it left behind, too
            try:
                os.killpg(process.pid, how)
                time.sleep(0.2 if how == signal.SIGTERM else 0)
            except ProcessLookupError:
                break
        process.wait()
        log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
        said = log.read().decode(errors="replace")
    return result, round(seconds, 2), said


class Build:
    """A build folder and the tests in it. `times`: the Build that knows seconds and places; None: itself."""

    def __init__(self, name, folder, tests, state, times=None):
        self.name, self.folder, self.tests, self.state, self.times = name, folder, tests, state, times or self
        self.known = state.all["tests"].setdefault(name, {})
        self.slower = 20 if times else 1

    def limit(self, name):
        return max(10, 5 * self.times.known[name]["seconds"]) * (3 if self.slower > 1 else 1) + self.slower - 1

    def look(self, name, reached):
        """One run without a fault."""
        more = {}
        if reached:
            shutil.rmtree(reached, ignore_errors=True)
            os.makedirs(reached)
            more = {"TEMPO_FAULT_REACHED": reached}
        limit = max(60, 20 * self.tests[name]["timeout"])
        result, seconds, said = run_test(self.folder, self.tests[name], more, limit)
        with self.state.lock:
            self.known[name] = {"result": result, "seconds": seconds}
            if reached:
                self.known[name]["reaches"] = sorted(int(n) for n in os.listdir(reached))
            if result != "ok":
                self.known[name]["said"] = said
                print(f"{self.name}: {name} is left out, without a fault: {result}", flush=True)
            self.state.save(False)

    def reaching(self, number):
        """Names of tests that reach a fault, the cheapest first."""
        known = self.times.known
        names = [n for n in self.tests if known.get(n, {}).get("result") == "ok" and number in known[n]["reaches"] and
                 self.known.get(n, {}).get("result", "ok") == "ok"]
        return sorted(names, key=lambda n: known[n]["seconds"])

    def try_fault(self, number, name):
        result, seconds, said = run_test(self.folder, self.tests[name], {"TEMPO_FAULT": str(number)},
                                         self.limit(name))
        tried = {"result": result, "seconds": seconds}
        if result not in ("ok", "skipped"):
            tried["said"] = said
            again, _, _ = run_test(self.folder, self.tests[name], {}, self.limit(name))
            if again != "ok":
                with self.state.lock:
                    self.known.setdefault(name, {})["result"] = again
                print(f"{self.name}: {name} is left out, without a fault: {again}", flush=True)
                tried["result"] = "fails without it"
        return tried


def noticed_by(state, number):
    """(build, test, how, seconds) of the first that noticed, or None."""
    for build, tests in state.all["tried"].get(str(number), {}).items():
        for name, tried in tests.items():
            if tried["result"] not in ("ok", "skipped", "fails without it"):
                return build, name, tried["result"], tried["seconds"]
    return None


def try_all(build, faults, jobs, most_seconds):
    """Every fault that nothing noticed, on the tests that reach it. Those with the least time spent go first, so that a
    run that is cut off has looked at all of them alike."""
    state, busy = build.state, {}
    waiting = {}
    for fault in faults:
        tried = state.all["tried"].setdefault(str(fault["number"]), {}).setdefault(build.name, {})
        if not noticed_by(state, fault["number"]):
            waiting[fault["number"]] = [n for n in build.reaching(fault["number"]) if n not in tried]
            busy[fault["number"]] = sum(t["seconds"] for t in tried.values())

    def take():
        with state.lock:
            for number in sorted(waiting, key=busy.get):
                names = waiting[number]
                if not names or (most_seconds and busy[number] > most_seconds) or noticed_by(state, number):
                    del waiting[number]
                    continue
                name = names.pop(0)
                busy[number] += build.times.known[name]["seconds"]
                return number, name
            return None

    def work():
        while True:
            job = take()
            if job is None:
                return
            number, name = job
            tried = build.try_fault(number, name)
            with state.lock:
                state.all["tried"][str(number)][build.name][name] = tried
                state.save(False)
                found = noticed_by(state, number)
            if found and found[1] == name:
                print(f"fault {number}: {build.name}: {name}: {tried['result']}, {tried['seconds']} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work) for _ in range(jobs)]:
            done.result()
    state.save()


# --- results ----------------------------------------------------------------------------------------------------------

def report(state, builds, folder):
    rows, lines, count = [], [], {}
    for fault in state.all["faults"]:
        number = fault["number"]
        by = noticed_by(state, number)
        reaching = builds[0].reaching(number)
        passed = {b.name: len(state.all["tried"].get(str(number), {}).get(b.name, {})) for b in builds}
        rows.append({**fault, "noticed_by": by, "reached_by": reaching, "tried": passed})
        for key in (fault["area"], fault["kind"]):
            noticed, everything = count.get(key, (0, 0))
            count[key] = (noticed + bool(by), everything + 1)
        how = "NOT REACHED"
        if by:
            how = f"{by[0]}: {by[1]}: {by[2]}, {by[3]} s"
        elif reaching:
            asked = ", ".join(f"{tests} of {build}" for build, tests in passed.items())
            how = f"NOT NOTICED, {len(reaching)} tests reach it, tried: {asked}"
        lines += [f"{number:3} {fault['kind']:9} {fault['file']}:{fault['line']}: {how}"]
        if not by:
            lines += [f"      was      {fault['was'].strip()}", f"      reads    {fault['plain'].strip()}"]
            lines += [f"      reached  {' '.join(reaching[:12] + ['...'] * (len(reaching) > 12))}"] * bool(reaching)
    for build in builds:
        out = sorted(n for n, t in build.known.items() if t.get("result", "ok") != "ok")
        lines += [f"left out of {build.name}, for they fail without a fault: {' '.join(out) or 'none'}"]
    lines += [f"{key}: {noticed} of {everything} noticed" for key, (noticed, everything) in count.items()]
    all_noticed = sum(bool(row["noticed_by"]) for row in rows)
    lines += [f"{all_noticed} noticed, {len(rows) - all_noticed} not"]
    with open(os.path.join(folder, "results.json"), "w") as file:
        json.dump(rows, file, indent=1)
    with open(os.path.join(folder, "results.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    return len(rows) - all_noticed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder")
    for name, value in (("count", 60), ("seed", 1), ("jobs", 2), ("seconds", 0)):
        options.add_argument(f"--{name}", type=int, default=value)
    options.add_argument("--python", default=os.path.join(ROOT, "build", "py"))
    options.add_argument("--leave-out-suite", action="append", default=["style", "docs"])
    options.add_argument("--leave-out", action="append", default=[])
    options.add_argument("--only-fault", action="append", type=int, default=[])
    for name in ("sanitizers", "only-plant"):
        options.add_argument(f"--{name}", action="store_true")
    o = options.parse_args()
    folder = os.path.abspath(o.folder)
    tree = os.path.join(folder, "tree")
    os.makedirs(folder, exist_ok=True)
    state = State(os.path.join(folder, "state.json"))
    python = os.path.abspath(o.python)
    asked = {"count": o.count, "seed": o.seed}
    if not state.all["faults"]:
        shutil.rmtree(tree, ignore_errors=True)  # a copy that was cut off
        copy_tree(tree)
        folder_of_build = configure(tree, "build", RELEASE, python)
        made = subprocess.run(["ninja", "-C", folder_of_build, "-t", "targets", "all"], capture_output=True, text=True,
                              check=True).stdout
        headers = re.findall(r"^(\S+\.h): CUSTOM_COMMAND", made, re.M)
        subprocess.run(["ninja", "-C", folder_of_build, f"-j{o.jobs}", *headers], check=True, stdout=subprocess.DEVNULL)
        state.all["faults"] = plant(tree, folder_of_build, o.count, o.seed)
        state.all["asked"] = asked
        state.save()
    elif state.all["asked"] != asked:
        sys.exit(f"{state.path} has the faults of {state.all['asked']}")
    if o.only_plant:
        return 0
    faults = [f for f in state.all["faults"] if not o.only_fault or f["number"] in o.only_fault]
    build = configure(tree, "build", RELEASE, python)
    subprocess.run(["ninja", "-C", build, f"-j{o.jobs}"], check=True, stdout=subprocess.DEVNULL)
    release = Build("release", build, tests_of(build, set(o.leave_out_suite), o.leave_out), state)
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        list(pool.map(lambda name: release.look(name, os.path.join(folder, "reached", name.replace("/", "."))),
                      [name for name in release.tests if name not in release.known]))
    state.save()
    builds = [release]
    try_all(release, faults, o.jobs, o.seconds)
    if o.sanitizers:
        build = configure(tree, "build-san", SANITIZED, python, "clang-14")
        subprocess.run(["ninja", "-C", build, f"-j{o.jobs}"], check=True, stdout=subprocess.DEVNULL)
        tests = tests_of(build, set(o.leave_out_suite), o.leave_out)
        builds.append(Build("sanitizers", build, tests, state, release))
        try_all(builds[1], faults, o.jobs, o.seconds)
    return report(state, builds, folder) > 0


if __name__ == "__main__":
    sys.exit(main())
