#!/usr/bin/env python3
"""BatchNormalization of inference exports in the pass `restore`: what --restore-batch-norm does, and what is said of
norms that stay, or that the exporter folded.

usage: check_restore_norms.py TEMPOC [NAME ...]      NAME: functions below, without `check_`; default: all
"""
import sys

import numpy as np

from check_restore import ARGS, STATISTICS, attribute, compiled, model_of, nodes_of, norm, norm_model
from programs import each_check, expect
from torch_metadata import node

ASKED, STAYS = "--restore-batch-norm", "%y = aten._native_batch_norm_legit_no_training.default"


def check_inference(tempoc):
    equal = norm("")[1:2]  # TorchScript stores equal tensors once
    equal[0].input[3], equal[0].name = "n.running_mean", "/m/n/BatchNormalization"
    shared = [node("", "Identity", ["n.zeros"], ["n.running_mean"]), *equal,
              node("", "ReduceSum", ["y"], ["loss"], keepdims=0)]
    zeros = {"n.zeros" if k == "n.running_mean" else k: v for k, v in STATISTICS.items()}
    for what, model, trained in (("with a call", norm_model(f"{STAYS}({ARGS}, 0.1, 1e-05)"), "n"),
                                 ("without", norm_model(""), "node_y"),
                                 ("with a shared statistic", model_of(shared, zeros), "m.n")):
        code, messages, out = compiled(tempoc, model, "--passes=restore", ASKED)
        made = nodes_of(out, "BatchNormalization")
        right = code == 0 and attribute(made[0], "training_mode") == 1 and made[0].input[3] == "n.running_mean"
        expect(f"{ASKED}, {what}", right and f"BatchNormalization of {trained} is in training mode [" in messages and
               any(i.name == "n.running_mean" for i in out.graph.initializer), (code, messages))
        code, messages, _ = compiled(tempoc, model, "--recipe=none")
        expect(f"inference mode {what}", code == 0 and f"of {trained} is in inference mode" in messages and
               ASKED in messages, (code, messages))


def check_folded(tempoc):
    for names, told in ((["onnx::Conv_7", "onnx::Conv_8"], True), (["onnx::Conv_7", "c.bias"], False)):
        conv = node("", "Conv", ["x", *names], ["y"], kernel_shape=[1, 1])
        conv.name = "/m/c/Conv"
        model = model_of([conv, node("", "ReduceSum", ["y"], ["loss"], keepdims=0)],
                         dict(zip(names, (np.ones((3, 2, 1, 1)), np.ones(3)))), inputs={"x": [1, 2, 4, 4]})
        code, messages, _ = compiled(tempoc, model)
        expect(f"a note of norms folded into {names}", code == 0 and
               ("folded BatchNormalization into the weights of m.c" in messages) == told, (code, messages))
        code, messages, _ = compiled(tempoc, model, ASKED)
        expect(f"{ASKED} with {names}", code == 3 and ("folded" in messages) == told and
               "TrainingMode.PRESERVE" in messages and "2.error" not in messages, (code, messages))
        code, messages, _ = compiled(tempoc, model, ASKED, "--recipe=evaluate")
        expect(f"{ASKED} with {names}, evaluated", code == 0, (code, messages))


def check_folded_call(tempoc):
    """What the dynamo exporter folded stands for PyTorch's parameters: with an added loss it is all there is."""
    call = f"{STAYS}(%c, %p_n_weight, %p_n_bias, %b_n_running_mean, %b_n_running_var, 0.1, 1e-05)"
    conv = node(call, "Conv", ["x", "c.weight", "c.weight_bias"], ["y"], "m.n", kernel_shape=[1, 1])
    weights = {"c.weight": np.ones((3, 2, 1, 1)), "c.weight_bias": np.ones(3)}
    lines = "\n".join(f"p_n_{w}: PARAMETER target='n.{w}'" for w in ("weight", "bias"))
    pooled = node("", "ReduceMean", ["y"], ["p"], axes=[2, 3], keepdims=0)
    for tail, flags, refused in ((["ReduceSum", ["y"], ["loss"]], [], True),
                                 (["Identity", ["p"], ["loss"]], ["--add-loss=cross-entropy"], False)):
        model = model_of([conv, pooled, node("", *tail, **({"keepdims": 0} if refused else {}))], weights, lines,
                         {"x": [1, 2, 4, 4]}, None if refused else {"loss": [1, 3]})
        model.opset_import[0].version = 17
        code, messages, _ = compiled(tempoc, model, *flags)
        expect(f"a norm that dynamo folded, {flags}", code == (3 if refused else 0) and
               ("folded BatchNormalization of n " in messages) != refused, (code, messages))


if __name__ == "__main__":
    each_check(globals(), sys.argv[2:], lambda check: check(sys.argv[1]))
