#!/usr/bin/env python3
"""What `unfold` makes of the weights of recurrent layers, in models/recurrent-dyn_18, and near misses: a call that does
not list them all, a parameter that is there with other numbers, a first step that is more than its bias. That gradients
are PyTorch's is what test/e2e shows of the same file.

usage: check_unfold_recurrent.py TEMPOC MODEL
"""
import sys

import numpy as np
import onnx
from onnx import numpy_helper

from programs import expect, finish, path, run
from torch_metadata import CALL


def compiled(tempoc, model, *flags):
    onnx.save(model, path("in.onnx"))
    done = run(tempoc, path("in.onnx"), "-o", path("out.onnx"), "-q", *flags, code=None)
    return done.code, done.err, [o.name for o in onnx.load(path("out.onnx")).graph.output] if done.code == 0 else []


def weight(model, name):
    return next(i for i in model.graph.initializer if i.name == name)


def with_call(file, before, after):
    """The model with other text in the calls of its LSTMs."""
    model = onnx.load(file)
    for node in model.graph.node:
        for entry in node.metadata_props:
            if node.op_type == "LSTM" and entry.key == CALL:
                entry.value = entry.value.replace(before, after)
    return model


def main(tempoc, file):
    code, messages, names = compiled(tempoc, onnx.load(file))
    layers = [n for n in names if n.startswith(("lstm.", "gru."))]
    expect("each weight is trained under its name", code == 0 and len(layers) == 2 * 2 * 4 + 4 and not any(
        n.startswith("val_1") for n in names), (code, messages, names))
    code, messages, names = compiled(tempoc, onnx.load(file), "--freeze=lstm.weight_ih_l0")
    expect("one is frozen by its name", code == 0 and "lstm.weight_ih_l0_grad" not in names
           and "lstm.weight_ih_l0_reverse_grad" in names, (code, messages, names))
    code, messages, names = compiled(tempoc, onnx.load(file), "--train=val_109")
    expect("what the file has is trained where it is asked for", code == 0 and "val_109_grad" in names
           and "lstm.weight_ih_l0_grad" not in names, (code, messages, names))
    last = "%p_lstm_bias_hh_l1_reverse"
    code, messages, names = compiled(tempoc, with_call(file, last, ", ".join([last] + ["%p_lstm_weight_hr_l0"] * 4)))
    expect("projections that are not in the file", code == 3 and "proj_size" in messages, (code, messages))
    code, messages, names = compiled(tempoc, with_call(file, last, "%x"))
    expect("a call that names something else", code == 3 and "val_109" in messages and "val_257" not in messages,
           (code, messages))
    model = onnx.load(file)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((12, 4), np.float32), "lstm.weight_ih_l0"))
    model.graph.node.append(onnx.helper.make_node("Identity", ["lstm.weight_ih_l0"], ["unused"]))
    code, messages, names = compiled(tempoc, model)
    expect("a parameter with other numbers", code == 3 and "val_109" in messages, (code, messages))
    model = onnx.load(file)
    first = numpy_helper.to_array(weight(model, "linear_6")).copy()
    first[1, 2] += 1
    weight(model, "linear_6").CopyFrom(numpy_helper.from_array(first, "linear_6"))
    code, messages, names = compiled(tempoc, model)
    expect("a first step with another row", code == 3 and "linear_6" in messages, (code, messages))
    finish()


if __name__ == "__main__":
    main(*sys.argv[1:])
