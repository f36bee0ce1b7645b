#!/usr/bin/env python3
"""--add-loss. Exports whose loss was cut off: with it back, loss and gradients are PyTorch's. Each kind's value is that
of numpy, and of the graphs that onnxruntime.training's artifacts make (onnxblock), run by ONNX Runtime. tempo-train
trains and judges by it, over batches that ignore labels, and saves the file without it.

usage: check_add_loss.py TEMPOC TEMPO_RUN TEMPO_TRAIN MODELS
"""
import os
import sys
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compare import by_onnxruntime, load, near, worst
from programs import case, check, finish, path, run
from tolerances import GRADIENT, LOSS, SAVED_SCORE

TEMPOC, TEMPO_RUN, TEMPO_TRAIN, MODELS = sys.argv[1:]
VALUE = LOSS["float32"]
DRAW = np.random.default_rng(1)


def inference_file(name):
    """The model without loss and labels: logits are its output, as they are before the view of rows."""
    model = onnx.load(os.path.join(MODELS, name, "model.onnx"))
    graph, makers = model.graph, {out: node for node in model.graph.node for out in node.output}
    loss = makers[graph.output[0].name]
    view = makers[loss.input[0]]
    logits = view.input[0] if view.op_type == "Reshape" else loss.input[0]
    graph.node.remove(loss)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(logits, onnx.TensorProto.FLOAT, None))
    needed = set()
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output) and logits not in node.output:
            graph.node.remove(node)
        needed.update(node.input if node in graph.node else ())
    graph.input.remove(next(i for i in graph.input if i.name == "labels"))
    onnx.save(model, path("model.onnx"))
    return path("model.onnx")


def exported(name, *flags):
    want, got = load(os.path.join(MODELS, name, "expected.npz")), path("got.npz")
    model = inference_file(name)
    run(TEMPOC, model, "-o", path("out.onnx"), "--add-loss=cross-entropy", *flags)
    run(TEMPO_RUN, path("out.onnx"), "--inputs", os.path.join(MODELS, name, "inputs.npz"), "--outputs", got)
    found = load(got)
    error, at = worst(found, want)
    shown = len([o for o in found if not o.endswith("_grad")])
    if shown != (1 if "--recipe=chunked" in flags else 2):
        return f"{shown} outputs beside the gradients"
    return f"{at} is off by {error:.1e}" if not error <= GRADIENT else (None, f"{error:.1e}")


# --- values -----------------------------------------------------------------------------------------------------------


def identity(shape, dtype=onnx.TensorProto.FLOAT):
    """A file whose output `logits` is its input x, times a weight of one."""
    one = numpy_helper.from_array(np.ones(1, helper.tensor_dtype_to_np_dtype(dtype)), "w")
    sizes = ["batch", *shape[1:]]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["logits"])], "g",
                              [helper.make_tensor_value_info("x", dtype, sizes)],
                              [helper.make_tensor_value_info("logits", dtype, sizes)], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path("model.onnx"))
    return path("model.onnx")


def loss_of(kind, feeds, dtype=onnx.TensorProto.FLOAT):
    np.savez(path("in.npz"), **feeds)
    run(TEMPOC, identity(feeds["x"].shape, dtype), "-o", path("out.onnx"), f"--add-loss={kind}", "--train=w")
    run(TEMPO_RUN, path("out.onnx"), "--inputs", path("in.npz"), "--outputs", path("got.npz"))
    return load(path("got.npz"))["loss"]


def by_numpy(scores, labels, axis, ignore=-100, smoothing=0.0):
    """torch.nn.functional.cross_entropy, in double."""
    rows = np.moveaxis(scores.astype(np.float64), axis, -1).reshape(-1, scores.shape[axis])
    labels = labels.reshape(-1)
    logs = rows - np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) - rows.max(1, keepdims=True)
    kept = labels != ignore
    picked = logs[np.arange(len(rows)), np.where(kept, labels, 0)]
    return -(np.where(kept, (1 - smoothing) * picked + smoothing * logs.mean(1), 0).sum() / kept.sum())


def labels_of(shape, axis, classes, ignore=-100):
    made = DRAW.integers(0, classes, [n for i, n in enumerate(shape) if i != axis % len(shape)])
    made.flat[2] = ignore
    return made


def cross_entropy(kind, shape, axis, **how):
    x = DRAW.standard_normal(shape).astype(np.float32) * 3
    labels = labels_of(shape, axis, shape[axis], how.get("ignore", -100))
    got, want = loss_of(kind, {"x": x, "labels": labels}), by_numpy(x, labels, axis, **how)
    return None if near(got, want, VALUE) else f"{got}, expected {want}"


def next_token():
    x, labels = DRAW.standard_normal((2, 6, 5)).astype(np.float32), labels_of((2, 6, 5), 2, 5)
    got, want = loss_of("next-token", {"x": x, "labels": labels}), by_numpy(x[:, :-1], labels[:, 1:], 2)
    return None if near(got, want, VALUE) else f"{got}, expected {want}"


def in_half():
    x, labels = DRAW.standard_normal((4, 5)).astype(np.float16), labels_of((4, 5), 1, 5)
    got = loss_of("cross-entropy", {"x": x, "labels": labels}, onnx.TensorProto.FLOAT16)
    return None if got.dtype == np.float32 and near(got, by_numpy(x, labels, 1), VALUE) else f"{got.dtype} {got}"


# What onnxblock builds of scores x: nodes, and the name of ONNX Runtime's input.
ARTIFACTS = {
    "MSELoss": ("target", "d = Sub(x, target) s = Pow(d, two) loss = ReduceMean<keepdims = 0>(s)"),
    "L1Loss": ("target", "d = Sub(x, target) s = Abs(d) loss = ReduceMean<keepdims = 0>(s)"),
    "BCEWithLogitsLoss": ("target", "p = Sigmoid(x) l = Log(p) a = Mul(l, target) q = Sub(one, p) m = Log(q) "
                          "r = Sub(one, target) b = Mul(r, m) c = Add(a, b) n = Neg(c) "
                          "loss = ReduceMean<keepdims = 0>(n)"),
    "CrossEntropyLoss": ("labels", "loss = SoftmaxCrossEntropyLoss<reduction = \"mean\">(x, labels)"),
}


def artifact(kind):
    name, nodes = ARTIFACTS[kind]
    x = DRAW.standard_normal((6, 5)).astype(np.float32)
    given = DRAW.integers(0, 5, 6) if name == "labels" else DRAW.random((6, 5)).astype(np.float32)
    kind_of = "int64[6]" if name == "labels" else "float[6,5]"
    text = (f'<ir_version: 9, opset_import: ["" : 17]> m (float[6,5] x, {kind_of} {name}) => (float loss) '
            f'<float one = {{1}}, float two = {{2}}> {{ {nodes} }}')
    want = by_onnxruntime(onnx.parser.parse_model(text), {"x": x, name: given})["loss"]
    got = loss_of(kind, {"x": x, name: given})
    return None if near(got, want, VALUE) else f"{got}, expected {want}"


def stable():
    """Where sigmoid and its logarithm overflow."""
    x, target = np.array([[-200, 200, -90, 90]], np.float32), np.array([[0, 1, 1, 0]], np.float32)
    return None if near(loss_of("bce", {"x": x, "target": target}), 45.0, VALUE) else "not stable"


# --- training ---------------------------------------------------------------------------------------------------------


def trained(samples, *flags):
    """Of a classifier whose labels are ignored here and there: the loss of the evaluation is the mean over those that
    count, of all batches; the saved file is the one that was read, and ONNX Runtime scores it alike."""
    w = [numpy_helper.from_array(DRAW.standard_normal(s).astype(np.float32) / 4, n)
         for n, s in (("w1", (7, 16)), ("b1", (16,)), ("w2", (16, 5)))]
    nodes = [("Gemm", ["x", "w1", "b1"], ["h"]), ("Relu", ["h"], ["r"]), ("MatMul", ["r", "w2"], ["logits"])]
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g",
                              [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 7])],
                              [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", 5])], w)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path("model.onnx"))
    data = {"x": DRAW.standard_normal((samples, 7)).astype(np.float32), "labels": DRAW.integers(0, 5, samples)}
    data["labels"][DRAW.random(samples) < 0.4] = -100
    np.savez(path("data.npz"), **data)
    said = run(TEMPO_TRAIN, path("model.onnx"), "--add-loss=cross-entropy", "--data", path("data.npz"), "--eval-data",
               path("data.npz"), "--batch=8", "--epochs=2", "--lr=0.02", "--save", path("saved.onnx"), *flags).text
    saved = onnx.load(path("saved.onnx"))
    want = by_numpy(by_onnxruntime(saved, data)["logits"], data["labels"], 1)
    told = [float(line.split("loss ")[1].split()[0]) for line in said.splitlines() if line.startswith("eval")]
    check(near(told[-1], want, SAVED_SCORE), f"evaluation told {told[-1]}, ONNX Runtime {want}")
    check(told[-1] < told[0], "nothing was learned")
    for tensor, old in zip(saved.graph.initializer, model.graph.initializer):
        check(tensor.raw_data != old.raw_data, f"{tensor.name} was not trained")
        tensor.raw_data = old.raw_data
    return None if saved == model else "more than weights has changed in the saved file"


def main():
    for name in ("gpt2-dyn_21", "llama-dyn_21", "bertcls-dyn_21", "vit-dyn_18", "bert-dyn_18", "t5-dyn_18"):
        case(name, exported, name)
    for name in ("gpt2-dyn_21", "llama-dyn_21", "bert-dyn_18"):
        case(f"{name} chunked", exported, name, "--recipe=chunked")
    for kind, shape, axis, how in (("cross-entropy", (4, 5), 1, {}), ("cross-entropy", (2, 3, 5), 2, {}),
                                   ("cross-entropy,axis=1", (2, 5, 3), 1, {}), ("cross-entropy", (2, 5, 3, 2), 1, {}),
                                   ("cross-entropy,axis=2", (2, 3, 5, 2), 2, {}),
                                   ("cross-entropy,ignore=0", (2, 3, 5), 2, {"ignore": 0}),
                                   ("cross-entropy,smoothing=0.2", (2, 3, 5), 2, {"smoothing": 0.2})):
        case(f"{kind} of {shape}", partial(cross_entropy, **how), kind, shape, axis)
    for name in ARTIFACTS:
        case(f"ONNX Runtime's {name}", artifact, name)
    for function in (next_token, in_half, stable):
        case(function.__name__, function)
    for samples, *flags in ((50,), (50, "--accumulate=3"), (50, "--recipe=chunked"), (50, "--precision=bf16"),
                            (48, "--memory-budget=min")):
        case(f"trained {' '.join(flags)}", trained, samples, *flags)
    finish()


if __name__ == "__main__":
    main()
