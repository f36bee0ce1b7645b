"""What checks share that make files with the metadata of PyTorch's dynamo exporter, which ONNX text cannot hold: keys,
nodes with calls, and copies with holes."""
import onnx
from onnx import helper

SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FOLDED = "pkg.onnxscript.optimizer.folded_from"
CALL, SCOPES = "pkg.torch.onnx.fx_node", "pkg.torch.onnx.name_scopes"


def note(entity, key, value):
    entry = entity.metadata_props.add()
    entry.key, entry.value = key, value


def node(call, op, inputs, outputs, scope="", **attributes):
    """A node that came from a call such as "%y = aten.relu.default(%x,)" in the module `scope`; "": of another
    exporter. "%y*2 = ...": the program reads it in two calls; "(%x; dim: 1)": keyword arguments stand behind "; "."""
    made = helper.make_node(op, inputs, outputs, name="node_" + outputs[0], **attributes)
    if call:
        result, rest = call.split(" = ", 1)
        result, _, users = result.partition("*")
        target, args = rest.split("(", 1)
        args, keywords = (args[:-1].split("; ") + [""])[:2]
        note(made, CALL, f"{result} : [num_users={users or 1}] = call_function[target=torch.ops.{target}]("
             f"args = ({args}), kwargs = {{{keywords}}})")
    if scope:
        note(made, SCOPES, f"['', 'm', '{scope}', 'node']")
    return made


def with_holes(model):
    """Yields (what, copy) for copies that lack one thing each: an operand at its place or at the end, or a result,
    which its readers lack, too."""
    for i, whole in enumerate(model.graph.node):
        for kind, k in [("input", k) for k in range(len(whole.input))] + [("output", 0), ("end", -1)]:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            made = copy.graph.node[i]
            if kind == "end":
                del made.input[-1]
            else:
                gone, getattr(made, kind)[k] = getattr(made, kind)[k], ""
            for reader in copy.graph.node if kind == "output" else []:
                reader.input[:] = ["" if name == gone else name for name in reader.input]
            yield f"{whole.name}, {kind} {k}", copy
