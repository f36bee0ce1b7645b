#!/usr/bin/env python3
"""Trains an export of train_export.py in PyTorch: the same weights, the data in its order, dropout off.

usage: train_expected.py KIND MODEL.onnx DATA.npz OUT.npz [--small] [--batch N] [--epochs N] [--steps N] [--rate R]
                         [--decay D] [--eval-data FILE] [--double]
OUT.npz gets `loss`, that of each step in float, and batch, epochs, rate and decay; with --double `loss_double`, the
curve of the same run in float64, which tells how far rounding takes the one in float. `final_loss`, and for classifiers
`final_accuracy`, are those of --eval-data, or else of DATA, when training is done. Without --small, batch and others
are to be given; with it they are those of models/train-*, where the last batch of vit is short.

AdamW is torch.optim's, with decay for tensors of rank 2 and more. Needs what train_export.py needs. Not needed to
build, test or run Tempo.
"""
import argparse

import numpy as np
import torch
import trainable

# batch, epochs, rate
SMALL = {"minilm": (16, 12, 1e-3), "gpt2": (8, 12, 1e-3), "vit": (24, 16, 5e-4)}


def batches(data, size):
    for start in range(0, len(data[0]), size):
        yield [x[start:start + size] for x in data]


def train(model, data, o):
    """The loss of each step."""
    wide = [p for p in model.parameters() if p.ndim >= 2]
    thin = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": wide, "weight_decay": o.decay}, {"params": thin, "weight_decay": 0}],
                                  lr=o.rate)
    losses = []
    for _ in range(o.epochs):
        for batch in batches(data, o.batch):
            optimizer.zero_grad()
            loss = model(*batch)
            loss = loss[0] if isinstance(loss, tuple) else loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == o.steps:
                return losses
    return losses


def evaluate(model, kind, data):
    """The mean over all samples of each output."""
    sums = dict.fromkeys(trainable.outputs(kind), 0)
    with torch.no_grad():
        for batch in batches(data, 100):
            got = model.eval()(*batch)
            for name, x in zip(sums, got if isinstance(got, tuple) else (got,)):
                sums[name] += x.item() * len(batch[0]) / len(data[0])
    return sums


def read(path, kind, dtype=torch.float32):
    """Arrays in the order of the inputs; ragged ones padded, with a mask."""
    with np.load(path) as file:
        arrays = dict(file)
    if "input_ids.offsets" in arrays:
        offsets = arrays.pop("input_ids.offsets")
        mask = np.arange(np.diff(offsets).max()) < np.diff(offsets)[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = arrays["input_ids"]
        arrays.update(input_ids=ids, attention_mask=mask)
    data = [arrays[name] for name in trainable.INPUTS[kind]]
    return [torch.from_numpy(x).to(dtype) if x.dtype.kind == "f" else torch.from_numpy(x.astype(np.int64))
            for x in data]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=trainable.KINDS)
    for name in ("model", "data", "out"):
        parser.add_argument(name)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--eval-data")
    parser.add_argument("--double", action="store_true")
    o = parser.parse_args()
    if o.small:
        o.batch, o.epochs, o.rate = SMALL[o.kind]
    weights = trainable.weights_of(o.model)

    def run(dtype):
        model = trainable.load(trainable.build(o.kind, o.small, dropout=0.0), weights).to(dtype).train()
        losses = train(model, read(o.data, o.kind, dtype), o)
        return losses, evaluate(model, o.kind, read(o.eval_data or o.data, o.kind, dtype))

    losses, final = run(torch.float32)
    expected = {"loss": np.array(losses, np.float32), "batch": o.batch, "epochs": o.epochs, "rate": o.rate,
                "decay": o.decay, **{f"final_{name}": value for name, value in final.items()}}
    print(f"{o.kind}: {len(losses)} steps, loss {losses[0]:.4f} -> {losses[-1]:.4f}; " +
          ", ".join(f"{name} {value:.4f}" for name, value in final.items()) + " afterwards")
    if o.double:
        expected["loss_double"] = np.array(run(torch.float64)[0])
        apart = np.abs(expected["loss"] / expected["loss_double"] - 1)
        print(f"PyTorch's losses in float are up to {apart.max():.1e} off those in float64")
    np.savez(o.out, **expected)


if __name__ == "__main__":
    main()
