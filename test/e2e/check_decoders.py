#!/usr/bin/env python3
"""Files of decoders with a past, as others publish them, train without one, and --save gives the file back with its
past: its inputs, outputs and nodes. Stock ONNX Runtime runs it on an empty past, with the loss that was told.

usage: check_decoders.py TEMPO_TRAIN CASE_DIR ...
"""
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

from compare import by_onnxruntime, load, near
from programs import case, check, finish, path, run
from tolerances import SAVED_SCORE


def next_token(logits, labels):
    logits, labels = logits[:, :-1].astype(np.float64), labels[:, 1:]
    top = logits.max(-1, keepdims=True)
    logs = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    return -logs[labels != -100][np.arange((labels != -100).sum()), labels[labels != -100]].mean()


def emptied(value, batch):
    sizes = [d.dim_value or {"batch_size": batch, "kv_cache_dim": 16}.get(d.dim_param, 0)
             for d in value.type.tensor_type.shape.dim]
    return np.zeros(sizes, np.float32)


def saved(tempo_train, folder):
    model, batch = os.path.join(folder, "model.onnx"), os.path.join(folder, "inputs.npz")
    said = run(tempo_train, model, "--add-loss=next-token", "--data", batch, "--eval-data", batch, "--batch=3",
               "--epochs=4", "--lr=0.01", "--save", path("saved.onnx")).text
    check("the past is empty: 4 inputs" in said and "4 outputs" in said, said)
    before, after, feeds = onnx.load(model).graph, onnx.load(path("saved.onnx")).graph, load(batch)
    for part in "input", "output", "node":
        check(list(getattr(before, part)) == list(getattr(after, part)), f"another {part}")
    trained = [a.name for a, b in zip(before.initializer, after.initializer)
               if not np.array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b))]
    check(len(trained) >= len(load(os.path.join(folder, "expected.npz"))) - 1, f"trained were only {trained}")
    labels = feeds.pop("labels")
    feeds |= {i.name: emptied(i, len(labels)) for i in after.input if i.name.startswith("past")}
    want = next_token(by_onnxruntime(path("saved.onnx"), feeds)["logits"], labels)
    told = [float(line.split("loss ")[1].split()[0]) for line in said.splitlines() if line.startswith("eval")]
    check(told[-1] < told[0] and near(told[-1], want, SAVED_SCORE), f"evaluation told {told}, ONNX Runtime {want}")


for folder in sys.argv[2:]:
    case(os.path.basename(folder), saved, sys.argv[1], folder)
finish()
