#!/usr/bin/env python3
"""What tempo-train writes of trained weights: ONNX Runtime runs the saved model and gives the scores that were told,
and the weights are PyTorch's by name and layout.

usage: train_saved.py TEMPO_TRAIN MODELS TEMPOC
The names come from bert-ts_14, which has the weights of bert-dyn_18 under PyTorch's names, as they are.
"""
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import train_tool as t

MODELS = sys.argv[2]


def batches(name, n, seed=3):
    """n batches of a model's kind: its own one, with other integers of the same range."""
    with np.load(os.path.join(MODELS, name, "inputs.npz")) as file:
        own = dict(file)
    draw = np.random.default_rng(seed)
    made = {}
    for key, array in own.items():
        if array.dtype.kind in "iu" and "mask" not in key:
            made[key] = draw.integers(1, array.max() + 1, (n * len(array), *array.shape[1:])).astype(array.dtype)
        elif array.dtype.kind == "f":
            made[key] = draw.standard_normal((n * len(array), *array.shape[1:])).astype(array.dtype)
        else:
            made[key] = np.concatenate([array] * n)
    return made, len(next(iter(own.values())))


def scores(path, data, size):
    """Mean of the loss by ONNX Runtime."""
    made, samples = t.session(path), len(next(iter(data.values())))
    return np.mean([float(t.by_onnxruntime(made, {name: a[at:at + size] for name, a in data.items()})["loss"])
                    for at in range(0, samples, size)])


def saved(name, notes=(), flags=()):
    """Trains, saves and asks ONNX Runtime."""
    held, size = batches(name, 3, seed=9)
    np.savez(t.path("train.npz"), **batches(name, 4)[0])
    np.savez(t.path("eval.npz"), **held)
    model, out = os.path.join(MODELS, name, "model.onnx"), t.path(f"{name}.onnx")
    said = t.run(model, "--data", t.path("train.npz"), "--eval-data", t.path("eval.npz"), "--lr=3e-3", "--epochs=2",
                 "--save", out, "--save-weights", t.path(f"{name}.safetensors"), "--log", t.path("log.jsonl"),
                 *flags, says=notes)
    updates, evaluations = t.records("log.jsonl")
    t.close(scores(out, held, size), evaluations[-1]["loss"], f"{name}: the loss of the saved model",
            t.tolerances.SAVED_SCORE)
    t.check(evaluations[-1]["loss"] != evaluations[0]["loss"], f"{name}: nothing was learned")
    before, after = onnx.load(model), onnx.load(out)
    onnx.checker.check_model(after)
    if not notes:  # the file as it was, but for weights
        for graph in (before.graph, after.graph):
            for tensor in graph.initializer:
                for field in ("raw_data", "float_data", "int32_data", "int64_data"):
                    tensor.ClearField(field)
        t.check(before == after, f"{name}: more than weights has changed")
    return said, updates


def prediction(text, feeds, want, notes=(), taken=("x",), name="model.onnxt"):
    """With the weights of the file, ONNX Runtime predicts from the inputs `taken` what numpy does."""
    t.write(t.path("model.onnxt"), text)
    if name == "compiled.onnx":
        t.told(sys.argv[3], t.path("model.onnxt"), "-q", "-o", t.path(name), "--loss=loss")
    out = t.path("predicts.onnx")
    t.run(t.path(name), "--data", t.path("train.npz"), "--loss=loss", "--lr=0", "--save-inference", out, says=notes)
    graph = onnx.load(out).graph
    t.check([i.name for i in graph.input] == list(taken), f"inputs: {[i.name for i in graph.input]}")
    t.check([o.name for o in graph.output] == ["scores"], f"outputs: {[o.name for o in graph.output]}")
    got = t.by_onnxruntime(t.session(out), {name: feeds[name] for name in taken})["scores"]
    t.close(got, want, f"predictions, {notes}", t.tolerances.SAVED_SCORE)


def predictions():
    """--save-inference of files with a loss, its labels, an accuracy and dropout."""
    t.data("train.npz", 8)
    feeds, w = t.samples(6, seed=5), t.initial()
    want = np.tanh(feeds["x"] @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]
    text = t.text_of(t.classifier("model.onnxt", dropout=0.5, extra=", float[batch,3] scores"))
    prediction(text, feeds, want)
    prediction(text, feeds, want, notes=["the forward graph alone"], name="compiled.onnx")
    inner = text.replace("h2 = Dropout <seed = 3>", "h2 = own.drop").replace('"" : 21', '"" : 21, "own" : 1')
    prediction(inner + """<domain: "own", opset_import: ["" : 21]>
drop (x, ratio, training) => (y) { yes = Identity (training) y = Dropout (x, ratio, yes) }""", feeds, want)
    reads = text.replace("s0 = MatMul", """row = Cast <to = 1> (labels)
    first = Constant <value_ints = [1]> ()
    column = Unsqueeze (row, first)
    s1 = MatMul""").replace("scores =", "s0 = Add (s1, column)\n    scores =")
    prediction(reads, feeds, want + feeds["labels"][:, None], taken=("x", "labels"))
    sizes = text.replace("s0 = MatMul (h2, W2)", """size = Shape <start = 0, end = 1> (labels)
    ones = Expand (unit, size)
    last = Constant <value_ints = [1]> ()
    column = Unsqueeze (ones, last)
    s1 = MatMul (h2, W2)
    s0 = Mul (s1, column)
    """).replace("    ratio =", "    unit = Constant <value_floats = [1.0]> ()\n    ratio =")
    prediction(sizes, feeds, want)
    old = text.replace("21]", "13]").replace("h1 = Tanh (h1a)", """one = Constant <value_floats = [%s]> ()
    zero = Constant <value_floats = [%s]> ()
    h1t = Tanh (h1a)
    h1, mean, var, saved_mean, saved_var = BatchNormalization <epsilon = 0.0> (h1t, one, zero, zero, one)""" %
                       (", ".join(["1.0"] * 7), ", ".join(["0.0"] * 7)))
    prediction(old.replace("one = Cast", "ones = Cast").replace("(one)", "(ones)"), feeds, want,
               notes=["which has no mode for inference"])
    bare = text.split("    loss =")[0].replace("(h1, ratio, training)", "(h1, ratio)") + "}\n"
    bare = bare.replace(", int64[batch] labels", "").replace("float loss, float accuracy, ", "")
    t.run(t.write(t.path("bare.onnxt"), bare), "--data", t.path("train.npz"), "--add-loss=cross-entropy",
          "--save", t.path("file.onnx"), "--save-inference", t.path("same.onnx"))
    t.check(t.bytes_of(t.path("file.onnx")) == t.bytes_of(t.path("same.onnx")), "more than weights changed")
    t.classifier("alone.onnxt", dropout=0.5)
    t.run(t.path("alone.onnxt"), "--data", t.path("train.npz"), "--loss=loss", "--save-inference", t.path("p.onnx"),
          code=64, says=["predicts nothing: beside the loss 'loss' it has no output", "logits"])
    t.check(not os.path.exists(t.path("p.onnx")), "written all the same")


def predictions_of_pytorch():
    """After an update without a change of weights: those of a module that went through one batch in training mode."""
    folder, out = os.path.join(MODELS, "predicting-call_18"), t.path("predicts.onnx")
    t.run(os.path.join(folder, "model.onnx"), "--data", os.path.join(folder, "inputs.npz"), "--batch=5", "--lr=0",
          "--save-inference", out)
    with np.load(os.path.join(folder, "inputs.npz")) as file, np.load(os.path.join(folder, "expected.npz")) as expected:
        t.close(t.by_onnxruntime(t.session(out), {"ids": file["ids"]})["logits"], expected["logits"],
                "logits of PyTorch", t.tolerances.SAVED_SCORE)


def weights_by_name():
    """Without a change, weights by PyTorch's names are PyTorch's; with one, those of the saved model."""
    model = os.path.join(MODELS, "bert-dyn_18", "model.onnx")
    np.savez(t.path("train.npz"), **batches("bert-dyn_18", 1)[0])
    t.run(model, "--data", t.path("train.npz"), "--lr=0", "--save-weights", t.path("still.safetensors"),
          says=["position_embeddings.weight"])  # of which the file has some rows
    found = t.safetensors(t.path("still.safetensors"))
    want = {w.name: numpy_helper.to_array(w) for w in
            onnx.load(os.path.join(MODELS, "bert-ts_14", "model.onnx")).graph.initializer}
    want = {name: w for name, w in want.items() if name.startswith("m.") and "position_embeddings" not in name}
    t.check(len(want) > 30 and want.keys() <= found.keys(), f"missed: {sorted(want.keys() - found.keys())}")
    for name in found.keys() & want.keys():
        t.check(np.array_equal(found[name], want[name]), f"{name} is not PyTorch's")


def older_exporter():
    """A file whose transposes are folded as PyTorch's older exporter does it: names made up, nodes called by
    modules."""
    name = os.path.join(MODELS, "bert-ts_14", "model.onnx")
    model = onnx.load(name)
    want = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    folded = 0
    for node in [n for n in model.graph.node if n.op_type == "Transpose" and n.input[0] in want]:
        fresh = f"onnx::MatMul_{100 + folded}"
        model.graph.initializer.append(numpy_helper.from_array(want[node.input[0]].T.copy(), fresh))
        for reader in model.graph.node:
            reader.input[:] = [fresh if i == node.output[0] else i for i in reader.input]
        model.graph.node.remove(node)
        folded += 1
    read = {i for n in model.graph.node for i in n.input}
    for tensor in [w for w in model.graph.initializer if w.name not in read]:
        model.graph.initializer.remove(tensor)
    t.check(folded >= 12, f"{folded} transposes were folded")
    onnx.save(model, t.path("folded.onnx"))
    np.savez(t.path("train.npz"), **batches("bert-ts_14", 1)[0])
    t.run(t.path("folded.onnx"), "--data", t.path("train.npz"), "--lr=0", "--save-weights", t.path("f.safetensors"))
    found = t.safetensors(t.path("f.safetensors"))
    trained = {key for key in want if key.startswith("m.")}
    t.check(trained <= found.keys(), f"missed: {sorted(trained - found.keys())}")
    for key in trained & found.keys():
        t.check(np.array_equal(found[key], want[key]), f"{key} is not PyTorch's")


def main():
    t.classifier("model.onnxt")
    for name in ("bert-dyn_18", "bert-ts_14", "gpt2-dyn_21", "llama-dyn_21"):
        saved(name)
    # Weights that the file has as a part of another, or several times.
    for name in ("alberttied-dyn_21", "vit-dyn_18", "t5-dyn_18"):
        saved(name, notes=["in standard ops"])
    predictions()
    predictions_of_pytorch()
    weights_by_name()
    older_exporter()
    t.finish()


if __name__ == "__main__":
    main()
