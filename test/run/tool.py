"""tool.py: what the tests of tempo-run share: models as text, and runs of the tool, the first argument."""
import sys

from programs import path, told

TOOL = sys.argv[1]


def model(name, body):
    """A file with this graph at the canonical opset."""
    with open(path(name), "w", encoding="utf-8") as file:
        file.write('<ir_version: 10, opset_import: ["" : 21]>\n' + body + "\n")
    return path(name)


def run(*args, **how):
    """Its exit code and what it prints: see told."""
    return told(TOOL, *args, timeout=60, **how)
