#!/usr/bin/env python3
"""passes/upgrade/upgrade.def against onnx's own list: every version of every op of ai.onnx has exactly one row.
usage: table.py passes/upgrade/upgrade.def"""
import re
import sys

from onnx import defs

CANONICAL, NEWEST = 21, 28
rows = {}
for line in open(sys.argv[1]):
    if match := re.match(r"(CHANGE|INPUTS|SAME)\((\w+), (.*)\)$", line.strip()):
        kind, op, rest = match.groups()
        words = rest.split(", ")
        for version in words if kind == "SAME" else words[:1]:
            rows.setdefault((op, int(version)), []).append(kind)

versions, first = set(), {}
for schema in defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions.add((schema.name, schema.since_version))
        first[schema.name] = min(first.get(schema.name, 99), schema.since_version)
needed = {(op, v) for op, v in versions if v <= NEWEST and (v != first[op] or v > CANONICAL)}

errors = [f"{op} {v}: no row" for op, v in sorted(needed - rows.keys())]
errors += [f"{op} {v}: onnx has no such version" for op, v in sorted(rows.keys() - versions)]
errors += [f"{op} {v}: {len(kinds)} rows" for (op, v), kinds in sorted(rows.items()) if len(kinds) > 1]
print("\n".join(errors) or f"{len(needed)} versions, each with its row")
sys.exit(1 if errors else 0)
