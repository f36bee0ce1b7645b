#!/usr/bin/env python3
"""Prints a table of what graphs keep for the backward pass, from tempoc's reports.

usage: show_saved.py NAME=REPORT.json ...
The first row, `none`, is the plain backward pass, as the first report tells it; then one for each report. Arena is what
a run allocates, all that it computes in it. Standard library only.
"""
import json
import sys

BAR = 40  # columns of the longest bar
GIB = 2**30


def rows(reports):
    """(name, saved bytes, arena bytes) of each row."""
    for i, (name, report) in enumerate(reports):
        if i == 0:
            yield "none", report["saved_bytes"]["before"], report["arena_bytes"]["before"]
        yield name, report["saved_bytes"]["after"], report["arena_bytes"]["after"]


def table(reports):
    found = list(rows(reports))
    width = max(len(name) for name, _, _ in found)
    most = max(saved for _, saved, _ in found)
    yield f"   {'recipe':{width}}   kept, GiB   arena, GiB"
    for name, saved, arena in found:
        bar = "#" * max(1, round(BAR * saved / most))
        yield f"   {name:{width}}   {saved / GIB:9.1f}   {arena / GIB:10.1f}   {bar}"


def main(arguments):
    reports = []
    for argument in arguments:
        name, _, path = argument.partition("=")
        with open(path, encoding="utf-8") as file:
            reports.append((name, json.load(file)))
    print("\n".join(table(reports)))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not all("=" in argument for argument in sys.argv[1:]):
        sys.exit(__doc__)
    main(sys.argv[1:])
