#!/usr/bin/env python3
"""check_lora.py TEMPOC TEMPO_RUN TEMPO_TRAIN MODELS: what --lora puts into a graph against PEFT's model
(models/export_adapters.py): with an adapter's weights, the loss, the gradients of all its tensors and of nothing else,
under several recipes, and the tensors after UPDATES updates by AdamW. Dropout, which draws as Tempo does, and the
spellings of a product: against the formulas in numpy.
"""
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import philox_draws
import safetensors_file
from compare import load, norm_error, worst
from programs import case, check, finish, json_of, path, run
from tolerances import ADAPTER_GRADIENT, ADAPTER_UPDATED

TEMPOC, TEMPO_RUN, TEMPO_TRAIN, MODELS = sys.argv[1:]
RECIPES = ["none", "portable", "tiled"]  # the last one is trained
BASES, KINDS = ["llama", "gpt2", "bert"], ["all-lora", "attention-rslora", "all-dora"]
UPDATES, RATE, DECAY = 96, 1e-3, 0.01  # export_adapters.py's


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


def compare(name):
    folder = os.path.join(MODELS, "adapters", name)
    lora = options(json_of(os.path.join(folder, "adapter_config.json")))
    expected = load(os.path.join(folder, "expected.npz"))
    base = os.path.join(MODELS, str(expected.pop("base")))
    model, inputs = os.path.join(base, "model.onnx"), os.path.join(base, "inputs.npz")
    after = {f"m.{n.removeprefix('after/')}": a for n, a in expected.items() if n.startswith("after/")}
    want = {n if n == "loss" else f"m.{n}": a for n, a in expected.items() if not n.startswith("after/")}
    weights = adapter_of(folder)
    errors = [gradients(model, lora, weights, inputs, want, recipe) for recipe in RECIPES]
    last = updated(path("graph.onnx"), inputs, after)
    return None, f"{len(weights)} tensors: gradients to {max(errors):.1e}, after {UPDATES} updates to {last:.1e}"


SPELLINGS = {
    "p.MatMul.weight": "yp = MatMul (x, \"p.MatMul.weight\")  p = Add (yp, \"p.bias\")",
    "q.weight": "q = Gemm <transB = 1> (x, \"q.weight\", \"q.bias\")",
    "r.weight": "r = Gemm (x, \"r.weight\")",
    "s.weight": "st = Transpose <perm = [1, 0]> (\"s.weight\")  s = MatMul (x, st)",
    "twice": "u = Gemm <transB = 1> (x, \"q.weight\", \"q.bias\")",  # the module q again
}
ROWS, IN, OUT, RANK, ALPHA, DROPPED, SEED = 5, 8, 6, 2, 3, 0.25, 11


def by_hand(weights, x, dora, dropout):
    """Results and gradients of the modules for the loss sum(y * y) / 2, in double."""
    want, got = {}, {"loss": 0.0}
    for node, y in enumerate("pqrsu"):
        module = "q" if y == "u" else y
        w, bias, a, b, m = (weights.get(f"{module}.{part}") for part in
                            ("weight", "bias", "lora_A.weight", "lora_B.weight", "lora_magnitude_vector"))
        keep = philox_draws.keep_mask(x.shape, DROPPED, (SEED, 0), node) / (1 - DROPPED) if dropout else 1
        low = (x * keep) @ a.T * (ALPHA / RANK)
        norm = np.linalg.norm(w + ALPHA / RANK * b @ a, axis=1)
        factor = m / norm if dora else np.ones(OUT)
        product = (x * keep) @ w.T
        want[y] = x @ w.T + (bias if bias is not None else 0) + (factor - 1) * product + factor * (low @ b.T)
        scaled = want[y] * factor
        terms = {"lora_B.weight": scaled.T @ low,
                 "lora_A.weight": ALPHA / RANK * (scaled @ b).T @ (x * keep)}
        if dora:
            terms["lora_magnitude_vector"] = (want[y] * (product + low @ b.T)).sum(0) / norm
        for part, term in terms.items():
            name = f"{module}.{part}_grad"
            got[name] = got.get(name, 0) + term
        got["loss"] += (want[y] ** 2).sum() / 2
    return want | got


def formulas(dora, dropout):
    rng = np.random.default_rng(5)
    weights = {f"{m}.weight": rng.normal(size=(OUT, IN)) for m in "pqrs"}
    weights |= {f"{m}.bias": rng.normal(size=OUT) for m in "pq"}
    stored = {"p.MatMul.weight": weights["p.weight"].T, "q.weight": weights["q.weight"],
              "r.weight": weights["r.weight"].T, "s.weight": weights["s.weight"]}
    stored |= {name: weights[name] for name in ("p.bias", "q.bias")}
    squares = "  ".join(f"{y}2 = ReduceSumSquare <keepdims = 0> ({y})" for y in "pqrsu")
    results = ", ".join(f"float[{ROWS},{OUT}] {y}" for y in "pqrsu")
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> m (float[{ROWS},{IN}] x) => ({results}, float loss) '
        f"<float half = {{0.5}}> {{ {' '.join(SPELLINGS.values())}  {squares}  all = Sum (p2, q2, r2, s2, u2)  "
        "loss = Mul (all, half) }")
    model.graph.initializer.extend(numpy_helper.from_array(a.astype(np.float32), n) for n, a in stored.items())
    base, graph, feeds, outputs = path("base.onnx"), path("graph.onnx"), path("x.npz"), path("got.npz")
    onnx.save(model, base)
    run(TEMPOC, base, "-o", graph, "-q", "--loss=loss", f"--lora={RANK},alpha={ALPHA}" + ",dora" * dora +
        f",dropout={DROPPED}" * dropout + ":?")
    for m in "pqrs":
        weights[f"{m}.lora_A.weight"] = rng.normal(size=(RANK, IN))
        weights[f"{m}.lora_B.weight"] = rng.normal(size=(OUT, RANK))
        weights |= {f"{m}.lora_magnitude_vector": rng.normal(size=OUT)} if dora else {}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    put(graph, {name: array for name, array in weights.items() if ".lora_" in name})
    x = rng.normal(size=(ROWS, IN)).astype(np.float32)
    np.savez(feeds, x=x)
    run(TEMPO_RUN, graph, "--inputs", feeds, "--outputs", outputs, f"--seed={SEED}")
    want = by_hand({n: a.astype(np.float64) for n, a in weights.items()}, x.astype(np.float64), dora, dropout)
    got = load(outputs)
    check(got.keys() == want.keys(), got.keys() ^ want.keys())
    error, name = max((norm_error(got[name], value), name) for name, value in want.items())
    return (None, f"to {error:.1e}") if error <= ADAPTER_GRADIENT else f"{name} is off by {error:.1e}"


for kind in range(4):
    case(("dora" if kind % 2 else "lora") + (" with dropout" if kind > 1 else ""), formulas, kind % 2, kind > 1)
for one in BASES:
    for sort in KINDS:
        case(f"{one} {sort}", compare, f"{one}-{sort}")
finish()
