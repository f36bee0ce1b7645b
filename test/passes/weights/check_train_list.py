#!/usr/bin/env python3
"""Checks --train-list, and the list in a model's metadata, with PyTorch's names of exports: which initializers they
mean, and which mean none. And that outputs of a model keep the names that they have.

usage: check_train_list.py TEMPOC MODELS_DIR
"""
import os
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import torch_metadata as torch
from compare import by_onnxruntime
from programs import each_check, expect, json_of, path, run, write

TEMPOC, MODELS = sys.argv[1:3]


def compiled(model, *names):
    """What is trained; a message where tempoc fails."""
    listed, report = (path(name) for name in ("list.txt", "report.json"))
    with open(listed, "w", encoding="utf-8") as f:
        f.writelines(name + "\n" for name in names)
    done = run(TEMPOC, model, f"--train-list={listed}", f"--report={report}", "-q", code=None)
    if done.code:
        return done.err
    return sorted(json_of(report)["trained"])


def check_export():
    """Initializers that the exporter gave other names; the list is PyTorch's."""
    model = os.path.join(MODELS, "vit-dyn_18", "model.onnx")
    names = {i.name for i in onnx.load(model).graph.initializer}
    signature = next(p.value for p in onnx.load(model).graph.metadata_props if p.key == torch.SIGNATURE)
    target = next(line.split("'")[1] for line in signature.splitlines()
                  if ": PARAMETER" in line and line.split("'")[1] not in names and "weight" in line)
    got = compiled(model, target, "m.classifier.bias")
    expect("one of another name and one of its own", len(got) == 2 and "m.classifier.bias" in got, got)
    got = compiled(model, "m.classifier.bias", target + "s")
    expect("a wrong name is refused", "list.txt:2: the file has no parameter" in got, got)


def check_script():
    """TorchScript's folded transposes are named by the path of their module."""
    weights = [numpy_helper.from_array(np.ones((3, 3), np.float32), f"onnx::MatMul_{i}") for i in (7, 8)]
    nodes = [helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["h"], name="/m/a/MatMul"),
             helper.make_node("MatMul", ["h", "onnx::MatMul_8"], ["y"], name="/m/b/b.0/MatMul"),
             helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)]
    graph = helper.make_graph(nodes, "script", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], weights)
    script = path("script.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), script)
    for name, want in (("m.a.weight", ["onnx::MatMul_7"]), ("m.b.0.weight", ["onnx::MatMul_8"])):
        got = compiled(script, name)
        expect(f"the weight of a module, {name}", got == want, got)
    got = compiled(script, "m.a.bias")
    expect("the bias of none", "has no parameter 'm.a.bias'" in got, got)


def tied():
    """An embedding that is the decoder, too: the file has the last of its names, also in calls."""
    weight = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "m.head.weight")
    shift = numpy_helper.from_array(np.ones(3, np.float32), "m.shift")
    read = ["m.head.weight", "ids"]
    nodes = [torch.node("%e = aten.embedding.default(%p_m_head_weight, %ids)", "Gather", read, ["e"], "m.words"),
             torch.node("%s = aten.add.Tensor(%e, %p_m_shift)", "Add", ["e", "m.shift"], ["s"], "m"),
             torch.node("%t = aten.t.default(%p_m_head_weight,)", "Transpose", ["m.head.weight"], ["t"], "m.head"),
             torch.node("%y = aten.mm.default(%s, %t)", "MatMul", ["s", "t"], ["y"], "m.head"),
             torch.node("%loss = aten.sum.default(%y,)", "ReduceSum", ["y"], ["loss"], "m", keepdims=0)]
    graph = helper.make_graph(nodes, "tied", [helper.make_tensor_value_info("ids", TensorProto.INT64, [2])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], [weight, shift])
    parameters = ("m.words.weight", "m.head.weight", "m.shift", "m.gone.weight")
    torch.note(graph, torch.SIGNATURE, "# inputs\n" + "\n".join(
        f"p_{name.replace('.', '_')}: PARAMETER target='{name}'" for name in parameters) + "\nids: USER_INPUT")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path("tied.onnx"))
    return path("tied.onnx")


def check_tied():
    model = tied()
    for names in (["m.words.weight"], ["m.head.weight"], ["m.words.weight", "m.head.weight"]):
        got = compiled(model, *names)
        expect(f"tied, as {names}", got == ["m.head.weight"], got)
    run(TEMPOC, model, "--names=pytorch", "-q", "-o", path("named.onnx"))
    outputs = [o.name for o in onnx.load(path("named.onnx")).graph.output]
    expect("its gradient has the first of its names, as in named_parameters()",
           outputs == ["loss", "m.words.weight_grad", "m.shift_grad"], outputs)
    for flag, warned in (("--freeze=m.gone*", False), ("--freeze=m.words.weight", False), ("--freeze=m.goner", True),
                         ("--train=m.gone.weight", True)):
        said = run(TEMPOC, model, "-q", flag).err
        expect(f"{flag}: a warning {warned}", ("matches no initializer" in said) == warned, said)
    got = compiled(model, "m.shift")
    expect("the other one alone", got == ["m.shift"], got)
    got = compiled(model, "m.gone.weight")
    expect("a parameter that is not there", "list.txt:1: the file has no parameter 'm.gone.weight'" in got and
                 "remove_duplicate=False" in got, got)


def check_metadata():
    """The list that whoever exported wrote into the model; the command line overrides it."""
    def told(text, *flags):
        model = onnx.load(tied())
        torch.note(model, "tempo.train", text)
        onnx.save(model, path("told.onnx"))
        done = run(TEMPOC, path("told.onnx"), "-v", *flags, code=None)
        lines = [line for line in done.out.splitlines() if line.startswith("trained")]
        return lines[0] if done.code == 0 and lines else f"{done.code}: {done.err}"

    write(path("other.txt"), "m.shift\n")
    both = r"m.head.weight \(m.words.weight\)"
    for what, text, flags, want in (
            ("it decides", "# of a module\n\nm.shift\n", (), "trained 1 as tempo.train lists: m.shift"),
            ("a tied parameter's other name", "m.words.weight", (), f"trained 1 as tempo.train lists: {both}"),
            ("--train adds", "m.shift", ("--train=m.head*",),
             f"trained 2 as tempo.train lists: {both}, m.shift"),
            ("--freeze takes", "m.shift\nm.words.weight", ("--freeze=m.head.weight",),
             "trained 1 as tempo.train lists: m.shift"),
            ("--train-list overrides", "m.head.weight", (f"--train-list={path('other.txt')}",),
             "trained 1: m.shift"),
            ("a name that is not there", "m.shift\nm.shaft", (), "2: .*: tempo.train:2: the file has no parameter "
             "'m.shaft'.*--train-list=FILE"),
            ("no name", "# none\n \n", (), "2: .*tempo.train has no names"),
            ("too long a list", "#\n" * (9 << 20), (), "4: .*tempo.train.* the limit is 16777216.*--train-list=FILE"),
            ("ten megabytes of nonsense", "\x01\xff=" * (3 << 20), (), "2: .*tempo.train:1: the file has no parameter"),
            ("ten megabytes of names", "".join(f"n.{i}\n" for i in range(1 << 20)), (),
             "2: .*tempo.train:1: .*'n.0', and none for 1048575 more names")):
        got = told(text, *flags)
        expect(f"the model's own list: {what}", re.match(want, got, re.DOTALL), got[:300])
    expect("without one", compiled(tied(), "m.shift") == ["m.shift"])


def check_output_names():
    """Detached outputs, values twice, inputs, weights and constants that are passed through, what nodes do not
    change: all keep names and values."""
    half = numpy_helper.from_array(np.full((4, 2), 0.5, np.float32), "half")
    same = {"own": "y", "once": "y", "twice": "y", "input": "x", "input_2": "x", "weight": "w", "constant": "half"}
    stopped = {"detached": "y", "again": "detached", "detached_loss": "loss", "input_d": "x", "weight_d": "w"}
    nodes = [torch.node("%y = aten.mul.Tensor(%x, %p_w)", "Mul", ["x", "w"], ["y"]),
             torch.node("%loss = aten.sum.default(%y,)", "ReduceSum", ["y"], ["loss"], keepdims=0),
             *(torch.node("", "Identity", [of], [name]) for name, of in same.items()),
             *(torch.node(f"%{name} = aten.detach.default(%{of},)", "Identity", [of], [name])
               for name, of in stopped.items()),
             torch.node("", "Relu", ["detached"], ["behind"]), torch.node("", "Add", ["half", "half"], ["folded"]),
             torch.node("", "Dropout", ["y"], ["kept"]), torch.node("", "Transpose", ["y"], ["view"], perm=[0, 1])]
    shapes = {"loss": [], "detached_loss": [], "weight": [2], "weight_d": [2]}
    names = ["loss", "y", "x", *same, *stopped, "behind", "folded", "kept", "view"]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name, [4, 2])) for name in names]
    graph = helper.make_graph(nodes, "names", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2])], values,
                              [numpy_helper.from_array(np.array([1.5, -2], np.float32), "w"), half])
    torch.note(graph, torch.SIGNATURE, "# inputs\np_w: PARAMETER target='w'\nx: USER_INPUT\n# outputs\n"
               "loss: USER_OUTPUT")
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, path("names.onnx"))
    x = np.arange(8, dtype=np.float32).reshape(4, 2) - 3
    want = by_onnxruntime(model, {"x": x})
    for flags in (["--recipe=portable"], ["--recipe=portable", "--memory-budget=1MiB"], ["--recipe=forward"],
                  ["--recipe=evaluate"], ["--recipe=none", "--passes=restore,upgrade,shapes,canonicalize,autodiff"]):
        run(TEMPOC, path("names.onnx"), "-q", "--loss=loss", "--verify-each", "-o", path("out.onnx"), *flags)
        out = onnx.load(path("out.onnx"))
        found = [o.name for o in out.graph.output if not o.name.endswith("_grad")]
        got = by_onnxruntime(out, {"x": x}) if found == names else {}
        expect(f"outputs keep their names, {flags}",
               found == names and all(np.array_equal(got[k], want[k]) for k in names), found)


if __name__ == "__main__":
    each_check(globals(), sys.argv[3:])
