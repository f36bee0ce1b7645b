#!/usr/bin/env python3
"""on_gpu_run.py finds nothing wrong with the emulated device, and finds devices out whose draws, numbers or second runs
are wrong: those are the CPU under another name.

usage: test_on_gpu.py TEMPOC TEMPO_RUN_EMULATED TEMPO_RUN MODEL_DIR ...
The models have dropout, or PyTorch's numbers.
"""
import contextlib
import glob
import io
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
        on_gpu_run.models(machine)
        on_gpu_run.masks(machine)
    return machine.n_right + machine.n_unsupported, machine.wrong


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
    print(f"{len(programs) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
