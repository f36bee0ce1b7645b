"""Functions of a model that have an op's name. The file defines what they mean: those of ai.tempo give their own
numbers, as in ONNX Runtime, under every recipe and in tempo-run, unless tempoc wrote them, which kernels stand for.
Those of ai.onnx give way to the op, as in ONNX Runtime.

usage: own_functions.py TEMPO_RUN TEMPOC
"""
import json
import sys

import numpy as np
import onnx
from onnx import helper

from compare import by_onnxruntime, load, near
from programs import check, finish, path, told
from tolerances import FUNCTION as ROUNDED
from tool import run

X = np.array([-2.0, -0.5, 0.25, 3.0], np.float32)
RECIPES = ("none", "exact", "tiled", "portable", "forward")
HEADER = '<ir_version: 10, opset_import: ["" : 21, "ai.tempo" : 1]>\n'
GRAPH = """
g (float[4] x) => (float loss, float[4] y)
<float[4] w = {1.5, -1, 0.5, 2}>
{
  h = Mul (x, w)
  y = %s (h)
  loss = ReduceSum <keepdims = 0> (y)
}
"""
FUNCTION = """
<domain: "ai.tempo", opset_import: ["" : 21, "ai.tempo" : 1]>
%s (u) => (v) { %s }
"""
# what the function does, and its slope
DOUBLE = ("v = Add (u, u)", lambda h: 2 * h, lambda h: np.full_like(h, 2))
SWISH = ("s = Sigmoid (u) v = Mul (u, s)", lambda h: h / (1 + np.exp(-h)),
         lambda h: (1 + np.exp(-h) * (1 + h)) / (1 + np.exp(-h)) ** 2)


def write(name, text):
    with open(path(name), "w", encoding="utf-8") as file:
        file.write(text)
    return path(name)


def tempoc(source, target, *options):
    told(sys.argv[2], source, "-q", "--verify-each", *options, "-o", path(target))
    return path(target)


def outputs(name, *says):
    """What tempo-run computes, and the ops that it ran."""
    np.savez(path("in.npz"), x=X)
    run(name, "--inputs", path("in.npz"), "--outputs", path("out.npz"), "--profile", path("trace.json"), says=says)
    with open(path("trace.json"), encoding="utf-8") as trace:
        return load(path("out.npz")), [event["cat"] for event in json.load(trace)["traceEvents"]]


def in_onnxruntime(name):
    return by_onnxruntime(name, {"x": X})


def same(got, wanted, what):
    for name, value in wanted.items():
        if name in got:
            check(near(got[name], value, ROUNDED), f"{what}: {name} is {got[name]}, not {value}")


def wanted_of(value, slope):
    w = np.array([1.5, -1, 0.5, 2])
    y = value(X * w)
    return {"y": y, "loss": y.sum(), **({"w_grad": slope(X * w) * X} if slope else {})}


def everywhere(source, wanted, what):
    """tempo-run on the file itself, and on what each recipe makes of it."""
    same(outputs(source)[0], wanted, f"{what}, as it is")
    for recipe in RECIPES:
        compiled = tempoc(source, "compiled.onnx", f"--recipe={recipe}")
        same(outputs(compiled)[0], wanted, f"{what}, {recipe}")
        same(in_onnxruntime(compiled), wanted, f"{what}, {recipe}, in ONNX Runtime")


def own_functions():
    nested = FUNCTION % ("Swish", "v = ai.tempo.SwishGrad (u)") + FUNCTION % ("SwishGrad", DOUBLE[0])
    cases = {
        "the name of an op": (GRAPH % "ai.tempo.Swish" + FUNCTION % ("Swish", DOUBLE[0]), DOUBLE),
        "the name of a body": (GRAPH % "ai.tempo.Attention_d4c1" + FUNCTION % ("Attention_d4c1", DOUBLE[0]), DOUBLE),
        "one that calls another": (GRAPH % "ai.tempo.Swish" + nested, DOUBLE),
        "what the op does": (GRAPH % "ai.tempo.Swish" + FUNCTION % ("Swish", SWISH[0]), SWISH),
        "beside the op": (GRAPH.replace("h = Mul (x, w)", "m = Mul (x, w) t = Sigmoid (m) q = Mul (m, t) "
                                        "r = Sub (q, q) h = Add (m, r)") % "ai.tempo.Swish" +
                          FUNCTION % ("Swish", DOUBLE[0]), DOUBLE),
    }
    for what, (text, (_, value, slope)) in cases.items():
        source = tempoc(write("own.onnxt", HEADER + text), "own.onnx", "--passes=", "--target=onnx")
        wanted = wanted_of(value, slope)
        same(in_onnxruntime(source), wanted, f"{what}, as it is, in ONNX Runtime")
        everywhere(source, wanted, what)


def compiled_files():
    """What tempoc wrote: kernels, and the same bytes once more, until somebody changes it or what tells of it."""
    wanted = wanted_of(*SWISH[1:])
    plain = write("plain.onnxt", HEADER + GRAPH % "ai.tempo.Swish")
    for recipe in ("none", "exact"):
        compiled = tempoc(plain, "compiled.onnx", f"--recipe={recipe}")
        got, ops = outputs(compiled)
        same(got, wanted, f"compiled by {recipe}")
        check("Swish" in ops and "SwishGrad" in ops, f"{recipe}: no kernels: {ops}")
        for form in ("onnx", "onnxt"):
            _, kept = outputs(tempoc(compiled, f"same.{form}", "--passes="))
            check(kept == ops, f"{recipe}: other kernels of the file as .{form}: {kept}")
        again = tempoc(compiled, "again.onnx", "--recipe=forward")
        check(outputs(again)[1].count("Swish") == 1, f"{recipe}: no kernels when compiled again")
    forward = tempoc(plain, "forward.onnx", "--recipe=forward")
    direct, later = onnx.load(tempoc(plain, "direct.onnx")), onnx.load(tempoc(forward, "later.onnx"))
    check([node.op_type for node in direct.graph.node] == [node.op_type for node in later.graph.node],
          "another backward pass of a file compiled before")

    model = onnx.load(forward)
    check([function.name for function in model.functions] == ["Swish"], "no function Swish in the compiled file")
    kept = [pair for pair in model.metadata_props if not pair.key.startswith("tempo.body.")]
    check(len(kept) < len(model.metadata_props), "the function has no mark")
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    onnx.save(model, path("unmarked.onnx"))
    everywhere(path("unmarked.onnx"), wanted, "without metadata")

    model = onnx.load(forward)
    last = model.functions[0].node[-1]
    check(last.op_type == "Mul", f"the body ends with {last.op_type}")
    last.op_type = "Add"
    onnx.save(model, path("edited.onnx"))
    logistic = lambda h: 1 / (1 + np.exp(-h))  # noqa: E731
    everywhere(path("edited.onnx"),
               wanted_of(lambda h: h + logistic(h), lambda h: 1 + logistic(h) * (1 - logistic(h))), "an edited body")


def standard_names():
    function = helper.make_function("", "Softplus", ["u"], ["v"], [helper.make_node("Add", ["u", "u"], ["v"])],
                                    [helper.make_opsetid("", 21)])
    plain = tempoc(write("softplus.onnxt", HEADER + GRAPH % "Softplus"), "softplus.onnx", "--passes=")
    model = onnx.load(plain)
    model.functions.append(function)
    onnx.save(model, path("standard.onnx"))
    wanted = in_onnxruntime(path("standard.onnx"))
    same(wanted, wanted_of(lambda h: np.log1p(np.exp(h)), None), "ONNX Runtime takes the op")
    everywhere(path("standard.onnx"), wanted, "a function of ai.onnx")


own_functions()
compiled_files()
standard_names()
finish()
