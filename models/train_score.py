#!/usr/bin/env python3
"""Scores what tempo-train wrote: a model by ONNX Runtime, weights by transformers' own model.

usage: train_score.py KIND DATA.npz FILE ...
FILE   .onnx: an export, or what --save wrote; .safetensors: what --save-weights wrote, loaded into the model that
       train_export.py exports, and no parameter of it may be missing
DATA   eval.npz of train_prepare.py
Dropout is off. Prints loss, and accuracy of classifiers, of all samples. Needs what train_export.py needs, onnxruntime
and safetensors. Not needed to build, test or run Tempo.
"""
import argparse
import os
import sys

import onnx
import safetensors.torch
import train_expected
import trainable

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import saved_models  # noqa: E402

BATCH = 100


def by_onnxruntime(path, kind, data):
    session = saved_models.session_of(saved_models.without_dropout(onnx.load(path)))
    return saved_models.scores(session, [dict(zip(trainable.INPUTS[kind], (x.numpy() for x in batch)))
                                         for batch in train_expected.batches(data, BATCH)])


def by_transformers(path, kind, data):
    model = trainable.load(trainable.build(kind, small=False), safetensors.torch.load_file(path))
    return train_expected.evaluate(model, kind, data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=trainable.KINDS)
    parser.add_argument("data")
    parser.add_argument("files", nargs="+")
    o = parser.parse_args()
    data = train_expected.read(o.data, o.kind)
    for path in o.files:
        whose, score = ("ONNX Runtime", by_onnxruntime) if path.endswith(".onnx") else ("transformers", by_transformers)
        got = score(path, o.kind, data)
        print(f"{path} ({whose}): " + ", ".join(f"{name} {value:.6f}" for name, value in got.items()))


if __name__ == "__main__":
    main()
