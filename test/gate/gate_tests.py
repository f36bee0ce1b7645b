"""gate_tests.py: the tests of a build folder, as Meson describes them, and one of them run and measured."""
import collections
import fnmatch
import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import zlib

SKIPPED = 77  # the exit code of a test that cannot run here, as Meson has it
KEPT = 100_000  # characters of a failed test's output that are shown

# What Meson adds to every test: where a thread waits for another it sleeps, scripts find test/lib (test/meson.build),
# and memory from malloc is filled, with a byte that follows from the name so that a run can be repeated.
TEST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONPATH": os.path.join(TEST, "lib")}

# state: passed, failed, skipped; seconds: of the clock; processor: seconds of the test and of what it started.
Result = collections.namedtuple("Result", "state seconds processor output")


class Test:
    """name; command; environment; folder it runs in; timeout in seconds; alone: beside no other test; priority, as
    Meson has it; suites; files: what the build makes for it."""

    def __init__(self, row, build, outputs):
        self.name, self.environment = row["name"], row["env"]
        self.folder = row["workdir"] or build
        self.command = [os.path.normpath(word) if word.startswith("/") else word for word in row["cmd"]]
        self.timeout, self.alone, self.priority = row["timeout"], not row["is_parallel"], row["priority"]
        self.suites = {suite.split(":")[-1] for suite in row["suite"]}
        self.files = sorted(file for target in row["depends"] for file in outputs[target])

    def shell(self):
        """The command that runs it again, by hand."""
        words = [f"{key}={shlex.quote(value)}" for key, value in {**ENVIRONMENT, **self.environment}.items()]
        return " ".join([f"cd {shlex.quote(self.folder)} &&"] + words + [shlex.quote(word) for word in self.command])

    def matches(self, patterns):
        return any(fnmatch.fnmatchcase(self.name, pattern) for pattern in patterns)


def of_build(build):
    """The tests of a configured build folder."""
    def ask(what):
        done = subprocess.run(["meson", "introspect", what, build], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)
    outputs = {target["id"]: target["filename"] for target in ask("--targets")}
    return [Test(row, build, outputs) for row in ask("--tests")]


def run(test, slower=1, environment=None):
    """Runs a test in a session of its own, all of which ends at its time limit (times `slower`)."""
    fill = str(zlib.crc32(test.name.encode()) % 255 + 1)
    variables = {**os.environ, **ENVIRONMENT, "MALLOC_PERTURB_": fill, **(environment or {}), **test.environment}
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        try:
            process = subprocess.Popen(test.command, cwd=test.folder, env=variables, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return Result("failed", 0, 0, str(error))
        late = threading.Event()

        def stop():
            late.set()
            os.killpg(process.pid, signal.SIGKILL)
        timer = threading.Timer(test.timeout * slower, stop) if test.timeout > 0 else None
        if timer:
            timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        if timer:
            timer.cancel()
        seconds = time.monotonic() - began
        out.seek(0)
        text = out.read().decode("utf-8", "backslashreplace")
    state = "passed" if code == 0 else "skipped" if code == SKIPPED else "failed"
    if state == "failed":
        text += f"\n{'stopped at its time limit' if late.is_set() else f'exit code {code}'} after {seconds:.1f} s"
    return Result(state, seconds, usage.ru_utime + usage.ru_stime, text[-KEPT:])


def run_all(tests, jobs, costs, slower, environment, tell):
    """Runs tests side by side, of equal priority those that cost most first; by themselves, at the end, those that want
    to be alone.
    environment(test): variables of its own. tell(test, result) hears of each. costs: {name: seconds}; who is not in it
    is taken for cheap."""
    def dearest(some):
        return sorted(some, key=lambda test: (-test.priority, -costs.get(test.name, 0), test.name))
    waiting = dearest(test for test in tests if not test.alone)
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                test = waiting.pop(0)
                variables = environment(test)
            result = run(test, slower, variables)
            with lock:
                tell(test, result)
    threads = [threading.Thread(target=work) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for test in dearest(test for test in tests if test.alone):
        tell(test, run(test, slower, environment(test)))
