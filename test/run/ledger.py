#!/usr/bin/env python3
"""The ledger, told three ways, for models and recipes: tempoc's report, what the runtime's arena holds between the
passes (tempo-run --memory), and a walk over the written graph here, which shares nothing with the other two.

usage: ledger.py TEMPOC TEMPO_RUN CASE_DIR ...      CASE_DIR: model.onnx, inputs.npz (models/)
"""
import json
import os
import re
import sys
import tempfile

import numpy as np
import onnx

from compare import dims_of
from programs import case, finish, path, run

VIEWS = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"}
SIZES = {onnx.TensorProto.BOOL: 1, onnx.TensorProto.FLOAT: 4, onnx.TensorProto.INT64: 8, onnx.TensorProto.INT32: 4,
         onnx.TensorProto.UINT8: 1}


def recipes(tempoc):
    """The names that --list-passes gives behind "recipes:", of those with a backward pass."""
    listed = run(tempoc, "--list-passes").out
    listed = re.findall(r"^  (\S+).*\n +--passes=(\S+)$", listed.split("recipes:")[1], re.M)
    return [name for name, passes in listed if "autodiff" in passes]


def walk(path):
    """{name: bytes} of what the loss's ancestors make and other nodes read."""
    graph = onnx.load(path).graph
    producer = {o: n for n in graph.node for o in n.output if o}
    initializers = {i.name for i in graph.initializer}
    types = {v.name: v.type.tensor_type for v in [*graph.value_info, *graph.output, *graph.input]}

    def moves_nothing(node):
        if node.input[0] in initializers:
            return False  # a parameter anyway
        dims = [d.dim_value for d in types[node.input[0]].shape.dim]
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), list(reversed(range(len(dims)))))
        kept = [p for p in perm if dims[p] != 1]
        return kept == sorted(kept)

    def is_view(node):
        return node.op_type in VIEWS or (node.op_type == "Transpose" and moves_nothing(node))

    def root(name):
        while name in producer and is_view(producer[name]):
            name = producer[name].input[0]
        return name

    def is_parameter(name):
        while name in producer and (is_view(producer[name]) or producer[name].op_type == "Transpose"):
            name = producer[name].input[0]
        return name in initializers or (name in producer and producer[name].op_type == "Constant")

    forward, todo = set(), [o.name for o in graph.output if not o.name.endswith("_grad")]
    while todo:
        node = producer.get(todo.pop())
        if node is not None and id(node) not in forward:
            forward.add(id(node))
            todo += node.input
    saved = {}
    for node in graph.node:
        if id(node) in forward or is_view(node) or node.op_type in ("Shape", "Size"):
            continue
        for name in filter(None, node.input):
            name = root(name)
            if name in producer and id(producer[name]) in forward and not is_parameter(name):
                t = types[name]
                saved[name] = SIZES[t.elem_type] * int(np.prod([d.dim_value for d in t.shape.dim]))
    return saved


DROPOUT = """<ir_version: 10, opset_import: ["": 21]>
dropout (float[3,5,8] x) => (float loss)
<float r = {0.25}, bool t = {1}, float scale = {0.35355338}> {
  qk = MatMul (x, wq)
  kt = Transpose <perm = [0, 2, 1]> (qk)
  scores = MatMul (qk, kt)
  scaled = Mul (scores, scale)
  p = Softmax (scaled)
  dropped = Dropout (p, r, t)
  y = MatMul (dropped, x)
  h = MatMul (y, w1)
  g = Gelu (h)
  d = Dropout (g, r, t)
  z = Add (d, y)
  n = LayerNormalization (z, gamma, beta)
  o = MatMul (n, w2)
  loss = ReduceMean <keepdims = 0> (o)
}"""


def dropout_case(folder):
    """Attention, GELU and LayerNormalization with dropout between them: a CASE_DIR."""
    rng = np.random.default_rng(5)
    model = onnx.parser.parse_model(DROPOUT.replace("bool t = {1}", "bool t = {1}, " + ", ".join(
        f"float[{','.join(map(str, shape))}] {name} = "
        f"{{{','.join(str(v) for v in rng.normal(size=shape).ravel().round(3))}}}"
        for name, shape in {"wq": (8, 8), "w1": (8, 8), "w2": (8, 8), "gamma": (8,), "beta": (8,)}.items())))
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    np.savez(os.path.join(folder, "inputs.npz"), x=rng.normal(size=(3, 5, 8)).astype(np.float32))
    return folder


def check(tempoc, tempo_run, folder, recipe):
    """What is wrong, or None, and a note."""
    out, report = path("out.onnx"), path("report.json")
    run(tempoc, os.path.join(folder, "model.onnx"), "-o", out, f"--recipe={recipe}", f"--report={report}", "-q",
        *dims_of(folder))
    r = json.load(open(report))
    memory = run(tempo_run, out, "--inputs", os.path.join(folder, "inputs.npz"), "--memory").out
    held = int(re.search(r"(\d+) .* saved: held", memory).group(1))
    listed = {s["name"]: s["bytes"] for s in r["saved"]["after"]}
    told, walked = r["saved_bytes"]["after"], walk(out)
    if listed != walked:
        return f"the report and the graph differ in {sorted(set(listed.items()) ^ set(walked.items()))[:4]}"
    if not told == held == sum(listed.values()) == sum(layer["after"] for layer in r["layers"]):
        layers = [layer["after"] for layer in r["layers"]]
        return f"report {told}, arena {held}, list {sum(listed.values())}, layers {layers}"
    before = r["saved_bytes"]["before"]
    if before != sum(layer["before"] for layer in r["layers"]) or not 0 < told <= before:
        return f"before {r['saved_bytes']}"
    reasons = all(s["why"] and s["producer"] for s in r["saved"]["after"])
    if r["peak_bytes"]["after"] < told or len(r["trained"]) == 0 or not reasons:
        return "peak, trained or reasons"
    return None, f"{len(listed)} tensors, {told} bytes; {r['saved_bytes']['before']} before"


def main():
    tempoc, tempo_run, *folders = sys.argv[1:]
    with tempfile.TemporaryDirectory() as made:  # path() is for each case alone
        for folder in [*folders, dropout_case(os.path.join(made, "dropout"))]:
            for recipe in recipes(tempoc):
                case(f"{os.path.basename(os.path.normpath(folder))} {recipe}", check, tempoc, tempo_run, folder, recipe)
    finish()


if __name__ == "__main__":
    main()
