#!/usr/bin/env python3
"""Runs ONNX's node test cases and holds tempo-run to its claims.

usage: claims.py TEMPO_RUN FOLDER CLAIMS.md [--bless]

A claim is an op, an opset and an element type (of the first input): every case of it passes. CLAIMS.md lists them; it is made by --bless.
The test fails when a claimed case does not pass, or when a case fails that CLAIMS.md does not list as failing. FOLDER is where the cases
are made when they are not there (make_cases.py).
"""
import collections
import os
import re
import subprocess
import sys

import make_cases

FEWEST = 250  # claimed cases; the list only grows

HEADER = """# What tempo-run claims of ONNX's node tests

Made by `test/backend/claims.py`. A claim is an op, an opset of the model and an element type of its first input: every node case of the
onnx package with these three passes, as `tempo-run --test-data` compares (rtol 1e-3, atol 1e-7; bfloat16 2^-6; integers equal). "Body" rows
are the cases in which the op is spelled out by its function body.

"""


def read_cases(folder):
    cases = {}
    with open(os.path.join(folder, "cases.txt"), encoding="utf-8") as file:
        for line in file:
            name, op, opset, dtype, expanded = line.split()
            cases[name] = (op, int(opset), dtype, expanded == "1")
    for name, (_, opset, dtype, expanded) in cases.items():
        if expanded:
            base = cases.get(name.split("_expanded")[0])
            cases[name] = ((base[0] if base else name), opset, dtype, True)
    return cases


def run_cases(tool, folder):
    done = subprocess.run([tool, "--test-data", folder], capture_output=True, text=True, timeout=900, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"tempo-run ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    results = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(PASS|FAIL|UNSUPPORTED) (\S+?)(?:: (.*))?$", line)
        if match:
            reason = re.sub(r"^.*?model\.onnx: error: ", "", match[3] or "")
            results[match[2]] = (match[1], reason)
    return results


def group(cases, results):
    """{(op, body, dtype): {opset: [case names]}}, and the keys whose opset has a case that does not pass."""
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for name, (op, opset, dtype, body) in sorted(cases.items()):
        groups[op, body, dtype][opset].append(name)
    claimed = {(key, opset): names for key, opsets in groups.items() for opset, names in opsets.items()
               if all(results[n][0] == "PASS" for n in names)}
    return groups, claimed


def render(claimed, cases, results):
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for ((op, body, dtype), opset), names in claimed.items():
        rows[op, body][opset].append((dtype, len(names)))
    total = sum(len(names) for names in claimed.values())
    passed = sum(verdict == "PASS" for verdict, _ in results.values())
    text = HEADER + f"{total} cases are claimed; {passed} of the {len(results)} that can be made of the runtime's types pass.\n\n"
    text += "| op | opset | element types | cases |\n|---|---|---|---|\n"
    for (op, body), opsets in sorted(rows.items()):
        for opset, types in sorted(opsets.items()):
            text += f"| {op}{' (body)' if body else ''} | {opset} | {', '.join(sorted(t for t, _ in types))} | {sum(n for _, n in types)} |\n"
    text += "\n## Cases that fail\n\nThe expected masks of the training_dropout cases are draws of numpy's random stream; ours are Philox's.\n\n"
    failing = [(name, reason) for name, (verdict, reason) in sorted(results.items()) if verdict == "FAIL"]
    text += "".join(f"- `{name}`: {reason}\n" for name, reason in failing) or "None.\n"
    text += "\n## Ops not claimed\n\nOpset and element type of the first input; the first reason stands for all.\n\n"
    missing = collections.defaultdict(list)
    for name, (op, opset, dtype, _) in sorted(cases.items()):
        if results[name][0] == "UNSUPPORTED":
            missing[op].append((opset, dtype, results[name][1]))
    for op, entries in sorted(missing.items()):
        where = ", ".join(sorted({f"{opset} {dtype}" for opset, dtype, _ in entries}))
        text += f"- {op} ({where}; {len(entries)} cases): {entries[0][2].split('; hint')[0]}\n"
    return text


def parse(text):
    """The claimed triples and failing cases of a rendered file."""
    claimed, failing = set(), set(re.findall(r"^- `(\S+)`: ", text, re.M))
    for op, body, opset, types in re.findall(r"^\| (\S+?)( \(body\))? \| (\d+) \| (.*?) \| \d+ \|$", text, re.M):
        claimed.update(((op, bool(body), dtype), int(opset)) for dtype in types.split(", "))
    return claimed, failing


def main(tool, folder, path, bless):
    if not os.path.exists(os.path.join(folder, "cases.txt")):
        make_cases.main(folder)
    cases = read_cases(folder)
    results = run_cases(tool, folder)
    lost = sorted(set(cases) - set(results))
    if lost:
        sys.exit(f"no result for {len(lost)} cases: {lost[:5]}")
    _, claimed = group(cases, results)
    text = render(claimed, cases, results)
    if bless:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    with open(path, encoding="utf-8") as file:
        committed, failing = parse(file.read())
    bad = [f"claimed, but does not pass: {n}: {results[n]}" for key in sorted(committed - set(claimed))
           for n, (op, opset, dtype, body) in cases.items() if ((op, body, dtype), opset) == key and results[n][0] != "PASS"]
    bad += [f"fails: {n}: {r}" for n, (verdict, r) in results.items() if verdict == "FAIL" and n not in failing]
    total = sum(len(claimed[key]) for key in committed if key in claimed)
    more = sum(len(names) for key, names in claimed.items() if key not in committed)
    print(f"{total} claimed cases pass; {more} more pass that are not claimed yet (claims.py --bless)")
    if total < FEWEST:
        bad.append(f"fewer than {FEWEST} cases are claimed")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--bless"]
    if len(arguments) != 3:
        sys.exit(__doc__)
    sys.exit(main(*arguments, "--bless" in sys.argv))
