#!/usr/bin/env python3
"""Writes text with what tempo-train made of a GPT-2 of characters (models/train-gpt2, train_export.py gpt2).

usage: train_write.py MODEL.onnx [--start TEXT] [--length N] [--temperature T] [--seed N] [--width N]
       train_write.py MODEL.onnx --without-dropout OUT.onnx
MODEL.onnx        the file of `tempo-train --save`: standard ops, run here by ONNX Runtime, its dropout off
--start TEXT      what the text begins with, ASCII (default: "And God said")
--length N        characters at least; the text ends at the next full stop, or after as many again (default: 200)
--temperature T   scores are divided by T before one is drawn: 0 takes the likeliest (default: 0.5)
--seed N          of the draw (default: 1)
--width N         columns of a line (default: 100)
--without-dropout OUT.onnx   writes no text, but the model that drops nothing, to be trained like that
The model sees as many characters as it has positions, those before it forgets. Needs numpy, onnx and onnxruntime.
"""
import argparse
import sys

import numpy as np
import onnx
import onnxruntime


def without_dropout(graph):
    """Takes each Dropout out of the graph."""
    passed = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Dropout"}
    kept = [node for node in graph.node if node.op_type != "Dropout"]
    for node in kept:
        for i, name in enumerate(node.input):
            while name in passed:
                name = passed[name]
            node.input[i] = name
    del graph.node[:]
    graph.node.extend(kept)


def load(path):
    """A function of the characters so far that gives a score for each that may come next."""
    model = onnx.load(path)
    graph = model.graph
    losses = [node for node in graph.node if node.op_type == "SoftmaxCrossEntropyLoss"]
    inputs = {x.name: [d.dim_value for d in x.type.tensor_type.shape.dim] for x in graph.input}
    sizes = [x.dims for x in graph.initializer if x.name.endswith("wpe.weight")]
    if len(losses) != 1 or set(inputs) != {"input_ids", "labels"} or len(sizes) != 1:
        sys.exit(f"train_write: {path} is no GPT-2 of train_export.py: input_ids, labels, positions, one loss")
    without_dropout(graph)
    scores, positions = losses[0].input[0], sizes[0][0]
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, None))
    graph.node.remove(losses[0])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # so small a model is slower on several
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def next_scores(codes):
        ids = np.array([codes[-positions:]], np.int64)
        return session.run([scores], {"input_ids": ids, "labels": ids})[0].reshape(ids.size, -1)[-1]

    return next_scores


def draw(scores, temperature, rng):
    if temperature == 0:
        return int(np.argmax(scores))
    weights = np.exp((scores - scores.max()).astype(np.float64) / temperature)
    return int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum()))


def characters(next_scores, start, length, temperature, rng):
    """Yields the text, character by character; the lines that the model learned to break are one."""
    codes = list(start.encode("ascii"))
    yield from start
    for count in range(len(codes), 2 * length):
        codes.append(draw(next_scores(codes), temperature, rng))
        yield " " if chr(codes[-1]).isspace() else chr(codes[-1])
        if count >= length and codes[-1] == ord("."):
            break


def wrapped(text, width):
    """Yields lines of at most `width` columns, each as soon as it is whole."""
    line = ""
    for character in text:
        line += character
        if len(line) > width and " " in line:
            whole, line = line.rsplit(" ", 1)
            yield whole
    yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--start", default="And God said")
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--without-dropout", metavar="OUT.onnx")
    o = parser.parse_args()
    if not o.start or not o.start.isascii():
        parser.error("--start needs a character at least, and ASCII ones alone")
    if o.temperature < 0:
        parser.error("--temperature is below 0")
    if o.without_dropout:
        model = onnx.load(o.model)
        without_dropout(model.graph)
        onnx.save(model, o.without_dropout)
        return
    text = characters(load(o.model), o.start, o.length, o.temperature, np.random.default_rng(o.seed))
    for line in wrapped(text, o.width):
        print(line, flush=True)


if __name__ == "__main__":
    main()
