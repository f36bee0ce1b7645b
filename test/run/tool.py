"""tool.py: what the tests of tempo-run share: a scratch folder, models as text, and a run of the tool whose exit code
is checked."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from scratch import TOOL, check, finish, path  # noqa: E402, F401


def model(name, body):
    """A file with this graph at the canonical opset."""
    with open(path(name), "w", encoding="utf-8") as file:
        file.write('<ir_version: 10, opset_import: ["" : 21]>\n' + body + "\n")
    return path(name)


def run(*args, code=0, says=()):
    """Runs tempo-run; checks its exit code, and that what it prints holds each of `says`."""
    done = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=60, check=False)
    text = done.stdout + done.stderr
    check(done.returncode == code, f"exit code {done.returncode}, expected {code}: {args}\n{text}")
    for words in says:
        check(words in text, f"{words!r} is not in what was printed: {args}\n{text}")
    return text
