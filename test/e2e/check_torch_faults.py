#!/usr/bin/env python3
"""What exporters write otherwise than PyTorch computes it: put back, refused or told, with a near miss of each.

usage: check_torch_faults.py TEMPOC TEMPO_RUN [NAME ...]        NAME: functions below, without `check_`; default: all
"""
import sys

import numpy as np
from onnx import helper

from check_torch_metadata import X, close, expect, main, model_of, node, signature_of, summed

TOLD, XW = signature_of(p_m_w="m.w", x=None), helper.make_node("Mul", ["x", "m.w"], ["xw"])


def check_divisor(case):
    """Windows of 2 x 2 over x w as one picture of 2 x 3."""
    def pooled(call, **more):
        return [XW, helper.make_node("Reshape", ["xw", "picture"], ["in"]),
                node(f"%y = aten.avg_pool2d.default(%in, {call})", "AveragePool", ["in"], ["y"], kernel_shape=[2, 2],
                     **more), *summed("y", False)]

    weights = {"m.w": [1.0, -2.0, 3.0], "picture": np.array([1, 1, 2, 3])}
    columns = X.sum(0) * [1, 2, 1]  # the middle one is in both windows
    for call, divisor in (("[2, 2], [], [0, 0], False, True, 3", 3), ("[2, 2]; divisor_override: 5", 5), ("[2, 2]", 4),
                          ("[2, 2], [], [0, 0], False, True, None", 4), ("[2, 2], [], [0, 0], False, False, 7", 7)):
        code, said = case.compile(model_of(pooled(call), weights, TOLD))
        got = case.run(X.astype(np.float32)) if code == 0 else {"m.w_grad": 0}
        expect(f"average pooling of {call}", close(got["m.w_grad"], columns / divisor) and
               ("again" in said) == (divisor != 4), (said, got))
    for call in ("[2, 2], [], [0, 0], True, True, 3", "[2, 2], [], [1, 1], False, False, 3"):
        code, said = case.compile(model_of(pooled(call), weights, TOLD))
        expect(f"average pooling of {call}: refused", code == 3 and "divisor_override" in said, said)


def check_normal(case):
    for call, slope in (("normal.Tensor_float(%xw, 1.0)", 1), ("add.Tensor(%xw, %xw)", 3)):
        made = [XW, node("%y = aten." + call, "Add", ["xw", "xw"], ["y"]),
                helper.make_node("Add", ["y", "xw"], ["z"]), *summed("z", False)]
        code, said = case.compile(model_of(made, {"m.w": [1.0, -2.0, 3.0]}, TOLD))
        expect(call, close(case.run(X.astype(np.float32))["m.w_grad"], X.sum(0) * slope) and
               ("torch.normal" in said) == (slope == 1), said)


def check_xlogy(case):
    """Where x w is 0: PyTorch's gradients, and those of the same nodes of another call."""
    weights = {"m.w": [0.0, 0.0, 1.0], "bases": [0.01, 2.0, 2.0], "zero": [0.0]}
    logs = np.log(weights["bases"])
    for call, slope in (("xlogy.Tensor(%xw, %b)", logs), ("where.self(%z, %xw, %u)", [1, 1, logs[2]])):
        made = [XW, node("%l = aten.log.default(%b)", "Log", ["bases"], ["l"])]
        made += [node("%y = aten." + call, op, read, [result]) for op, read, result in (
            ("Mul", ["xw", "l"], "p"), ("IsNaN", ["bases"], "n"), ("Where", ["n", "bases", "p"], "u"),
            ("Equal", ["xw", "zero"], "z"), ("Where", ["z", "xw", "u"], "y"))]
        code, said = case.compile(model_of([*made, *summed("y", False)], weights, TOLD))
        expect(call, code == 0 and close(case.run(X.astype(np.float32))["m.w_grad"], X.sum(0) * slope), said)


def check_given_statistics(case):
    """Running statistics that the program computes: a norm that trains takes those of the batch all the same."""
    weights = {"m.w": [1.0, 2.0, 3.0], "zero": [0.0] * 3, "one": [1.0] * 3}
    xw = X * [1, 2, 3]
    batch, own = (((xw - xw.mean(0)) ** 2 / (xw.var(0) + 1e-5)).sum(), (xw ** 2 / (1 + 1e-5)).sum())
    for mode, mean, want in (("True", "%zeros", batch), ("False", "%zeros", own), ("True", "None", own)):
        call = f"%bn = aten.native_batch_norm.default(%xw, None, None, {mean}, {mean}, {mode}, 0.1, 1e-05)"
        made = [XW, helper.make_node("Neg", ["zero"], ["zeros"]),
                node(call, "BatchNormalization", ["xw", "one", "zero", "zeros", "one"], ["bn"]), *summed("bn")]
        code, said = case.compile(model_of(made, weights, TOLD))
        expect(f"batch norm of {mean}, training {mode}", code == 0 and
               close(case.run(X.astype(np.float32))["loss"], want), said)


def check_told_faults(case):
    for factor, target, op, read, warned in (
            ("%x", "sqrt.default(%add,)", "Sqrt", "y", True), ("%x", "sqrt.default(%y,)", "Sqrt", "y", False),
            ("%x", "div.Tensor(%x, %add)", "Div", "xy", True), ("%x", "div.Tensor(%add, %x)", "Div", "yx", False),
            ("%x", "sqrt.default(%view,)", "Sqrt", "y", False), ("%add", "sqrt.default(%y,)", "Sqrt", "y", True)):
        made = [node(f"%y = aten.mul.Tensor({factor}, %p_m_w)", "Mul", ["x", "m.w"], ["y"]),
                node(f"%z = aten.{target}", op, list(read), ["z"]), *summed("z", False)]
        code, said = case.compile(model_of(made, {"m.w": [1.0, 2.0, 3.0]}, TOLD))
        expect(f"{target} of a sum", code == 0 and ("treats a number of at most" in said) == warned, said)
    for call, op, code_of, warned in (("special_erfcx.default(%p_m_w,)", "Erf", 0, "special.log_ndtr"),
                                      ("logaddexp.default(%p_m_w, %x)", "Exp", 0, "softplus"),
                                      ("erf.default(%p_m_w,)", "Erf", 0, None),
                                      ("elu.default(%p_m_w, 1.5, 2.0)", "Elu", 3, "omitted the scales"),
                                      ("elu.default(%p_m_w, 1.5)", "Elu", 0, None),
                                      ("instance_norm.default(%p_m_w, 0, 0, %a, %v, True)", "Erf", 0, "updates them"),
                                      ("instance_norm.default(%p_m_w, 0, 0, %a, %v, False)", "Erf", 0, None)):
        made = [node("%e = aten." + call, op, ["m.w"], ["e"]), helper.make_node("Mul", ["x", "e"], ["z"]), *summed("z")]
        code, said = case.compile(model_of(made, {"m.w": [1.0] * 3}, TOLD))
        expect(call, code == code_of and (warned in said if warned else not said), said)


if __name__ == "__main__":
    main(globals(), *sys.argv[1:])
