#!/usr/bin/env python3
"""check_lora.py TEMPOC TEMPO_RUN TEMPO_TRAIN MODELS: what --lora puts into a graph against PEFT's model
(models/export_lora.py): with an adapter's weights, the loss, the gradients of all its tensors and of nothing else,
under several recipes, and the tensors after UPDATES updates by AdamW.
"""
import json
import os
import sys

import onnx
from onnx import numpy_helper

import safetensors_file
from compare import load, norm_error, worst
from programs import case, check, finish, path, run
from tolerances import ADAPTER_GRADIENT, ADAPTER_UPDATED

TEMPOC, TEMPO_RUN, TEMPO_TRAIN, MODELS = sys.argv[1:]
RECIPES = ["none", "portable", "tiled"]  # the last one is trained
BASES = ["llama-dyn_21", "gpt2-dyn_21", "bert-ts_14"]
KINDS = ["lora", "rslora", "dora"]
UPDATES, RATE, DECAY = 96, 1e-3, 0.01  # export_lora.py's


def options(config):
    """PEFT's configuration as words of the command line."""
    text = f"{config['r']},alpha={config['lora_alpha']}"
    text += ",rslora" * config["use_rslora"] + ",dora" * config["use_dora"]
    targets = ["*" + name for name in config["target_modules"] if "." not in name] or ["*"]
    return [f"--lora={text}:{glob}" for glob in targets]


def adapter_of(folder):
    """The adapter's tensors by the names that they have in the graph."""
    arrays, _, _ = safetensors_file.read(os.path.join(folder, "adapter_model.safetensors"))
    return {"m." + name.removeprefix("base_model.model."): array for name, array in arrays.items()}


def put(graph, weights):
    """The same graph with these initializers; their names are those that begin with an adapter's."""
    model = onnx.load(graph)
    made = {t.name: t for t in model.graph.initializer if ".lora_" in t.name}
    check(made.keys() == weights.keys(), made.keys() ^ weights.keys())
    for name, tensor in made.items():
        tensor.CopyFrom(numpy_helper.from_array(weights[name], name))
    onnx.save(model, graph)


def gradients(base, lora, weights, inputs, want, recipe):
    graph, outputs = path("graph.onnx"), path("got.npz")
    run(TEMPOC, base, "-o", graph, "-q", f"--recipe={recipe}", *lora)
    onnx.checker.check_model(graph, full_check=True)
    put(graph, weights)
    run(TEMPO_RUN, graph, "--inputs", inputs, "--outputs", outputs)
    got = load(outputs)
    check(got.keys() == want.keys(), got.keys() ^ want.keys())
    error, name = worst(got, want)
    check(error <= ADAPTER_GRADIENT, f"{recipe}: {name} is off by {error:.1e}")
    return error


def updated(graph, inputs, want):
    """Trains the compiled graph, whose adapter is PEFT's."""
    trained = path("trained.safetensors")
    run(TEMPO_TRAIN, graph, "--data", inputs, "-q", f"--epochs={UPDATES}", "--shuffle=off", "--schedule=constant",
        f"--lr={RATE}", f"--weight-decay={DECAY}", "--save-weights", trained)
    got, _, _ = safetensors_file.read(trained)
    error, name = max((norm_error(got[name], value), name) for name, value in want.items())
    check(error <= ADAPTER_UPDATED, f"{name} after {UPDATES} updates is off by {error:.1e}")
    return error


def compare(arch, base, kind):
    folder, base = os.path.join(MODELS, f"lora-{arch}", kind), os.path.join(MODELS, base)
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
        lora = options(json.load(file))
    model, inputs = os.path.join(base, "model.onnx"), os.path.join(base, "inputs.npz")
    want, weights = load(os.path.join(folder, "expected.npz")), adapter_of(folder)
    after = {name.removeprefix("after/"): want.pop(name) for name in list(want) if name.startswith("after/")}
    errors = [gradients(model, lora, weights, inputs, want, recipe) for recipe in RECIPES]
    last = updated(path("graph.onnx"), inputs, after)
    return None, f"{len(weights)} tensors: gradients to {max(errors):.1e}, after {UPDATES} updates to {last:.1e}"


for one in BASES:
    for sort in KINDS:
        name = one.split("-")[0]
        case(f"{name} {sort}", compare, name, one, sort)
finish()
