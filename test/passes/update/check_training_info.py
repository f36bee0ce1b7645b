#!/usr/bin/env python3
"""Files that describe a step of training (training_info): steps of the compiled graph, whose updates tempo-run keeps
from run to run, are those of onnx's own reference of Adam, Adagrad and Momentum with central differences of numpy's
loss; initial values are taken; what cannot be compiled is refused by name. The optimizers alone, too, at step 0 and
behind it.
usage: check_training_info.py tempoc tempo-run"""
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as n
from onnx.reference import ReferenceEvaluator

from compare import load, max_error
from programs import check, finish, path, run
from tolerances import STEP, STEPS

DOMAIN = "ai.onnx.preview.training"
OPSETS = [h.make_opsetid("", 17), h.make_opsetid(DOMAIN, 1)]
tempoc, tempo_run = sys.argv[1:3]
rng = np.random.default_rng(2)
X, L = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 3), (4, 2)))
W, B = rng.standard_normal((3, 2)).astype(np.float32), np.zeros(2, np.float32)


def info(name, *shape, t=T.FLOAT):
    return h.make_tensor_value_info(name, t, shape)


OPTIMIZERS = {  # state of each weight, attributes
    "adam": ("Adam", "VH", dict(alpha=0.9, beta=0.99, epsilon=1e-6, norm_coefficient=0.01,
                                norm_coefficient_post=0.001)),
    "adam_plain": ("Adam", "VH", dict()),
    "adagrad": ("Adagrad", "H", dict(decay_factor=0.1, epsilon=1e-6, norm_coefficient=0.01)),
    "momentum": ("Momentum", "V", dict(alpha=0.9, beta=0.5, mode="standard", norm_coefficient=0.01)),
    "nesterov": ("Momentum", "V", dict(alpha=0.9, beta=0.5, mode="nesterov", norm_coefficient=0.0)),
}


def optimizer_of(kind):
    op, states, attributes = OPTIMIZERS[kind]
    operands = ["W", "B", "dW", "dB"] + [s + w for s in states for w in "WB"]
    results = [name + "_new" for name in operands if not name.startswith("d")]
    return h.make_node(op, ["R", "T", *operands], results, domain=DOMAIN, **attributes), operands, results


def model_of(kind):
    """A layer, its squared error, a Gradient and an optimizer; T counts."""
    node, operands, results = optimizer_of(kind)
    inference = h.make_graph([h.make_node("MatMul", ["X", "W"], ["XW"]), h.make_node("Add", ["XW", "B"], ["Y"])],
                             "layer", [info("X", 4, 3)], [info("Y", 4, 2)],
                             [n.from_array(W, "W"), n.from_array(B, "B")])
    shapes = {"W": W.shape, "B": B.shape}
    state = {name: shapes[name[1]] for name in operands[4:]}
    algorithm = h.make_graph(
        [h.make_node("Sub", ["Y", "L"], ["d"]), h.make_node("Mul", ["d", "d"], ["d2"]),
         h.make_node("ReduceMean", ["d2"], ["loss"], keepdims=0),
         h.make_node("Gradient", ["W", "B", "X", "L"], ["dW", "dB"], domain=DOMAIN, xs=["W", "B"], zs=["X", "L"],
                     y="loss"), node, h.make_node("Add", ["T", "one"], ["T_new"])],
        "step", [info("X", 4, 3), info("L", 4, 2)],
        [info("loss")] + [info(name, *{**shapes, **state}[name[:-4]]) for name in results] + [info("T_new", t=T.INT64)],
        [n.from_array(np.float32(0.05), "R"), n.from_array(np.int64(0), "T"), n.from_array(np.int64(1), "one")] +
        [n.from_array(np.zeros(shape, np.float32), name) for name, shape in state.items()])
    model = h.make_model(inference, ir_version=8, opset_imports=OPSETS)
    training = model.training_info.add(algorithm=algorithm)
    for name in ["W", "B", *state, "T"]:
        training.update_binding.add(key=name, value=name + "_new")
    return model


def loss_of(values):
    return ((X.astype(np.float64) @ values["W"] + values["B"] - L) ** 2).mean()


def slope(values, name, step=1e-6):
    result = np.zeros(values[name].shape)
    for index in np.ndindex(result.shape):
        sides = []
        for sign in (1, -1):
            moved = {k: np.array(v, np.float64) for k, v in values.items()}
            moved[name][index] += sign * step
            sides.append(loss_of(moved))
        result[index] = (sides[0] - sides[1]) / (2 * step)
    return result


def reference_of(kind, double):
    node, operands, results = optimizer_of(kind)
    t = T.DOUBLE if double else T.FLOAT
    graph = h.make_graph([node], "g", [info("R", t=t), info("T", t=T.INT64)] + [info(o, None, t=t) for o in operands],
                         [info(r, None, t=t) for r in results])
    return ReferenceEvaluator(h.make_model(graph, ir_version=8, opset_imports=OPSETS)), operands, results


def steps_of(kind, count):
    """The loss of the last step, and the values behind it, in double."""
    reference, operands, results = reference_of(kind, True)
    values = {"W": W.astype(np.float64), "B": B.astype(np.float64)}
    values.update({name: np.zeros(values[name[1]].shape) for name in operands[4:]})
    for step in range(count):
        loss, weights = loss_of(values), {name: values[name] for name in "WB"}
        feeds = {**values, "R": np.array(0.05), "T": np.array(step), "dW": slope(weights, "W"),
                 "dB": slope(weights, "B")}
        values = {name[:-4]: value for name, value in zip(results, reference.run(None, feeds))}
    return loss, values


def compile_model(model, *options):
    onnx.save(model, path("m.onnx"))
    return run(tempoc, path("m.onnx"), "-o", path("c.onnx"), "-q", "--verify-each", *options, code=None)


def train(count, **more):
    np.savez(path("i.npz"), X=X, L=L, **more)
    run(tempo_run, path("c.onnx"), "--inputs", path("i.npz"), "--outputs", path("o.npz"), f"--repeat={count}")
    return load(path("o.npz"))


def near(got, want, most=STEPS):
    return max_error(got, want, least=1) <= most


def check_steps():
    for kind in OPTIMIZERS:
        model = model_of(kind)
        onnx.checker.check_model(model)
        for recipe in ("none", "exact", "portable"):
            done = compile_model(model, f"--recipe={recipe}")
            check(done.code == 0 and "a step of training" in done.err and "warning" not in done.err, kind,
                  recipe, done.err)
            check(len(onnx.load(path("c.onnx")).training_info) == 0, kind, "training_info is left")
            for count in (1, 4):
                got, (loss, values) = train(count), steps_of(kind, count)
                check(near(got["loss"], loss), kind, recipe, count, "loss", got["loss"], loss)
                check(got["T_new"] == count, kind, "T")
                for name, value in values.items():
                    check(near(got[name + "_new"], value), kind, recipe, count, name, got[name + "_new"], value)
        run(tempoc, path("m.onnx"), "-q", "--verify")


def check_initial():
    model = model_of("adam")
    nodes = [h.make_node("ConstantOfShape", ["shape"], ["W_0"], value=n.from_array(np.full(1, 0.5, np.float32))),
             h.make_node("Constant", [], ["B_0"], value=n.from_array(np.array([1, 2], np.float32)))]
    model.training_info[0].initialization.CopyFrom(
        h.make_graph(nodes, "init", [], [info("W_0", 3, 2), info("B_0", 2), info("T_0", t=T.INT64)],
                     [n.from_array(np.array([3, 2]), "shape"), n.from_array(np.int64(7), "T_0")]))
    for name in ("W", "B", "T"):
        model.training_info[0].initialization_binding.add(key=name, value=name + "_0")
    check(compile_model(model).code == 0, "initial values")
    got, ones = train(1), {"W": np.full((3, 2), 0.5), "B": np.array([1.0, 2])}
    check(near(got["loss"], loss_of(ones)) and got["T_new"] == 8, "initial values", got["loss"], got["T_new"])
    got = train(2, W=W, B=B, T=np.int64(0))  # inputs go before them
    check(near(got["loss"], steps_of("adam", 2)[0]) and got["T_new"] == 2, "given values", got["loss"])
    done = compile_model(model, "--recipe=forward")
    check(done.code == 0 and "is ignored" in done.err and not onnx.load(path("c.onnx")).training_info,
          "forward", done.err)
    compile_model(model, "--passes=")
    check(onnx.load(path("c.onnx")).training_info == model.training_info, "no passes: it comes back")
    np.savez(path("w.npz"), W=W)
    check(compile_model(model_of("adam"), "--checkpoint", path("w.npz")).code == 0, "--checkpoint")
    check(near(train(1)["loss"], steps_of("adam", 1)[0]), "--checkpoint")


def refused(what, change, code, *words):
    model = model_of("adam")
    change(model, model.training_info[0])
    done = compile_model(model)
    check(done.code == code and all(word in done.err for word in words), what, done.code, done.err)


def initialize(training, key, value, node, shape=(3, 2)):
    training.initialization.CopyFrom(h.make_graph([node], "init", [], [info(value, *shape)]))
    training.initialization_binding.add(key=key, value=value)


def check_refused():
    noise = h.make_node("RandomNormal", [], ["W_0"], name="noise", shape=[3, 2])
    small = h.make_node("Constant", [], ["W_0"], value=n.from_array(np.zeros((2, 3), np.float32)))
    refused("key", lambda m, t: t.update_binding.add(key="X", value="Y"), 2, "update_binding: 'X' is no initializer")
    refused("twice", lambda m, t: t.update_binding.add(key="W", value="Y"), 2, "update_binding: there are two for 'W'")
    refused("value", lambda m, t: t.update_binding.add(key="R", value="d"), 2,
            "'d', the new value of 'R', is no output")
    refused("shared", lambda m, t: t.update_binding.add(key="R", value="B_new"), 3, "of two initializers")
    refused("steps", lambda m, t: m.training_info.add(), 3, "2 kinds of training step")
    refused("name", lambda m, t: t.algorithm.node.add(op_type="Neg", input=["Y"], output=["XW"]), 2, "XW", "already")
    refused("operand", lambda m, t: t.algorithm.node.add(op_type="Neg", input=["Q"], output=["P"]), 2,
            'operand "Q" is defined nowhere')
    refused("random", lambda m, t: initialize(t, "W", "W_0", noise), 3, 'RandomNormal "noise"',
            "initial value of 'W' is computed")
    refused("shape", lambda m, t: initialize(t, "W", "W_0", small, (2, 3)), 2,
            "is float[2,3], but the initializer is float[3,2]")
    refused("unbound", lambda m, t: initialize(t, "W", "W_1", small), 2)
    refused("graph", lambda m, t: t.initialization_binding.add(key="W", value="W_0"), 2, "no initialization graph")


def check_optimizers():
    """Single nodes, in float, against onnx's reference."""
    for kind, (op, states, attributes) in OPTIMIZERS.items():
        reference, operands, results = reference_of(kind, False)
        for step in (0, 1, 6):
            feeds = {o: rng.standard_normal((3, 2) if "W" in o else 2).astype(np.float32) for o in operands}
            feeds.update({o: np.abs(feeds[o]) for o in operands if o.startswith("H")})
            feeds.update(R=np.float32(0.1), T=np.int64(step))
            node = optimizer_of(kind)[0]
            inputs = [info("R"), info("T", t=T.INT64)] + [info(o, *feeds[o].shape) for o in operands]
            graph = h.make_graph([node], "g", inputs, [info(r, *feeds[r[:-4]].shape) for r in results])
            compile_model(h.make_model(graph, ir_version=8, opset_imports=OPSETS), "--recipe=forward")
            np.savez(path("i.npz"), **feeds)
            run(tempo_run, path("c.onnx"), "--inputs", path("i.npz"), "--outputs", path("o.npz"))
            got = load(path("o.npz"))
            for result, want in zip(results, reference.run(None, feeds)):
                check(near(got[result], want, STEP), kind, step, result, got[result], want)


check_steps()
check_initial()
check_refused()
check_optimizers()
finish()
