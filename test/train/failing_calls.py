#!/usr/bin/env python3
"""Each call of the system that concerns files fails in turn, once or from there on, or is the last before SIGKILL, in
tempoc, tempo-run and tempo-train with all their outputs. No program ends by a signal, nor with exit code 0 while an
output is missing or another one; what was there before stays or is replaced by what a run without failures writes;
checkpoints are those of such a run, and a run that was killed goes on to its end.

usage: failing_calls.py TEMPO_TRAIN TEMPOC TEMPO_RUN [STEP]: each call, or each STEPth
The calls are met by ptrace(2), on x86-64.
"""
import ctypes
import errno
import json
import os
import shutil
import signal
import sys

import train_tool as t

STEP = int(sys.argv[4]) if len(sys.argv) > 4 else 1
PTRACE = ctypes.CDLL(None, use_errno=True).ptrace
PTRACE.argtypes, PTRACE.restype = [ctypes.c_long] * 4, ctypes.c_long
TRACEME, PEEK, POKE, SYSCALL, OPTIONS = 0, 3, 6, 24, 0x4200
NUMBER, RESULT, FILE = 8 * 15, 8 * 10, 8 * 9  # of struct user: orig_rax, rax, r8
MMAP, UNKNOWN, NEVER = 9, -1, 1 << 40
# read write open close stat fstat lstat lseek mmap pread pwrite writev access dup fcntl flock fsync fdatasync truncate
# ftruncate getdents rename mkdir rmdir link unlink readlink chmod fchmod statfs, and with "at", "64" or "2" behind
CALLS = {0, 1, 2, 3, 4, 5, 6, 8, MMAP, 17, 18, 20, 21, 32, 72, 73, 74, 75, 76, 77, 78, 82, 83, 84, 86, 87, 89, 90, 91,
         137, 138, 217, 257, 258, 262, 263, 264, 267, 269, 285, 316, 332, 437, 439}


def traced(command, at, mode):
    """(calls, exit code or minus a signal) of a run whose call number `at` fails."""
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        PTRACE(TRACEME, 0, 0, 0)
        os.execv(command[0], command)
    os.waitpid(pid, 0)
    PTRACE(OPTIONS, pid, 0, 0x100001)  # marks stops at calls; ends with us
    n, enters, fails, deliver = 0, True, False, 0
    while True:
        PTRACE(SYSCALL, pid, 0, deliver)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return n, os.waitstatus_to_exitcode(status)
        deliver = os.WSTOPSIG(status) if os.WSTOPSIG(status) != signal.SIGTRAP | 128 else 0
        if deliver:
            continue
        number = PTRACE(PEEK, pid, NUMBER, 0) if enters else None
        if number in CALLS and (number != MMAP or PTRACE(PEEK, pid, FILE, 0) & 1 << 31 == 0):
            fails = n == at or (mode == "ever" and n > at)
            n += 1
            if fails and mode == "kill":
                os.kill(pid, signal.SIGKILL)
            elif fails:
                PTRACE(POKE, pid, NUMBER, UNKNOWN)
        if not enters and fails:
            PTRACE(POKE, pid, RESULT, -(errno.ENOSPC if mode == "ever" else errno.EIO))
            fails = False
        enters = not enters


def content(name):
    """Of a file or a folder; times are left out. None: it is not there."""
    if os.path.isdir(name):
        return {entry: content(os.path.join(name, entry)) for entry in os.listdir(name) if entry[0] != "."}
    if not os.path.exists(name):
        return None
    with open(name, "rb") as file:
        data = file.read()
    if name.endswith(".json"):
        return {key: value for key, value in json.loads(data).items() if key != "seconds"}
    if name.endswith(".jsonl"):
        return [line.split(b', "seconds"')[0] for line in data.splitlines()]
    return data


def check_end(case, code, before, wanted, what):
    t.check(code >= 0 or what[2] == "kill", f"{what}: signal {-code}")
    for name in case[1]:
        got, new = content(t.path(name)), wanted[name]
        if name == "run":  # its checkpoints are never others, and one of the last two is there
            right = all(got[step] == new.get(step, before[name].get(step)) for step in got if "." not in step)
            right = right and (what[-1] != "goes on" or sorted(got) == ["step-3", "step-4"])
            right = right and not {"step-2", "step-3", "step-4"}.isdisjoint(got) and (code or "step-4" in got)
        elif name.endswith(".jsonl"):  # grows line by line
            right = got[-1:] == new[-1:] if code == 0 else got[:-1] == new[:max(len(got) - 1, 0)]
        else:
            right = got == new or (code != 0 and got == before[name])
        t.check(right, f"{what}: exit code {code}, and {name} is another one")


def run_all(case, mode):
    """The old outputs are those of another run."""
    command, outputs, other = case
    for name in outputs:
        shutil.rmtree(t.path(name), ignore_errors=True)
    t.told(*command, *other)
    for name in outputs:
        shutil.rmtree(t.path(f"old-{name}"), ignore_errors=True)
        os.rename(t.path(name), t.path(f"old-{name}"))

    def begin():
        for name in outputs:
            shutil.rmtree(t.path(name), ignore_errors=True)
            (shutil.copytree if name == "run" else shutil.copyfile)(t.path(f"old-{name}"), t.path(name))
        return {name: content(t.path(name)) for name in outputs}
    before = begin()
    calls, code = traced(command, NEVER, mode)
    wanted = {name: content(t.path(name)) for name in outputs}
    t.check(code == 0 and all(wanted[name] != before[name] for name in outputs), f"{command}: {code}, {wanted.keys()}")
    for at in range(calls % STEP, calls, STEP):
        what = (os.path.basename(command[0]), at, mode)
        begin()
        code = traced(command, at, mode)[1]
        check_end(case, code, before, wanted, what)
        if mode == "kill" and "run" in outputs:
            code = traced(command, NEVER, mode)[1]
            check_end(case, code, before, wanted, (*what, "goes on"))
    print(f"{os.path.basename(command[0])}: each {STEP}th of {calls} calls, {mode}", flush=True)


def main():
    model, data = t.classifier("model.onnxt", dropout=0.3), t.data("train.npz", 22)
    tempoc, tempo_run = sys.argv[2:4]
    common = [t.TOOL, model, "--data", data, "--loss=loss", "--batch=8", "--lr=0.05", "--threads=1", "-q",
              "--schedule=constant", "--checkpoint-every=1", "--keep=2", "--resume", "--steps=4"]
    cases = (([*common, "--checkpoint", t.path("run"), "--save", t.path("a.onnx"), "--save-weights", t.path("b.st"),
               "--log", t.path("c.jsonl")], ("run", "a.onnx", "b.st", "c.jsonl"), ("--steps=2",)),
             ([tempoc, model, "--loss=loss", "-q", "-o", t.path("d.onnx"), "--report", t.path("e.json")],
              ("d.onnx", "e.json"), ("--recipe=none",)),
             ([tempo_run, model, "--inputs", data, "--outputs", t.path("f.npz"), "--threads=1"], ("f.npz",),
              ("--inputs", t.data("other.npz", 5))))
    for case in cases:
        for mode in ("once", "ever", "kill"):
            run_all(case, mode)
    t.finish()


if __name__ == "__main__":
    main()
