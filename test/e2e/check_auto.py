#!/usr/bin/env python3
"""Checks what --recipe=auto says of each rewrite against runs: tempo-run's arena of the graph with and without it.

usage: check_auto.py TEMPOC TEMPO_RUN CASE_DIR ...
Left out is what recipe tiled does with --disable; nothing that is applied could be left out as well, and the arena is
no larger than under tiled.
"""
import os
import re
import subprocess
import sys
import tempfile

ROW = re.compile(r"^ {11}(\S+) +(\d+) +([+-]\d+) +([+-][\d.]+)%  (applied|left out|not applied)")


def compiled(o, case, folder, *flags):
    out = os.path.join(folder, "out.onnx")
    text = subprocess.run([o[0], os.path.join(case, "model.onnx"), *flags, "-o", out], capture_output=True, text=True,
                          check=True).stdout
    return text, out


def arena(o, case, folder, *flags):
    _, graph = compiled(o, case, folder, *flags)
    text = subprocess.run([o[1], graph, "--inputs", os.path.join(case, "inputs.npz"), "--memory"], capture_output=True,
                          text=True, check=True).stdout
    return int(re.search(r"(\d+) .* arena:", text)[1])


def check(o, case, folder):
    text, graph = compiled(o, case, folder, "--recipe=auto")
    with open(graph, "rb") as file:
        chosen = file.read()
    rows = [m.groups() for m in map(ROW.match, text.splitlines()) if m]
    assert rows, "no rewrites are told of"
    out = [f"--disable={name}" for name, _, _, _, verdict in rows if verdict == "left out"]
    _, same = compiled(o, case, folder, "--recipe=tiled", *out)
    with open(same, "rb") as file:
        assert file.read() == chosen, "it is not tiled without what is left out"
    least = arena(o, case, folder, "--recipe=auto")
    assert least <= arena(o, case, folder, "--recipe=tiled"), "tiled takes less"
    for name, _, more, time, verdict in rows:
        if verdict == "applied":
            without = arena(o, case, folder, "--recipe=tiled", *out, f"--disable={name}")
            assert without - least == int(more), f"{name}: {without - least} bytes without it, not {more}"
            assert int(more) > 0 or (int(more) == 0 and float(time) >= 0), f"{name} is of no use"
    return f"{len(rows) - len(out)} applied, {len(out)} left out"


def main(tempoc, tempo_run, *cases):
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{os.path.basename(os.path.normpath(case))}: {check((tempoc, tempo_run), case, folder)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
