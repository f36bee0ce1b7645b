"""train_head.py TOOL TEMPOC: --head gives a classifier other classes. The new weight and bias are uniform up to 1 /
sqrt(inputs) and not correlated, by seed; all else of the file stays; training begins with a loss near log(classes), and
--save writes the file as it was, with the new sizes, from which ONNX Runtime computes the loss that evaluation had.
What is no classifier is refused in one line.
"""
import sys

import numpy as np
import onnx
import train_tool as t
from compare import by_onnxruntime
from onnx import TensorProto, helper, numpy_helper

IN, OLD, NEW, N = 400, 5, 30, 60
CLASSES = {  # nodes, weights, the logits that they make of x [batch, IN]
    "Gemm": ([("Gemm", ["x", "w", "b"], "y", {"transB": 1})], {"w": (OLD, IN), "b": (OLD,)}),
    "Gemm, turned, sizes": ([("Gemm", ["x", "w", "b"], "h", {}), ("Reshape", ["h", "shape"], "y", {})],
                            {"w": (IN, OLD), "b": (OLD,), "shape": [-1, OLD]}),
    "MatMul": ([("MatMul", ["x", "w"], "h", {}), ("Add", ["b", "h"], "y", {})], {"w": (IN, OLD), "b": (1, OLD)}),
    "Transpose": ([("Transpose", ["w"], "wt", {"perm": [1, 0]}), ("MatMul", ["x", "wt"], "h", {}),
                   ("Identity", ["zeros"], "b", {}), ("Add", ["h", "b"], "y", {})], {"w": (OLD, IN), "zeros": (OLD,)}),
    "Conv": ([("Unsqueeze", ["x", "axes"], "i", {}), ("Conv", ["i", "w", "b"], "c", {}), ("Relu", ["c"], "r", {}),
              ("GlobalAveragePool", ["r"], "p", {}), ("Flatten", ["p"], "y", {})],
             {"w": (OLD, IN, 1, 1), "b": (OLD,), "axes": [2, 3]}),
}


# Passes part the two parameters that the file stores once; --save writes the graph of the evaluation then.
PARTED = ([("Gemm", ["x", "v", "b0"], "h", {"transB": 1}), ("Relu", ["h"], "r", {}), ("Identity", ["b0"], "b1", {}),
           ("Add", ["r", "b1"], "s", {}),
           ("Gemm", ["s", "w", "b"], "y", {"transB": 1})],
          {"v": (IN, IN), "b0": (IN,), "w": (OLD, IN), "b": (OLD,)})


def save(nodes, weights, outputs=("y",), opset=17):
    draw, made = np.random.default_rng(3), {}
    for name, shape in weights.items():
        made[name] = (np.array(shape, np.int64) if isinstance(shape, list) else
                      draw.standard_normal(shape).astype(np.float32))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [out], name=f"Identity_{i}" if op == "Identity" else f"/m/n{i}/{op}",
                          **attributes)
         for i, (op, inputs, out, attributes) in enumerate(nodes)], "g", [info("x", TensorProto.FLOAT, ["batch", IN])],
        [info(name, TensorProto.FLOAT, ["batch", OLD if name == "y" else None]) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in made.items()])
    onnx.save(helper.make_model(graph, ir_version=8, producer_name="pytorch",
                                opset_imports=[helper.make_opsetid("", opset)]), t.path("m.onnx"))
    return made


def weights_of(name):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(t.path(name)).graph.initializer}


def begun(seed, name):
    t.told(sys.argv[2], t.path("m.onnx"), "-q", "--recipe=forward", f"--head={NEW}", "--seed", seed, "-o", t.path(name))
    return weights_of(name)


def check_begin(what, old):
    """12000 numbers, uniform: the mean of their squares is bound ** 2 / 3; limits of five standard deviations."""
    one, same, other = begun(1, "1.onnx"), begun(1, "2.onnx"), begun(2, "3.onnx")
    bias = next(name for name in one if name.startswith("b") and one[name].size == NEW)
    w, v, bound = one["w"].astype(np.float64), other["w"].astype(np.float64), IN ** -0.5
    t.check(w.size == IN * NEW and sum(n != o for n, o in zip(w.shape, old["w"].shape)) == 1, f"{what}: {w.shape}")
    for x in w, one[bias]:
        t.check(-bound <= x.min() < -0.5 * bound and 0.5 * bound < x.max() < bound, f"{what}: not up to {bound}")
    t.check(abs(np.mean(w ** 2) / bound ** 2 - 1 / 3) < 5 * (4 / 45 / w.size) ** 0.5, f"{what}: not uniform")
    t.check(abs(np.mean(w * v) / bound ** 2) < 5 / 3 / w.size ** 0.5, f"{what}: seeds give like weights")
    t.check(all(np.array_equal(one[name], same[name]) for name in one), f"{what}: a seed gives two weights")


def check_trained(what, x, labels, same=True):
    """Without shuffling or a rate, the weights of --save are those that training began with."""
    np.savez(t.path("d.npz"), x=x, labels=labels)
    for rate, limit in ((0, 0.3), (0.01, 1e9)):
        t.run(t.path("m.onnx"), "--data", t.path("d.npz"), "--eval-data", t.path("d.npz"), "--batch=20", "--epochs=3",
              "--lr", rate, "--add-loss=cross-entropy", f"--head={NEW}", "--save", t.path("saved.onnx"), "--log",
              t.path("log.jsonl"), says=[f"--head: 'w' is new, and random: {NEW} classes in 'y' for {OLD}"])
        loss = t.records("log.jsonl")[1][-1]["loss"]
        t.check(abs(loss - np.log(NEW)) < limit or not same, f"{what}: a loss of {loss} at the beginning")
    saved, read = onnx.load(t.path("saved.onnx")), onnx.load(t.path("m.onnx"))
    onnx.checker.check_model(saved, full_check=True)
    t.check([n.op_type for n in saved.graph.node] == [n.op_type for n in read.graph.node] or not same,
            f"{what}: --save wrote another graph")
    t.check([i.name for i in saved.graph.input] == ["x"] and len(saved.graph.output) == 1, f"{what}: other inputs")
    scores = by_onnxruntime(saved, {"x": x})["y"].astype(np.float64)
    t.check(scores.shape == (N, NEW), f"{what}: scores {scores.shape}")
    scores -= scores.max(1, keepdims=True)
    want = np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(N), labels])
    t.close(loss, want, f"{what}: evaluation", t.tolerances.EVALUATED)


def check_refusals():
    kinds = ([("Gather", ["table", "ids"], "e", {}), *CLASSES["Gemm"][0]],
             {**CLASSES["Gemm"][1], "table": (OLD, IN), "ids": [0]})
    table = ([("Cast", ["x"], "ids", {"to": 7}), *kinds[0]], {**CLASSES["Gemm"][1], "table": (OLD, IN)})
    larger = ([("Gather", ["words", "ids"], "f", {}), *table[0][1:]], {**table[1], "words": (OLD + 1, IN)})
    twice = ([*CLASSES["Gemm"][0], ("Gemm", ["x", "w", "b"], "z", {"transB": 1})], CLASSES["Gemm"][1])
    soft = ([*CLASSES["Gemm"][0], ("Softmax", ["y"], "p", {})], CLASSES["Gemm"][1])
    both = ([*CLASSES["Gemm"][0], ("Gemm", ["x", "w2"], "z", {})], {**CLASSES["Gemm"][1], "w2": (IN, OLD)})
    part = ([*CLASSES["Gemm"][0], ("Gather", ["y", "ids"], "z", {"axis": 1})], {**CLASSES["Gemm"][1], "ids": [0, 1]})
    for (nodes, weights), outputs, head, code, says in (
            (table, ("y",), "7", 3, "scores of the rows of the embedding 'table'"),
            (twice, ("y",), "7", 3, "'w', the weight of 'y', has another use"),
            (soft, ("p",), "7", 3, "no output is logits: the op Softmax makes the last one"),
            (both, ("y", "z"), "7", 64, "2 outputs could be meant: y, z"),
            (both, ("y", "z"), "7:q", 64, "no output of floats named 'q'"),
            (both, ("y", "z"), "0:y", 64, "'0:y' is no number of classes"),
            (both, ("y", "z"), "7:", 64, "'7:' is no number of classes"),
            (part, ("z",), "7", 3, "'z' would be float[batch,2], not scores of 7 classes")):
        save(nodes, weights, outputs)
        done = t.told(sys.argv[2], t.path("m.onnx"), "-q", "--recipe=forward", f"--head={head}", code=code)
        t.check(says in done and len(done.strip().splitlines()) == 1, f"--head={head}: {done}")
    for nodes, weights in (kinds, ([table[0][0], *larger[0]], larger[1])):  # of kinds of tokens: it has no vocabulary
        save(nodes, weights)
        t.told(sys.argv[2], t.path("m.onnx"), "-q", "--recipe=forward", "--head=7", "-o", t.path("z.onnx"))
    save(*both, ("y", "z"))
    t.told(sys.argv[2], t.path("m.onnx"), "-q", "--recipe=forward", "--head=7:z", "-o", t.path("z.onnx"))
    t.check(weights_of("z.onnx")["w2"].shape == (IN, 7), "--head=7:z changes another weight")


def main():
    draw = np.random.default_rng(5)
    x, labels = draw.standard_normal((N, IN)).astype(np.float32), draw.integers(0, NEW, N)
    for what, (nodes, weights) in CLASSES.items():
        old = save(nodes, weights)
        check_begin(what, old)
        check_trained(what, x, labels)
    save(*PARTED)
    check_trained("a file with one initializer for two parameters", x, labels, same=False)
    check_refusals()
    t.finish()


if __name__ == "__main__":
    main()
