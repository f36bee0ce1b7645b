#!/usr/bin/env python3
"""Compares what the recipes make of one graph, and counts what they save by a walk of its own over the written models.

usage: check_recipes.py TEMPOC TEMPO_RUN [--own-tiles] [CASE_DIR ...]
BERT-like stacks with dropout, built here: saved bytes per block are the formulas of the literature, to the byte. These
and the cases (folders with model.onnx, inputs.npz): gradients of `none` at one thread, of `exact` at two and of `tiled`
at three are equal bit for bit; `paper` agrees with `none`, and so does `portable`, which holds standard ops only; they
save less than `none` does, and `tiled` less than `exact` where there is attention. All of it in float, in float16 and
in bfloat16 (cases named in HALF), and for products in 16 bits amid floats. GELU and its gradient are compared over all
numbers of 16 bits. With --own-tiles, gradients of `tiled` in 16 bits are near those of `none`: a device with tensor
cores has an attention of its own there, which rounds in other places.
"""
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import in_half
from compare import load, most, norm_error, rms, same_bits
from programs import case, finish, path, run
from tolerances import RECIPE

VIEWS = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}
BOTH = ("float16", "bfloat16")
# Conv-21 knows one
HALF = {"bert-ts_14": BOTH, "gpt2-dyn_21": BOTH, "llama-dyn_21": BOTH, "t5-dyn_18": BOTH, "vit-dyn_18": BOTH[:1]}


# --- the ledger, again -----------------------------------------------------------------------------------------------


def saved_bytes(model):
    """Bytes of what nodes outside of the loss's ancestors read of the ancestors' results; views are their root's bytes.
    Symbolic dims count as 7."""
    graph = model.graph
    producer = {name: node for node in graph.node for name in node.output if name}
    given = {v.name for v in graph.input} | {v.name for v in graph.initializer}

    def source(name, ops):
        while name in producer and producer[name].domain == "" and producer[name].op_type in ops:
            name = producer[name].input[0]
        return name

    forward, stack = set(), [graph.output[0].name]
    while stack:
        node = producer.get(stack.pop())
        if node is not None and id(node) not in forward:
            forward.add(id(node))
            stack.extend(node.input)
    types = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.output)}
    saved = {}
    for node in graph.node:
        if id(node) in forward or node.op_type in ("Shape", "Size"):
            continue
        for name in node.input:
            root = source(name, VIEWS)
            origin = source(name, VIEWS | {"Transpose"})
            constant = origin in given or origin not in producer or producer[origin].op_type == "Constant"
            if name and not constant and id(producer[root]) in forward:
                saved[root] = types[root]
    return sum(
        int(np.prod([d.dim_value or 7 for d in t.shape.dim])) * helper.tensor_dtype_to_np_dtype(t.elem_type).itemsize
        for t in saved.values()
    )


# --- a stack of blocks ------------------------------------------------------------------------------------------------

B, S, H, A, V = 2, 8, 32, 4, 11


def stack_of(blocks, spelling, products=None, near_one=False):
    """Post-norm blocks on embeddings, a head and a loss; `spelling` is how attention's scale is written. `products`:
    the type in which weights are multiplied, between casts, as automatic mixed precision has it. `near_one`: the scales
    of norms are, so that no channel of y loses digits of x-hat."""
    rng = np.random.default_rng(1)
    nodes, inits = [], []

    def const(name, value, dtype=np.float32):
        inits.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(name, *shape):
        return const(name, rng.normal(0, 0.3, shape))

    def op(kind, *operands, name, n=1, **attrs):
        outs = [name] if n == 1 else [name] + [f"{name}.{i}" for i in range(1, n)]
        nodes.append(helper.make_node(kind, operands, outs, name=name, **attrs))
        return name

    ratio, training = const("ratio", 0.25), const("training", True, bool)
    heads, flat = const("heads", [B, S, A, H // A], np.int64), const("flat", [B, S, H], np.int64)
    scale = const("scale", np.sqrt(H / A) if spelling == "Div" else 1 / np.sqrt(H / A))

    def linear(x, name, n_in, n_out):
        operands = [x, weight(f"{name}.weight", n_in, n_out), weight(f"{name}.bias", n_out)]
        if products:
            operands = [op("Cast", v, name=f"{name}.cast{i}", to=in_half.ONNX[products])
                        for i, v in enumerate(operands)]
        product = op("MatMul", *operands[:2], name=f"{name}.product")
        if not products:
            return op("Add", product, operands[2], name=name)
        return op("Cast", op("Add", product, operands[2], name=f"{name}.sum"), name=name, to=TensorProto.FLOAT)

    def norm(x, name):
        scale = const(f"{name}.weight", rng.normal(1, 0.1, H)) if near_one else weight(f"{name}.weight", H)
        return op("LayerNormalization", x, scale, weight(f"{name}.bias", H), name=name, axis=-1)

    def split(x, name, perm):
        return op("Transpose", op("Reshape", x, heads, name=f"{name}.heads"), name=f"{name}.t", perm=perm)

    def dropout(x, name):
        return op("Dropout", x, ratio, training, name=name)

    x = op("Gather", weight("embeddings.weight", V, H), "ids", name="embedded")
    x = dropout(norm(x, "embeddings.norm"), "embeddings.dropout")
    for i in range(blocks):
        p = f"layer.{i}."
        q = split(linear(x, p + "query", H, H), p + "q", [0, 2, 1, 3])
        k = split(linear(x, p + "key", H, H), p + "k", [0, 2, 3, 1])
        v = split(linear(x, p + "value", H, H), p + "v", [0, 2, 1, 3])
        scores = op(spelling, op("MatMul", q, k, name=p + "qk"), scale, name=p + "scores")
        probs = dropout(op("Softmax", scores, name=p + "probs", axis=-1), p + "probs.dropout")
        c = op("Transpose", op("MatMul", probs, v, name=p + "context"), name=p + "context.t", perm=[0, 2, 1, 3])
        c = op("Reshape", c, flat, name=p + "context.flat")
        c = dropout(linear(c, p + "out", H, H), p + "out.dropout")
        x = norm(op("Add", c, x, name=p + "residual1"), p + "norm1")
        f = op("Gelu", linear(x, p + "up", H, 4 * H), name=p + "gelu")
        f = dropout(linear(f, p + "down", 4 * H, H), p + "down.dropout")
        x = norm(op("Add", f, x, name=p + "residual2"), p + "norm2")
    logits = op("Transpose", linear(x, "head", H, V), name="logits", perm=[0, 2, 1])
    op("SoftmaxCrossEntropyLoss", logits, "labels", name="loss")
    ids = [helper.make_tensor_value_info(n, TensorProto.INT64, [B, S]) for n in ("ids", "labels")]
    loss = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "stack", ids, loss, inits)
    feeds = {n: rng.integers(0, V, (B, S)) for n in ("ids", "labels")}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


def check_formulas(o, dtype):
    sbh, as2b, sb = S * H * B, A * S * S * B, S * B
    e = 4 if dtype == "float" else 2
    # sb: mean and 1/std of two norms, always float; exact keeps no mean. Masks are bytes. Of 16 bits tiled keeps the
    # maximum and the sum of each row of a map, in float.
    want = {
        "none": (16 * e + 2) * sbh + (2 * e + 1) * as2b + 16 * sb,
        "exact": 10 * e * sbh + e * as2b + 8 * sb,
        "tiled": 10 * e * sbh + 8 * sb + (8 * A * sb if e == 2 else 0),
        "portable": (10 * e + 2) * sbh + (e + 1) * as2b + 16 * sb,
        # Masks are bits, three quarters of a byte for sbh with GELU's; each norm has room for x-hat of four channels.
        "paper": 10 * e * sbh + 3 * sbh // 4 + e * as2b + as2b // 8 + 8 * sb + 2 * 4 * (e * sb + 4),
    }
    for recipe, formula in want.items():
        total = {}
        for blocks in (1, 2, 3):
            model, _ = stack_of(blocks, "Div", near_one=True)
            if dtype != "float":
                in_half.convert(model, dtype)
            onnx.save(model, path("stack.onnx"))
            run(o.tempoc, path("stack.onnx"), "-o", path("out.onnx"), f"--recipe={recipe}")
            total[blocks] = saved_bytes(onnx.load(path("out.onnx")))
        for more in (2, 3):
            block = total[more] - total[more - 1]
            if block != formula:
                return f"{recipe}: block {more} saves {block} bytes, expected {formula}"
    return None


# --- one graph, five recipes -----------------------------------------------------------------------------------------


def off(got, want, dtype):
    """The gradient that differs most, on the scale of all: (error, name). One that is zero but for rounding, as that of
    the bias of an attention key, is some percent of the others in 16 bits."""
    scale = (0.01 if dtype == "float" else 0.1) * np.median([rms(w) for w in want.values()])
    return most([(norm_error(got[n], w, scale), n) for n, w in want.items()], RECIPE[dtype])


def check_graph(o, source, inputs, dtype):
    grads, saved, ops = {}, {}, {}
    for recipe, threads in ("none", 1), ("exact", 2), ("tiled", 3), ("portable", 2), ("paper", 3):
        out, got = path(f"{recipe}.onnx"), path(f"{recipe}.npz")
        run(o.tempoc, source, "-o", out, f"--recipe={recipe}")
        model = onnx.load(out)
        onnx.checker.check_model(model, full_check=True)
        domains = {n.domain for n in model.graph.node} | {i.domain for i in model.opset_import}
        if recipe == "portable" and (model.functions or domains != {""}):
            return "portable is left with other than standard ops"
        run(o.tempo_run, out, "--inputs", inputs, "--outputs", got, "--threads", threads, "--seed", 7)
        grads[recipe], saved[recipe] = load(got), saved_bytes(model)
        ops[recipe] = {n.op_type.partition("_")[0] for n in model.graph.node if n.domain == "ai.tempo"}
    near = {"portable", "paper"} | ({"tiled"} if o.own_tiles and dtype != "float" else set())
    for name, want in grads["none"].items():
        for recipe in {"exact", "tiled"} - near:
            if not same_bits(grads[recipe][name], want):
                return f"{name} is not bit-equal under none and {recipe}"
    want = {n: w for n, w in grads["none"].items() if n.endswith("_grad")}
    for recipe in near:
        error, name = off(grads[recipe], want, dtype)
        if not error <= RECIPE[dtype]:
            return f"{recipe}: {name} is off by {error:.1e}"
    if not all(saved[recipe] < saved["none"] for recipe in ("exact", "portable", "paper")):
        return f"saved bytes: {saved}"
    if saved["tiled"] > saved["exact"] or ("DotProductAttentionGrad" in ops["exact"]) != (
            saved["tiled"] < saved["exact"]):
        return f"saved bytes: {saved}"
    return None


# --- GELU over all numbers of 16 bits ---------------------------------------------------------------------------------


def check_gelu(o, dtype, form):
    """`exact` keeps GELU's operand and makes GELU again for the product's gradient: that is GELU itself, bit by bit."""
    every = helper.make_tensor("x", in_half.ONNX[dtype], [256, 256], np.arange(65536, dtype=np.uint16).tobytes(),
                               raw=True)
    factor = np.random.default_rng(2).normal(size=(256, 256)).astype(in_half.NUMPY[dtype])
    factor = helper.make_tensor("factor", in_half.ONNX[dtype], [256, 256], factor.tobytes(), raw=True)
    graph = helper.make_graph([
        helper.make_node("Gelu", ["x"], ["y"], approximate=form),
        helper.make_node("Mul", ["y", "factor"], ["scaled"]),
        helper.make_node("ReduceSum", ["scaled"], ["loss"], keepdims=0),
    ], "gelu", [], [helper.make_tensor_value_info("loss", in_half.ONNX[dtype], [])], [every, factor])
    source, out, got = path("gelu.onnx"), path("out.onnx"), path("got.npz")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), source)
    grads = {}
    for recipe, times in ("none", 1), ("exact", 2):
        run(o.tempoc, source, "-o", out, f"--recipe={recipe}")
        if sum(n.op_type == "Gelu" for n in onnx.load(out).graph.node) != times:
            return f"{recipe} does not compute GELU {times} times"
        run(o.tempo_run, out, "--outputs", got)
        grads[recipe] = load(got)
    for name in ("x_grad", "factor_grad"):
        if not same_bits(grads["none"][name], grads["exact"][name]):
            return f"{name} is not bit-equal under none and exact"
    return None


class Options:
    def __init__(self, tempoc, tempo_run, own_tiles):
        self.tempoc, self.tempo_run, self.own_tiles = tempoc, tempo_run, own_tiles


def main():
    tempoc, tempo_run, *folders = sys.argv[1:]
    o = Options(tempoc, tempo_run, "--own-tiles" in folders)
    folders = [folder for folder in folders if folder != "--own-tiles"]
    checks = [(f"formulas in {dtype}", check_formulas, (dtype,)) for dtype in RECIPE]
    checks += [(f"GELU in {dtype}, {form}", check_gelu, (dtype, form)) for dtype in in_half.ONNX
               for form in ("none", "tanh")]
    with tempfile.TemporaryDirectory() as made:  # path() is for each case alone
        def add(name, model, feeds, dtype):
            source, inputs = (os.path.join(made, f"case{len(checks)}.{end}") for end in ("onnx", "npz"))
            onnx.save(model, source)
            np.savez(inputs, **feeds)
            checks.append((name, check_graph, (source, inputs, dtype)))

        for spelling in ("Div", "Mul"):
            for dtype in RECIPE:
                model, feeds = stack_of(2, spelling)
                add(f"stack in {dtype}, scale by {spelling}",
                    in_half.convert(model, dtype) if dtype != "float" else model, feeds, dtype)
        for dtype in in_half.ONNX:
            add(f"stack with products in {dtype}", *stack_of(2, "Div", dtype), dtype)
        for folder in folders:
            name = os.path.basename(os.path.normpath(folder))
            paths = [os.path.join(folder, n) for n in ("model.onnx", "inputs.npz")]
            checks.append((name, check_graph, (*paths, "float")))
            for dtype in HALF.get(name, ()):
                feeds = {k: v.astype(in_half.NUMPY[dtype]) if v.dtype == np.float32 else v
                         for k, v in np.load(paths[1]).items()}
                add(f"{name} in {dtype}", in_half.convert(onnx.load(paths[0]), dtype), feeds, dtype)
        for name, check, operands in checks:
            case(name, check, o, *operands)
    finish()


main()
