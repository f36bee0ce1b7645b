#!/usr/bin/env python3
"""on_gpu_run.py finds nothing wrong with the emulated device, and finds devices out whose draws, numbers or second runs
are wrong: those are the CPU under another name. Programs that hang and parts that break leave what was found before.

usage: test_on_gpu.py TEMPOC TEMPO_RUN_EMULATED TEMPO_RUN MODEL_DIR ...
The models have dropout, or PyTorch's numbers.
"""
import contextlib
import glob
import io
import json
import os
import sys
import tempfile

import on_gpu_pack
import on_gpu_run

import numpy as np

# What a program does that is called for the device cuda, and what must be said of it; None: nothing.
DEVICES = {"the CPU": ("", None),
           "other draws": ('set -- "${@/--seed=/--seed=1}"', "not the CPU's bits"),
           "other numbers": ('set -- "${@/inputs.npz/other.npz}"', "is off by"),
           "other runs": ('set -- "$@" --seed=$RANDOM', "two runs differ")}


def put_program(folder, text):
    path = os.path.join(folder, "bin", "tempo-run")
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\n" + text)
    os.chmod(path, 0o755)


def wrong_of(folder):
    machine = on_gpu_run.Machine(folder, folder)
    with contextlib.redirect_stdout(io.StringIO()):
        for part in (on_gpu_run.models, on_gpu_run.masks):
            list(part(machine))
    return machine.n_right + machine.n_unsupported, machine.wrong


def hangs(machine):
    yield "before", last_words(machine.run("bash", "-c", "echo begun; exec sleep 60", limit=2))
    yield "again", last_words(machine.run("sleep", "60"))
    yield "never", last_words(machine.run("true"))


def last_words(done):
    return [done.returncode, done.stdout, on_gpu_run.last_line(done.stderr)]


def breaks(machine):
    yield from on_gpu_run.of_each(machine, ["a", "b"], lambda _, name: {"b": name}[name])
    yield "behind", 1 // 0


def survives(folder):
    """What is left in results.json of parts that hang and break; None: all that should be."""
    machine, result = on_gpu_run.Machine(folder, folder), {"seconds": {}}
    with contextlib.redirect_stdout(io.StringIO()):
        on_gpu_run.run_part(machine, hangs, 4, result)
        on_gpu_run.run_part(machine, breaks, 4, result)
    with open(os.path.join(folder, "results.json"), encoding="utf-8") as f:
        found = json.load(f)
    good = found["hangs"]["before"] == [None, "begun\n", "ended after 2 s"] and "never" not in found["hangs"] and \
        found["breaks"]["b"] == "b" and all("Error" in found["breaks"][key] for key in ("a", "broken")) and \
        len(found["wrong"]) == 3 and found["seconds"]["hangs"] < 10
    return None if good else found


def pack(folder, tempoc, models):
    os.makedirs(os.path.join(folder, "bin"))
    on_gpu_pack.masks(folder)
    for model in models:
        on_gpu_pack.one_model(folder, tempoc, os.path.normpath(model))
    for inputs in glob.glob(os.path.join(folder, "*", "*", "inputs.npz")):
        other = {name: a[..., ::-1] if a.ndim else a for name, a in np.load(inputs).items()}
        np.savez(os.path.join(os.path.dirname(inputs), "other.npz"), **other)


def main(tempoc, emulated, tempo_run, *models):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        pack(folder, os.path.abspath(tempoc), models)
        programs = {"the emulated device": (f'exec {os.path.abspath(emulated)} "$@"\n', None)}
        for name, (change, said) in DEVICES.items():
            programs[name] = (f'case "$*" in *--device=cuda*) :; {change} ;; esac\n'
                              f'exec {os.path.abspath(tempo_run)} "${{@/--device=cuda/--device=cpu}}"\n', said)
        for name, (text, said) in programs.items():
            put_program(folder, text)
            done, wrong = wrong_of(folder)
            good = done > 0 and (any(said in line for line in wrong) if said else not wrong)
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {name}: {done} right or unsupported, {len(wrong)} wrong {wrong[:1]}")
        left = survives(folder)
        failed += left is not None
        print(f"{'ok  ' if left is None else 'FAIL'} parts that hang and break {left or ''}")
    print(f"{len(programs) + 1 - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
