#!/usr/bin/env python3
"""Checks what --recipe=auto says of each rewrite against runs: tempo-run's arena of the graph with and without it.

usage: check_auto.py TEMPOC TEMPO_RUN CASE_DIR ...
Left out is what recipe tiled does with --disable; nothing that is applied could be left out as well, and the arena is
no larger than under tiled.
"""
import os
import re
import sys

from programs import bytes_of, case, finish, path, run

ROW = re.compile(r"^ {11}(\S+) +(\d+) +([+-]\d+) +([+-][\d.]+)%  (applied|left out|not applied)")


def compiled(o, folder, *flags):
    """What tempoc prints; the compiled file is out.onnx."""
    return run(o[0], os.path.join(folder, "model.onnx"), *flags, "-o", path("out.onnx")).out


def arena(o, folder, *flags):
    compiled(o, folder, *flags)
    text = run(o[1], path("out.onnx"), "--inputs", os.path.join(folder, "inputs.npz"), "--memory").out
    return int(re.search(r"(\d+) .* arena:", text)[1])


def check(o, folder):
    text = compiled(o, folder, "--recipe=auto")
    chosen = bytes_of(path("out.onnx"))
    rows = [m.groups() for m in map(ROW.match, text.splitlines()) if m]
    assert rows, "no rewrites are told of"
    out = [f"--disable={name}" for name, _, _, _, verdict in rows if verdict == "left out"]
    compiled(o, folder, "--recipe=tiled", *out)
    assert bytes_of(path("out.onnx")) == chosen, "it is not tiled without what is left out"
    least = arena(o, folder, "--recipe=auto")
    assert least <= arena(o, folder, "--recipe=tiled"), "tiled takes less"
    for name, _, more, time, verdict in rows:
        if verdict == "applied":
            without = arena(o, folder, "--recipe=tiled", *out, f"--disable={name}")
            assert without - least == int(more), f"{name}: {without - least} bytes without it, not {more}"
            assert int(more) > 0 or (int(more) == 0 and float(time) >= 0), f"{name} is of no use"
    return None, f"{len(rows) - len(out)} applied, {len(out)} left out"


for model_folder in sys.argv[3:]:
    case(os.path.basename(os.path.normpath(model_folder)), check, sys.argv[1:3], model_folder)
finish()
