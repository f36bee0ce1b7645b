#!/usr/bin/env python3
"""What tempo-train tells of a run: records, TensorBoard's events, lines for a pipe and for a terminal.

usage: train_logs.py TEMPO_TRAIN
The picture that models/train_picture.py draws of runs, too.
The event file is read by its description (TensorFlow's record_writer.h, event.proto), checksums by their polynomial.
"""
import os
import pty
import struct
import subprocess
import sys
import xml.etree.ElementTree

import numpy as np

import train_tool as t


def masked(data):
    crc = t.crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def events(folder):
    """The messages of the one event file in the folder."""
    names = os.listdir(folder)
    t.check(len(names) == 1 and names[0].startswith("events.out.tfevents."), f"event files: {names}")
    with open(os.path.join(folder, names[0]), "rb") as file:
        data = file.read()
    found, at = [], 0
    while at < len(data):
        length = struct.unpack_from("<Q", data, at)[0]
        head, body = data[at:at + 8], data[at + 12:at + 12 + length]
        t.check(struct.unpack_from("<I", data, at + 8)[0] == masked(head), "checksum of a length")
        t.check(struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), "checksum of a record")
        found.append(body)
        at += 16 + length
    return [fields(body) for body in found]


def fields(data):
    """A message by the numbers of its fields; of each the last."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            out[key >> 3] = varint()
        elif key & 7 == 1:
            out[key >> 3], at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            out[key >> 3], at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            length = varint()
            out[key >> 3], at = data[at:at + length], at + length
    return out


def on_a_terminal(*args):
    """What a terminal gets."""
    ours, its = pty.openpty()
    with subprocess.Popen([t.TOOL, *args], stdout=its, stderr=subprocess.DEVNULL) as process:
        os.close(its)
        text = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
    os.close(ours)
    t.check(process.returncode == 0, f"exit code {process.returncode}")
    return text.decode()


def picture():
    """Five curves that lie on one another are all seen, on a light page and on a dark one."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/train_picture.py")
    runs = [f"run {i}={t.path('log.jsonl')}" for i in range(5)]
    subprocess.run([sys.executable, script, t.path("runs.svg"), "loss", *runs], check=True)
    svg = xml.etree.ElementTree.parse(t.path("runs.svg")).getroot()
    paths = [e.attrib for e in svg if e.tag.endswith("path")]
    t.check({(p["stroke-dasharray"], p["stroke-dashoffset"]) for p in paths} ==
            {("12 48", str(-12 * i)) for i in range(5)}, f"dashes: {[p['stroke-dashoffset'] for p in paths]}")
    style = next(e.text for e in svg if e.tag.endswith("style"))
    t.check("prefers-color-scheme: dark" in style and not any("fill" in e.attrib for e in svg), "dark pages")


def main():
    model, data = t.classifier("model.onnxt"), t.data("train.npz", 22)
    held = t.data("eval.npz", 8, seed=5)
    common = (model, "--data", data, "--loss=loss", "--batch=4", "--epochs=40")
    said = t.run(*common, "--eval-data", held, "--tensorboard", t.path("board"), "--log", t.path("log.jsonl"))
    updates, evaluations = t.records("log.jsonl")
    t.check([r["step"] for r in updates] == list(range(1, 241)), "records of 240 updates")
    t.check([r["epoch"] for r in updates] == [1 + i // 6 for i in range(240)], "their epochs")
    t.check(sum(r["samples"] for r in updates) == 40 * 22, "their samples")
    t.check(all(r["seconds"] > 0 and r["peak_mib"] > 1 for r in updates), "seconds and peaks")
    lines = [line for line in said.splitlines() if line.startswith("step ")]
    t.check(40 <= len(lines) <= 55 and lines[0].startswith("step 1/240 ") and lines[-1].startswith("step 240/240 "),
            f"{len(lines)} lines for 240 updates")
    t.check(all(word in lines[-1] for word in ("epoch 40/40", "samples/s", "left 0:00", "MiB")), lines[-1])
    t.check("\r" not in said and "\033" not in said, "a pipe gets signs of a terminal")

    read = events(t.path("board"))
    t.check(read[0].get(3) == b"brain.Event:2" and read[0][1] > 1e9, f"the first event is {read[0]}")
    scalars = {}
    for event in read[1:]:
        value = fields(fields(event[5])[1])
        scalars[value[1].decode(), event[2]] = value[2]
    t.check(all(scalars["train/loss", r["step"]] == np.float32(r["loss"]) for r in updates), "losses as events")
    t.check(all(scalars["eval/accuracy", r["step"]] == np.float32(r["accuracy"]) for r in evaluations), "and scores")

    t.check(t.run(*common, "--quiet") == "", "--quiet is not quiet")
    t.check(t.run(*common, "--print-every=100").count("step ") == 4, "--print-every: 1, 100, 200, 240")
    screen = on_a_terminal(*common)
    t.check("\r" in screen and "\033[K" in screen and "step 240/240" in screen, f"a terminal gets {screen[-300:]!r}")
    picture()
    t.finish()


if __name__ == "__main__":
    main()
