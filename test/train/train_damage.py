#!/usr/bin/env python3
"""tempo-train where the disk is full, files may not become large, or a folder is read-only: the run goes on without
checkpoints and ends with exit code 5, and those that were there stay; and where bits of a checkpoint have flipped: it
is skipped, by the name of the file, and the run goes on from the one before. Each run that goes on ends with the
bits of one that nothing happened to.

usage: train_damage.py TEMPO_TRAIN
"""
import os
import random
import resource
import shutil
import struct
import subprocess

import train_tool as t

STEPS = 12
FILES = ("state", "weights.safetensors", "optimizer.safetensors")


def command(folder, *more, steps=STEPS):
    return (t.path("model.onnxt"), "--data", t.path("train.npz"), "--loss=loss", "--batch=4", "--lr=0.05", "--seed=5",
            "--schedule=constant", "--checkpoint-every=2", "--threads=1", "--steps", steps, "--checkpoint",
            t.path(folder), *more)


def run(folder, before, code, says):
    """The same in a process that `before` has prepared; None: it could not."""
    try:
        return t.told(t.TOOL, *command(folder, "--resume"), code=code, says=says, timeout=120, preexec_fn=before)
    except subprocess.SubprocessError:
        return None


def content(folder, step):
    """The files of a checkpoint."""
    files = {}
    for name in FILES:
        with open(os.path.join(t.path(folder), f"step-{step}", name), "rb") as file:
            files[name] = file.read()
    return files


def begin_half(folder):
    """Steps 1 to 6 of 12, with two checkpoints."""
    t.run(*command(folder, steps=6))
    t.check(sorted(os.listdir(t.path(folder))) == ["step-4", "step-6"], f"{os.listdir(t.path(folder))}")
    return content(folder, 4), content(folder, 6)


def check_kept(folder, kept, what):
    t.check(sorted(os.listdir(t.path(folder))) == ["step-4", "step-6"], f"{what}: {os.listdir(t.path(folder))}")
    t.check((content(folder, 4), content(folder, 6)) == kept, f"{what}: a checkpoint is another one")


def check_end(folder, what):
    t.run(*command(folder, "--resume"), says=["after update 6"])
    t.check(content(folder, STEPS) == content("whole", STEPS), f"{what}: the end is another one")


def check_sums(folder, step):
    """The sums in `state` are those of all bytes of the three files, by CRC-32C."""
    files = content(folder, step)
    lines = files["state"].decode().split("\n")
    t.check(lines[-2] == "crc32c %08x" % t.crc32c("".join(f"{line}\n" for line in lines[:-2]).encode()), "state")
    for name in FILES[1:]:
        data, at = files[name], next(i for i, line in enumerate(lines) if line.startswith(name + " "))
        header = 8 + struct.unpack("<Q", data[:8])[0]
        entries = t.json.loads(data[8:header])
        places = sorted(entry["data_offsets"] for key, entry in entries.items() if key != "__metadata__")
        sums = ["%08x" % t.crc32c(piece) for piece in
                (data[:header], *(data[header + first:header + last] for first, last in places))]
        t.check(lines[at] == f"{name} {len(data)} {sums[0]} {len(places)}", f"{name}: {lines[at]}")
        t.check(lines[at + 1:at + len(sums)] == sums[1:], f"{name}: sums of tensors")


def large_files():
    kept = begin_half("large")
    run("large", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256)), 5,
        ["File too large", "training goes on", f"step {STEPS}/{STEPS}", "the last checkpoint could not be written"])
    check_kept("large", kept, "ulimit -f")
    check_end("large", "ulimit -f")


def full_disk():
    os.mkdir(t.path("full"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", t.path("full")], capture_output=True,
                      check=False).returncode:
        print("a full disk is not tried: no file system may be mounted here")
        return
    try:
        kept = begin_half("full/run")
        with open(t.path("full/other"), "wb", buffering=0) as other:
            try:
                while other.write(bytes(4096)):
                    pass
            except OSError:
                pass
        run("full/run", None, 5, ["no room for a checkpoint in", "training goes on", f"step {STEPS}/{STEPS}"])
        check_kept("full/run", kept, "full disk")
        os.remove(t.path("full/other"))
        check_end("full/run", "full disk")
    finally:
        subprocess.run(["umount", t.path("full")], check=True)


def read_only():
    """Told before the first update: by the superuser, who may write everywhere, as nobody."""
    kept = begin_half("fixed")
    os.chmod(t.FOLDER.name, 0o755)
    os.chmod(t.path("fixed"), 0o555)
    before = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None
    if run("fixed", before, 5, ["can't write to", "Permission denied"]) is None:
        print("a folder that is read-only is not tried: the superuser cannot become nobody here")
    os.chmod(t.path("fixed"), 0o755)
    check_kept("fixed", kept, "read-only")
    check_end("fixed", "read-only")
    run("model.onnxt", None, 5, ["Not a directory"])


def flipped_bits():
    begin_half("flips")
    draw = random.Random(2)
    for i in range(30):
        name = FILES[i % 3]
        shutil.rmtree(t.path("one"), ignore_errors=True)
        shutil.copytree(t.path("flips"), t.path("one"))
        with open(os.path.join(t.path("one"), "step-6", name), "r+b") as file:
            data = bytearray(file.read())
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            file.seek(0)
            file.write(data)
        t.run(*command("one", "--resume", "--keep=9"),
              says=["step-6' is skipped: " + name, "after update 4"])
        t.check(sorted(os.listdir(t.path("one")))[-1] == "step-8" and os.path.isdir(t.path("one/step-6.damaged")),
                f"{os.listdir(t.path('one'))}")
        t.check(content("one", STEPS) == content("whole", STEPS), f"flip {i}: the end is another one")
    for step in (4, 6):
        os.truncate(os.path.join(t.path("flips"), f"step-{step}", "optimizer.safetensors"), 100)
    t.run(*command("flips", "--resume"), code=2, says=["none of the 2 checkpoints", "optimizer.safetensors"])


def main():
    t.classifier("model.onnxt", dropout=0.3)
    t.data("train.npz", 22)
    t.run(*command("whole"))
    check_sums("whole", STEPS)
    large_files()
    full_disk()
    read_only()
    flipped_bits()
    t.finish()


if __name__ == "__main__":
    main()
