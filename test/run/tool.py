"""tool.py: what the tests of tempo-run share: a scratch folder, models as text, and a run of the tool whose exit code
is checked."""
import os
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory()
TOOL = sys.argv[1]
failures = 0


def path(name):
    return os.path.join(FOLDER.name, name)


def model(name, body):
    """A file with this graph at the canonical opset."""
    with open(path(name), "w", encoding="utf-8") as file:
        file.write('<ir_version: 10, opset_import: ["" : 21]>\n' + body + "\n")
    return path(name)


def check(holds, what):
    global failures
    if not holds:
        failures += 1
        print("FAILED:", what)


def run(*args, code=0, says=()):
    """Runs tempo-run; checks its exit code, and that what it prints holds each of `says`."""
    done = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=60, check=False)
    text = done.stdout + done.stderr
    check(done.returncode == code, f"exit code {done.returncode}, expected {code}: {args}\n{text}")
    for words in says:
        check(words in text, f"{words!r} is not in what was printed: {args}\n{text}")
    return text


def finish():
    sys.exit(1 if failures else 0)
