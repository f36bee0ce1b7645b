#!/usr/bin/env python3
"""The pass `restore` on graphs with the metadata of PyTorch's dynamo exporter, which ONNX text cannot hold: what it
puts back, near misses, and what it refuses. The calls are spelled as PyTorch 2.15 spells them; that the results are
PyTorch's is what models/ shows.

usage: check_restore.py TEMPOC MODELS [NAME ...]      NAME: functions below, without `check_`; default: all
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import by_onnxruntime, near
from programs import each_check, expect, path, run
from tolerances import RESTORED, RESTORED_LARGE, RESTORED_LOSS, RESTORED_MEAN, RESTORED_SUM
from torch_metadata import SIGNATURE, node, note, with_holes


def model_of(nodes, weights, signature="", inputs=None, outputs=None, producer="pytorch", outputs_too=""):
    """Inputs and outputs by name; a weight by its name in PyTorch. `signature`, `outputs_too`: further lines."""
    shapes = inputs or {"x": [4, 2]}
    graph = helper.make_graph(
        nodes, "main_graph",
        [helper.make_tensor_value_info(k, TensorProto.BOOL if k.startswith("mask") else TensorProto.FLOAT, v)
         for k, v in shapes.items()],
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in (outputs or {"loss": []}).items()],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in weights.items()])
    lines = ["# inputs"]
    for name in weights:
        kind = "BUFFER" if "running" in name else "PARAMETER"
        lines.append(f"{kind[0].lower()}_{name.replace('.', '_')}: {kind} target='{name}'")
    lines += [f"{name}: USER_INPUT" for name in shapes] + [signature, "# outputs", "loss: USER_OUTPUT", outputs_too]
    note(graph, SIGNATURE, "\n".join(line for line in lines if line))
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)], producer_name=producer)


def compiled(tempoc, model, *flags):
    """(exit code, messages, the compiled model or None); `model`: one, or the path of one."""
    if not isinstance(model, str):
        onnx.save(model, path("in.onnx"))
        model = path("in.onnx")
    done = run(tempoc, model, "-o", path("out.onnx"), "-q", "--verify-each", *flags, code=None)
    return done.code, done.err, onnx.load(path("out.onnx")) if done.code == 0 else None


def nodes_of(model, op):
    return [n for n in model.graph.node if n.op_type == op] if model else []


def attribute(made, name, default=0):
    return next((helper.get_attribute_value(a) for a in made.attribute if a.name == name), default)


# --- batch normalization ----------------------------------------------------------------------------------------------
STATISTICS = {"n.weight": [1, 2], "n.bias": [3, 4], "n.running_mean": [0, 0], "n.running_var": [1, 1]}
ARGS = "%x, %p_n_weight, %p_n_bias, %b_n_running_mean, %b_n_running_var"


def norm(call, mean="n.running_mean"):
    return [node("", "ReduceMean", ["x", "axis"], ["mean"], keepdims=0),
            node(call, "BatchNormalization", ["x", "n.weight", "n.bias", mean, "n.running_var"], ["y"]),
            node("", "ReduceSum", ["y"], ["loss"], keepdims=0)]


def norm_model(call, mean="n.running_mean"):
    model = model_of(norm(call, mean), STATISTICS)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "axis"))
    model.graph.input.append(helper.make_tensor_value_info("given", TensorProto.FLOAT, [2]))
    return model


def check_norm_mode(tempoc, models):
    legit = "%y = aten._native_batch_norm_legit_functional.default"
    stays = "%y = aten._native_batch_norm_legit_no_training.default"
    plain = "%y = aten.batch_norm.default"
    for call, mean, training in ((f"{legit}({ARGS}, True, 0.1, 1e-05)", "n.running_mean", 1),
                                 (f"{plain}({ARGS}, True, 0.1, 1e-05, True)", "n.running_mean", 1),
                                 (f"{plain}({ARGS}, False, 0.1, 1e-05, True)", "n.running_mean", 0),
                                 (f"{legit}({ARGS.replace('b_n_running_mean', 'given')}, True, 0.1)", "given", 1),
                                 (f"{stays}({ARGS}, 0.1, 1e-05)", "n.running_mean", 0),
                                 (f"%y = aten.layer_norm.default({ARGS}, True)", "n.running_mean", 0),
                                 ("", "n.running_mean", 0),
                                 ("%y = aten._native_batch_norm_legit.no_stats(%x, %p_n_weight, %p_n_bias, True, 0.1, "
                                  "1e-05)", "mean", 0)):  # statistics of the batch, computed in the graph
        code, messages, out = compiled(tempoc, norm_model(call, mean), "--passes=restore")
        got = [attribute(n, "training_mode") for n in nodes_of(out, "BatchNormalization")]
        told = "BatchNormalization of n is in training mode again" in messages
        right = code == 0 and got == [training] and told == bool(training)
        expect(f"training_mode of {call[:60] or 'no call'}", right, (code, messages, got))


def check_norm_twice(tempoc, models):
    """The second use of a norm reads what the first left of its statistics."""
    args = "%y, %p_n_weight, %p_n_bias, %getitem_3, %getitem_4, True, 0.1, 1e-05"
    call = "%z = aten._native_batch_norm_legit_functional.default"
    nodes = norm(f"{call.replace('z', 'y', 1)}({ARGS}, True, 0.1, 1e-05)")
    nodes[2:] = [node("", "Identity", ["n.running_mean"], ["mean_1"]), node("", "Identity", ["n.running_var"], ["var"]),
                 node("", "Identity", ["mean_1"], ["mean_2"]),
                 node(f"{call}({args})", "BatchNormalization", ["y", "n.weight", "n.bias", "mean_2", "var"], ["z"]),
                 node("", "ReduceSum", ["z"], ["loss"], keepdims=0)]
    model = model_of(nodes, STATISTICS)
    model.graph.initializer.append(numpy_helper.from_array(np.array([0]), "axis"))
    code, messages, out = compiled(tempoc, model, "--passes=restore")
    got = [attribute(n, "training_mode") for n in nodes_of(out, "BatchNormalization")]
    expect("a norm that is used twice", code == 0 and got == [1, 1], (code, messages, got))


def check_norm_folded(tempoc, models):
    file = os.path.join(models, "convnorms-dyn_18", "model.onnx")
    code, messages, _ = compiled(tempoc, file)
    expect("norms that were folded are refused by name", code == 3 and "optimize=False" in messages and
           'Conv "node_Conv_' in messages and
           "BatchNormalization of conv_norm, up_norm, linear_norm, which was" in messages, (code, messages))
    code, messages, out = compiled(tempoc, file, "--recipe=forward")
    expect("and warned of without a backward pass", code == 0 and "warning: Conv" in messages, (code, messages))


# --- dropout ----------------------------------------------------------------------------------------------------------
def drop_model(*tail, producer="pytorch"):
    return model_of([*tail, node("", "ReduceSum", ["y"], ["loss"], keepdims=0)], {"w": [[1, 2], [3, 4]]},
                    producer=producer)


def attention(ratio, *between, last="p"):
    call = f"%y = aten.scaled_dot_product_attention.default(%x, %x, %x, None{ratio})"
    return [node(call, "Softmax", ["x"], ["p"], axis=-1), *[node(call, *n) for n in between],
            node(call, "MatMul", [last, "w"], ["y"])]


def check_dropout(tempoc, models):
    dropout = ("Dropout", ["p", "ratio"], ["d"])
    cases = [
        ("inserted", attention(", 0.25"), 0.25),
        ("inserted by keyword", attention("; dropout_p: 0.25"), 0.25),
        ("inserted behind 0 for NaN",
         attention(", 0.25", ("IsNaN", ["p"], ["n"]), ("Where", ["n", "ratio", "p"], ["g"]), last="g"), 0.25),
        ("switched on", attention(", 0.5", dropout, last="d"), 0.5),
        ("none in attention without", attention(", 0.0"), None),
        ("none where attention does not tell", attention(""), None),
        ("native_dropout in training", [node("%y = aten.native_dropout.default(%x, 0.5, True)", "Dropout",
                                             ["x", "ratio"], ["y"])], 0.5),
        ("native_dropout in evaluation", [node("%y = aten.native_dropout.default(%x, 0.5, False)", "Dropout",
                                               ["x", "ratio"], ["y"])], None),
        ("TorchScript's attention", [node("", "Softmax", ["x"], ["p"]), node("", *dropout),
                                     node("", "MatMul", ["d", "w"], ["y"])], 0.5),
        ("no Softmax before it", [node("", "Relu", ["x"], ["p"]), node("", *dropout),
                                  node("", "MatMul", ["d", "w"], ["y"])], None),
    ]
    for what, tail, ratio in cases:
        model = drop_model(*tail)
        model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "ratio"))
        code, messages, out = compiled(tempoc, model, "--passes=restore,shapes")
        values = {i.name: numpy_helper.to_array(i) for i in out.graph.initializer} if out else {}
        drops = [n for n in nodes_of(out, "Dropout") if len(n.input) > 2 and values[n.input[2]]]
        got = float(values[drops[0].input[1]]) if drops else None
        expect("dropout: " + what, code == 0 and got == ratio and ("drops again" in messages) == (ratio is not None),
               (code, messages, got))
    model = drop_model(node("", "Softmax", ["x"], ["p"]), node("", "Dropout", ["p", "ratio"], ["y"]), producer="else")
    model.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "ratio"))
    code, messages, _ = compiled(tempoc, model, "--passes=restore,shapes")
    expect("dropout: another exporter's stays", code == 0 and "drops again" not in messages, (code, messages))
    model = drop_model(attention(", 0.25")[1])
    model.graph.node[0].input[0] = "x"
    code, messages, _ = compiled(tempoc, model)
    expect("dropout that cannot be put back is refused", code == 3 and
           "the file lacks the dropout of y, with ratio 0.25" in messages and
           'attn_implementation="eager"' in messages, (code, messages))


LOWEST = float(np.finfo(np.float32).min)


def rows_closed_by(call, of_mask, masked, guarded, dtype=np.float32, scales=()):
    guard = [node(call, "IsNaN", ["p"], ["nan"]), node(call, "Where", ["nan", "zero", "p"], ["q"])]
    scaled = [node(call, "Sqrt", [f"c{i}"], [f"r{i}"]) for i, _ in enumerate(scales)]
    scaled += [node(call, "Mul", ["x", f"r{i}"], [f"x{i}"]) for i, _ in enumerate(scales)]
    nodes = [*scaled, node(call, "MatMul", ["x0", "x1"] if scales else ["x", "x"], ["s"]),
             node(of_mask, "Where", ["mask", "zero", "masked"], ["w"]),
             node(call, "Add", ["s", "w"], ["t"]), node(call, "Softmax", ["t"], ["p"], axis=-1),
             *(guard if guarded else []), node(call, "MatMul", ["q" if guarded else "p", "x"], ["loss"])]
    model = model_of(nodes, {}, inputs={"x": [2, 2], "mask": [2, 2]}, outputs={"loss": [2, 2]})
    for name, number in (("zero", 0), ("masked", masked), *((f"c{i}", scale) for i, scale in enumerate(scales))):
        model.graph.initializer.append(numpy_helper.from_array(np.array(number, dtype), name))
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model


def check_closed_rows(tempoc, models):
    """A row of scores that is masked throughout: PyTorch gives 0, the lowest finite number the mean of the values."""
    fused = "%y = aten.scaled_dot_product_attention.default(%x, %x, %x, %mask)"
    where, infinite = "%w = aten.where.self(%mask, 0, 1)", -np.inf
    zero, nan = [[1, 2], [0, 0]], [[1, 2], [np.nan, np.nan]]
    for what, call, of_mask, masked, guarded, scales, want in (
            ("closed rows give 0", fused, fused, LOWEST, False, (), zero),
            ("and so they do where NaN gives 0", fused, fused, LOWEST, True, (), zero),
            ("and where a mask of floats closes them", fused, where, infinite, False, (), zero),
            ("a large number of the model's own stays", fused, fused, -1e30, False, (), [[1, 2], [0.5, 0.5]]),
            ("a mask of another call stays", fused, where, LOWEST, False, (), [[1, 2], [0.5, 0.5]]),
            ("without a mask NaN stays", fused.replace("%mask", "None"), where, infinite, False, (), nan),
            ("a softmax of the model's own stays", "%y = aten.softmax.int(%t, -1)", where, infinite, False, (), nan),
            ("TorchScript's attention, both operands scaled", "", "", infinite, False, (1, 1), zero),
            ("attention of TorchScript's own parts stays", "", "", infinite, False, (), nan),
            ("scaled by two numbers it stays", "", "", infinite, False, (1, 0.999), nan)):
        model = rows_closed_by(call, of_mask, masked, guarded, scales=scales)
        code, messages, out = compiled(tempoc, model, "--passes=restore")
        got = computed(out, x=np.array([[1, 2], [0, -1]], np.float32), mask=np.array([[True, False], [False, False]]))
        expect(what, code == 0 and got is not None and near(got, want, RESTORED, nan=True), (code, messages, got))
    for call, masked, scales in (fused, float(np.finfo(np.float16).min), ()), ("", infinite, (1, 1)):  # by autocast
        model = rows_closed_by(call, call, masked, call != "", np.float16, scales)
        code, messages, out = compiled(tempoc, model, "--passes=restore")
        got = computed(out, x=np.array([[1, 2], [0, -1]], np.float16), mask=np.array([[True, False], [False, False]]))
        expect("scores of 16 bits", code == 0 and near(got, [[1, 2], [0, 0]], RESTORED), (code, messages, got))


# --- label smoothing --------------------------------------------------------------------------------------------------
def computed(model, **feeds):
    return next(iter(by_onnxruntime(model, feeds).values())) if model else None


SCORES = np.array([[1, -2, 0.5], [0, 2, 1], [-1, 0.25, 3], [2, 1, -1]], np.float32)
CLASSES = np.array([0, 2, 1, 2])
# PyTorch's cross_entropy of these with label_smoothing=0.25: (reduction, class weights, ignore_index) -> loss
SMOOTHED = {
    ("mean", False, -100): [1.960063], ("mean", False, 1): [1.712072],
    ("mean", True, -100): [2.253589], ("mean", True, 1): [2.099817],
    ("sum", False, -100): [7.840251], ("sum", True, 1): [5.249542],
    ("none", False, 1): [0.796264, 1.407606, 0, 2.932345],
    ("none", True, -100): [0.878065, 1.341256, 4.891606, 3.030221],
}


def smoothing_model(arguments, reduction="mean", weighted=False, ignore=-100, shape=(4, 3)):
    loss = node(f"%loss = aten.cross_entropy_loss.default(%x, %classes, {'%b_w' if weighted else 'None'}, 1, {ignore}"
                f"{arguments})", "SoftmaxCrossEntropyLoss", ["x", "classes"] + ["w"] * weighted, ["loss"],
                reduction=reduction, ignore_index=ignore)
    model = model_of([loss], {"w": [0.5, 2, 1]} if weighted else {}, inputs={"x": shape},
                     outputs={"loss": [4] if reduction == "none" else []})
    model.graph.input.append(helper.make_tensor_value_info("classes", TensorProto.INT64, [shape[0], *shape[2:]]))
    return model


def check_smoothing(tempoc, models):
    feeds = {"x": SCORES, "classes": CLASSES}
    for (reduction, weighted, ignore), want in SMOOTHED.items():
        model = smoothing_model(", 0.25", reduction, weighted, ignore)
        code, messages, out = compiled(tempoc, model, "--passes=restore")
        got = computed(out, **feeds)
        expect(f"label smoothing: {reduction}, weights {weighted}, ignored {ignore}",
               code == 0 and "label smoothing of loss is restored" in messages and got is not None and
               near(np.reshape(got, -1), want, RESTORED_LOSS), (code, messages, got))
    for weighted, want in ((True, 1.1120), (False, 1.3989)):
        model = smoothing_model("; label_smoothing: 0.25", weighted=weighted, shape=(2, 3, 2))
        code, messages, out = compiled(tempoc, model, "--passes=restore")
        got = computed(out, x=SCORES.reshape(2, 3, 2), classes=CLASSES.reshape(2, 2))
        expect(f"label smoothing behind the classes, weights {weighted}",
               code == 0 and got is not None and near(got, want, RESTORED_LARGE), (code, messages, got))
    for arguments in ("", ", 0.0"):
        code, messages, out = compiled(tempoc, smoothing_model(arguments), "--passes=restore")
        expect(f"no label smoothing{arguments}", code == 0 and "smoothing" not in messages and
               len(out.graph.node) == 1, (code, messages))
    model = smoothing_model(", 0.25")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.node[0].input[0] = "y"
    model.graph.node.insert(0, node("", "Identity", ["x"], ["y"]))
    code, messages, _ = compiled(tempoc, model, "--passes=restore,autodiff")
    expect("label smoothing over scores of no known rank is refused", code == 3 and
           "the file lacks PyTorch's label_smoothing" in messages, (code, messages))


# PyTorch's cross_entropy of SCORES with these probabilities: (reduction, class weights, label_smoothing) -> loss
PROBABILITIES = np.array([[0.5, 0.25, 0.25], [1, 0, 0], [0.1, 0.3, 0.6], [0, 0.5, 0.5]], np.float32)
SOFT = {
    ("mean", False, 0): [1.860063], ("mean", True, 0.25): [2.092548], ("mean", True, 0): [2.076428],
    ("sum", False, 0.25): [7.352752], ("sum", True, 0): [8.305714],
    ("none", False, 0): [1.379597, 2.407606, 1.304036, 2.349012],
    ("none", True, 0.25): [2.286038, 1.188404, 2.109649, 2.786101],
}


def soft_model(reduction, weighted, smoothing, opset=21, shape=(4, 3), typed=True):
    model = smoothing_model(f", {smoothing}" if smoothing else "", reduction, weighted, shape=shape)
    model.graph.input[-1].CopyFrom(helper.make_tensor_value_info("classes", TensorProto.FLOAT, shape))
    if not typed:  # as in TorchScript's files
        model.graph.node[0].input[1] = "labels"
        model.graph.node.insert(0, node("", "Identity", ["classes"], ["labels"]))
    model.opset_import[0].version = opset
    return model


def check_soft_labels(tempoc, models):
    for (reduction, weighted, smoothing), want in SOFT.items():
        for opset, typed in ((17, True), (23, True), (17, False)):
            if smoothing and not typed:
                continue
            model = soft_model(reduction, weighted, smoothing, opset, typed=typed)
            code, messages, out = compiled(tempoc, model, "--passes=restore,upgrade,shapes")
            got = computed(out, x=SCORES, classes=PROBABILITIES)
            expect(f"labels that are probabilities: {reduction}, weights {weighted}, smoothing {smoothing}, "
                   f"opset {opset}", code == 0 and "the labels are probabilities" in messages and got is not None and
                   near(np.reshape(got, -1), want, RESTORED_LOSS), (code, messages, got))
    for weighted, smoothing, want in ((False, 0, 1.7919), (True, 0.25, 1.8585)):
        model = soft_model("mean", weighted, smoothing, shape=(2, 3, 2))
        code, messages, out = compiled(tempoc, model, "--passes=restore,upgrade,shapes")
        got = computed(out, x=SCORES.reshape(2, 3, 2), classes=PROBABILITIES.reshape(2, 3, 2))
        expect(f"probabilities behind the classes, weights {weighted}", code == 0 and got is not None and
               near(got, want, RESTORED_LARGE), (code, messages, got))
    code, messages, out = compiled(tempoc, smoothing_model(""), "--passes=restore,upgrade,shapes")
    expect("labels that are classes", code == 0 and "probabilities" not in messages and
           nodes_of(out, "SoftmaxCrossEntropyLoss"), (code, messages))
    model = soft_model("mean", False, 0)
    model.graph.input[-1].type.tensor_type.shape.dim.pop()
    code, messages, _ = compiled(tempoc, model)
    expect("labels of floats, one a row", code == 2 and "has element type float" in messages, (code, messages))


# --- sums over losses of rows -----------------------------------------------------------------------------------------
ROWS = np.array([0.504597, 1.407606, 2.829036, 3.349012], np.float32)  # PyTorch's losses of SCORES and CLASSES


def rows_model(call, op="Identity", declared=()):
    """A graph in which the losses of rows are declared with shape `declared` and squared, then read by the call."""
    loss = smoothing_model("", "none").graph.node[0]
    loss.output[0] = "rows"
    loss.metadata_props[0].value = loss.metadata_props[0].value.replace("%loss :", "%rows :")
    nodes = [loss, node("%square = aten.mul.Tensor(%rows, %rows)", "Mul", ["rows", "rows"], ["square"]),
             node(call, op, ["square"], ["loss"])]
    model = model_of(nodes, {}, inputs={"x": ["n", 3]})
    model.graph.input.append(helper.make_tensor_value_info("classes", TensorProto.INT64, ["n"]))
    for name in ("rows", "square"):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, declared))
    return model


def check_sum_of_rows(tempoc, models):
    for call, want in (("sum.default(%square,)", np.sum), ("mean.default(%square,)", np.mean),
                       ("sum.dim_IntList(%square, [-1])", np.sum), ("amax.default(%square, [0])", np.max)):
        code, messages, out = compiled(tempoc, rows_model(f"%loss = aten.{call}"), "--passes=restore,shapes")
        got = computed(out, x=SCORES, classes=CLASSES)
        expect(f"losses of rows, {call}", code == 0 and "the reduction of rows to loss is restored" in messages and
               got is not None and near(got, want(ROWS ** 2), RESTORED_LARGE), (code, messages, got))
    model = rows_model("%loss = aten.sum.default(%square,)", declared=["n"])
    code, messages, out = compiled(tempoc, model, "--passes=restore")
    expect("losses of rows, declared as such", code == 0 and "restored" not in messages and
           len(nodes_of(out, "Identity")) == 1, (code, messages))
    for what, call, op in (("a sort", "%loss = aten.sort.default(%square,)", "Identity"),
                           ("a reduction without a node", "%loss = aten.exp.default(%mean,)", "Exp")):
        code, messages, _ = compiled(tempoc, rows_model(call, op), "--passes=restore,autodiff")
        expect(f"losses of rows, {what}: refused", code == 3 and
               "the file lacks PyTorch's reduction of the losses of rows" in messages, (code, messages))
    model = rows_model("%loss = aten.sum.default(%square,)")
    model.graph.node.append(helper.make_node("SoftmaxCrossEntropyLoss", ["x", "classes"], ["", "logs"],
                                             reduction="none"))
    code, messages, _ = compiled(tempoc, model, "--passes=restore")
    expect("losses of rows that nobody reads", code in (0, 2) and "restored" in messages, (code, messages))


# --- means of scattered values ----------------------------------------------------------------------------------------
TARGET = np.array([[1, -2], [0.5, 3], [2, 1], [-1, 4]], np.float32)
INDEX = np.array([[0, 1], [0, 0], [3, 1]])
VALUES = np.array([[2, 7], [-3, 0.25], [5, 1]], np.float32)
# PyTorch's scatter_reduce(0, index, values, "mean") of these: include_self -> result
SCATTERED = {True: [[0, -0.875], [0.5, 11 / 3], [2, 1], [2, 4]], False: [[-0.5, 0.25], [0.5, 4], [2, 1], [5, 4]]}


def scatter_model(call, with_self=True, reduction="none"):
    nodes, base = [], "x"
    if not with_self:
        nodes = [node(call, "ScatterElements", ["x", "index", "zeros"], ["base"], axis=0)]
        base = "base"
    nodes.append(node(call, "ScatterElements", [base, "index", "s"], ["loss"], axis=0, reduction=reduction))
    model = model_of(nodes, {"zeros": np.zeros([3, 2])}, inputs={"x": [4, 2], "s": [3, 2]}, outputs={"loss": [4, 2]})
    model.graph.input.append(helper.make_tensor_value_info("index", TensorProto.INT64, [3, 2]))
    return model


def check_scatter(tempoc, models):
    call = "%loss = aten.scatter_reduce.two(%x, 0, %index, %s, mean{})"
    for with_self, want in SCATTERED.items():
        model = scatter_model(call.format("" if with_self else "; include_self: False"), with_self)
        code, messages, out = compiled(tempoc, model, "--passes=restore")
        got = computed(out, x=TARGET, s=VALUES, index=INDEX)
        expect(f"mean of scattered values, include_self={with_self}",
               code == 0 and "the mean of loss is restored" in messages and got is not None and
               near(got, want, RESTORED_MEAN), (code, messages, got))
    for what, miss, reduction in (("sum", "%loss = aten.scatter_reduce.two(%x, 0, %index, %s, sum)", "add"),
                                  ("no reduction", "%loss = aten.scatter.src(%x, 0, %index, %s)", "none"),
                                  ("no call", "", "none")):
        code, messages, out = compiled(tempoc, scatter_model(miss, reduction=reduction), "--passes=restore")
        expect(f"scattered values, {what}", code == 0 and "restored" not in messages and len(out.graph.node) == 1,
               (code, messages))
    model = scatter_model(call.format(""), reduction="max")
    code, messages, _ = compiled(tempoc, model, "--passes=restore,autodiff")
    expect("a mean of scattered values in another form is refused", code == 3 and
           "the file lacks PyTorch's mean of scatter_reduce" in messages, (code, messages))


# --- stops of gradients -----------------------------------------------------------------------------------------------
WEIGHTS = {"w": [[1, 2], [3, 4]], "v": [[2, 1], [1, 2]]}
HEAD = [node("%linear = aten.linear.default(%x, %p_w)", "MatMul", ["x", "w"], ["linear"]),
        node("%relu = aten.relu.default(%linear,)", "Relu", ["linear"], ["relu"]),
        node("%linear_1 = aten.linear.default(%relu, %p_v)", "MatMul", ["relu", "v"], ["linear_1"])]


def stop_model(*tail):
    """With a weight u of PyTorch's, stored transposed as val_0."""
    model = model_of([*HEAD, *tail, node("", "ReduceSum", ["y"], ["loss"], keepdims=0)], WEIGHTS,
                     "p_u: PARAMETER target='u'")
    if any("val_0" in n.input for n in tail):
        model.graph.initializer.append(numpy_helper.from_array(np.array([[1, 3], [2, 5]], np.float32), "val_0"))
        note(model.graph.value_info.add(name="val_0"), "pkg.onnxscript.optimizer.folded_from", "['u']")
    return model


def stops_in(text):
    """What each StopGradient of a dump reads."""
    return [line.split("(")[1].split(")")[0].strip() for line in text.splitlines() if "ai.tempo.StopGradient" in line]


def check_stops(tempoc, models):
    mul = "%y = aten.mul.Tensor"
    cases = [
        ("a name that no operand has", [node(f"{mul}(%linear_1, %detach)", "Mul", ["linear_1", "relu"], ["y"])],
         ["relu"], ""),
        ("a call without detached values", [node(f"{mul}(%linear_1, %relu)", "Mul", ["linear_1", "relu"], ["y"])],
         [], ""),
        ("another name that no operand has", [node(f"{mul}(%linear_1, %clone)", "Mul", ["linear_1", "relu"], ["y"])],
         [], ""),
        ("both names stand for one value", [node(f"{mul}(%relu, %detach)", "Mul", ["relu", "relu"], ["y"])],
         ["relu"], ""),
        ("beside a removed operation", [node(f"{mul}(%clone, %detach)", "Mul", ["linear_1", "relu"], ["y"])],
         ["relu"], ""),
        ("an Identity", [node("%detach = aten.detach.default(%relu,)", "Identity", ["relu"], ["detach"]),
                         node(f"{mul}(%linear_1, %detach)", "Mul", ["linear_1", "detach"], ["y"])], ["relu"], ""),
        ("one of several nodes cannot be told",
         [node("%y = aten.lerp.Tensor(%clone, %detach)", "Sub", ["linear_1", "relu"], ["d"]),
          node("%y = aten.lerp.Tensor(%clone, %detach)", "Add", ["d", "relu"], ["y"])], None, 'Sub "node_d"'),
        ("a node that stands for two calls",
         [node("%tanh = aten.tanh.default(%detach,)", "Tanh", ["relu"], ["tanh"]),
          node(f"{mul}(%tanh, %tanh_1)", "Mul", ["tanh", "tanh"], ["y"])], None, "computes tanh from a detached value"),
        ("a node that stands for two calls, by way of others",
         [node("%tanh = aten.tanh.default(%detach,)", "Tanh", ["relu"], ["tanh"]),
          node("%neg = aten.neg.default(%tanh,)", "Neg", ["tanh"], ["neg"]),
          node(f"{mul}(%neg, %neg_1)", "Mul", ["neg", "neg"], ["y"])], None, "computes tanh from a detached value"),
        ("a node that stands for two calls of one value",
         [node("%tanh*2 = aten.tanh.default(%detach,)", "Tanh", ["relu"], ["tanh"]),
          node("%neg = aten.neg.default(%tanh,)", "Neg", ["tanh"], ["neg"]),
          node(f"{mul}(%neg, %neg_1)", "Mul", ["neg", "neg"], ["y"])], ["relu"], "merged equal results: neg"),
        ("two names for one place",
         [node("%y = aten.stack.default([%relu, %detach, %detach_1])", "Neg", ["relu"], ["n"]),
          node("%y = aten.stack.default([%relu, %detach, %detach_1])", "Sum", ["n", "linear_1", "n"], ["y"])], None,
         "%detach"),
        ("a call that begins with another one's node",
         [node("%sub = aten.sub.Tensor(%linear_1, %relu)", "Sub", ["linear_1", "relu"], ["sub"]),
          node("%abs_1 = aten.abs.default(%sub,)", "Abs", ["sub"], ["abs_1"]),
          node("%mse_loss = aten.mse_loss.default(%linear_1, %detach)", "Mul", ["sub", "sub"], ["mse_loss"]),
          node(f"{mul}(%abs_1, %mse_loss)", "Mul", ["abs_1", "mse_loss"], ["y"])], ["relu"], ""),
        ("a call that begins with nodes inside a detached one",
         [node("%mse_loss = aten.mse_loss.default(%linear_1, %detach)", "Sub", ["linear_1", "relu"], ["d"]),
          node("%mse_loss = aten.mse_loss.default(%linear_1, %detach)", "Mul", ["d", "d"], ["mse_loss"]),
          node("%l1_loss = aten.l1_loss.default(%linear_1, %relu)", "Abs", ["d"], ["l1_loss"]),
          node(f"{mul}(%l1_loss, %mse_loss)", "Mul", ["l1_loss", "mse_loss"], ["y"])], ["relu"], ""),
        ("an operand that is read nowhere",
         [node("%sub = aten.sub.Tensor(%x, %relu)", "Sub", ["x", "relu"], ["sub"]),
          node("%y = aten.mse_loss.default(%linear_1, %detach)", "Mul", ["sub", "sub"], ["y"])], None, "%detach"),
        ("a weight under another name",
         [node("%y = aten.linear.default(%detach, %p_u)", "MatMul", ["relu", "val_0"], ["y"])], ["relu"], ""),
    ]
    for what, tail, want, said in cases:
        model = stop_model(*tail)
        code, messages, _ = compiled(tempoc, model, "--passes=restore,shapes", "--print-ir-after=restore")
        expect(what + ": nothing without autodiff", code == 0 and not stops_in(messages), (code, messages))
        code, messages, out = compiled(tempoc, model, "--passes=restore,shapes,autodiff", "--print-ir-after=restore")
        if want is None:
            expect(what + ": refused", code == 3 and said in messages and "optimize=False" in messages,
                   (code, messages))
            continue
        told = "gradients stop at relu, which PyTorch detached" in messages
        expect(what, code == 0 and stops_in(messages) == want and told == bool(want) and said in messages and
               ("export with optimize=False" in messages) == bool(said) and not nodes_of(out, "StopGradient"),
               (code, messages))


def check_parted(tempoc, models):
    """What a stop parts stays parted: of l1_loss, the second operand gets a gradient."""
    model = stop_model(
        node("%mse_loss = aten.mse_loss.default(%linear_1, %detach)", "Sub", ["linear_1", "relu"], ["d"]),
        node("%mse_loss = aten.mse_loss.default(%linear_1, %detach)", "Mul", ["d", "d"], ["m"]),
        node("%l1_loss = aten.l1_loss.default(%linear_1, %relu)", "Abs", ["d"], ["a"]),
        node("%y = aten.mul.Tensor(%l1_loss, %mse_loss)", "Mul", ["a", "m"], ["y"]))
    code, messages, _ = compiled(tempoc, model, "--passes=restore,shapes,autodiff", "--print-ir-after=restore")
    subs = [line.split("(")[1].split(")")[0] for line in messages.splitlines() if " = Sub (" in line]
    expect("nodes for each call", code == 0 and sorted(subs) == ["linear_1, relu", "linear_1, relu_stopped"],
           (code, messages))


def check_lost_stops(tempoc, models):
    mul = "%y = aten.mul.Tensor"
    last = node(f"{mul}(%linear_1, %detach_2)", "Mul", ["linear_1", "relu"], ["y"])
    code, messages, _ = compiled(tempoc, stop_model(last))
    expect("numbers that nothing mentions", code == 0 and "they should stop: detach, detach_1 " in messages and
           "hint: export with optimize=False to be sure" in messages, (code, messages))
    for what, model in (
            ("a number in the list of a fold", stop_model(node(f"{mul}(%detach, %detach_2)", "Mul", ["w", "relu"],
                                                               ["y"]))),
            ("a number among the outputs", model_of([*HEAD, node(f"{mul}(%linear_1, %detach_1)", "Mul",
                                                                 ["linear_1", "relu"], ["y"]),
                                                     node("", "ReduceSum", ["y"], ["loss"], keepdims=0)], WEIGHTS,
                                                    outputs_too="detach: BUFFER_MUTATION target='b'"))):
        note(model.graph.value_info.add(name="linear"), "pkg.onnxscript.optimizer.folded_from", "['w']")
        fold = model.graph.value_info.add(name="v")
        note(fold, "pkg.onnxscript.optimizer.folded_from", "['v', 'detach_1']")
        code, messages, _ = compiled(tempoc, model, "--passes=restore,shapes,autodiff")
        expect(what, "gradients stop at" in messages and "they should stop" not in messages, (code, messages))
    model = stop_model(node("%tanh = aten.tanh.default(%relu,)", "Tanh", ["relu"], ["tanh"]),
                       node("%z = aten.mul.Tensor(%tanh, %tanh_1)", "Mul", ["tanh", "tanh"], ["z"]),
                       node(f"{mul}(%z, %detach_1)", "Mul", ["z", "linear_1"], ["y"]))
    calls = [n.metadata_props[0] if n.metadata_props else None for n in model.graph.node]
    calls[1].value = calls[1].value.replace("=1]", "=3]")
    code, messages, _ = compiled(tempoc, model)
    expect("one is gone, and a node stands for two calls", code == 3 and
           "lacks PyTorch's detached value %detach" in messages and "with others: tanh" in messages and
           "optimize=False" in messages, (code, messages))
    calls[5].value = calls[5].value.replace("detach", "linear")
    code, messages, _ = compiled(tempoc, model)
    expect("without a trace of detached values it is a note", code == 0 and
           "merged equal results: tanh; gradients" in messages and "warning" not in messages, (code, messages))
    calls[1].value = calls[1].value.replace("=3]", "=1]")
    code, messages, _ = compiled(tempoc, model)
    expect("another one was merged before it, as a parameter is nowhere", code == 3 and "merged equal results" not in
           messages and "tanh, which also stands for tanh_1 (they were equal, and u is nowhere)" in messages,
           (code, messages))


def check_stops_of_any_size(tempoc, models):
    """Numbers as a file may have them, and calls that read one another in a long row."""
    for number, more in ((4000000000, 3999999997), (2**64 - 1, 2**64 - 4)):
        last = node(f"%y = aten.mul.Tensor(%linear_1, %detach_{number})", "Mul", ["linear_1", "relu"], ["y"])
        code, messages, _ = compiled(tempoc, stop_model(last))
        expect(f"the number {number}", code == 0 and
               f"should stop: detach, detach_1, detach_2 and {more} more" in messages, (code, messages))
    n = 200_000
    nodes = [node("%t = aten.mul.Tensor(%x, %p_w)", "Mul", ["x", "w"], ["t"]),
             node("%tanh = aten.tanh.default(%detach,)", "Tanh", ["t"], ["tanh_0"])]
    nodes += [node(f"%tanh_{i} = aten.tanh.default(%tanh{f'_{i - 1}' if i > 1 else ''},)", "Tanh", [f"tanh_{i - 1}"],
                   [f"tanh_{i}"]) for i in range(1, n)]
    nodes += [node(f"%y = aten.mul.Tensor(%tanh_{n - 1}, %tanh_{n})", "Mul", [f"tanh_{n - 1}"] * 2, ["y"]),
              node("", "ReduceSum", ["y"], ["loss"], keepdims=0)]
    code, messages, _ = compiled(tempoc, model_of(nodes, {"w": [1, 2]}))
    expect("a long row of calls after a detached value: refused", code == 3 and
           "from a detached value, and" in messages, (code, messages))


# --- nodes against ONNX's rules ---------------------------------------------------------------------------------------
def check_holes(tempoc, models):
    call = "%y = aten.scaled_dot_product_attention.default(%x, %x, %x, %mask)"
    mean = "%loss = aten.scatter_reduce.two(%x, 0, %index, %s, mean)"
    for name, model in (("max_norm", renorm_model(False, tied=True)), ("dropout", drop_model(*attention(", 0.1"))),
                        ("a mask", rows_closed_by(call, call, LOWEST, True)), ("a scatter", scatter_model(mean)),
                        ("losses of rows", rows_model("%loss = aten.sum.default(%square,)")),
                        ("label smoothing", smoothing_model(", 0.1", "mean", True))):
        codes = {what: compiled(tempoc, copy)[0] for what, copy in with_holes(model)}
        expect(f"{name} with holes is refused, or compiles", set(codes.values()) <= {0, 2, 3}, codes)


def check_malformed(tempoc, models):
    """Other passes refuse nodes that lack operands or results; this one runs before them and passes them over."""
    attention = "%a = aten.scaled_dot_product_attention.default(%q, %k, %v, %mask, 0.1)"
    training = f"%y = aten.batch_norm.default({ARGS}, True, 0.1, 1e-05, True)".replace("%p_n_weight", "None")
    for call, op, inputs in (("%detach = aten.detach.default(%x)", "Identity", ["x"]), (attention, "Softmax", ["x"]),
                             (attention, "Where", ["x"] * 3),
                             ("%d = aten.dropout.default(%x, 0.5, True)", "Dropout", ["x"]),
                             (training, "BatchNormalization", ["x", *STATISTICS])):
        for what, operands, results in (("no operand", [], ["y"]), ("an absent operand", [""] + inputs[1:], ["y"]),
                                        ("no result", inputs, [])):
            bad = node(call, op, inputs, ["y"])
            del bad.input[:], bad.output[:]
            bad.input.extend(operands)
            bad.output.extend(results)
            nodes = [bad, *([] if results else [node("", "Identity", ["x"], ["y"])]),
                     node("", "ReduceSum", ["y"], ["loss"], keepdims=0)]
            code, messages, _ = compiled(tempoc, model_of(nodes, STATISTICS))
            expect(f"{op} with {what}: refused by name", code == 2 and f'{op} "node_y"' in messages, (code, messages))
    texts = norm_model(training)
    for initializer in list(texts.graph.initializer)[2:4]:
        initializer.CopyFrom(helper.make_tensor(initializer.name, TensorProto.STRING, [2], [b"a", b"b"]))
    code, messages, _ = compiled(tempoc, texts)
    expect("statistics of text: refused by name", code == 3 and 'BatchNormalization "node_y"' in messages,
           (code, messages))


def check_no_grad(tempoc, models):
    """Stack traces as they are under torch.no_grad, under autocast, and through a module that was traced before."""
    inside = 'File "<eval_with_key>.42", line 5, in forward\n    '
    for what, first, second, told in (
            ("no_grad", inside + "tanh = torch.ops.aten.tanh.default(linear_1);  linear_1 = None",
             inside + "neg = torch.ops.aten.neg.default(tanh);  tanh = None", True),
            ("autocast", inside + "tanh = torch.ops.aten.tanh.default(arg6_1);  arg6_1 = None",
             inside + "neg = torch.ops.aten.neg.default(tanh);  tanh = None", False),
            ("an argument of its own beside", inside + "tanh = torch.ops.aten.tanh.default(linear_1, arg6_1)",
             inside + "neg = torch.ops.aten.neg.default(tanh);  tanh = None", False),
            ("a traced module", inside + "tanh = torch.ops.aten.tanh.default(linear_5);  linear_5 = None",
             inside + "neg = torch.ops.aten.neg.default(tanh);  tanh = None", False),
            ("a file behind it", inside + 'x\n  File "m.py", line 2, in forward\n    return x',
             inside + 'x\n  File "m.py", line 2, in forward\n    return x', False),
            ("no statement", inside.strip(), inside, False)):
        model = stop_model(node("%tanh = aten.tanh.default(%linear_1,)", "Tanh", ["linear_1"], ["tanh"]),
                           node("%neg = aten.neg.default(%tanh,)", "Neg", ["tanh"], ["neg"]),
                           node("%y = aten.mul.Tensor(%neg, %relu)", "Mul", ["neg", "relu"], ["y"]))
        for made, trace in zip(model.graph.node[3:5], (first, second)):
            note(made, "pkg.torch.onnx.stack_trace", trace)
        code, messages, _ = compiled(tempoc, model)
        said = "gradients pass them: neg [restore]; hint: --stop=neg stops them" in messages
        expect(f"no_grad: {what}", code == 0 and said == told and ("no_grad" in messages) == told, (code, messages))
        code, messages, _ = compiled(tempoc, model, "--stop=neg")
        expect(f"no_grad: {what}, stopped", code == 0 and "no_grad" not in messages, (code, messages))


def check_stop_verify(tempoc, models):
    code, messages, _ = compiled(tempoc, os.path.join(models, "stops-dyn_18", "model.onnx"), "--verify")
    expect("--verify compares no slopes where gradients stop", code == 0, (code, messages))


def check_stop_option(tempoc, models):
    model = stop_model(node("", "Mul", ["linear_1", "relu"], ["y"]))
    code, messages, _ = compiled(tempoc, model, "--stop=linear1")
    expect("--stop of no value", code == 64 and "no value named 'linear1'; hint: did you mean linear" in messages,
           (code, messages))
    for value, trained in (("linear_1", ["w"]), ("relu", ["v"]), ("w", ["v"]), ("x", ["w", "v"])):
        for recipe in ("exact", "none", "portable"):
            code, messages, out = compiled(tempoc, model, f"--stop={value}", f"--recipe={recipe}")
            got = [o.name[:-len("_grad")] for o in out.graph.output if o.name.endswith("_grad")] if out else None
            expect(f"--stop={value}, recipe {recipe}", code == 0 and got == trained and
                   not nodes_of(out, "StopGradient"), (code, messages, got))
    code, messages, out = compiled(tempoc, model, "--stop=relu", "--recipe=forward")
    expect("--stop without a backward pass", code == 0 and not nodes_of(out, "StopGradient"), (code, messages))


# --- max_norm ---------------------------------------------------------------------------------------------------------
TABLE, IDS = np.array([[3, 4], [0.3, 0.4], [6, -8], [1, 1], [-5, 12]], np.float32), np.array([[2, 0], [1, 2]])


def renorm_model(folded, tied=False, operation="embedding_renorm", padding=""):
    """The nodes that dynamo writes for nn.Embedding(5, 2, max_norm=1.0), and the sum of squares of the rows; `tied`:
    the sum of squares of the table is added."""
    table = "detach" if folded else "copy"
    call = f"%embedding_renorm*2 = aten.{operation}.default(%detach, %ids, 1.0, 2.0)"
    nodes = [] if folded else [node("%detach = aten.detach.default(%p_e_weight,)", "Identity", ["e.weight"], ["copy"])]
    nodes += [node(call, op, inputs, [result], "e") for op, inputs, result in (
        ("Unique", ["ids"], "rows"), ("Gather", [table, "rows"], "read"), ("ReduceL2", ["read", "one_at"], "norm"),
        ("Add", ["norm", "tiny"], "above"), ("Div", ["max", "above"], "factor"), ("Mul", ["read", "factor"], "small"),
        ("Greater", ["norm", "max"], "is_long"), ("Where", ["is_long", "small", "read"], "scaled"),
        ("Unsqueeze", ["rows", "one_at"], "places"), ("ScatterND", [table, "places", "scaled"], "embedding_renorm"))]
    nodes += [node(f"%embedding = aten.embedding.default(%embedding_renorm, %ids{padding})", "Gather",
                   ["embedding_renorm", "ids"], ["embedding"], "e"),
              node("", "ReduceSumSquare", ["embedding"], ["loss_rows" if tied else "loss"], keepdims=0)]
    if tied:
        nodes += [node("%square = aten.square.default(%embedding_renorm,)", "ReduceSumSquare", ["embedding_renorm"],
                       ["square"], keepdims=0), node("", "Add", ["loss_rows", "square"], ["loss"])]
    model = model_of(nodes, {"e.weight": TABLE}, inputs={})
    del model.graph.input[:]
    model.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, list(IDS.shape)))
    model.graph.initializer[0].name = "detach" if folded else "e.weight"
    for name, value in (("one_at", np.array([1])), ("tiny", np.float32(1e-7)), ("max", np.float32(1))):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


def check_renorm(tempoc, models):
    lengths = np.linalg.norm(TABLE, axis=1, keepdims=True)
    looked_up = np.isin(np.arange(len(TABLE)), IDS)[:, None]
    scaled = np.where(looked_up & (lengths > 1), TABLE / lengths, TABLE)  # PyTorch's table from then on
    for folded, tied, padding in ((False, False, ""), (False, False, ", 2"), (True, False, ""), (False, True, "")):
        counts = np.bincount(IDS.reshape(-1), minlength=len(TABLE))[:, None] + int(tied)
        want_loss = (scaled ** 2 * counts).sum()
        if padding:
            counts[2] = 0
        model = renorm_model(folded, tied, padding=padding)
        code, messages, out = compiled(tempoc, model, "--recipe=portable")
        got = by_onnxruntime(out, {"ids": IDS}) if code == 0 else {}
        got = [got.get(name, 0) for name in ("loss", "e.weight_grad")]
        expect(f"max_norm, folded {folded}, tied {tied}, padding row '{padding}'",
               code == 0 and "rows of 'e.weight' are scaled to max_norm" in messages and not nodes_of(out, "Unique") and
               near(got[0], want_loss, RESTORED_SUM) and near(got[1], 2 * scaled * counts, RESTORED_MEAN),
               (code, messages, got, want_loss, 2 * scaled * counts))
    code, messages, out = compiled(tempoc, renorm_model(False), "--recipe=forward")
    expect("max_norm without a backward pass", code == 0 and not nodes_of(out, "Unique") + nodes_of(out, "Sub"),
           (code, messages))
    other = renorm_model(False, operation="other")
    code, messages, _ = compiled(tempoc, other)
    expect("what is no max_norm stays", code == 3 and "Unique" in messages, (code, messages))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    each_check(globals(), sys.argv[3:], lambda check: check(sys.argv[1], sys.argv[2]))
