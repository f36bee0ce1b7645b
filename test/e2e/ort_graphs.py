#!/usr/bin/env python3
"""Training graphs as ONNX Runtime's training tools write them: forward and backward pass in one file, in ops of
com.microsoft, weights as inputs, gradients added to buffers. Such tools are gone (the last was 1.19), so the graphs are
spelled here: tempoc's own backward pass of an export, op for op in the words of ONNX Runtime. Each recipe then has to
give the gradients that PyTorch computed for the export.

usage: ort_graphs.py TEMPOC TEMPO_RUN CASE_DIR ...      CASE_DIR: as for check_models.py
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from check_models import worst
from compare import load, near
from programs import case, finish, path, run
from tolerances import ACCUMULATED, GRADIENT

RECIPES = ("none", "exact", "tiled", "chunked", "portable")
# What is left in pieces here, as ONNX Runtime leaves it.
ATTENTION = ("attention", "attention_excluded", "attention_guarded", "attention_open_rows",
             "attention_open_rows_masked")
WORDS = {"GatherGrad": "GatherGrad", "LayerNormalizationGrad": "LayerNormalizationGrad",
         "SoftmaxGrad": "SoftmaxGrad_13",
         "LogSoftmaxGrad": "LogSoftmaxGrad_13", "SoftmaxCrossEntropyLossGrad": "SoftmaxCrossEntropyLossGrad",
         "Swish": "QuickGelu",
         "RMSNormalization": "SimplifiedLayerNormalization", "RMSNormalizationGrad": "SimplifiedLayerNormalizationGrad",
         "SwishGrad": "QuickGeluGrad", "Gelu": "Gelu", "GeluGrad": "GeluGrad"}


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def respell(node):
    """One op of ai.tempo, or a Gelu, in ONNX Runtime's words."""
    if node.domain == "" and node.op_type != "Gelu":
        return node
    kept, op = attributes(node), WORDS[node.op_type]
    if op.startswith("Gelu"):
        op = ("Fast" if kept.pop("approximate", b"none") == b"tanh" else "") + op
    if op.startswith("QuickGelu"):
        kept.setdefault("alpha", 1.0)  # there it is 1.702
    if op.endswith("LayerNormalizationGrad"):
        kept["epsilon"] = 1e-12
    kept["__backwardpass"] = int("Grad" in op)
    domain = "" if op == "SimplifiedLayerNormalization" else "com.microsoft"
    return helper.make_node(op, node.input, node.output, node.name, domain=domain, **kept)


def fuse(nodes):
    """MatMul of a Transpose of the last two dims is one FusedMatMul; the Transpose stays for who else reads it."""
    made_by = {o: n for n in nodes for o in n.output}
    fused = []
    for node in nodes:
        flags, operands = {}, list(node.input)
        for k, flag in enumerate(("transA", "transB") if node.op_type == "MatMul" else ()):
            source = made_by.get(node.input[k])
            perm = attributes(source).get("perm") if source is not None and source.op_type == "Transpose" else None
            if perm and list(perm) == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2]:
                flags[flag], operands[k] = 1, source.input[0]
        fused.append(helper.make_node("FusedMatMul", operands, node.output, node.name, domain="com.microsoft",
                                      alpha=1.0, **flags) if flags else node)
    return fused


def to_ort(model):
    """Respells the model in place; {input: array} for the weights."""
    graph, weights = model.graph, {}
    nodes = fuse([respell(n) for n in graph.node])
    gradients = [o for o in graph.output if o.name.endswith("_grad")]
    rest = [o for o in graph.output if not o.name.endswith("_grad")]
    trained = {g.name[:-len("_grad")]: g for g in gradients}
    for tensor in [i for i in graph.initializer if i.name in trained]:
        weights[tensor.name] = numpy_helper.to_array(tensor)
        graph.initializer.remove(tensor)
        graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        buffer = helper.make_tensor_value_info(f"{tensor.name}_grad.accumulation.buffer", tensor.data_type, tensor.dims)
        done = helper.make_tensor_value_info(f"{tensor.name}_grad.accumulation.out", TensorProto.BOOL, [1])
        nodes.append(helper.make_node("InPlaceAccumulatorV2", [buffer.name, f"{tensor.name}_grad", "lazy_reset_grad"],
                                      [done.name],
                                      domain="com.microsoft"))
        graph.input.append(buffer)
        rest.append(done)
    graph.input.append(helper.make_tensor_value_info("lazy_reset_grad", TensorProto.BOOL, [1]))
    for field, values in ((graph.node, nodes), (graph.output, rest)):
        del field[:]
        field.extend(values)
    del graph.value_info[:]
    del model.opset_import[:]
    model.opset_import.extend([helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    return weights


def accumulated(tempoc, tempo_run, graph, inputs):
    """Runs with buffers: emptied, then added to twice. What is wrong, or None."""
    out, given, got = (path(n) for n in ("sums.onnx", "given.npz", "sums.npz"))
    run(tempoc, graph, "-o", out, "-q", "--accumulate")
    batch, sums, first = load(inputs), {}, {}
    buffers = [i for i in onnx.load(graph).graph.input if i.name.endswith(".accumulation.buffer")]
    for step in range(3):
        held = {b.name: sums.get(b.name.removesuffix(".accumulation.buffer"),
                                 np.full([d.dim_value for d in b.type.tensor_type.shape.dim], 7, np.float32))
                for b in buffers}
        np.savez(given, **batch, **held, lazy_reset_grad=np.array([step == 0]))
        run(tempo_run, out, "--inputs", given, "--outputs", got)
        before, sums = sums, load(got)
        first = first if step else sums
        for name in held:
            grad = name.removesuffix(".accumulation.buffer")
            if not near(sums[grad], first[grad] + before.get(grad, 0), ACCUMULATED):
                return f"--accumulate: run {step}: {grad} is no sum"
    return None


def check(folder, tempoc, tempo_run):
    plain, graph, inputs, out, got = (path(n) for n in ("plain.onnx", "ort.onnx", "inputs.npz", "out.onnx", "got.npz"))
    passes = "--passes=upgrade,inline,shapes,tied,canonicalize,dropout,raise,autodiff,canonicalize"
    run(tempoc, os.path.join(folder, "model.onnx"), "-o", plain, "-q", passes, *(f"--disable={r}" for r in ATTENTION))
    model = onnx.load(plain)
    weights = to_ort(model)
    ops = {n.op_type for n in model.graph.node if n.domain == "com.microsoft"}
    if len(weights) < 10 or not {"GatherGrad", "SoftmaxGrad_13", "SoftmaxCrossEntropyLossGrad", "FusedMatMul"} <= ops:
        return f"this is no graph of training tools: {len(weights)} weights, {sorted(ops)}"
    onnx.save(model, graph)
    np.savez(inputs, **load(os.path.join(folder, "inputs.npz")), **weights)
    for recipe in RECIPES:
        run(tempoc, graph, "-o", out, f"--recipe={recipe}", "--verify-each")
        run(tempo_run, out, "--inputs", inputs, "--outputs", got)
        onnx.checker.check_model(out, full_check=True)
        error, name = worst(load(got), load(os.path.join(folder, "expected.npz")))
        if not error <= GRADIENT:
            return f"{recipe}: {name} is off by {error:.1e}"
    return accumulated(tempoc, tempo_run, graph, inputs) or (None, f"{len(weights)} weights, {', '.join(sorted(ops))}")


for model_folder in sys.argv[3:]:
    case(os.path.basename(model_folder), check, model_folder, *sys.argv[1:3])
finish()
