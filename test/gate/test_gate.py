#!/usr/bin/env python3
"""test_gate.py CHECK: what ./check does with its arguments, which tests a change makes it run again, and how it shares
out the deep ones. CHECK is ./check; nothing is built.
"""
import os
import subprocess
import sys
import tempfile

import gate
import gate_reach
import gate_stamps
import gate_tests
import gate_trees

failures = 0


def check(holds, what):
    global failures
    failures += not holds
    if not holds:
        print("FAILED:", what)


def arguments(program):
    for words, code, says in ((["--help"], 0, "usage: ./check"), (["-h"], 0, "--deep=K/N"),
                              (["--nonsense"], 64, "unknown option --nonsense"), (["--deep=0/3"], 64, "a share is K/N"),
                              (["--deep=3"], 64, "a share is K/N"), (["unit/*", "--again=1"], 64, "unknown option")):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=20, check=False)
        text = done.stdout if code == 0 else done.stderr
        check(done.returncode == code and says in text, f"./check {words}: {done.returncode}, {text}")
        check(code == 0 or done.stdout == "", f"./check {words} begins to do something: {done.stdout}")
    options = gate.parse(["--deep", "unit/*"])
    check(options.names == ["unit/*"] and options.share is None, f"--deep before a name is {options}")
    check(gate.parse(["--deep=3/12"]).share == (3, 12), "a share")


def row(name, command, **other):
    return {"name": name, "cmd": command, "env": {}, "workdir": None, "timeout": 5, "suite": ["tempo"],
            "is_parallel": True, "priority": 0, "depends": [], **other}


def keys(folder):
    """A key follows what the test reads, and nothing else."""
    build, tree = os.path.join(folder, "build"), os.path.join(folder, "test")
    os.mkdir(build)
    os.mkdir(tree)

    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    program, script, module, other = (os.path.join(build, "program"), os.path.join(tree, "a.py"),
                                      os.path.join(tree, "b.py"), os.path.join(tree, "c.py"))
    write(program, "program")
    write(script, "import b\nopen('data.txt')\n")
    write(module, "")
    write(other, "")
    write(os.path.join(tree, "data.txt"), "1")
    names = ["test/a.py", "test/b.py", "test/c.py", "test/data.txt"]

    def key():
        for cached in (gate_stamps.digest, gate_stamps.modules, gate_stamps.mentioned, gate_stamps.goes_up):
            cached.cache_clear()
        test = gate_tests.Test(row("t", [script, "--flag"], depends=["p"]), build, {"p": [program]})
        return gate_stamps.key(test, build)
    before = gate_stamps.ROOT, gate_stamps.tracked, gate_stamps.system
    gate_stamps.ROOT, gate_stamps.tracked, gate_stamps.system = folder, lambda: names, lambda: "the same system"
    first = key()
    check(key() == first, "a key changes by itself")
    for path, reached in ((program, True), (script, True), (module, True), (os.path.join(tree, "data.txt"), True),
                          (other, False)):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        write(path, text + "#")
        check((key() != first) == reached, f"a change of {os.path.basename(path)} is {'not ' * reached}seen")
        write(path, text)
    write(script, "import b\nopen('data.txt')\nopen('../x')\n")
    first = key()
    write(other, "#")
    check(key() != first, "a script that goes up from its folder may read any file")
    gate_stamps.ROOT, gate_stamps.tracked, gate_stamps.system = before


PARTS = {"main.c": """int used(int); int spare(int); int by_table(int);
int main(int argc, char **argv) { (void)argv; return argc > 1 ? spare(argc) : used(argc) + by_table(argc) == 7; }
""", "parts.c": """static const char *const words[] = {"one", "two"};
static int twice(int x) { return 2 * x + words[x & 1][0]; }
static int thrice(int x) { return 3 * x; }
static int (*const table[])(int) = {twice, thrice};
int used(int x) { return x + 1; }
int spare(int x) { return x + 2; }
int by_table(int x) { return table[x & 1](x); }
"""}


def reach(folder):
    """What a program ran is known, and a change of that alone, or of data that it read, counts."""
    def built(*changes):
        """A Reach of the program with such changes, (before, after), and the test that runs it."""
        build = os.path.join(folder, "reached")
        os.makedirs(build, exist_ok=True)
        with open(os.path.join(build, "build.ninja"), "w", encoding="utf-8") as file:
            file.write("build libparts.a: STATIC_LINKER parts.o\nbuild program: c_LINKER main.o | libparts.a\n")
        for name, text in PARTS.items():
            for before, after in changes:
                text = text.replace(before, after)
            with open(os.path.join(build, name), "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run(["cc", "-O1", "-fno-inline", *gate_trees.APART.split(), "-c", name, "-o", name[:-2] + ".o"],
                           cwd=build, check=True)
        subprocess.run(["cc", "main.o", "parts.o", "-o", "program"], cwd=build, check=True)
        program = os.path.join(build, "program")
        return gate_reach.Reach(build), gate_tests.Test(row("t", [program], depends=["p"]), build, {"p": [program]})
    first, test = built()
    variables = first.watch(test)
    check(gate_tests.run(test, 1, variables).state == "passed", "a program that is watched runs as ever")
    told = first.reached(test)
    names = {key.rpartition(":")[2] for key in told[test.command[0]]}
    check(names == {"main", "used", "by_table", "thrice"}, f"a program ran {names}")
    code = first.code(told)
    check(code == first.code(told), "the hash of code changes by itself")
    for changed, before, after in ((False, "", ""), (False, "x + 2", "x * 5 + 2"), (True, "x + 1", "1 + 2 * x"),
                                   (True, "3 * x", "5 * x"), (True, "{twice, thrice}", "{thrice, twice}"),
                                   (False, '"two"', '"owt"')):
        check((built((before, after))[0].code(told) != code) == changed, f"code that ran, with {after} for {before}")
    reads = "return 3 * x;", "return words[x & 1][0];"
    strings, test = built(reads)
    gate_tests.run(test, 1, strings.watch(test))
    told = strings.reached(test)
    check(built(reads, ('"two"', '"owt"'))[0].code(told) != strings.code(told), "data that a function reads counts")
    other, test = built()
    other.watch(test)
    check(other.reached(test) is None, "nothing is known of a program that did not run")
    test.command = ["sh", "-c", "(ulimit -f 1; ./program); ./program"]  # the first one may make no file
    check(gate_tests.run(test, 1, other.watch(test)).state == "passed", "a program whose files may not grow")
    check(other.reached(test) is None, "not all that a test ran is known where one process was not watched")


def shares():
    tests = [gate_tests.Test(row(f"t{i}", ["true"]), "/", {}) for i in range(40)]
    costs = {f"t{i}": float(i * i) for i in range(30)}
    parts = [gate.share_of(tests, costs, k, 7) for k in range(1, 8)]
    check(sorted(t.name for part in parts for t in part) == sorted(t.name for t in tests), "a share lacks a test")
    loads = [sum(costs.get(t.name, gate.UNKNOWN) for t in part) for part in parts]
    check(max(loads) < 1.1 * min(loads), f"shares differ: {loads}")


def dear():
    """By times.txt a/quick takes 20 s, a/known 50, a/other 20 in another tree; a/allowed is in dear.txt."""
    class Tree:
        folder = "build"
    tables = {"times.txt": {"build:a/quick": "20", "build:a/known": "50", "build-san:a/other": "20"},
              "dear.txt": {"a/allowed": "why"}}
    said, kept, gate.table = [], gate.table, tables.get

    class Progress:
        fail = staticmethod(lambda name, why: said.append(why))
    for measured, failing in (({"a/quick": 59, "a/new": 40, "a/allowed": 99}, []), ({"a/quick": 61}, ["a/quick"]),
                              ({"a/known": 41, "a/new": 41, "a/other": 41}, ["a/known", "a/new", "a/other"])):
        said.clear()
        gate.too_dear(Tree, measured, Progress)
        found = [line.split()[0] for why in said for line in why.splitlines()]
        check(found == failing, f"{measured}: {found} are too dear")
    gate.table = kept


def runs():
    """States, time limits and processor time."""
    def result(command, timeout=5):
        return gate_tests.run(gate_tests.Test(row("t", command, timeout=timeout), "/", {}))
    check(result(["true"]).state == "passed", "true passes")
    check(result(["sh", "-c", "echo why; exit 3"]).output.startswith("why\n"), "what a test printed")
    check(result(["sh", "-c", "exit 77"]).state == "skipped", "77 is skipped")
    check(result(["/no/such/program"]).state == "failed", "a program that is not there fails")
    late = result(["sh", "-c", "sleep 60 & sleep 60"], 0.2)
    check(late.state == "failed" and late.seconds < 30 and "time limit" in late.output, f"a time limit: {late}")
    busy = result([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"])
    check(0.3 <= busy.processor < 3, f"processor time of what a test starts: {busy.processor}")


if __name__ == "__main__":
    arguments(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        keys(os.path.realpath(scratch))
        if gate_reach.Reach.works():
            reach(os.path.realpath(scratch))
    shares()
    dear()
    runs()
    sys.exit(failures > 0)
