#!/usr/bin/env python3
"""What ONNX text cannot hold of the pass `tied`: names of parameters in metadata, and weights in files of their own.

usage: check_tied.py TEMPOC
Models are made by onnx.helper; gradients are compared with central differences of ONNX Runtime's loss of the model as
it was meant, in fp64.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import by_onnxruntime, max_error
from programs import expect, finish, path, run
from tolerances import SMOOTH
from torch_metadata import CALL, FOLDED, SCOPES, SIGNATURE, note


def add_metadata(to, **entries):
    for key, value in entries.items():
        note(to, {"call": CALL, "scopes": SCOPES, "signature": SIGNATURE, "folded": FOLDED}[key], value)


def noted(node, operation, arguments, scope=""):
    """The metadata that the dynamo exporter writes for a call."""
    call = f"call_function[target=torch.ops.aten.{operation}](args = ({arguments}), kwargs = {{}})"
    add_metadata(node, call=f"%{node.output[0]} : [num_users=1] = {call}", scopes=f"['', '{scope}', 'op']")
    return node


def model_of(nodes, weights, dtype=np.float64):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [4])],
                              [helper.make_tensor_value_info("loss", code, [])],
                              [numpy_helper.from_array(np.asarray(v, dtype), k) for k, v in weights.items()])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def compile_model(tempoc, model, *flags):
    """(exit code, messages, the compiled model)."""
    source, target = path("in.onnx"), path("out.onnx")
    if model is not None:
        onnx.save(model, source)
    done = run(tempoc, source, "-o", target, "-q", "--verify-each", *flags, code=None)
    return done.code, done.err, onnx.load(target, load_external_data=False) if done.code == 0 else None


def two_layers(rng, first, second, equal=True, same_bias=True):
    """Gather, then two layers tanh(x W + b) whose weights may be equal and share one bias; names of parameters as
    given."""
    w = rng.normal(size=(3, 3))
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x0"])]
    weights = {"table": rng.normal(size=(5, 3)), "val_1": w, "val_2": w if equal else w + 1, "bias": [0.5, 0.5, 0.5],
               "bias_2": [0.1, 0.2, 0.3]}
    for i, (parameters, bias) in enumerate([(first, "bias"), (second, "bias" if same_bias else "bias_2")], start=1):
        scope, call = f"m.{'ab'[i - 1]}", ("linear.default", f"%x{i - 1}, " + ", ".join("%p_" + p for p in parameters))
        nodes += [noted(helper.make_node("MatMul", [f"x{i - 1}", f"val_{i}"], [f"p{i}"]), *call, scope),
                  noted(helper.make_node("Add", [f"p{i}", bias], [f"s{i}"]), *call, scope),
                  helper.make_node("Tanh", [f"s{i}"], [f"x{i}"])]
    if same_bias:
        del weights["bias_2"]
    nodes.append(helper.make_node("ReduceSum", ["x2"], ["loss"], keepdims=0))
    return model_of(nodes, weights)


def check_names(tempoc, rng):
    a, b = ["m_a_weight", "m_a_bias"], ["m_b_weight", "m_b_bias"]
    code, said, _ = compile_model(tempoc, two_layers(rng, a, a))
    expect("one parameter by name, stored twice: one again", code == 0 and "warning" not in said
           and "merged again: val_2 is now val_1 [tied]" in said and "of their own again" not in said, said)
    code, said, out = compile_model(tempoc, two_layers(rng, a, b))
    names = {i.name for i in out.graph.initializer} if out else set()
    expect("two parameters that are equal: only their shared bias is parted", code == 0 and "warning" not in said
           and "merged again" not in said and "of their own again: m.b.bias [tied]" in said, said)
    expect("a parameter gets its own name", {"bias", "m.b.bias", "val_1", "val_2"} <= names, names)
    code, said, _ = compile_model(tempoc, two_layers(rng, a, b, equal=False, same_bias=False))
    expect("nothing equal, nothing shared: silence", code == 0 and said == "", said)


def loss_of(model, weights, ids):
    fed = onnx.ModelProto()
    fed.CopyFrom(model)
    for init in fed.graph.initializer:
        if init.name in weights:
            init.CopyFrom(numpy_helper.from_array(weights[init.name], init.name))
    # Its fusions put numbers of a double graph into float attributes.
    return float(by_onnxruntime(fed, {"ids": ids}, optimize=False)["loss"])


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


def check_gradients(tempoc, rng):
    """A table that is also the decoder, and a stack of matrices of which a copy has other axes."""
    table, stack = rng.normal(size=(5, 3)), rng.normal(size=(2, 5, 4))
    nodes = [helper.make_node("Gather", ["m.table", "ids"], ["x"]), helper.make_node("MatMul", ["x", "val_3"], ["h"]),
             helper.make_node("Tanh", ["h"], ["t"]), helper.make_node("MatMul", ["t", "m.stack"], ["s"]),
             helper.make_node("Tanh", ["s"], ["u"]),
             helper.make_node("MatMul", ["u", "val_4"], ["v"]), helper.make_node("Mul", ["v", "v"], ["q"]),
             helper.make_node("ReduceSum", ["q"], ["loss"], keepdims=0)]
    model = model_of(nodes, {"val_3": table.T, "m.table": table, "m.stack": stack, "val_4": stack.transpose(0, 2, 1)})
    ids = np.array([4, 0, 2, 4])
    code, said, out = compile_model(tempoc, model, "--retie")
    expect("--retie joins both", code == 0 and "val_3 is now the transpose of m.table" in said
           and "val_4 is now the transpose of m.stack" in said, said)
    if code:
        return
    onnx.checker.check_model(out, full_check=True)
    got = by_onnxruntime(out, {"ids": ids})
    for name, copies in (("m.table", {"val_3": (1, 0)}), ("m.stack", {"val_4": (0, 2, 1)})):
        want = by_differences(model, name, copies, ids)
        error = max_error(got[name + "_grad"], want)
        expect(f"the gradient of {name} is that of both uses", error < SMOOTH, error)
        expect(f"{name}: one gradient", sum(o.startswith("val_") for o in got) == 0, list(got))


KINDS = {"table": "PARAMETER", "alias": "PARAMETER", "mean": "BUFFER", "n.weight": "PARAMETER", "n.bias": "PARAMETER",
         "s": "PARAMETER", "s2": "PARAMETER", "gone": "PARAMETER", "l.bias": "PARAMETER", "std": "BUFFER",
         "gamma": "PARAMETER"}


def exported(rng, stored=None, table=None, scores="linear.default"):
    """A small model as the dynamo exporter writes it. `stored`: tensor -> the name of the equal one that stands for it;
    None: each stands for itself, which is the model as it was meant."""
    name = (lambda n: n) if stored is None else (lambda n: stored.get(n, n))
    table = rng.normal(size=(5, 3)) if table is None else table
    weights = {"table": table, "mean": np.zeros(3), "n.weight": np.ones(3), "n.bias": np.zeros(3),
               "s": np.float64(0.25), "s2": np.float64(0.25), "quarter": np.float64(0.25), "val_9": table.T,
               "l.bias": np.full(5, 0.5),
               "std": np.ones(5), "gamma": np.ones(5), "scale": np.arange(1.0, 6.0)}
    norm = "[3], %p_n_weight, %p_n_bias, 1e-05, False"

    def node(op, inputs, output, operation, arguments, **attributes):
        return noted(helper.make_node(op, [name(i) for i in inputs], [output], **attributes), operation, arguments)

    nodes = [node("Gather", ["table", "ids"], "embedding", "embedding.default", "%p_table, %ids"),
             node("Sub", ["embedding", "mean"], "sub", "sub.Tensor", "%embedding, %b_mean"),
             node("LayerNormalization", ["sub", "n.weight", "n.bias"], "norm", "layer_norm.default", "%sub, " + norm),
             node("LayerNormalization", ["norm", "n.weight", "n.bias"], "norm_1", "layer_norm.default",
                  "%norm, " + norm),
             node("Mul", ["norm_1", "s"], "mul", "mul.Tensor", "%norm_1, %p_s"),
             node("Add", ["mul", "quarter"], "add", "add.Tensor", "%mul, 0.25"),
             node("Mul", ["s2", "add"], "mul_1", "mul.Tensor", "%p_s2, %add"),
             node("MatMul", ["mul_1", "val_9"], "val_10", scores, "%mul_1, %p_table, %p_l_bias"),
             node("Add", ["val_10", "l.bias"], "linear", "linear.default", "%mul_1, %p_table, %p_l_bias"),
             node("Tanh", ["linear"], "tanh", "tanh.default", "%linear"),
             node("Div", ["tanh", "std"], "div", "div.Tensor", "%tanh, %b_std"),
             node("Mul", ["div", "gamma"], "mul_2", "mul.Tensor", "%div, %p_gamma"),
             node("Mul", ["mul_2", "scale"], "mul_3", "mul.Tensor", "%mul_2, %arange"),
             node("Mul", ["mul_3", "mul_3"], "square", "mul.Tensor", "%mul_3, %mul_3"),
             helper.make_node("ReduceSum", ["square"], ["loss"], keepdims=0)]
    kept = {name(n): v for n, v in weights.items()}
    model = model_of(nodes, kept)
    signature = [f"{k[0].lower()}_{n.replace('.', '_')}: {k} target='{n}'" for n, k in KINDS.items()]
    add_metadata(model.graph, signature="\n".join(["# inputs", *signature, "ids: USER_INPUT", "", "# outputs",
                                                   "sum: USER_OUTPUT", ""]))
    for n, come_from in (("val_9", "['table']"), ("scale", "['val_3', 'val_4']")):
        info = helper.make_tensor_value_info(n, TensorProto.DOUBLE, weights[n].shape)
        add_metadata(info, folded=come_from)
        model.graph.value_info.append(info)
    return model


# a parameter under a buffer's name, a buffer and two parameters under a parameter's, one of them no longer there
MERGED = {"n.bias": "mean", "s2": "s", "quarter": "s", "l.bias": "gone", "std": "gamma"}
TRAINED = {"table", "n.weight", "n.bias", "s", "s2", "l.bias", "gamma"}


def trained_by(out):
    return {o.name[:-5] for o in out.graph.output if o.name.endswith("_grad")} if out else set()


def check_kinds(tempoc, rng):
    table = rng.normal(size=(5, 3))
    code, said, out = compile_model(tempoc, exported(rng, MERGED, table))
    expect("all merged: trained is what was", code == 0 and trained_by(out) == TRAINED, f"{trained_by(out)} {said}")
    expect("all merged: notes", "warning" not in said and "of their own again: " in said
           and " and 2 more [tied]" in said and "val_9 is now the transpose of table" in said, said)
    if code:
        return
    onnx.checker.check_model(out, full_check=True)
    ids = np.array([4, 0, 2, 4])
    got = by_onnxruntime(out, {"ids": ids})
    meant = exported(rng, None, table)
    for name in sorted(TRAINED):
        want = by_differences(meant, name, {"val_9": (1, 0)} if name == "table" else {}, ids)
        error = max_error(got[name + "_grad"], want)
        expect(f"the gradient of {name} is its own", error < SMOOTH, error)
    code, said, out = compile_model(tempoc, exported(rng, {"std": "gamma"}, table), "--train=std")
    expect("--train of what was merged away", "std" in trained_by(out) and "matches no" not in said, said)
    code, said, out = compile_model(tempoc, exported(rng, {}, np.full((5, 3), 0.5)))
    expect("a tie whose elements are all equal", trained_by(out) == TRAINED
           and "val_9 is now the transpose" in said, said)
    code, said, out = compile_model(tempoc, exported(rng, None, table))
    expect("nothing merged: nothing parted", trained_by(out) == TRAINED and "of their own again" not in said, said)


def check_external(tempoc, rng):
    """Weights in a file of their own: mapped where it is; where it is not, what is told is enough."""
    table = rng.normal(size=(5, 3))
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"]), helper.make_node("MatMul", ["x", "val_3"], ["h"]),
             helper.make_node("ReduceSum", ["h"], ["loss"], keepdims=0)]
    model = model_of(nodes, {"table": table, "val_3": table.T})
    source = path("in.onnx")

    def save(what, keep):
        onnx.save(what, source, save_as_external_data=True, location="weights.bin", size_threshold=0)
        if not keep:
            os.remove(path("weights.bin"))

    save(model, True)
    code, said, _ = compile_model(tempoc, None)
    expect("weights in a file: warned of", code == 0 and "its transpose val_3" in said, said)
    code, said, out = compile_model(tempoc, None, "--retie")
    expect("weights in a file: joined, and still there", code == 0
           and [i.name for i in out.graph.initializer if i.data_location] == ["table"], said)
    save(model, False)
    code, said, _ = compile_model(tempoc, None)
    expect("weights absent: silence", code == 0 and said == "", said)
    save(exported(rng, MERGED, table), False)
    code, said, out = compile_model(tempoc, None)
    expect("weights absent: what is told is done", code == 0 and trained_by(out) == TRAINED
           and "val_9 is now the transpose of table" in said, f"{trained_by(out)} {said}")
    save(exported(rng, MERGED, table, "view.default"), False)
    code, said, out = compile_model(tempoc, None, "--train=val_9")
    expect("weights absent, layout not told: warned of, left as they are", code == 0 and "is now" not in said
           and trained_by(out) == TRAINED | {"val_9"} and "warning: table and val_9 both come from table" in said,
           f"{trained_by(out)} {said}")


def check_chain(tempoc, rng):
    """A merged weight and a use of it may be any number of nodes apart."""
    n = 150_000
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"])]
    nodes += [helper.make_node("Neg", [f"n{i}" if i else "w"], [f"n{i + 1}"]) for i in range(n)]
    nodes += [noted(helper.make_node("Mul", ["x", "w"], ["y"]), "mul.Tensor", "%x, %p_w"),
              noted(helper.make_node("Mul", ["y", f"n{n}"], ["z"]), "mul.Tensor", "%y, %p_v"),
              helper.make_node("ReduceSum", ["z"], ["loss"], keepdims=0)]
    model = model_of(nodes, {"table": rng.normal(size=(5, 3)), "w": rng.normal(size=3)})
    add_metadata(model.graph, signature="p_w: PARAMETER target='w'\np_v: PARAMETER target='v'\n")
    code, said, out = compile_model(tempoc, model, "--passes=shapes,tied")
    made = {o: node for node in out.graph.node for o in node.output} if out else {}
    at = next((node.input[1] for node in made.values() if node.output[0] == "z"), "")
    steps = 0
    while at in made:
        at, steps = made[at].input[0], steps + 1
    expect("a long chain before a use: made again from the copy", code == 0 and (at, steps) == ("v", n),
           (code, said, at, steps))


def main(tempoc):
    rng = np.random.default_rng(5)
    for check in (check_names, check_gradients, check_kinds, check_external, check_chain):
        check(tempoc, rng)
    finish()


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
