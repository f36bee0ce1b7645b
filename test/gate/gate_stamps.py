"""gate_stamps.py: which tests a change cannot have reached: nothing that they read is other than when they passed.

A test's key is the hash of its command, of the programs, scripts and data that it names, and of what these name in
turn: modules that a script imports (a file's name occurs once in the tree), files beside a script or FileCheck test
that its text mentions, all of models/, and the packages that are installed. Who goes up from its own folder, or is
given the build folder, may read the whole tree. Of a program the functions count that the test ran (gate_reach.py), or
its bytes where that is not known, so that a change that compiles to the same code is none.
"""
import functools
import hashlib
import json
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
IMPORT = re.compile(r"^\s*(?:import|from)\s+([\w, ]+)", re.M)
FILE = re.compile(r"[\w./-]+\.\w+")
GOES_UP = re.compile(r'''"\.\."|\bROOT\b|\.\./|dirname "\$0"''')


@functools.cache
def tracked():
    """Files of the tree, those that git does not know yet among them, relative to ROOT."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                          check=True)
    return [name for name in done.stdout.splitlines() if os.path.isfile(os.path.join(ROOT, name))]


@functools.cache
def modules():
    """{module: its file}: Python's, by name."""
    return {os.path.basename(name)[:-3]: os.path.join(ROOT, name) for name in tracked() if name.endswith(".py")}


@functools.cache
def digest(path):
    """Of a file's bytes; of a folder of the tree, of all files in it."""
    found = hashlib.sha256()
    if os.path.isdir(path):
        prefix = os.path.relpath(path, ROOT)
        for name in tracked():
            if prefix == "." or name.startswith(prefix + "/"):
                found.update(f"{name} {digest(os.path.join(ROOT, name))}\n".encode())
    else:
        with open(path, "rb") as file:
            found.update(file.read())
    return found.hexdigest()


@functools.cache
def system():
    """What no test names: models, packages of Debian and of Python, the processor, settings."""
    packages = subprocess.run(["dpkg-query", "-W"], capture_output=True, text=True, check=False).stdout
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        processor = next((line for line in file if line.startswith("flags")), "")
    settings = [f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith(("FUZZ_", "EMU_"))]
    parts = [packages, processor, *settings, digest(os.path.join(ROOT, "models")),
             digest(os.path.join(ROOT, "test", "requirements.txt")), digest(os.path.join(ROOT, "test", "run.sh"))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.cache
def mentioned(path):
    """The files that a script or a FileCheck test reads by name, itself first."""
    found, waiting = [], [path]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.append(file)
        if not file.endswith((".py", ".sh", ".onnxt")) or not os.path.isfile(file):
            continue
        with open(file, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
        if file.endswith(".py"):
            names = [name for line in IMPORT.findall(text) for name in re.findall(r"\w+", line)]
            waiting += [modules()[name] for name in names if name in modules()]
        folder = os.path.dirname(file)
        for name in FILE.findall(text.replace("%S/", "")):
            beside = os.path.normpath(os.path.join(folder, name))
            if beside.startswith(ROOT) and os.path.isfile(beside):
                waiting.append(beside)
    return found


@functools.cache
def goes_up(path):
    """Whether a script finds files from its own folder up: those may be any."""
    if not path.endswith((".py", ".sh")) or path == os.path.join(ROOT, "test", "run.sh"):
        return False
    with open(path, encoding="utf-8") as file:
        return any(GOES_UP.search(line) for line in file if "sys.path" not in line)  # modules are found by name


def key(test, build, code=None):
    """The hash of all that decides what the test does. build: the build folder, whose programs the test lists. code:
    {program: the hash of what the test runs of it}; other files that the test lists are their bytes."""
    code = code or {}
    found = hashlib.sha256(f"{system()}\n{test.command}\n{sorted(test.environment.items())}\n".encode())
    paths = list(test.files)
    for word in test.command:
        path = os.path.normpath(os.path.join(test.folder, word))
        if os.path.isfile(path):
            files = mentioned(path) if path.startswith(ROOT + "/") and not path.startswith(build + "/") else [path]
            paths += files + [ROOT for file in files if goes_up(file)]
        elif path == build:
            paths.append(ROOT)
        elif os.path.isdir(path) and path.startswith(ROOT) and not path.startswith(build):
            paths.append(path)
    for path in sorted(set(paths)):
        if os.path.exists(path):
            found.update(f"{os.path.relpath(path, ROOT)} {code.get(path) or digest(path)}\n".encode())
    return found.hexdigest()


class Stamps:
    """The keys with which the tests of a build folder passed, kept there, with the functions that they ran; those of
    the gate and of deep tests, which run longer under the same name, apart. reach: a gate_reach.Reach, or None."""

    def __init__(self, build, kind, reach=None):
        self.build, self.reach = os.path.abspath(build), reach
        self.folder = os.path.join(self.build, "gate", kind.replace(" ", "-"))
        os.makedirs(self.folder, exist_ok=True)

    def _path(self, test):
        return os.path.join(self.folder, test.name.replace("/", "!") + ".json")

    def _key(self, test, ran):
        return key(test, self.build, self.reach.code(ran) if self.reach and ran else None)

    def unchanged(self, test):
        try:
            with open(self._path(test), encoding="utf-8") as file:
                stamp = json.load(file)
        except (OSError, ValueError):
            return False
        return stamp["key"] == self._key(test, stamp["ran"])

    def watch(self, test):
        """Variables that the test is to run with."""
        return self.reach.watch(test) if self.reach else {}

    def note(self, test, passed):
        """Keeps a pass, and forgets an older one where the test failed."""
        ran = self.reach.reached(test) if self.reach else None
        if not passed:
            if os.path.exists(self._path(test)):
                os.remove(self._path(test))
            return
        with open(self._path(test) + ".new", "w", encoding="utf-8") as file:
            json.dump({"key": self._key(test, ran), "ran": ran}, file)
        os.replace(self._path(test) + ".new", self._path(test))
