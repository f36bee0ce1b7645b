#!/usr/bin/env python3
"""Checks every gradient, of passes/gradients/gradients.def and of passes/rules/texts/, against central differences in
double precision.

usage: check_gradients.py TEMPOC [OP...]        only cases of these ops
For each case of gradient_cases.py a model is made whose initializers are the op's operands and whose loss is the sum of
the op's results times fixed random numbers. tempoc adds the gradients; onnx's reference evaluator runs what it wrote,
and the forward model at x + eps and x - eps. Limits are those of PyTorch's gradcheck. Each case is also run with dims
that are not known when the gradient is made, by a Reshape to a shape that is an input. The last line is 'N passed, N
failed'.
"""

import glob
import os
import re
import sys

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import gradient_cases as cases
from compare import near, session
from programs import case, check, finish, path, run
from tolerances import GRADCHECK, GRADCHECK_FLOAT, GRADCHECK_FLOAT_STEP, GRADCHECK_STEP

HERE = os.path.dirname(os.path.abspath(__file__))


def differentiable():
    """Ops of ONNX with a builder or a rule; for those of ai.tempo: passes/lean/check_lean_ops.py."""
    passes = os.path.join(HERE, "../../passes")
    rows = re.findall(r'^GRADIENT\("",\s*(\w+)', open(os.path.join(passes, "gradients/gradients.def")).read(),
                      re.M)
    texts = glob.glob(os.path.join(passes, "rules", "texts", "*.rules"))
    assert rows and texts
    for path in texts:
        rows += re.findall(r"^gradient (\w+) ", open(path).read(), re.M)
    return rows


class Evaluator:
    def __init__(self, model, use_ort):
        self.session = None
        if use_ort:
            self.session = session(model)
            self.names = [o.name for o in self.session.get_outputs()]
        else:
            self.reference = ReferenceEvaluator(
                onnx.inliner.inline_local_functions(model)
            )  # it knows no defaults of attributes
            self.names = self.reference.output_names

    def run(self, feeds):
        values = self.session.run(None, feeds) if self.session else self.reference.run(None, feeds)
        return dict(zip(self.names, values))


class Model:
    """The forward model of a case; `weights` are the operands to be differentiated."""

    def __init__(self, case, dynamic):
        self.case, self.dtype = case, np.float32 if case["single"] else np.float64
        self.type = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.weights, self.feeds, constants, nodes, names, inputs = {}, {}, [], [], [], []
        for i, operand in enumerate(case["operands"]):
            name = f"x{i}"
            if operand is None:
                names.append("")
                continue
            fixed = isinstance(operand, cases.Fixed)
            value = np.asarray(operand.value if fixed else operand)
            is_float = value.dtype == np.float64
            if is_float:
                value = value.astype(self.dtype)
            if fixed or not is_float:
                constants.append(numpy_helper.from_array(value, name))
                names.append(name)
                continue
            self.weights[name] = value
            if dynamic and value.ndim:
                self.feeds[name + "_shape"] = np.array(value.shape, np.int64)
                inputs.append(helper.make_tensor_value_info(name + "_shape", TensorProto.INT64, [value.ndim]))
                nodes.append(helper.make_node("Reshape", [name, name + "_shape"], [name + "_seen"]))
                name += "_seen"
            names.append(name)
        results = [f"y{i}" for i in range(case["outputs"])]
        nodes.append(helper.make_node(case["op"], names, results, name="op", **case["attributes"]))
        self.nodes, self.constants, self.inputs = nodes, constants, inputs
        self.add_loss([results[i] for i in case["use"]])

    def add_loss(self, used):
        """loss = the sum over the used results of sum(result * random)."""
        probe = self.model([helper.make_tensor_value_info(u, self.type, None) for u in used], False)
        values = self.evaluator(probe).run({**self.feeds, **self.weights}).values()
        terms = []
        for name, value in zip(used, values):
            factor = cases.random.uniform(0.5, 1.5, np.shape(value)).astype(self.dtype)
            self.constants.append(numpy_helper.from_array(factor, name + "_factor"))
            self.nodes.append(helper.make_node("Mul", [name, name + "_factor"], [name + "_weighted"]))
            self.nodes.append(helper.make_node("ReduceSum", [name + "_weighted"], [name + "_term"], keepdims=0))
            terms.append(name + "_term")
        self.nodes.append(helper.make_node("Sum", terms, ["loss"]))
        self.loss = [helper.make_tensor_value_info("loss", self.type, [])]

    def model(self, outputs, as_initializers):
        weights = [numpy_helper.from_array(v, k) for k, v in self.weights.items()]
        given = [helper.make_tensor_value_info(k, self.type, v.shape) for k, v in self.weights.items()]
        graph = helper.make_graph(self.nodes, "g", self.inputs + ([] if as_initializers else given), outputs,
                                  self.constants + (weights if as_initializers else []))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.case["opset"])], ir_version=10)

    def evaluator(self, model):
        return Evaluator(model, self.case["ort"])

    def differences(self):
        forward = self.evaluator(self.model(self.loss, False))
        eps = GRADCHECK_FLOAT_STEP if self.case["single"] else GRADCHECK_STEP
        values = {k: v.copy() for k, v in self.weights.items()}
        result = {k: np.zeros(v.shape) for k, v in self.weights.items()}
        for name, value in values.items():
            for at in np.ndindex(value.shape):
                kept, loss = value[at], []
                for step in (eps, -eps):
                    value[at] = kept + step
                    loss.append(float(forward.run({**self.feeds, **values})["loss"]))
                value[at] = kept
                result[name][at] = (loss[0] - loss[1]) / (2 * eps)
        return result


def wrong(tempoc, entry, dynamic):
    """None when right, else what is wrong."""
    model = Model(entry, dynamic)
    source, target = path("in.onnx"), path("out.onnx")
    onnx.save(model.model(model.loss, True), source)
    run(tempoc, source, "-o", target, "--recipe=none", "--train=*", "--target=onnx", timeout=60)
    onnx.checker.check_model(target, full_check=True)
    got = model.evaluator(onnx.load(target)).run(model.feeds)
    worst = ""
    for name, want in model.differences().items():
        gradient = got.get(name + "_grad")
        if gradient is None or np.shape(gradient) != want.shape:
            return f"{name}_grad has shape {np.shape(gradient)}, expected {want.shape}"
        if not near(gradient, want, GRADCHECK_FLOAT if entry["single"] else GRADCHECK):
            worst = f"{name}_grad differs by {np.max(np.abs(gradient - want)):.3g}"
    return worst or None


def main():
    tempoc, only = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    missing = sorted(set(differentiable()) - {c["op"] for c in cases.CASES})
    check(not missing, "no case for", ", ".join(missing))
    np.seterr(all="ignore")
    for entry in cases.CASES:
        if only and entry["op"] not in only:
            continue
        shapes = [list(np.shape(getattr(o, "value", o))) if o is not None else None for o in entry["operands"]]
        for dynamic in (False, True) if entry["dynamic"] else (False,):
            case(f"{entry['op']} {shapes} {entry['attributes']}{' with unknown dims' if dynamic else ''}", wrong,
                 tempoc, entry, dynamic)
    finish()


if __name__ == "__main__":
    main()
