#!/usr/bin/env python3
"""What PyTorch's dynamo exporter tells in metadata, which ONNX text cannot hold: kinds of initializers, and what was
computed from parameters. Hits, near misses, refusals and metadata that make no sense. Lines are spelled as PyTorch 2.15
spells them; that gradients are PyTorch's is what models/ shows, here they are those of numpy.

usage: check_torch_metadata.py TEMPOC TEMPO_RUN [NAME ...]      NAME: functions below, without `check_`; default: all
"""
import os
import sys
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compare import load, max_error, near
from programs import each_check, expect, path, run
from tolerances import EXPORTED, EXPORTED_FUNCTION, EXPORTED_SLOPE, each
from torch_metadata import CALL, FOLDED, KIND, SCOPES, SIGNATURE, node, note


def signature_of(**kinds):
    """The text that lists inputs: p_m_w="m.w" a parameter, b_... a buffer, c_... a constant, others the caller's."""
    words = {"p": "PARAMETER", "b": "BUFFER", "c": "CONSTANT_TENSOR"}
    lines = [f"{token}: {words[token[0]]} target='{target}'" + (" persistent=True" if token[0] == "b" else "")
             if target else f"{token}: USER_INPUT" for token, target in kinds.items()]
    return "\n# inputs\n" + "\n".join(lines) + "\n\n# outputs\nsum_1: USER_OUTPUT\n"


def model_of(nodes, weights, signature=None, folded=None, kinds=None, dtype=np.float32):
    """A graph of x [2,3], or of what its nodes need of it, with a scalar loss; weights as given or as floats."""
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {k: v if isinstance(v, (np.ndarray, np.float32)) else np.asarray(v, dtype) for k, v in weights.items()}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", code, [2, 3])],
                              [helper.make_tensor_value_info("loss", code, [])],
                              [numpy_helper.from_array(v, k) for k, v in weights.items()])
    for key, told in ((FOLDED, folded), (KIND, kinds)):
        for name, value in (told or {}).items():
            info = graph.value_info.add()
            info.CopyFrom(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(weights[name].dtype),
                                                        weights[name].shape))
            note(info, key, value if isinstance(value, str) else str(value))
    if signature:
        note(graph, SIGNATURE, signature)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def summed(value, square=True):
    """The nodes from `value` to the loss, the sum of its squares or of its elements."""
    squares = [helper.make_node("Mul", [value, value], ["squares"])] if square else []
    return squares + [helper.make_node("ReduceSum", ["squares" if square else value], ["loss"], keepdims=0)]


class Case:
    """Tools, and what they make of a model."""

    def __init__(self, tempoc, tempo_run):
        self.tempoc, self.tempo_run, self.out = tempoc, tempo_run, path("out.onnx")

    def compile(self, model, *flags, external=None):
        """(exit code, messages); `external`: weights are in a file, which is taken away where this is False."""
        source, weights = path("in.onnx"), path("weights.bin")
        if external is None:
            onnx.save(model, source)
        else:
            onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
            if not external:
                os.remove(weights)
        done = run(self.tempoc, source, "-o", self.out, "-q", "--verify-each", *flags, code=None, timeout=120)
        for sign in ("Sanitizer", "runtime error"):
            if sign in done.err:
                expect("a build with sanitizers finds nothing", False, done.err[:2000])
        return done.code, done.err

    def trained(self):
        graph = onnx.load(self.out, load_external_data=False).graph
        return {o.name[:-5] for o in graph.output if o.name.endswith("_grad")}

    def initializers(self):
        return {i.name: i for i in onnx.load(self.out, load_external_data=False).graph.initializer}

    def dims(self, name):
        """Of an initializer; None where it is not there."""
        init = self.initializers().get(name)
        return list(init.dims) if init else None

    def run(self, x):
        np.savez(path("x.npz"), x=x)
        run(self.tempo_run, self.out, "--inputs", path("x.npz"), "--outputs", path("got.npz"))
        return load(path("got.npz"))


X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def close(got, want, limit=EXPORTED):
    return max_error(got, want) <= limit


# --- kinds ------------------------------------------------------------------------------------------------------------
AFFINE = [helper.make_node("Mul", ["x", "m.a"], ["ax"]), helper.make_node("Add", ["ax", "m.b"], ["y"]), *summed("y")]
WEIGHTS = {"m.a": [1.0, 2.0, 3.0], "m.b": [0.1, 0.2, 0.3]}


def check_kinds(case):
    told = signature_of(p_m_a="m.a", b_m_b="m.b", x=None)
    code, said = case.compile(model_of(AFFINE, WEIGHTS, told))
    expect("a signature without kinds tells", code == 0 and case.trained() == {"m.a"}, said)
    code, said = case.compile(model_of(AFFINE, WEIGHTS, kinds={"m.a": "PARAMETER", "m.b": "CONSTANT_TENSOR"}))
    expect("kinds without a signature tell", code == 0 and case.trained() == {"m.a"}, said)
    code, said = case.compile(model_of(AFFINE, WEIGHTS))
    expect("neither: both are trained", code == 0 and case.trained() == {"m.a", "m.b"}, said)
    code, said = case.compile(model_of(AFFINE, WEIGHTS, kinds={"m.a": "PARAMETER", "m.b": "SOMETHING"}))
    expect("a kind of no meaning tells nothing", code == 0 and case.trained() == {"m.a", "m.b"}, said)
    code, said = case.compile(model_of(AFFINE, WEIGHTS, told), "--train=m.b", "--freeze=m.a")
    expect("--train and --freeze win over kinds", code == 0 and case.trained() == {"m.b"}, said)


def check_single(case):
    for value in (3.0, [3.0], [[[3.0]]]):
        weights = {"m.a": value, "m.b": [0.5]}
        told = signature_of(p_m_a="m.a", b_m_b="m.b", x=None)
        code, said = case.compile(model_of(AFFINE, weights, told))
        expect(f"a parameter of one element, {np.shape(value)}, is trained", code == 0 and case.trained() == {"m.a"},
               said)
        code, said = case.compile(model_of(AFFINE, weights))
        expect(f"untold, {np.shape(value)}, it is not", "has no parameter to train" in said or code != 0 or
               case.trained() == set(), said)
    nodes = [helper.make_node("Mul", ["x", "val_1"], ["ax"]), helper.make_node("Add", ["ax", "m.b"], ["y"]),
             *summed("y")]
    code, said = case.compile(model_of(nodes, {"val_1": 2.0, "m.b": WEIGHTS["m.b"]}, signature_of(p_m_b="m.b")))
    expect("a constant of one element, which is not listed, is not", code == 0 and case.trained() == {"m.b"}, said)


# --- folds ------------------------------------------------------------------------------------------------------------
def scaled(name):
    return [helper.make_node("Mul", ["x", name], ["y"]), *summed("y")]


def check_unknown(case):
    told = signature_of(p_m_s="m.s", b_m_t="m.t", x=None)
    for name, value in (("tanhshrink", "['m.s']"), ("view_1", "['m.s', 'getitem', 'val_1']"),
                        ("exp", "['m.s', 'cumsum']"), ("mul", "['m.s', 'm.t']")):
        code, said = case.compile(model_of(scaled(name), {name: [1.0, 2.0, 3.0]}, told, {name: value}))
        expect(f"{name} of {value}: refused, with names and a way out", code == 3 and "m.s" in said and name in said and
               "optimize=False" in said and f"--train={name}" in said, said)
        code, said = case.compile(model_of(scaled(name), {name: [1.0, 2.0, 3.0]}, told, {name: value}),
                                  f"--train={name}")
        expect(f"{name}: --train trains the copy", code == 0 and case.trained() == {name}, said)
    nodes = [helper.make_node("Mul", ["x", "m.a"], ["ax"]), helper.make_node("Add", ["ax", "sub"], ["y"]), *summed("y")]
    code, said = case.compile(model_of(nodes, {"m.a": [1.0, 2.0, 3.0], "sub": [1.0, 5.0, 3.0]},
                                       signature_of(p_m_a="m.a", b_m_t="m.t"), {"sub": "['nobody', 'm.t']"}))
    expect("from a buffer and unknown names: not trained", code == 0 and case.trained() == {"m.a"}, said)
    nodes = [helper.make_node("Mul", ["x", "mul"], ["y"]), *summed("y")]
    told = signature_of(p_m_s="m.s", p_m_t="m.t")
    code, said = case.compile(model_of(nodes, {"mul": [1.0, 2.0, 3.0]}, told, {"mul": "['m.s', 'm.t']"}))
    expect("two parameters: refused", code == 3 and "several parameters" in said and "m.s and 1 more" in said, said)


def check_functions(case):
    told = signature_of(p_m_s="m.s", x=None)
    steps = {"exp": (["m.s"], np.exp), "neg": (["exp", "m.s"], lambda s: -np.exp(s)), "exp_1": (
        ["m.s", "neg"], lambda s: np.exp(-s)), "sigmoid": (["m.s"], lambda s: 1 / (1 + np.exp(-s)))}
    s = np.array([-0.7, 0.2, 1.1])
    for dtype, limit in EXPORTED_FUNCTION.items():
        dtype = np.dtype(dtype)
        for name, (names, function) in steps.items():
            value = function(s.astype(dtype)).astype(dtype)
            code, said = case.compile(model_of(scaled(name), {name: value}, told, {name: names}, dtype=dtype))
            expect(f"{name} of {names}, {dtype}: undone", code == 0 and case.trained() == {"m.s"}, said)
            if code:
                continue
            made = numpy_helper.to_array(case.initializers()["m.s"])
            got, step = case.run(X.astype(dtype)), 1e-5
            y = lambda s: np.sum((X * function(s)) ** 2, 0)
            want = (y(s + step) - y(s - step)) / (2 * step)
            expect(f"  its value and gradient", made.dtype == dtype and near(made, s, each(1e-5, limit)) and
                   close(got["m.s_grad"], want, limit) and np.isclose(got["loss"], np.sum(y(s)), rtol=limit),
                   (made, got, want))
    code, said = case.compile(model_of(scaled("exp"), {"exp": np.float32(2)}, told, {"exp": ["m.s"]}))
    expect("exp of a scalar", code == 0 and case.dims("m.s") == [] and
           close(case.run(X.astype(np.float32))["m.s_grad"], 8 * np.sum(X * X)), said)
    for value in ([1.0, -2.0, 3.0], [1.0, 0.0, 3.0], [1.0, np.nan, 3.0], [1.0, np.inf, 3.0]):
        code, said = case.compile(model_of(scaled("exp"), {"exp": value}, told, {"exp": ["m.s"]}))
        expect(f"exp with the result {value[1]}: refused", code == 3 and "cannot be computed" in said, said)


def check_shifted(case):
    told = signature_of(p_m_s="m.s", x=None)
    w = np.array([1.0, 2.0, 3.0], np.float32)
    for names in (["m.s", "val_1"], ["m.s", "scalar_tensor_default", "val_1"]):
        code, said = case.compile(model_of(scaled("add_4"), {"add_4": w}, told, {"add_4": names}))
        expect(f"a parameter plus a number, {names}", code == 0 and case.trained() == {"add_4"} and
               "add_4 for m.s" in said, said)
        got = case.run(X.astype(np.float32))["add_4_grad"]
        expect("  has the gradient of the sum", close(got, np.sum(2 * X * X * w, 0)), got)
    for names in (["m.s", "val_1", "val_2"], ["m.s", "mul", "val_1"], ["m.s", "m.t", "val_1"]):
        code, said = case.compile(model_of(scaled("add_4"), {"add_4": w}, told, {"add_4": names}))
        expect(f"a near miss, {names}: refused", code == 3 and "add_4" in said, said)
    code, said = case.compile(model_of(added("add_4", "m.s"), {"add_4": w + 1, "m.s": w}, told,
                                       {"add_4": ["m.s", "val_1"]}))
    expect("the parameter is there, too: refused", code == 3 and "has the parameter, too" in said, said)
    code, said = case.compile(model_of(added("add_4", "add_5"), {"add_4": w + 1, "add_5": w + 2}, told,
                                       {"add_4": ["m.s", "val_1"], "add_5": ["m.s", "val_2"]}))
    expect("two sums of one parameter: refused", code == 3 and "add_4" in said and "add_5" in said, said)


def check_same_parameter(case):
    """exp (s) beside s itself."""
    told = signature_of(p_m_s="m.s", x=None)
    nodes = [helper.make_node("Mul", ["x", "exp"], ["ex"]), helper.make_node("Add", ["ex", "m.s"], ["y"]), *summed("y")]
    s = np.array([-0.7, 0.2, 1.1], np.float32)
    code, said = case.compile(model_of(nodes, {"exp": np.exp(s), "m.s": s}, told, {"exp": ["m.s"]}))
    expect("a parameter beside its function: one gradient", code == 0 and case.trained() == {"m.s"}, said)
    got = case.run(X.astype(np.float32))["m.s_grad"]
    expect("  which is that of both", close(got, np.sum(2 * (X * np.exp(s) + s) * (X * np.exp(s) + 1), 0)), got)
    code, said = case.compile(model_of(nodes, {"exp": np.exp(s), "m.s": s + 1}, told, {"exp": ["m.s"]}))
    expect("a parameter with other numbers: refused", code == 3 and "with other numbers" in said, said)


def check_expand(case):
    told = signature_of(p_m_t="m.t", x=None)
    t = np.array([[[1.0, 2.0, 4.0]]], np.float32)
    nodes = [helper.make_node("Add", ["x", "expand"], ["y"]), *summed("y")]
    data = np.repeat(t, 2, 1)[0]
    code, said = case.compile(model_of(nodes, {"expand": data}, told, {"expand": ["m.t"]}))
    expect("expand: one row", code == 0 and case.trained() == {"m.t"} and "expand in the file" in said, said)
    expect("  whose gradient is the sum", close(case.run(X.astype(np.float32))["m.t_grad"],
                                               np.sum(2 * (X + t[0]), 0, keepdims=True)))
    code, said = case.compile(model_of(nodes, {"expand": data}, told, {"expand": ["m.t", "unsqueeze", "val_3"]}))
    expect("expand of unsqueeze: no axis of one", code == 0 and case.dims("m.t") == [3], said)
    data[1, 1] += 1
    code, said = case.compile(model_of(nodes, {"expand": data}, told, {"expand": ["m.t"]}))
    expect("data that do not repeat were not repeated: trained as they stand", code == 0 and
           case.trained() == {"expand"} and case.dims("m.t") is None, said)
    code, said = case.compile(model_of(added("expand", "m.t"), {"expand": data, "m.t": data}, told,
                                       {"expand": ["m.t"]}))
    expect("  and once, where the parameter is there, too", code == 0 and case.trained() == {"m.t"} and
           case.dims("expand") is None, said)
    code, said = case.compile(model_of(nodes, {"expand": data}, told, {"expand": ["m.t"]}, dtype=np.float32),
                              external=False)
    expect("weights that are not there: the first axis", code == 0 and case.dims("m.t") == [1, 3], said)
    for shape, refused in (((2, 1, 3), False), ((4, 2, 3), True)):
        code, said = case.compile(model_of(nodes, {"expand": np.zeros(shape, np.float32)}, told, {"expand": ["m.t"]}))
        expect(f"zeros of {shape}", code == 3 * refused and ("are all equal" in said) == refused, said)
    code, said = case.compile(model_of(scaled("exp"), {"exp": [1.0, 2.0, 3.0]}, told, {"exp": ["m.t"]}),
                              external=False)
    expect("a function of weights that are not there: refused", code == 3 and "are missing" in said, said)
    code, said = case.compile(model_of(nodes, {"expand": np.repeat(t, 2, 1)[0]}, told, {"expand": ["m.t"]}),
                              external=True)
    expect("weights in a file of their own", code == 0 and case.dims("m.t") == [1, 3], said)


def check_selection(case):
    told = signature_of(p_m_s="m.s", p_m_w="m.w", x=None)
    nodes = [helper.make_node("MatMul", ["x", "val_1"], ["xw"]), helper.make_node("Mul", ["xw", "exp"], ["y"]),
             *summed("y")]
    model = model_of(nodes, {"val_1": np.arange(9, dtype=np.float32).reshape(3, 3), "exp": [1.0, 2.0, 3.0]}, told,
                     {"val_1": ["m.w"], "exp": ["m.s"]})
    for flags, want in (((), {"val_1", "m.s"}), (("--freeze=m.w",), {"m.s"}), (("--freeze=m.s",), {"val_1"}),
                        (("--freeze=*", "--train=m.s"), {"m.s"}), (("--freeze=*", "--train=m.w"), {"val_1"}),
                        (("--train=*",), {"val_1", "m.s"}), (("--freeze=m.w", "--train=exp"), {"exp"})):
        code, said = case.compile(model, *flags)
        expect(f"selection by PyTorch's names: {' '.join(flags)}", code == 0 and case.trained() == want,
               (said, case.trained()))


# --- tables -----------------------------------------------------------------------------------------------------------
TABLE = np.arange(1, 16, dtype=np.float32).reshape(5, 3) / 7


def added(*names):
    nodes, last = [], "x"
    for i, name in enumerate(names):
        nodes.append(helper.make_node("Add", [last, name], [f"y{i}"]))
        last = f"y{i}"
    return nodes + summed(last)


def check_rows(case):
    told = signature_of(p_m_e="m.e", x=None)
    once, twice = TABLE[[3, 1]], TABLE[[2, 2]]
    code, said = case.compile(model_of(added("embedding"), {"embedding": once}, told, {"embedding": ["m.e", "arange"]}))
    expect("rows of a table: trained as they stand", code == 0 and case.trained() == {"embedding"} and
           "m.e (2 rows, as " in said, said)
    code, said = case.compile(model_of(added("embedding"), {"embedding": twice}, told, {"embedding": ["m.e", "ids"]}))
    expect("a row that comes twice is one", code == 0 and case.dims("embedding") == [1, 3] and
           "m.e (1 row, as " in said, said)
    expect("  whose gradient is the sum", close(case.run(X.astype(np.float32))["embedding_grad"],
                                               np.sum(2 * (X + TABLE[2]), 0, keepdims=True)))
    fold = {"embedding": ["m.e", "a"], "embedding_1": ["m.e", "b"]}
    code, said = case.compile(model_of(added("embedding", "embedding_1"), {"embedding": once, "embedding_1": twice},
                                       told, fold))
    expect("two readers of one table", code == 0 and case.trained() == {"embedding"} and
           "m.e (3 rows, as " in said, said)
    got, y = case.run(X.astype(np.float32))["embedding_grad"], 2 * (X + once + twice)
    expect("  whose gradient is that of both", close(got, np.stack([y[0], y[1], y[0] + y[1]])), got)
    code, said = case.compile(model_of(added("m.e_sum", "embedding_1") + [],
                                       {"m.e_sum": once, "embedding_1": twice}, told, {"embedding_1": ["m.e"]}))
    expect("another initializer is no reader of it", code == 0 and "m.e (1 row, as " in said, said)


def check_table_there(case):
    told = signature_of(p_m_e="m.e", x=None)
    nodes = [helper.make_node("MatMul", ["m.e", "m.e"], ["ee"]), helper.make_node("ReduceSum", ["ee"], ["s"],
                                                                                  keepdims=0),
             helper.make_node("Add", ["x", "embedding"], ["xe"]), helper.make_node("Mul", ["xe", "s"], ["y"]),
             *summed("y", square=False)]
    table = TABLE[:3]
    model = model_of(nodes, {"m.e": table, "embedding": table[[2, 2]]}, told, {"embedding": ["m.e", "ids"]})
    code, said = case.compile(model)
    expect("the table is there, too: its rows are gathered", code == 0 and case.trained() == {"m.e"}, said)
    s = lambda e: np.sum(X + e[[2, 2]]) * np.sum(e @ e)
    want, e = np.zeros_like(table, np.float64), table.astype(np.float64)
    for at in np.ndindex(want.shape):
        step = np.zeros_like(want)
        step[at] = 1e-5
        want[at] = (s(e + step) - s(e - step)) / 2e-5
    expect("  and its gradient is that of both", close(case.run(X.astype(np.float32))["m.e_grad"], want,
                                                        EXPORTED_SLOPE))
    model = model_of(nodes, {"m.e": table, "embedding": table[[2, 2]] + 1}, told, {"embedding": ["m.e", "ids"]})
    code, said = case.compile(model)
    expect("rows that the table does not have: refused", code == 3 and "rows that the table lacks" in said,
           said)
    model = model_of(nodes, {"m.e": table[[0, 0, 1]], "embedding": table[[0, 1]]}, told, {"embedding": ["m.e", "ids"]})
    code, said = case.compile(model)
    expect("a table with equal rows: refused", code == 3 and "the table has equal rows" in said, said)


def check_rows_untold(case):
    told = signature_of(p_m_e="m.e", x=None)
    fold = {"embedding": ["m.e", "ids"]}
    code, said = case.compile(model_of(added("embedding"), {"embedding": [[0.5] * 3] * 2}, told, fold))
    expect("equal rows that are uniform, as fresh ones are: refused", code == 3 and "cannot be distinguished" in said,
           said)
    code, said = case.compile(model_of(added("embedding"), {"embedding": TABLE[[2, 1]]}, told, fold), external=False)
    expect("weights that are not there: rows as they stand", code == 0 and case.trained() == {"embedding"}, said)
    square = np.array([[2, 5, 1], [1, 2, 5], [5, 1, 2]], np.float32)
    nodes = [helper.make_node("MatMul", ["x", "index"], ["y"]), *summed("y")]
    code, said = case.compile(model_of(nodes, {"index": square}, told, {"index": ["m.e", "val_1"]}))
    expect("single elements of a table: refused", code == 3 and "index" in said and "m.e" in said, said)
    heads = np.moveaxis(TABLE[[0, 1, 1, 0]].reshape(2, 2, 3), -1, 0)  # [3, 2, 2]
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
             helper.make_node("Mul", ["s", "permute"], ["y"]), *summed("y")]
    code, said = case.compile(model_of(nodes, {"permute": np.ascontiguousarray(heads)}, told,
                                       {"permute": ["m.e", "index", "val_2"]}))
    expect("rows along another axis", code == 0 and "m.e (2 rows, as " in said and
           case.dims("permute") == [2, 3], said)
    code, said = case.compile(model_of(added("embedding"), {"embedding": np.float32(3)}, told, fold))
    expect("a lookup of rank 0: refused", code == 3, said)
    nodes = [helper.make_node("ReduceSum", ["embedding"], ["none"], keepdims=0),
             helper.make_node("Add", ["x", "none"], ["y"]), *summed("y")]
    code, said = case.compile(model_of(nodes, {"embedding": np.zeros((0, 3), np.float32)}, told, fold))
    expect("a lookup of nothing: no crash", code in (0, 3), said)
    code, said = case.compile(model_of(nodes, {"embedding": np.zeros((2, 0), np.float32)}, told, fold))
    expect("a lookup of rows of nothing: no crash", code in (0, 3), said)


def check_parts(case):
    told = signature_of(p_m_p="m.p", x=None)
    code, said = case.compile(model_of(added("slice_1"), {"slice_1": TABLE[:2]}, told, {"slice_1": ["m.p", "val_1"]}))
    expect("a part is trained as it stands", code == 0 and case.trained() == {"slice_1"} and
           "m.p (as slice_1)" in said, said)
    code, said = case.compile(model_of(added("slice_1", "slice_2"), {"slice_1": TABLE[:2], "slice_2": TABLE[1:3]}, told,
                                       {"slice_1": ["m.p"], "slice_2": ["m.p"]}))
    expect("two parts: refused", code == 3 and "other parts" in said, said)
    code, said = case.compile(model_of(added("slice_1", "m.p"), {"slice_1": TABLE[:2], "m.p": TABLE[:2] + 1}, told,
                                       {"slice_1": ["m.p"]}))
    expect("a part beside the whole: refused", code == 3 and "other parts" in said, said)
    code, said = case.compile(model_of(added("slice_1"), {"slice_1": np.exp(TABLE[:2])}, told,
                                       {"slice_1": ["m.p", "exp"]}))
    expect("a part that was computed with: refused", code == 3 and "computed from" in said, said)


def check_detached(case):
    told = signature_of(p_m_a="m.a", p_m_t="m.t", x=None)
    nodes = [helper.make_node("Mul", ["x", "m.a"], ["ax"]), helper.make_node("Add", ["ax", "detach"], ["y"]),
             *summed("y")]
    code, said = case.compile(model_of(nodes, {"m.a": [1.0, 2.0, 3.0], "detach": [1.0, 5.0, 3.0]}, told,
                                       {"detach": ["m.t"]}))
    expect("a detached parameter is not trained", code == 0 and case.trained() == {"m.a"}, said)


# --- what the file lacks ----------------------------------------------------------------------------------------------
def gated(first, second, same=True, name="sigmoid"):
    """x (a) + x^2 (b), where the calls read `first` and `second`."""
    return [node(f"%mul = aten.mul.Tensor(%x, {first})", "Mul", ["x", name], ["mul"]),
            node("%pow_1 = aten.pow.Tensor_Scalar(%x, 2)", "Mul", ["x", "x"], ["pow_1"]),
            node(f"%mul_1 = aten.mul.Tensor(%pow_1, {second})", "Mul", ["pow_1", name if same else "x"], ["mul_1"]),
            node("%add = aten.add.Tensor(%mul, %mul_1)", "Add", ["mul", "mul_1"], ["add"]),
            node("%sum_1 = aten.sum.default(%add)", "ReduceSum", ["add"], ["loss"], keepdims=0)]


def check_folded_norm(case):
    """In evaluation mode, with the scale of a norm in the weight of the convolution before it."""
    told = signature_of(p_m_c_weight="m.c.weight", p_m_n_weight="m.n.weight", p_m_n_bias="m.n.bias", x=None)
    call = ("%norm = aten._native_batch_norm_legit_no_training.default(%conv2d, %p_m_n_weight, %p_m_n_bias, %b_mean, "
            "%b_var, 0.1, 1e-05)")
    made = [node(call, "Mul", ["x", "m.c.weight"], ["norm"], "m.n"), *summed("norm")]
    code, said = case.compile(model_of(made, {"m.c.weight": [1.0, 2.0, 3.0]}, told))
    expect("a norm that was folded in evaluation mode: refused", code == 3 and
           "m.c.weight, which includes the batch normalization m.n" in said and
           "optimize=False" in said, said)


def check_merged_results(case):
    told, fold = signature_of(p_m_g="m.g", x=None), {"sigmoid": ["m.g"]}
    half = {"sigmoid": [0.5, 0.5, 0.5]}
    code, said = case.compile(model_of(gated("%sigmoid", "%sub"), half, told, fold))
    expect("a result that stands for another: refused", code == 3 and "sigmoid" in said and "sub" in said and
           "optimize=False" in said, said)
    code, said = case.compile(model_of(gated("%sigmoid", "%sub"), half, told, fold), "--train=sigmoid")
    expect("  --train trains it as it stands", code == 0 and case.trained() == {"sigmoid"}, said)
    for second in ("%sigmoid", "%view_3", "%expand_1", "%sigmoid_1", "%p_m_g"):
        code, said = case.compile(model_of(gated("%sigmoid", second), half, told, fold))
        expect(f"read as {second}: the same", code == 0 and case.trained() == {"m.g"} and "warning" not in said, said)
    both = signature_of(p_m_g="m.g", p_m_h="m.h", x=None)
    code, said = case.compile(model_of(gated("%sigmoid", "%sigmoid_1"), half, both, fold))
    expect("read as a second sigmoid, with a parameter that is nowhere: refused", code == 3 and "sigmoid_1" in said,
           said)
    nodes = [node("%mul = aten.mul.Tensor(%sigmoid, %sub)", "Mul", ["sigmoid", "sigmoid"], ["mul"]),
             node("%mul_1 = aten.mul.Tensor(%x, %mul)", "Mul", ["x", "mul"], ["mul_1"]), *summed("mul_1")]
    code, said = case.compile(model_of(nodes, half, told, fold))
    expect("both operands of one node: refused", code == 3 and "sub" in said, said)
    nodes = [node("%mul_1 = aten.mul.Tensor(%exp, %x)", "Mul", ["m.g", "x"], ["mul_1"]),
             node("%add = aten.add.Tensor(%mul_1, %p_m_g)", "Add", ["mul_1", "m.g"], ["add"]), *summed("add")]
    code, said = case.compile(model_of(nodes, {"m.g": [1.0, 1.0, 1.0]}, told))
    expect("a parameter that stands for a result: refused", code == 3 and "exp" in said and "m.g" in said, said)


def check_missing(case):
    told = signature_of(p_m_a="m.a", p_m_s="m.s", x=None)
    lost = "the file lacks PyTorch's parameter m.s: "

    def scaled_loss(read, scope=""):
        return [node("%mul = aten.mul.Tensor(%x, %p_m_a)", "Mul", ["x", "m.a"], ["mul"], scope),
                node(f"%tanh = aten.tanh.default({read})", "Tanh", ["mul"], ["tanh"]),
                node("%sum_1 = aten.sum.default(%tanh)", "ReduceSum", ["tanh"], ["loss"], keepdims=0)]

    for read, warned in (("%mul", False), ("%clone", False), ("%view_2", False), ("%mul_1", True), ("%add", True),
                         ("%sub_3", True)):
        code, said = case.compile(model_of(scaled_loss(read), {"m.a": [1.0, 2.0, 3.0]}, told))
        expect(f"a parameter that is nowhere, and a call that reads {read}", code == 0 and (lost in said) == warned,
               said)
    code, said = case.compile(model_of(scaled_loss("%add"), {"m.a": [1.0, 2.0, 3.0]}, signature_of(p_m_a="m.a")))
    expect("no parameter is missing: silence", code == 0 and "warning" not in said, said)
    nodes = scaled_loss("%mul")
    nodes[0] = node("", "Mul", ["x", "m.a"], ["mul"])
    code, said = case.compile(model_of(nodes, {"m.a": [1.0, 2.0, 3.0]}, told))
    expect("a node without a call, which may have read it", code == 0 and lost in said, said)
    tied = signature_of(p_m_head_a="m.head.a", p_m_wte_a="m.wte.a", x=None)
    nodes = scaled_loss("%add", "m.wte")
    nodes[0] = node("%mul = aten.mul.Tensor(%x, %p_m_head_a)", "Mul", ["x", "m.head.a"], ["mul"], "m.wte")
    code, said = case.compile(model_of(nodes, {"m.head.a": [1.0, 2.0, 3.0]}, tied))
    expect("a tied parameter under its other name: silence", code == 0 and "warning" not in said, said)


def check_merged_calls(case):
    """tanh (a x) b (a x) for a and b of equal numbers: the file has one of the two products with x."""
    lone, both = signature_of(p_m_a_w="m.a.w", x=None), signature_of(p_m_a_w="m.a.w", p_m_b_w="m.b.w", x=None)
    other = signature_of(p_m_a_w="m.a.w", p_m_c="m.c", x=None)
    before = signature_of(p_m_c="m.c", p_m_a_w="m.a.w", x=None)
    buffer = signature_of(p_m_a_w="m.a.w", b_c="m.c", x=None)

    def viewed():
        """The merged results are views of the products, and the call that reads one has two such names."""
        return [node("%mul = aten.mul.Tensor(%x, %p_m_a_w)", "Mul", ["x", "m.a.w"], ["mul"]),
                node("%transpose = aten.transpose.int(%mul, 0, 1)", "Transpose", ["mul"], ["transpose"]),
                node("%tanh = aten.tanh.default(%transpose,)", "Tanh", ["transpose"], ["tanh"]),
                node("%add = aten.add.Tensor(%transpose_2, %transpose_3)", "Add", ["tanh", "transpose"], ["add"]),
                *summed("add")]

    def nodes(second, split=False, users=1):
        halves = [node("", "Identity", ["mul"], ["split"])] if split else []  # in the place of a Split
        read, value = ("%getitem", "split") if split else ("%mul", "mul")
        return [node(f"%mul*{users} = aten.mul.Tensor(%x, %p_m_a_w)", "Mul", ["x", "m.a.w"], ["mul"]), *halves,
                node(f"%tanh = aten.tanh.default({read},)", "Tanh", [value], ["tanh"]),
                node(f"%add = aten.add.Tensor(%tanh, {second})", "Add", ["tanh", value], ["add"]), *summed("add")]

    for what, told, made, refused in (
            ("of another parameter that is nowhere", both, nodes("%mul_1"), True),
            ("of parts of it", both, nodes("%getitem_2", True), True),
            ("of views of it", both, viewed(), True),
            ("with no other parameter", lone, nodes("%mul_1"), False),
            ("that has as many readers as it says", both, nodes("%mul_1", users=2), False),
            ("of a parameter that is in front, as tied ones are", before, nodes("%mul_1"), False),
            ("that reads the same one", both, nodes("%mul", users=2), False),
            ("that reads a view of it", both, nodes("%view_1", users=2), False),
            ("that reads a view of another one", both, nodes("%view_1"), True),
            ("of the same part of it", both, nodes("%getitem", True), False)):
        code, said = case.compile(model_of(made, {"m.a.w": [1.0, 2.0, 3.0]}, told))
        expect("a call " + what, code == (3 if refused else 0) and ("m.b.w is nowhere" in said) == refused, said)
    code, said = case.compile(model_of(nodes("%mul_1"), {"m.a.w": [1.0, 2.0, 3.0]}, other))
    expect("a call of a parameter that has another name", code == 3 and "m.c is nowhere" in said, said)
    for what, told, weight, warned in (("a buffer", buffer, [1.0, 2.0, 3.0], True), ("ones", lone, [1.0] * 3, True),
                                       ("nothing", lone, [1.0, 2.0, 3.0], False)):
        code, said = case.compile(model_of(nodes("%mul_1"), {"m.a.w": weight}, told))
        expect(f"a call that {what} may have been read in", code == 0 and
               ("merged two equal results: mul" in said) == warned, said)
    code, said = case.compile(model_of(nodes("%mul_1"), {"m.a.w": [1.0, 2.0, 3.0]}, both), "--train=m.a.w")
    expect("--train takes a merged call as it is", code == 0 and case.trained() == {"m.a.w"}, said)


def check_merged_layers(case):
    """tanh (x w + b) + (x v + c), where w and v are equal: the exporter merged the first nodes of two linear layers."""
    told = signature_of(p_m_a_weight="m.a.weight", p_m_a_bias="m.a.bias", p_m_b_weight="m.b.weight",
                        p_m_b_bias="m.b.bias", x=None)
    w, b, c = np.arange(6.0).reshape(3, 2) / 4, np.array([0.5, -1.0]), np.array([2.0, 0.25])
    calls = [f"%linear{n} = aten.linear.default(%x, %p_m_{k}_weight, %p_m_{k}_bias)"
             for n, k in (("", "a"), ("_1", "b"))]
    nodes = [node(calls[0], "MatMul", ["x", "val_0"], ["val_1"]),
             node(calls[0], "Add", ["val_1", "m.a.bias"], ["linear"]),
             node("%tanh = aten.tanh.default(%linear,)", "Tanh", ["linear"], ["tanh"]),
             node(calls[1], "Add", ["val_1", "m.b.bias"], ["linear_1"]),
             node("%add = aten.add.Tensor(%tanh, %linear_1)", "Add", ["tanh", "linear_1"], ["add"]),
             *summed("add", False)]
    model = model_of(nodes, {name: np.asarray(value, np.float32) for name, value in (
        ("val_0", w), ("m.a.bias", b), ("m.b.bias", c))}, told, {"val_0": ["m.a.weight"]})
    code, said = case.compile(model, "--names=pytorch")
    got = case.run(X.astype(np.float32)) if code == 0 else {}
    slope = 1 - np.tanh(X @ w + b) ** 2
    expect("layers of equal weights and other biases are parted", code == 0 and
           close(got["m.a.weight_grad"], (X.T @ slope).T) and
           close(got["m.b.weight_grad"], (X.T @ np.ones_like(slope)).T), (said, list(got)))


def check_merged_parts(case):
    """x p + q in module m.a, then in m.b, where p and q are halves of m.a.w and of the equal m.b.w."""
    told = signature_of(p_m_a_w="m.a.w", p_m_b_w="m.b.w", x=None)
    whole = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], np.float32)

    def compile(*tail, turned="m.a", flags=()):
        model = model_of([helper.make_node("Split", ["m.a.w"], ["split_0", "split_1"], num_outputs=2, axis=0),
                          node("%mul = aten.mul.Tensor(%x, %getitem)", "Transpose", ["split_0"], ["p"], turned),
                          node("%mul = aten.mul.Tensor(%x, %getitem)", "Mul", ["x", "p"], ["mul"], "m.a"),
                          node("%add = aten.add.Tensor(%mul, %getitem_1)", "Add", ["mul", "split_1"], ["add"], "m.a"),
                          *tail, helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0)], {"m.a.w": whole}, told)
        return case.compile(model, *flags)

    product = node("%mul_1 = aten.mul.Tensor(%add, %getitem_2)", "Mul", ["add", "p"], ["mul_1"], "m.b")
    code, said = compile(product, node("%add_1 = aten.add.Tensor(%mul_1, %getitem_3)", "Add", ["mul_1", "split_1"],
                                       ["y"], "m.b"))
    got = case.run(X.astype(np.float32)) if code == 0 else {}
    p, q = whole[:3], whole[3:]
    ones = np.ones_like(X)
    expect("parts of two parameters that are one in the file", code == 0 and case.trained() == {"m.a.w", "m.b.w"} and
           "warning" not in said and close(got["m.a.w_grad"], np.concatenate([(X * p).sum(0), (ones * p).sum(0)])) and
           close(got["m.b.w_grad"], np.concatenate([(X * p + q).sum(0), ones.sum(0)])), (said, got))
    other = node("%tanh = aten.tanh.default(%mul_1,)", "Tanh", ["mul_1"], ["y"], "m.b")
    code, said = compile(product, other)
    expect("a part whose reader was merged: refused", code == 3 and "stands for parts of m.b.w" in said, said)
    code, said = compile(product, other, flags=["--train=m.a.w"])
    expect("  --train trains it as it stands", code == 0 and "m.a.w" in case.trained(), said)
    code, said = compile(node("%mul_1 = aten.mul.Tensor(%add, %getitem)", "Mul", ["add", "p"], ["y"], "m.a"))
    expect("parts of one parameter", code == 0 and case.trained() == {"m.a.w"}, said)


def check_added_products(case):
    """a + b c: the product's operands are the call's second and third."""
    told = signature_of(p_m_a="m.a", p_m_b="m.b", p_m_c="m.c", x=None)
    square = [[1.0, 2.0, 3.0]] * 3
    for target in ("addmm", "addbmm", "baddbmm"):
        call = f"%y = aten.{target}.default(%p_m_a, %p_m_b, %p_m_c)"
        nodes = [node(call, "MatMul", ["m.b", "m.c"], ["bc"]), node(call, "Add", ["bc", "m.a"], ["y"]), *summed("y")]
        code, said = case.compile(model_of(nodes, {"m.a": square, "m.b": square, "m.c": square}, told))
        expect(f"{target}: each parameter under its own name", code == 0 and not said and
               case.trained() == {"m.a", "m.b", "m.c"} == set(case.initializers()), said)


def check_dropped_loss(case):
    nodes = [node("%mul = aten.mul.Tensor(%x, %p_m_a)", "Mul", ["x", "m.a"], ["mul"]),
             node("%sum_1 = aten.sum.default(%mul)", "ReduceSum", ["mul"], ["loss"], keepdims=0)]
    for output, warned in (("sum_1", False), ("add", True), ("mul_7", True), ("view", False), ("mul", False)):
        told = signature_of(p_m_a="m.a", x=None).replace("sum_1: USER_OUTPUT", f"{output}: USER_OUTPUT")
        code, said = case.compile(model_of(nodes, {"m.a": [1.0, 2.0, 3.0]}, told))
        expect(f"PyTorch's loss is {output}, the file's sum_1", code == 0 and
               ("PyTorch's loss: the exporter" in said) == warned, said)


# --- nonsense ---------------------------------------------------------------------------------------------------------
def check_nonsense(case):
    odd = ["", "#", "# outputs", ":", "::::", "p: PARAMETER target='", "p: PARAMETER target=''", "p:", "p: ",
           "target='m.a'", "\n\n:\n#\n# outputs\n:", "p_m_a: PARAMETER target='m.a'\0", "é: PARAMETER target='m.a'",
           "p_m_a PARAMETER target='m.a'", "p_m_a: BUFFER target='m.a\n'"]
    for i, text in enumerate(odd):
        code, said = case.compile(model_of(AFFINE, WEIGHTS, text, {"m.b": odd[-1 - i]}, {"m.a": text}))
        expect(f"odd signature {i}", code in (0, 2, 3, 4), (code, said))
    for i, text in enumerate(["[", "['", "['m.a", "'''''", "['m.a']['m.a']", "[m.a]", "['m.a', 'exp', 'exp', 'neg']",
                              "['" + "m.a', '" * 1000 + "']"]):
        told = signature_of(p_m_a="m.a", x=None)
        code, said = case.compile(model_of(scaled("exp"), {"exp": [1.0, 2.0, 3.0]}, told, {"exp": text}))
        expect(f"odd fold {i}", code in (0, 2, 3, 4), (code, said))
    for i, text in enumerate(["%", "%%%", "% : =", "%y : [target=](args = (", "%y [target=a](args = (), kwargs = {",
                              "%y = [target=a](args = ((((((, kwargs = {}", "%y = [target=a](args = (%), kwargs = {:})",
                              "%y = [target=a](args = ('%x), kwargs = {'a: b}"]):
        nodes = [helper.make_node("Mul", ["x", "m.a"], ["y"]), *summed("y")]
        note(nodes[0], CALL, text)
        note(nodes[0], SCOPES, text)
        code, said = case.compile(model_of(nodes, {"m.a": [1.0, 2.0, 3.0]}, signature_of(p_m_a="m.a", p_m_b="m.b")))
        expect(f"odd call {i}", code == 0 and case.trained() == {"m.a"}, (code, said))


def check_long(case):
    """Ten megabytes of each are read in a time that does not grow with their square."""
    size = 10 << 20
    told = signature_of(p_m_a="m.a", b_m_b="m.b", x=None)
    call = "%y : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = ({}), kwargs = {{}})"
    texts = {
        "a signature of inputs": (SIGNATURE, "\n# inputs\n" + "a: USER_INPUT\n" * (size // 14)),
        "a signature of parameters": (SIGNATURE, "\n".join(f"p_{i}: PARAMETER target='p.{i}'"
                                                           for i in range(size // 40))),
        "a signature without ends": (SIGNATURE, "a: PARAMETER target='\n" * (size // 22)),
        "a signature that turns": (SIGNATURE, "# outputs\n# inputs\na: BUFFER target='a'\n" * (size // 41)),
        "a signature of one line": (SIGNATURE, "a: PARAMETER target='" + "b" * size),
        "arguments": (CALL, call.format("%add, " * (size // 6))),
        "brackets": (CALL, call.format("[" * (size // 2) + "]" * (size // 2))),
        "a call without an end": (CALL, call[:60] + "(" * size),
        "a name": (CALL, call.format("%" + "a" * size)),
        "scopes": (SCOPES, "'" * size),
        "a fold": (FOLDED, "['m.a'" + ", 'view'" * (size // 8) + "]"),
        "a fold without an end": (FOLDED, "'" * (size + 1)),
    }
    for what, (key, text) in texts.items():
        nodes = [helper.make_node("Mul", ["x", "m.a"], ["ax"]), helper.make_node("Add", ["ax", "m.b"], ["y"]),
                 *summed("y")]
        if key == SCOPES:
            note(nodes[0], CALL, call.format("%x, %p_m_a"))
        if key in (CALL, SCOPES):
            note(nodes[0], key, text)
        model = model_of(nodes, WEIGHTS, text if key == SIGNATURE else told, {"m.b": text} if key == FOLDED else None)
        begin = time.monotonic()
        code, said = case.compile(model)
        took = time.monotonic() - begin
        expect(f"ten megabytes of {what}", code in (0, 2, 3, 4) and took < 20, (code, took, said[:200]))


def main(functions, tempoc, tempo_run, *names):
    case = Case(os.path.abspath(tempoc), os.path.abspath(tempo_run))
    each_check(functions, names, lambda check: check(case))


if __name__ == "__main__":
    main(globals(), *sys.argv[1:])
