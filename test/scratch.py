"""scratch.py: what test scripts share: the program under test, which is the first argument, a scratch folder, and
checks that are counted."""
import os
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory()
TOOL = sys.argv[1]
_failures = 0


def path(name):
    return os.path.join(FOLDER.name, name)


def check(holds, what):
    global _failures
    if not holds:
        _failures += 1
        print("FAILED:", what, flush=True)


def failed():
    return _failures > 0


def finish():
    sys.exit(failed())
