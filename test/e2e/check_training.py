#!/usr/bin/env python3
"""Trains a small BERT with dropout for some steps under several recipes and precisions: their losses are one curve.

usage: check_training.py TEMPOC TEMPO_RUN [--steps N]
A network of bench/bert.py learns labels that are the ids in another order. Weights are inputs of the compiled graph;
AdamW is numpy's. `exact` twice with different dropout seeds says how far apart two runs of one model are: with one
seed, the losses of the others stay within that of those of `exact`. The gradients of float16 are scaled.
"""
import argparse
import os
import sys

import numpy as np
import onnx
from onnx import helper

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import bert  # noqa: E402
from compare import load  # noqa: E402
from programs import check, finish, path, run  # noqa: E402

NETWORK = bert.Bert(layers=2, hidden=32, heads=4, batch=4, sequence=8, vocabulary=16, dropout=0.1)
RATE, BETAS, EPSILON, DECAY = 3e-3, (0.9, 0.999), 1e-8, 0.01
WINDOW = 20  # losses of single batches are noise
SCALE = np.float32(1024)
OTHERS = {"paper": ["--recipe=paper"], "bf16": ["--precision=bf16"], "fp16": ["--precision=fp16"]}


def compile_network(tempoc, flags):
    """The compiled graph with weights as inputs; the weights."""
    source, out = path("network.onnx"), path("step.onnx")
    bert.write(source, NETWORK)
    run(tempoc, source, "-q", "-o", out, *flags)
    weights = dict(bert.parameters(NETWORK))
    model = onnx.load(out)
    for tensor in [t for t in model.graph.initializer if t.name in weights]:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        model.graph.initializer.remove(tensor)
    onnx.save(model, out)
    return out, weights


def batch_of(step):
    ids = np.random.default_rng(step).integers(0, NETWORK.vocabulary, (NETWORK.batch, NETWORK.sequence))
    labels = (7 * ids + 3) % NETWORK.vocabulary
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": labels}


def adamw(weights, gradients, moments, step, scale):
    for name, weight in weights.items():
        g, (m, v) = gradients[f"{name}_grad"] / scale, moments[name]
        m += (1 - BETAS[0]) * (g - m)
        v += (1 - BETAS[1]) * (g * g - v)
        mean, square = m / (1 - BETAS[0] ** step), v / (1 - BETAS[1] ** step)
        weight -= np.float32(RATE) * (mean / (np.sqrt(square) + EPSILON) + DECAY * weight)


def train(o, flags, seed):
    graph, weights = compile_network(o.tempoc, flags)
    scale = SCALE if "--precision=fp16" in flags else np.float32(1)
    scaled = {"tempo.loss_scale": scale} if scale != 1 else {}
    moments = {name: (np.zeros_like(w), np.zeros_like(w)) for name, w in weights.items()}
    inputs, outputs = path("in.npz"), path("out.npz")
    losses = []
    for step in range(1, o.steps + 1):
        np.savez(inputs, **batch_of(step), **weights, **scaled, **{"tempo.seed": np.array([seed, step])})
        run(o.tempo_run, graph, "--inputs", inputs, "--outputs", outputs)
        got = load(outputs)
        losses.append(float(got["loss"]))
        adamw(weights, got, moments, step, scale)
    return np.array(losses)


def smooth(losses):
    return np.convolve(losses, np.ones(WINDOW) / WINDOW, "valid")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tempoc")
    parser.add_argument("tempo_run")
    parser.add_argument("--steps", type=int, default=200)
    o = parser.parse_args()
    exact, other = (train(o, [], seed) for seed in (1, 2))
    apart = {name: train(o, flags, 1) for name, flags in OTHERS.items()}
    spread, *apart = (float(np.max(np.abs(smooth(x) - smooth(exact)))) for x in (other, *apart.values()))
    print(f"loss {exact[0]:.3f} -> {smooth(exact)[-1]:.3f}; two seeds are {spread:.1e} apart, exact and "
          f"{', '.join(f'{name} {x:.1e}' for name, x in zip(OTHERS, apart))}")
    check(smooth(exact)[-1] < 0.7 * exact[0], "nothing is learned")
    for name, x in zip(OTHERS, apart):
        check(x <= spread, f"{name} is {x:.1e} apart")
    finish()


if __name__ == "__main__":
    main()
