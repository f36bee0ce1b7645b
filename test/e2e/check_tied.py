#!/usr/bin/env python3
"""What ONNX text cannot hold of the pass `tied`: names of parameters in metadata, and weights in files of their own.

usage: check_tied.py TEMPOC
Models are made by onnx.helper; gradients are compared with central differences of ONNX Runtime's loss of the model as
it was meant, in fp64.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

CALL, SCOPES = "pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes"
failures = []


def expect(what, condition, detail=""):
    print(("ok   " if condition else "FAIL ") + what + ("" if condition else f": {detail}"))
    if not condition:
        failures.append(what)


def noted(node, parameters, scope=""):
    """The metadata that the dynamo exporter writes for a call with these parameters."""
    operands = ", ".join("%p_" + p for p in parameters)
    call = f"call_function[target=torch.ops.aten.op.default](args = (%x, {operands}), kwargs = {{}})"
    for key, value in ((CALL, "%op : [num_users=1] = " + call), (SCOPES, f"['', '{scope}', 'op']")):
        entry = node.metadata_props.add()
        entry.key, entry.value = key, value
    return node


def model_of(nodes, weights, dtype=np.float64):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [4])],
                              [helper.make_tensor_value_info("loss", code, [])],
                              [numpy_helper.from_array(np.asarray(v, dtype), k) for k, v in weights.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def compile_model(tempoc, folder, model, *flags):
    """(exit code, messages, the compiled model)."""
    source, target = os.path.join(folder, "in.onnx"), os.path.join(folder, "out.onnx")
    if model is not None:
        onnx.save(model, source)
    done = subprocess.run([tempoc, source, "-o", target, "-q", "--verify-each", *flags], capture_output=True, text=True,
                          timeout=60)
    return done.returncode, done.stderr, onnx.load(target, load_external_data=False) if done.returncode == 0 else None


def two_layers(rng, first, second, equal=True, same_bias=True):
    """Gather, then two layers tanh(x W + b) whose weights may be equal and share one bias; names of parameters as
    given."""
    w = rng.normal(size=(3, 3))
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x0"])]
    weights = {"table": rng.normal(size=(5, 3)), "val_1": w, "val_2": w if equal else w + 1, "bias": [0.5, 0.5, 0.5],
               "bias_2": [0.1, 0.2, 0.3]}
    for i, (parameters, bias) in enumerate([(first, "bias"), (second, "bias" if same_bias else "bias_2")], start=1):
        scope = f"m.{'ab'[i - 1]}"
        nodes += [noted(helper.make_node("MatMul", [f"x{i - 1}", f"val_{i}"], [f"p{i}"]), parameters, scope),
                  noted(helper.make_node("Add", [f"p{i}", bias], [f"s{i}"]), parameters, scope),
                  helper.make_node("Tanh", [f"s{i}"], [f"x{i}"])]
    if same_bias:
        del weights["bias_2"]
    nodes.append(helper.make_node("ReduceSum", ["x2"], ["loss"], keepdims=0))
    return model_of(nodes, weights)


def check_names(tempoc, folder, rng):
    a, b = ["m_a_weight", "m_a_bias"], ["m_b_weight", "m_b_bias"]
    code, said, _ = compile_model(tempoc, folder, two_layers(rng, a, a))
    expect("one parameter by name, stored twice: warned of",
           code == 0 and "one parameter, stored several times" in said and "stands for" not in said, said)
    code, said, _ = compile_model(tempoc, folder, two_layers(rng, a, b))
    expect("two parameters that are equal: only their shared bias is warned of",
           code == 0 and "same numbers" not in said and "bias stands for 2 parameters" in said, said)
    code, said, out = compile_model(tempoc, folder, two_layers(rng, a, b), "--retie", "--untie")
    names = {i.name for i in out.graph.initializer} if out else set()
    expect("--untie gives the parameter's own name", {"bias", "m.b.bias", "val_1", "val_2"} <= names, names)
    code, said, _ = compile_model(tempoc, folder, two_layers(rng, a, b, equal=False, same_bias=False))
    expect("nothing equal, nothing shared: silence", code == 0 and said == "", said)


def loss_of(model, weights, ids):
    fed = onnx.ModelProto()
    fed.CopyFrom(model)
    for init in fed.graph.initializer:
        if init.name in weights:
            init.CopyFrom(numpy_helper.from_array(weights[init.name], init.name))
    session = ort.InferenceSession(fed.SerializeToString(), providers=["CPUExecutionProvider"])
    return float(session.run(["loss"], {"ids": ids})[0])


def by_differences(model, name, copies, ids, step=1e-5):
    """d loss / d `name`, its copies (name -> axes) changing with it."""
    base = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    result = np.zeros_like(base[name])
    for at in np.ndindex(result.shape):
        losses = []
        for sign in (1, -1):
            moved = base[name].copy()
            moved[at] += sign * step
            losses.append(loss_of(model,
                                  {name: moved,
                                   **{c: np.ascontiguousarray(moved.transpose(p)) for c, p in copies.items()}}, ids))
        result[at] = (losses[0] - losses[1]) / (2 * step)
    return result


def check_gradients(tempoc, folder, rng):
    """A table that is also the decoder, and a stack of matrices of which a copy has other axes."""
    table, stack = rng.normal(size=(5, 3)), rng.normal(size=(2, 5, 4))
    nodes = [helper.make_node("Gather", ["m.table", "ids"], ["x"]), helper.make_node("MatMul", ["x", "val_3"], ["h"]),
             helper.make_node("Tanh", ["h"], ["t"]), helper.make_node("MatMul", ["t", "m.stack"], ["s"]),
             helper.make_node("Tanh", ["s"], ["u"]),
             helper.make_node("MatMul", ["u", "val_4"], ["v"]), helper.make_node("Mul", ["v", "v"], ["q"]),
             helper.make_node("ReduceSum", ["q"], ["loss"], keepdims=0)]
    model = model_of(nodes, {"val_3": table.T, "m.table": table, "m.stack": stack, "val_4": stack.transpose(0, 2, 1)})
    ids = np.array([4, 0, 2, 4])
    code, said, out = compile_model(tempoc, folder, model, "--retie")
    expect("--retie joins both", code == 0 and "val_3 is now the transpose of m.table" in said
           and "val_4 is now the transpose of m.stack" in said, said)
    if code:
        return
    onnx.checker.check_model(out, full_check=True)
    session = ort.InferenceSession(out.SerializeToString(), providers=["CPUExecutionProvider"])
    got = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"ids": ids})))
    for name, copies in (("m.table", {"val_3": (1, 0)}), ("m.stack", {"val_4": (0, 2, 1)})):
        want = by_differences(model, name, copies, ids)
        error = np.max(np.abs(got[name + "_grad"] - want)) / np.max(np.abs(want))
        expect(f"the gradient of {name} is that of both uses", error < 1e-7, error)
        expect(f"{name}: one gradient", sum(o.startswith("val_") for o in got) == 0, list(got))


def check_external(tempoc, folder, rng):
    """Weights in a file of their own: mapped where it is, passed over where it is not."""
    table = rng.normal(size=(5, 3))
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("MatMul", ["x", "val_3"], ["h"]),
             helper.make_node("ReduceSum", ["h"], ["loss"], keepdims=0)]
    model = model_of(nodes, {"table": table, "val_3": table.T})
    source = os.path.join(folder, "in.onnx")
    onnx.save(model, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
    code, said, _ = compile_model(tempoc, folder, None)
    expect("weights in a file: warned of", code == 0 and "its transpose val_3" in said, said)
    code, said, out = compile_model(tempoc, folder, None, "--retie")
    expect("weights in a file: joined, and still there", code == 0
           and [i.name for i in out.graph.initializer if i.data_location] == ["table"], said)
    os.remove(os.path.join(folder, "weights.bin"))
    code, said, _ = compile_model(tempoc, folder, None)
    expect("weights absent: silence", code == 0 and said == "", said)


def main(tempoc):
    rng = np.random.default_rng(5)
    for check in (check_names, check_gradients, check_external):
        with tempfile.TemporaryDirectory() as folder:
            check(tempoc, folder, rng)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
