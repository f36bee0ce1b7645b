#!/usr/bin/env python3
"""Metadata, spelled as PyTorch spells them, that do not fit the file: operands, shapes and element types other than the
names say, nodes that PyTorch's exporter never writes, lists of a hundred thousand names. Each ends in a documented exit
code with at most one error, and in time; what is written computes the loss of the file without metadata.

usage: check_hostile_metadata.py TEMPOC TEMPO_RUN [NAME ...]     NAME: functions below, without `check_`; default: all
"""
import random
import resource
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from check_torch_metadata import X, main, model_of, signature_of, summed
from compare import near
from programs import expect
from tolerances import EXPORTED_LOSS
from torch_metadata import node

W = np.array([1, 2, 3], np.float32)


def stripped(model):
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for entity in (bare.graph, *bare.graph.node, *bare.graph.value_info):
        del entity.metadata_props[:]
    return bare


def loss_of(case, model, *flags):
    """None where the model does not compile."""
    code, _ = case.compile(model, *flags)
    return case.run(X.astype(np.float32))["loss"] if code == 0 else None


def judge(case, what, model, codes, same_loss=True, seconds=20, external=None):
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, said = case.compile(model, external=external)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime  # of other tests beside it it knows nothing
    expect(f"{what}: exit {codes}", code in codes and said.count("error: ") == (code != 0), (code, said[:500]))
    expect("  in time", took < seconds, took)
    if code == 0 and external is None and same_loss:
        want, got = loss_of(case, stripped(model), "--recipe=forward"), loss_of(case, model)
        expect("  the loss of the file", near(got, want, EXPORTED_LOSS), (got, want))
    return said


# --- batch normalization ----------------------------------------------------------------------------------------------
def norm(outputs=("bn",), opset=21, weight="%p_m_w", bias="%p_m_b"):
    call = (f"%bn = aten._native_batch_norm_legit_functional.default(%x, {weight}, {bias}, %b_m_rm, %b_m_rv, True, "
            "0.1, 1e-05)")
    told = signature_of(p_m_w="m.w", p_m_b="m.b", b_m_rm="m.rm", b_m_rv="m.rv", x=None)
    model = model_of([node(call, "BatchNormalization", ["x", "m.w", "m.b", "m.rm", "m.rv"], list(outputs)),
                      *summed(outputs[0] or outputs[1])],
                     {"m.w": W, "m.b": [0.0, 0.0, 0.0], "m.rm": [0.0, 0.0, 0.0], "m.rv": [1.0, 1.0, 1.0]}, told)
    model.opset_import[0].version = opset
    return model


def check_norms(case):
    judge(case, "a norm whose only result is the mean", norm(["", "mean"]), (2,))
    model = norm(["bn", "mean", "var", "saved_mean", "saved_var"], opset=9)
    model.graph.node.insert(1, helper.make_node("Add", ["bn", "saved_mean"], ["shifted"]))
    judge(case, "an old norm whose saved mean is read", model, (0, 2, 3), same_loss=False)
    mean = 2
    for dtype, size in ((TensorProto.INT4, 2), (TensorProto.FLOAT8E4M3FN, 3), (TensorProto.DOUBLE, 24)):
        model = norm(weight="None", bias="None")
        model.graph.initializer[mean].data_type = dtype
        model.graph.initializer[mean].raw_data = bytes(size)
        judge(case, f"a running mean of {TensorProto.DataType.Name(dtype)}", model, (2, 3))
    model = norm(weight="None", bias="None")
    tensor = model.graph.initializer[mean]
    tensor.CopyFrom(TensorProto(name=tensor.name, data_type=TensorProto.FLOAT, dims=[1 << 40],
                                data_location=TensorProto.EXTERNAL))
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "nowhere.bin"
    judge(case, "a running mean of 4 TiB in a file that is not there", model, (2,))


# --- biases that were dropped -----------------------------------------------------------------------------------------
def layer(bias, told=None, weight=None, **others):
    weight = np.arange(12, dtype=np.float32).reshape(3, 4) if weight is None else weight
    told = told or signature_of(p_m_w="m.w", p_m_b="m.b", x=None)
    return model_of([node(f"%linear = aten.linear.default(%x, %p_m_w, {bias})", "Gemm", ["x", "m.w"], ["linear"]),
                     *summed("linear")], {"m.w": weight, **others}, told)


def check_biases(case):
    for what, model in (("of another length", layer("%p_m_b", **{"m.b": np.zeros(5, np.float32)})),
                        ("of another type", layer("%p_m_b", **{"m.b": np.zeros(4)})),
                        ("of rank 0", layer("%p_m_b", **{"m.b": np.zeros((), np.float32)})),
                        ("of rank 3", layer("%p_m_b", **{"m.b": np.zeros((1, 2, 4), np.float32)})),
                        ("that is the weight", layer("%p_m_w", weight=np.zeros((3, 4), np.float32)))):
        said = judge(case, f"a bias {what}: left alone", model, (0,))
        expect("  and not told", "biases" not in said, said)
    for name in ("x", "linear", "loss", "m.w_grad"):
        told = f"\n# inputs\np_m_w: PARAMETER target='m.w'\np_m_b: PARAMETER target='{name}'\n"
        judge(case, f"a bias called {name}", layer("%p_m_b", told), (0,))
    said = judge(case, "a bias without a name: left alone",
                     layer("%p_m_b", "\np_m_w: PARAMETER target='m.w'\np_m_b: PARAMETER target=''\n"), (0,))
    expect("  and not told", "biases" not in said, said)


# --- folds ------------------------------------------------------------------------------------------------------------
def folded(name, value, names, **others):
    """The sum of (x + the sum of each initializer)^2."""
    nodes, last = [], "x"
    for k in (name, *others):
        nodes += [helper.make_node("Cast", [k], [k + "_float"], to=TensorProto.FLOAT),
                  helper.make_node("ReduceSum", [k + "_float"], [k + "_sum"], keepdims=0),
                  helper.make_node("Add", [last, k + "_sum"], [k + "_added"])]
        last = k + "_added"
    return model_of([*nodes, *summed(last)], {name: value, **others}, signature_of(p_m_e="m.e", x=None), {name: names})


def check_tables(case):
    table = np.array([[2, 5, 1], [1, 2, 5], [5, 1, 2]], np.float32)
    judge(case, "a table beside its rows", folded("embedding", table[:2], ["m.e"], **{"m.e": table}), (0,))
    for what, there in (("flat", table.reshape(-1)), ("of rank 3", table[None]), ("of rank 3, too", table[:, None]),
                        ("of shorter rows", table[:2].reshape(3, 2)), ("of one number", np.float32(2)),
                        ("of another type", table.astype(np.float64)), ("of nothing", np.zeros((0, 3), np.float32))):
        said = judge(case, f"a table {what} beside rows: refused",
                         folded("embedding", table[:2], ["m.e"], **{"m.e": there}), (3,))
        expect("  by name", "m.e" in said, said)
    same_bytes = np.zeros((1, 2))
    judge(case, "rows of the same bytes in another type: refused",
              folded("embedding", np.zeros((2, 4), np.float32), ["m.e"], **{"m.e": same_bytes}), (3,))


def check_shapes(case):
    for name, names in (("expand", ["m.e"]), ("expand", ["m.e", "unsqueeze"]), ("exp", ["m.e"]), ("index", ["m.e"])):
        for shape in ((), (0,), (3, 0), (1, 1, 1), (2, 1, 1, 2, 1, 3), (2,) * 9):
            model = folded(name, np.full(shape, 2, np.float16), names)
            judge(case, f"{name} of {names}, float16 {list(shape)}", model, (0, 3))
            judge(case, "  without its weights", model, (0, 3), external=False)


# --- names and words, exchanged at random -----------------------------------------------------------------------------
def mutated(text, other, random_):
    """One change of metadata."""
    at, to = sorted(random_.randrange(len(text) + 1) for _ in range(2))
    lines = text.split("\n")
    return random_.choice([
        lambda: text[:at], lambda: text[:at] + text[to:], lambda: text[:to] + text[at:], lambda: other,
        lambda: "\n".join(random_.sample(lines, len(lines))), lambda: text[:at] + "[(" * 50000 + text[at:],
        lambda: text.replace("PARAMETER", "BUFFER", 1), lambda: text.replace("p_m_a", "p_m_b"),
        lambda: text.replace("m.a", random_.choice(["m.b", "x", "loss", "", "detach", "a" * 100000])),
        lambda: text[:at] + chr(random_.randrange(1, 0x2000)) + text[at:], lambda: text.replace("mul", "detach")])()


def check_mutations(case):
    random_ = random.Random(1)
    for number in range(60):
        nodes = [node("%mul = aten.mul.Tensor(%x, %p_m_a)", "Mul", ["x", "m.a"], ["mul"], "m.a"),
                 node("%add = aten.add.Tensor(%mul, %expand)", "Add", ["mul", "expand"], ["add"], "m.b"),
                 node("%div = aten.div.Tensor(%add, %exp)", "Div", ["add", "exp"], ["div"]), *summed("div")]
        model = model_of(nodes, {"m.a": W, "expand": np.stack([W, W]), "exp": W + 1},
                         signature_of(p_m_a="m.a", p_m_b="m.b", p_m_c="m.c", x=None),
                         {"expand": ["m.b", "unsqueeze"], "exp": ["m.c"]}, {"m.a": "PARAMETER"})
        texts = [entry for entity in (model.graph, *model.graph.node, *model.graph.value_info)
                 for entry in entity.metadata_props]
        for _ in range(random_.randrange(1, 4)):
            entry = random_.choice(texts)
            entry.value = mutated(entry.value, random_.choice(texts).value, random_)
        judge(case, f"mutation {number}", model, (0, 3))


# --- much of it -------------------------------------------------------------------------------------------------------
MANY = 100000


def check_many_names(case):
    names = [f"view_{i}" for i in range(MANY)] + ["m.z"]
    told = "\n# inputs\np_m_z: PARAMETER target='m.z'\nx: USER_INPUT\n"
    words = ", ".join(f"%q{i}" for i in range(MANY))
    nodes = [node(f"%mul = aten.mul.Tensor({words})", "Mul", ["x", "view"], ["y"]), *summed("y")]
    judge(case, "many names in a fold and in a call", model_of(nodes, {"view": W}, told, {"view": names}), (3,))
    nodes = [node("%mul = aten.mul.Tensor(%x, %q)", "Mul", ["x", "view"], [f"y{i}"]) for i in range(5000)]
    nodes += [helper.make_node("Sum", [f"y{i}" for i in range(5000)], ["y"]), *summed("y")]
    judge(case, "many names in a fold that many nodes read", model_of(nodes, {"view": W}, told, {"view": names}),
              (3,))


def check_many_operands(case):
    count = 12000
    told = "\n# inputs\np_m_w: PARAMETER target='m.w'\nx: USER_INPUT\n"
    nodes = [node(f"%mul_{i} = aten.mul.Tensor(%x, %p_m_w)", "Mul", ["x", "m.w"], [f"y{i}"]) for i in range(count)]
    words = ", ".join(f"%mul_{i}" for i in range(1, count))
    nodes += [node(f"%cat = aten.cat.default(%detach, {words})", "Sum", [f"y{i}" for i in range(count)], ["y"]),
              *summed("y")]
    said = judge(case, "one operand of many is detached", model_of(nodes, {"m.w": W}, told), (0,))
    expect("  that one", "stop at y0," in said, said)


if __name__ == "__main__":
    main(globals(), *sys.argv[1:])
