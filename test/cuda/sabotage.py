#!/usr/bin/env python3
"""Breaks kernels of the CUDA device, one line at a time, and demands that the checks on the emulated device notice.

usage: sabotage.py BUILD-FOLDER SABOTAGES [--share=K/N] [WORD...]
SABOTAGES has a line for each: FILE | CHECK | what it breaks | OLD TEXT => NEW TEXT; FILE is below kernels/, CHECK the
family whose check runs (check_CHECK), and \\n stands for a line's end. OLD TEXT occurs once in FILE. --share=K/N takes
each N-th line, from the K-th. With words, only lines that have one of them. The last line is 'N noticed, N not'.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command_of(build, target):
    """The last command that makes the target."""
    text = subprocess.run(["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True)
    return shlex.split(text.stdout.splitlines()[-1])


def target_of(build, source):
    """What the build folder calls the object of a kernel file, or of a C file, the device's or one for all devices."""
    if source.endswith(".c"):
        name = source.replace("/", "_") + ".o"
        own = "test/cuda/libtempo_cuda_emulated.a.p/.._.._kernels_" + name
        return own if os.path.exists(os.path.join(build, own)) else "kernels/libtempo_kernels.a.p/" + name
    return "test/cuda/emulated_" + os.path.splitext(os.path.basename(source))[0] + ".o"


def compile_object(build, folder, source):
    """The object of a file in `folder`, a copy of kernels/; None: the compiler refuses it."""
    target = target_of(build, source)
    name = os.path.basename(target)
    out = os.path.join(folder, name)
    command = [word for word in command_of(build, target) if word != "-Werror"]
    command[command.index("-c") + 1] = os.path.join(folder, source)
    command[command.index("-o") + 1] = out
    command[command.index("-MF") + 1] = out + ".d"
    done = subprocess.run(command, cwd=build, capture_output=True, text=True)
    return (name, out) if done.returncode == 0 else (name, None)


def users(source):
    """The kernel files that a header is part of, by way of other headers too, or the file itself."""
    if source.endswith((".c", ".cu")):
        return [source]
    texts = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "kernels")):
        for file in files:
            path = os.path.join(folder, file)
            texts[os.path.relpath(path, os.path.join(ROOT, "kernels"))] = open(path).read()
    found, before = {source}, set()
    while found != before:
        before = set(found)
        names = {os.path.basename(file) for file in found}
        found |= {file for file, text in texts.items()
                  if any(re.search(rf'["/]{re.escape(name)}"', text) for name in names)}
    return sorted(file for file in found if file.endswith(".cu"))


def link(build, check, objects, folder):
    library = "test/cuda/libtempo_cuda_emulated.a"
    members = subprocess.run(["ar", "t", library], cwd=build, capture_output=True, text=True, check=True)
    # By absolute names: the linker looks for others beside the archive, and passes over an archive without them.
    members = members.stdout.split()
    names = {os.path.basename(m) for m in members}
    others = [path for name, path in objects.items() if name not in names]  # taken before any archive's
    members = [objects.get(os.path.basename(m), os.path.join(build, m)) for m in members]
    archive, program = os.path.join(folder, "kernels.a"), os.path.join(folder, "check")
    subprocess.run(["ar", "rcsT", archive, *members], cwd=build, check=True)
    command = command_of(build, f"test/cuda/check_{check}")
    command = [archive if word == library else word for word in command]
    at = command.index("-o")
    command[at:at + 2] = ["-o", program, *others]
    subprocess.run(command, cwd=build, check=True)
    return program


def notice(build, line):
    """What noticed the change, or None."""
    source, check, _, change = [part.strip() for part in line.split(" | ", 3)]
    old, new = [text.replace("\\n", "\n") for text in re.split(r" => ?", change, maxsplit=1)]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(ROOT, "kernels"), folder, dirs_exist_ok=True)
        path = os.path.join(folder, source)
        text = open(path).read()
        if text.count(old) != 1:
            sys.exit(f"{source} has {text.count(old)} times, not once: {old}")
        open(path, "w").write(text.replace(old, new))
        objects = dict(compile_object(build, folder, file) for file in users(source))
        if None in objects.values():
            return "the compiler"
        try:
            done = subprocess.run([link(build, check, objects, folder)], capture_output=True, text=True,
                                  errors="replace", timeout=300)
        except subprocess.TimeoutExpired:
            return "the clock"
        said = [text for text in done.stderr.splitlines() if text.startswith(("WRONG", "emu"))]
        return None if done.returncode == 0 else (said or [f"exit code {done.returncode}"])[0]


def main():
    build, path, *rest = sys.argv[1:]
    share, shares = next((map(int, word[8:].split("/")) for word in rest if word.startswith("--share=")), (1, 1))
    words = [word for word in rest if not word.startswith("--")]
    lines = [line for line in open(path).read().splitlines() if line.strip() and not line.startswith("#")]
    lines = [line for line in lines if not words or any(word in line for word in words)][share - 1::shares]
    missed = 0
    for line in lines:
        by = notice(os.path.abspath(build), line)
        missed += by is None
        print(f"{'MISSED ' if by is None else ''}{' | '.join(line.split(' | ')[:3])}: {by}", flush=True)
    print(f"{len(lines) - missed} noticed, {missed} not")
    sys.exit(missed != 0)


if __name__ == "__main__":
    main()
