"""gate_trees.py: the build folders that ./check tests in: how each is configured, what is built there, and which of its
tests the gate runs and which are left to --deep.

A test stands in one tree, where it is cheapest to find what it finds: what proves numbers in the release build, what
proves memory (suite `memory` in the meson.build files) under sanitizers. --deep runs all under sanitizers, threads and
all, and what is watched elsewhere in the release build, too.
"""
import collections
import os
import subprocess

import gate_tests

# What is in a section of its own does not change with its neighbours (gate_code.py).
APART = "-ffunction-sections -fdata-sections"
CLANG = {"CC": "clang-14", "CC_LD": "lld"}
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
              "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
# -O1 and lines alone of debug information: both halve what the compiler takes, and no finding is lost.
CHECKED = ["-Dcuda=off", "-Doptimization=1", "-Ddebug=false", "-Db_lundef=false",
           f"-Dc_args=-gline-tables-only -fno-omit-frame-pointer {APART}"]

# folder; what it is for; variables and options of meson; gate and deep: which of its tests run there (functions of a
# test); everything: builds all targets, else those that the tests at hand run; settings of the tests' environment;
# slower: times a test's time limit; watched: what its programs run is known (gate_reach.py).
Tree = collections.namedtuple("Tree", "folder about variables options gate deep everything settings slower watched")


def either(*suites):
    return lambda test: bool(test.suites & set(suites))


def neither(*suites):
    return lambda test: not test.suites & set(suites)


def none(_):
    return False


TREES = [
    Tree("build", "release build: what proves numbers", {}, ["-Dwerror=true", "-Dgpu_arch=90a", f"-Dc_args={APART}"],
         neither("deep", "memory"), either("deep", "memory"), True, {}, 1, True),
    Tree("build-san", "clang's address and undefined-behaviour sanitizers, fuzz targets: what proves memory", CLANG,
         CHECKED + ["-Dfuzz=true", "-Dopenmp=disabled"],
         either("memory", "both", "fuzz"), either("fuzz"), False,
         # oneDNN's own threads now and then end while leaks are looked for.
         {**SANITIZERS, "OMP_NUM_THREADS": "1"}, 5, True),
    Tree("build-tsan", "thread sanitizer: sessions side by side", CLANG,
         CHECKED + ["-Db_sanitize=thread", "-Dopenmp=disabled"],  # ThreadSanitizer does not see OpenMP's barriers
         either("threads"), none, False, {}, 5, False),
    Tree("build-deep", "gcc's address and undefined-behaviour sanitizers: everything", {},
         ["-Dcuda=off", "-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined"],
         none, neither("unsanitized"), False, SANITIZERS, 5, False),
]


def configure(tree):
    """None, or what failed. The options of a folder that is there already may be others."""
    options = ["-Doracles=enabled", *tree.options]
    if not os.path.exists(os.path.join(tree.folder, "build.ninja")):
        return _logged(tree, ["meson", "setup", tree.folder, *options], "w")
    # Meson 1.0 takes other compiler arguments in the first of these alone.
    return _logged(tree, ["meson", "configure", tree.folder, *options], "w") or \
        _logged(tree, ["meson", "setup", "--reconfigure", tree.folder], "a")


def build(tree, tests):
    """Builds what the tests run; None, or what failed."""
    targets = [] if tree.everything else sorted({os.path.relpath(file, os.path.abspath(tree.folder))
                                                 for test in tests for file in test.files})
    return _logged(tree, ["ninja", "-C", tree.folder, *targets], "a")


def tests_of(tree):
    return gate_tests.of_build(os.path.abspath(tree.folder))


def _logged(tree, command, mode):
    with open(f"{tree.folder}.log", mode, encoding="utf-8") as log:
        done = subprocess.run(command, env={**os.environ, **tree.variables}, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return None
    with open(f"{tree.folder}.log", encoding="utf-8", errors="replace") as log:
        return "".join(log.readlines()[-40:])
