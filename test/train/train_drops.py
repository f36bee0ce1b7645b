"""train_drops.py TOOL TEMPOC MODELS: --restore-dropout. PyTorch's training exports whose Dropouts are taken out, as the
exporter does it for inference, train with it as the exports themselves do: the same losses, bit by bit, so that places,
ratios and masks are the same. Dropouts that a file still has are switched on; what no architecture shows is refused.
"""
import os
import sys

import onnx
import train_tool as t
from onnx import helper, numpy_helper

MODELS = {"train-gpt2": "2 attention probabilities, 4 products before a residual sum, 1 embeddings",
          "train-minilm": "2 attention probabilities, 4 products before a residual sum, 1 embeddings, 1 inputs of",
          "train-vit": "2 attention probabilities, 4 products before a residual sum, 1 embeddings"}
ON = "--restore-dropout=0.1"


def losses(*args, **how):
    t.run(*args, "--steps=6", "--batch=8", "--log", t.path("log.jsonl"), **how)
    return t.losses("log.jsonl")


def check_exports(models):
    for name, says in MODELS.items():
        model = onnx.load(os.path.join(models, name, "model.onnx"))
        graph, data = model.graph, ["--data", os.path.join(models, name, "data.npz"), "--loss=loss"]
        scores = next(n for n in graph.node if n.op_type == "SoftmaxCrossEntropyLoss").input[0]
        graph.output.append(helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, None))
        onnx.save(model, t.path("train.onnx"))
        dropped = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Dropout"}
        kept = [n for n in graph.node if n.op_type != "Dropout"]
        for node in kept:
            node.input[:] = [dropped.get(value, value) for value in node.input]
        del graph.node[:]
        graph.node.extend(kept)
        onnx.save(model, t.path("infer.onnx"))
        want, off = losses(t.path("train.onnx"), *data), losses(t.path("infer.onnx"), *data)
        got = losses(t.path("infer.onnx"), *data, ON, says=["with ratio 0.1 drop", says])
        t.check(got == want != off, f"{name}: losses {got}, {want} expected")


TEXT = """<ir_version: 8, opset_import: ["" : %d]>
g (float[batch,3] x) => (float[batch,3] y)
<float[3,3] "head.1.weight" = {1, 2, 3, 4, 5, 6, 7, 8, 10}, float[3,3] v = {1, 2, 3, 4, 5, 6, 7, 8, 10},
 float[3] b = {1, 2, 3}> {
    %s
    y = MatMul (d, "head.1.weight")
}
"""


def check_small():
    """Opset, nodes, flags, exit code, and what is said."""
    drop, none = "d = Dropout (h)", "the file has no Dropout"
    attention = "q = MatMul (x, v)\nt = Transpose (q)\ns = MatMul (q, t)\np = Softmax (s)\na = MatMul (p, q)\n"
    added = attention + "o = MatMul (a, v)\nu = Add (o, b)\n"
    for opset, nodes, flag, code, says in (
            (17, "h = Relu (x)\n" + drop, ON, 0, "1 Dropouts of the file drop again"),
            (17, "h = Relu (x)\n" + drop, "--restore-dropout=file", 0, "1 Dropouts of the file drop again"),
            (9, "h = Relu (x)\nd = Dropout <ratio = 0.25> (h)", "--restore-dropout=file", 0, "1 Dropouts of the file"),
            (17, "d = Relu (x)", "--restore-dropout=file", 3, none + " ["),
            (17, attention + "d = Identity (a)", "--restore-dropout=file", 3, none + " ["),
            (17, "d = Flatten (x)", ON, 0, "1 inputs of classifiers"),  # head.0, which has no weight
            (17, '["/head/head.0/Flatten"] d = Flatten (x)', ON, 3, "no place is known"),
            (17, "d = Relu (x)", ON, 3, "no place is known"),
            (17, added + "d = Add (u, x)", ON, 0, "1 attention probabilities, 1 inputs"),  # x is no stream: an input
            (17, "z = Relu (x)\n" + added.replace("(x", "(z") + "d = Add (u, z)", ON, 0,
             "1 attention probabilities, 1 products before a residual sum, 1 embeddings"),
            (17, "z = Relu (x)\n" + added.replace("(x", "(z") + "d = Add (o, z)", ON, 0, "1 attention prob"),
            (17, "z = Relu (x)\no = MatMul (z, v)\nu = Add (o, b)\nd = Add (u, z)", ON, 0, "known: 1 inputs"),
            (17, "d = Flatten (x)", "--quiet", 0, "the file has no Dropout; models of its architecture drop 1 inputs"),
            (17, "h = Relu (x)\n" + drop, "--quiet", 0, "1 Dropouts of the file drop nothing"),
            (17, "d = Relu (x)", "--restore-dropout=1", 64, "'1' is no ratio between 0 and 1"),
            (17, "d = Relu (x)", "--restore-dropout=half", 64, "'half' is no ratio between 0 and 1")):
        t.write(t.path("m.onnxt"), TEXT % (opset, nodes))
        t.told(sys.argv[2], t.path("m.onnxt"), "-q", "--add-loss=cross-entropy", flag, "-o", t.path("o.onnx"),
               code=code, says=[says])
    t.told(sys.argv[2], t.path("m.onnxt"), "--recipe=forward", ON, code=64, says=["needs the pass 'drops'"])


def main():
    check_exports(sys.argv[3])
    check_small()
    t.write(t.path("m.onnxt"), TEXT % (9, "h = Relu (x)\nd = Dropout <ratio = 0.25> (h)"))
    for flag, want in (("--restore-dropout=file", 0.25), (ON, 0.1)):
        t.told(sys.argv[2], t.path("m.onnxt"), "-q", "--add-loss=cross-entropy", flag, "--recipe=none", "-o",
               t.path("o.onnx"))
        made = onnx.load(t.path("o.onnx")).graph
        node = next(n for n in made.node if n.op_type.startswith("Dropout"))
        ratio = next(float(numpy_helper.to_array(i)) for i in made.initializer if i.name == node.input[1])
        t.check(abs(ratio - want) < 1e-7, f"{flag}: ratio {ratio}")
    t.finish()


if __name__ == "__main__":
    main()
