"""Converts a torch.nn.Module to ONNX graphs whose weights are inputs. PyTorch's dynamo exporter is asked to leave
weights in their own names and layouts (optimize=False). A parameter or buffer is then a graph input with its name in
the module, and a default without elements: the module's own memory is bound to it before a run. Imported by
tempo.torch, and for its first half by models/export_training.py; needs torch, onnx and onnxscript."""
import contextlib
import io
import logging
import math
import random
import warnings

import numpy as np
import onnx
import onnx_ir as ir
import torch

from . import errors
from .torch_state import State
from .torch_trace import Again, Flat, Unlike, find_loss, loose_tensors_as_buffers

__all__ = ["Exported", "Unlike", "configs_of", "dynamo", "find_loss", "keeping_state", "quiet_and_plain", "with_stops"]
PREFIX = "module."  # the attribute of Flat
SURROGATE = "tempo.surrogate"
TRAINED = "tempo.train"  # in a model's metadata: the initializers that tempoc trains
TRAINING = "ai.onnx.preview.training"


def open_dims(tensor):
    """Dims that may differ from call to call: the first, the batch, and for integers, such as ids, the second, too. A
    dim of size 1 is broadcast, as in masks, and PyTorch's exporter keeps it fixed."""
    most = 1 if tensor.is_floating_point() else 2
    return {axis: torch.export.Dim.AUTO for axis, size in enumerate(tensor.shape[:most]) if size > 1}


def configs_of(module):
    """The configurations of transformers' models in it, including nested ones, each once."""
    found, left = {}, [m.config for m in module.modules() if hasattr(m, "config")]
    while left:
        config = left.pop()
        if config is not None and id(config) not in found:
            found[id(config)] = config
            left += [getattr(config, key, None) for key in getattr(config, "sub_configs", None) or ()]
    return list(found.values())


def _is_said_to_be_causal(mask, is_causal=None, size=None):
    """Replaces nn.Transformer's look at the elements of a mask, which only picks a kernel: torch.export cannot branch
    on elements."""
    return is_causal is True


@contextlib.contextmanager
def quiet_and_plain(module, caches=False):
    """Silences the exporter, skips looks at masks, and, unless `caches`, leaves caches of keys and values out of the
    outputs."""
    cached = [config for config in configs_of(module) if getattr(config, "use_cache", None) and not caches]
    disabled = logging.root.manager.disable
    layers = torch.nn.modules.transformer
    looks = layers._detect_is_causal_mask
    try:
        layers._detect_is_causal_mask = _is_said_to_be_causal
        for config in cached:
            config.use_cache = False
        logging.disable(logging.WARNING)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), \
                warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        layers._detect_is_causal_mask = looks
        for config in cached:
            config.use_cache = True


def dynamo(module, tensors, names, opset, shapes, **more):
    """PyTorch's exporter on torch.export: weights keep their names and layouts. `shapes`: for each tensor, {dim: an
    argument of torch.export}; the module takes the tensors by *. `module` may be an exported program."""
    return torch.onnx.export(module, tuple(tensors), input_names=list(names), opset_version=opset, dynamo=True,
                             optimize=False, dynamic_shapes=(tuple(shapes),), verbose=False, **more)


def with_stops(module, tensors, shapes):
    """The exported program with values computed under torch.no_grad detached: the exporter forgets only no_grad."""
    program = torch.export.export(module, tensors, dynamic_shapes=(tuple(shapes),), strict=False)
    graph = program.graph
    for node in list(graph.nodes):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        for result in list(node.users):
            with graph.inserting_after(result):
                stopped = graph.call_function(torch.ops.aten.detach.default, (result,))
            stopped.meta.update(result.meta)
            result.replace_all_uses_with(stopped, delete_user_cb=lambda user, own=stopped: user is not own)
    program.graph_module.recompile()
    return program


@contextlib.contextmanager
def keeping_state(module):
    """Undoes changes that calls of the module make: buffers (running statistics), also replaced ones; tables that
    max_norm rescales; random generators of Python, numpy and PyTorch."""
    buffers = [(m._buffers, dict(m._buffers)) for m in module.modules()]
    tables = [m.weight for m in module.modules() if getattr(m, "max_norm", None) is not None]
    changing = [t for _, own in buffers for t in own.values() if t is not None] + tables
    kept = [(t, t.detach().clone()) for t in changing]
    drawn, drawn_by_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(drawn)
        np.random.set_state(drawn_by_numpy)
        for now, own in buffers:
            now.clear()
            now.update(own)
        with torch.no_grad():
            for t, value in kept:  # versions do not show it: batch normalization moves its statistics without
                if t.shape != value.shape:
                    t.data = value
                elif not torch.equal(t, value):
                    t.copy_(value)


def _trace(module, flat, tensors, shapes):
    """The exported program of a trace; the module is unchanged afterwards."""
    state, learns = State(module, flat.reads, exact=True), torch.is_grad_enabled()
    flat.states = (state,)
    try:
        with quiet_and_plain(module, flat.caches), torch.random.fork_rng(devices=[]), torch.inference_mode(False), \
                torch.set_grad_enabled(learns):
            loose_tensors_as_buffers(module)
            program = with_stops(flat, tuple(tensors), shapes)
    except Again:
        raise
    except Exception as e:  # PyTorch's exporters raise any exception
        if flat.record.reason is None:
            raise errors.Unsupported(f"PyTorch cannot export it: {errors.reason(e)}", 3) from e
    finally:
        state.restore()
    if flat.record.reason is not None:
        raise Unlike(flat.record.reason, flat.record.changes)
    _look_at_constants(program, state.seen)
    return program


def _settled(module, make_flat, tensors, shapes):
    """(the trace's record, its program). Where forward sets numbers or texts of the module's own, usually in its first
    call, they are set, if the next trace sets nothing more, and computes the same."""
    for caches in (False, True):
        flat = make_flat(caches)
        try:
            program = _trace(module, flat, tensors, shapes)
            break
        except Again:
            continue
    if not flat.record.settings:
        return flat.record, program
    again = make_flat(caches)
    state = State(module, again.reads, exact=True)
    for owner, name, value in flat.record.settings:
        owner[name] = value
    try:
        second = _trace(module, again, tensors, shapes)
    except errors.Error:
        state.restore()
        raise
    if again.record.settings or second.graph_module.code != program.graph_module.code:
        state.restore()
        raise Unlike(flat.record.changed, True)
    return again.record, second


def _look_at_constants(program, known):
    """Unlike, where forward reads tensors whose changes cannot be noticed."""
    signature = program.graph_signature
    for node in program.graph.find_nodes(op="placeholder"):
        constant = program.constants.get(signature.inputs_to_lifted_tensor_constants.get(node.name))
        made = all(user.target is torch.ops.aten.lift_fresh_copy.default for user in node.users)
        if constant is not None and not made and id(constant) not in known:
            raise Unlike("forward reads a tensor that is neither a parameter, a buffer, an operand nor an attribute")


def _look_at_changes(program, record):
    """Unlike, where forward makes changes that the trace did not see."""
    changed = {name for kind in ("buffers", "parameters", "user_inputs")
               for name in getattr(program.graph_signature, kind + "_to_mutate", {}).values()}
    unseen = changed - {PREFIX + name for name, _ in record.updates}
    if unseen:
        raise Unlike(f"forward changes '{unseen.pop().removeprefix(PREFIX)}'")


class Exported:
    """A module exported for one form of its inputs.

    proto: the graph, an onnx.ModelProto; inputs, outputs: names, in the order of the tensors, updates after the outputs
    of the result; weights: {name: its name in the module}; sizes: for each input its dims: a number, or a name or an
    expression where it is open; record: the trace's record (torch_trace.Flat). `operands` has leaves, slots, spec and
    tensors; `shapes`: for each tensor an argument of torch.export; `reads`: a torch_reads.Reads, which learns."""

    def __init__(self, module, own, reads, operands, shapes, opset, keys):
        tensors = [t.detach().clone() if t.is_inference() else t.detach() for t in operands.tensors]
        for tensor, given in zip(tensors, operands.tensors):
            tensor.requires_grad_(given.requires_grad)
        self.inputs = [f"input.{i}" for i in range(len(tensors))]
        self.record, program = _settled(module, lambda caches: Flat(module, own, reads, operands, keys, caches),
                                        tensors, shapes)
        try:
            with quiet_and_plain(module):
                graph = dynamo(program, tensors, self.inputs, opset, shapes)
        except Exception as e:  # PyTorch's exporters raise any exception
            raise errors.Unsupported(f"PyTorch cannot export it: {errors.reason(e)}", 3) from e
        _look_at_changes(graph.exported_program, self.record)
        self.limits = {str(symbol): limits for symbol, limits in program.range_constraints.items()}
        self.guards = " and ".join(f"({guard})" for guard in getattr(program, "_guards_code", None) or ["True"])
        self.weights = weights_to_inputs(graph.model, module)
        self.proto = ir.serde.serialize_model(graph.model)
        names = [value.name for value in self.proto.graph.output]
        n = len(self.record.dtypes)
        self.outputs, self.updates = names[:n], names[n:]
        declared = {value.name: value for value in self.proto.graph.input}
        self.sizes = [[dim.dim_param or dim.dim_value for dim in declared[name].type.tensor_type.shape.dim]
                      for name in self.inputs]

    def bindings(self, tensors):
        """{name of an open size: its value}; None: the graph is for tensors of other sizes."""
        found = {}
        for names, tensor in zip(self.sizes, tensors):
            if len(names) != tensor.dim():
                return None
            for name, size in zip(names, tensor.shape):
                if (found.setdefault(name, size) if isinstance(name, str) else name) != size:
                    return None
        for name, size in found.items():
            limits = self.limits.get(name)
            if limits is not None and not limits.lower <= size <= limits.upper:
                return None
        try:
            fits = eval(self.guards, {"math": math, "torch": torch}, {"L": {"tensors": tensors}})
        except Exception:  # PyTorch's own code, whatever it calls
            return None
        return {name: size for name, size in found.items() if name.isidentifier()} if fits else None

    def surrogate(self, outputs, asked=()):
        """The graph whose only output is the sum of these outputs y, by number, each times an input `d.y`. With d.y the
        gradients of any function of the outputs, its gradients are those of that function.

        asked: names of inputs, weights among them, whose gradients, NAME_grad, the graph asks for itself; where there
        are none, tempoc appends those of weights."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        graph, terms = proto.graph, []
        for output in [self.proto.graph.output[i] for i in outputs]:
            y, d = output.name, "d." + output.name
            graph.input.add().CopyFrom(output)
            graph.input[-1].name = d
            to_float = [onnx.helper.make_node("Cast", [n], [n + ".float"], to=1) for n in (y, d)]
            graph.node.extend(to_float)
            graph.node.append(onnx.helper.make_node("Mul", [y + ".float", d + ".float"], [y + ".times"]))
            graph.node.append(onnx.helper.make_node("ReduceSum", [y + ".times"], [y + ".sum"], keepdims=0))
            terms.append(y + ".sum")
        graph.node.append(onnx.helper.make_node("Sum", terms, [SURROGATE]))
        del graph.output[:]
        graph.output.append(onnx.helper.make_tensor_value_info(SURROGATE, 1, []))
        if asked:
            graph.node.append(onnx.helper.make_node("Gradient", asked, [name + "_grad" for name in asked],
                                                    domain=TRAINING, xs=list(asked), y=SURROGATE))
            proto.opset_import.append(onnx.helper.make_opsetid(TRAINING, 1))
        declared = {value.name: value for value in graph.input}
        for name in asked:
            graph.output.add().CopyFrom(declared[name])
            graph.output[-1].name = name + "_grad"
        return proto


def weights_to_inputs(model, module):
    """Makes parameters and buffers inputs whose default has no elements; {input: name in the module}."""
    own = dict(module.named_parameters(remove_duplicate=False))
    own.update(module.named_buffers(remove_duplicate=False))
    own.update((f"{name}.{key}".lstrip("."), value) for name, m in module.named_modules(remove_duplicate=False)
               for key, value in m.__dict__.items() if isinstance(value, torch.Tensor))
    weights, at = {}, 0
    for name, value in list(model.graph.initializers.items()):
        tensor = own.get(name[len(PREFIX):]) if name.startswith(PREFIX) else None
        if tensor is None:
            continue
        bytes_ = tensor.numel() * tensor.element_size()
        value.const_value = ir.ExternalTensor("bound-when-it-runs", at, bytes_, value.const_value.dtype, name=name,
                                              shape=value.const_value.shape)
        at += bytes_ or 1  # no two at the same address: they would count as one
        model.graph.inputs.append(value)
        weights[name] = name[len(PREFIX):]
    return weights
