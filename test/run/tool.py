"""tool.py: what the tests of tempo-run share: models as text, and runs of the tool, the first argument."""
import sys

from programs import path, told, write

TOOL = sys.argv[1]


def model(name, body):
    """A file with this graph at the canonical opset."""
    return write(path(name), '<ir_version: 10, opset_import: ["" : 21]>\n' + body + "\n")


def run(*args, **how):
    """Its exit code and what it prints: see told."""
    return told(TOOL, *args, timeout=60, **how)
