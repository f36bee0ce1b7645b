#!/usr/bin/env python3
"""tempo-train, killed by SIGKILL at a hundred random moments and each time started again with --resume, ends with the
bits of a run that nobody disturbed. After each kill every folder step-N is whole, by CRC-32C in Python; the next start
goes on from the newest of them, and leaves nothing of the dead process behind.

usage: train_crashes.py TEMPO_TRAIN [KILLS]
"""
import os
import random
import re
import shutil
import struct
import sys
import time

import train_tool as t

KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 100
STEPS = 60
LATEST = 0.05  # seconds: a whole run takes 0.2, a first checkpoint 0.07
LOCK = ".tempo-train.lock"  # of a run that is killed, too
FILES = ("weights.safetensors", "optimizer.safetensors")
TABLE = [0] * 256
for byte in range(256):
    crc = byte
    for _ in range(8):
        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    TABLE[byte] = crc


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return "%08x" % (crc ^ 0xFFFFFFFF)


assert crc32c(b"123456789") == "e3069283"


def pieces(data):
    """The header of a safetensors file, and its tensors' bytes in their order."""
    header = 8 + struct.unpack("<Q", data[:8])[0]
    entries = t.json.loads(data[8:header])
    entries.pop("__metadata__", None)
    places = sorted(entry["data_offsets"] for entry in entries.values())
    return [data[:header], *(data[header + first:header + last] for first, last in places)]


def check_folder(folder):
    """That the sums in `state` are those of all bytes of the three files."""
    with open(os.path.join(folder, "state"), encoding="ascii") as file:
        lines = file.read().split("\n")
    t.check(lines[-2] == "crc32c " + crc32c("".join(f"{line}\n" for line in lines[:-2]).encode()), f"{folder}: state")
    t.check(f"step {folder.rsplit('-', 1)[1]}" in lines, f"{folder}: another step in state")
    t.check(sorted(os.listdir(folder)) == sorted(("state", *FILES)), f"{folder}: {os.listdir(folder)}")
    for name in FILES:
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        at = next(i for i, line in enumerate(lines) if line.startswith(name + " "))
        sums = [crc32c(piece) for piece in pieces(data)]
        t.check(lines[at] == f"{name} {len(data)} {sums[0]} {len(sums) - 1}", f"{folder}: {name}: {lines[at]}")
        t.check(lines[at + 1:at + len(sums)] == sums[1:], f"{folder}: {name}: sums of tensors")


def steps_in(folder):
    """Steps of whole checkpoints, and what else is there."""
    names = [name for name in os.listdir(folder) if name != LOCK] if os.path.isdir(folder) else []
    whole = [int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name)]
    return sorted(whole), [name for name in names if not re.fullmatch(r"step-\d+", name)]


def names_in(folder):
    return set(os.listdir(t.path(folder))) - {LOCK} if os.path.isdir(t.path(folder)) else set()


def command(folder):
    return (t.path("model.onnxt"), "--data", t.path("train.npz"), "--loss=loss", "--batch=4", "--lr=0.05", "--seed=11",
            "--steps", STEPS, "--checkpoint-every=1", "--keep=2", "--threads=1", "--resume", "--checkpoint",
            t.path(folder), "--log", t.path(f"{folder}.jsonl"), "--save-weights", t.path(f"{folder}.safetensors"))


def check_end(folder):
    """The same bits as of the run that nobody disturbed: weights, moments, the last loss."""
    t.check(not os.path.exists(t.path(f"{folder}/{LOCK}")), "the lock is there though the run has ended")
    for name in (f"{folder}.safetensors", *(f"{folder}/step-{STEPS}/{file}" for file in FILES)):
        with open(t.path(name), "rb") as one, open(t.path(name.replace(folder, "whole", 1)), "rb") as other:
            t.check(one.read() == other.read(), f"{name} differs from that of the undisturbed run")
    t.check(t.losses(f"{folder}.jsonl")[-1] == t.losses("whole.jsonl")[-1], "the last loss is another one")
    t.check(steps_in(t.path(folder)) == ([STEPS - 1, STEPS], []), f"left: {os.listdir(t.path(folder))}")


def start_and_kill(folder, seconds, early):
    """Kills it so long after it began, if `early`, else after it began to write. True: it was over before."""
    newest = steps_in(t.path(folder))[0][-1:] or [0]
    before = names_in(folder)
    process = t.begin(*command(folder))
    while not early and process.poll() is None and names_in(folder) <= before:
        time.sleep(0.0005)
    time.sleep(seconds)
    process.kill()
    text, _ = process.communicate(timeout=60)
    said = re.search(r"behind update (\d+)", text)
    t.check("passed over" not in text and "error" not in text, text)
    t.check(not said or newest[0] <= int(said.group(1)), f"behind {said and said.group(1)}, not {newest}")
    t.check(process.returncode in (-9, 0), f"exit code {process.returncode}\n{text}")
    for step in steps_in(t.path(folder))[0]:
        check_folder(t.path(f"{folder}/step-{step}"))
    return process.returncode == 0


def main():
    draw = random.Random(3)
    t.classifier("model.onnxt", dropout=0.3)
    t.data("train.npz", 22)
    t.run(*command("whole"))
    kills = runs = remains = 0
    while kills < KILLS and not t.failed():
        runs += 1
        folder = f"crash{runs}"
        while kills < KILLS and not start_and_kill(folder, draw.uniform(0, LATEST), draw.random() < 0.25):
            kills += 1
            remains += bool(steps_in(t.path(folder))[1])
        t.run(*command(folder))
        check_end(folder)
        shutil.rmtree(t.path(folder))
    print(f"{kills} kills in {runs} runs of {STEPS} updates, {remains} of them while a checkpoint was written")
    t.check(remains > KILLS // 10, "hardly any kill met a checkpoint that was being written")
    t.finish()


if __name__ == "__main__":
    main()
