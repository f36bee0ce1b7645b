"""From a torch.nn.Module to ONNX graphs whose weights are inputs. PyTorch's dynamo exporter is asked to leave weights
in their own names and layouts (optimize=False); a parameter or buffer is then a graph input of its name in the module,
with a default that has no elements anywhere: whoever runs the graph binds the module's own memory. Imported by
tempo.torch, and for its first half by models/export_training.py; needs torch, onnx and onnxscript."""
import contextlib
import io
import logging
import random
import warnings

import numpy as np
import onnx
import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from . import errors

PREFIX = "module."  # the attribute of Flat
FLOATS = (torch.float32, torch.float16, torch.float64, torch.bfloat16)
SURROGATE = "tempo.surrogate"
TRAINED = "tempo.train"  # in a model's metadata: what tempoc trains of it
TRAINING = "ai.onnx.preview.training"


class Flat(torch.nn.Module):
    """The module with tensors in and tensors out, whatever it takes and returns."""

    def __init__(self, module, leaves, spec, keys, told):
        super().__init__()
        self.module = module
        self.leaves, self.spec, self.keys, self.told = leaves, spec, keys, told

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.module(*args, **kwargs)
        if self.keys is not None:
            result = type(result)(**{key: value for key, value in result.items() if key in self.keys})
        found, self.told["spec"] = pytree.tree_flatten(result)
        self.told["leaves"] = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in found]
        tensors = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        self.told["is_tensor"] = [isinstance(leaf, torch.Tensor) for leaf in found]
        self.told["dtypes"] = [t.dtype for t in tensors]
        self.told["loss"] = find_loss(result, tensors)
        return tuple(tensors)


def find_loss(result, tensors):
    """Which of the tensors is the loss: what a mapping calls so, else the only float without dims; None: none is."""
    scalars = [i for i, t in enumerate(tensors) if t.dim() == 0 and t.dtype in FLOATS]
    named = result.get("loss") if hasattr(result, "get") and hasattr(result, "keys") else None
    if named is not None:
        return next((i for i in scalars if tensors[i] is named), None)
    return scalars[0] if len(scalars) == 1 else None


def open_dims(tensor):
    """Dims that may differ from call to call: the first, the batch, and of integers, such as ids, the second, too."""
    most = min(tensor.dim(), 1 if tensor.is_floating_point() else 2)
    return {axis: torch.export.Dim.AUTO for axis in range(most)}


def configs_of(module):
    """The configurations of transformers' models in it, those inside of others among them, each once."""
    found, left = {}, [m.config for m in module.modules() if hasattr(m, "config")]
    while left:
        config = left.pop()
        if config is not None and id(config) not in found:
            found[id(config)] = config
            left += [getattr(config, key, None) for key in getattr(config, "sub_configs", None) or ()]
    return list(found.values())


def _is_said_to_be_causal(mask, is_causal=None, size=None):
    """In the place of nn.Transformer's look at the elements of a mask, which only picks a kernel: torch.export takes no
    course that elements decide."""
    return is_causal is True


@contextlib.contextmanager
def quiet_and_plain(module):
    """Without the exporter's words, without caches of keys and values among the outputs, and without looks at masks."""
    cached = [config for config in configs_of(module) if getattr(config, "use_cache", None)]
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
    """PyTorch's exporter on torch.export: weights keep their names and layouts. `shapes`: of each tensor, {dim: what
    torch.export takes}; the module takes the tensors by *."""
    return torch.onnx.export(module, tuple(tensors), input_names=list(names), opset_version=opset, dynamo=True,
                             optimize=False, dynamic_shapes=(tuple(shapes),), verbose=False, **more)


@contextlib.contextmanager
def keeping_state(module):
    """What calls of the module change by themselves is put back at the end: buffers (running statistics), also those
    that were replaced; tables that max_norm rescales; what Python, numpy and PyTorch draw from."""
    buffers = [(m._buffers, dict(m._buffers)) for m in module.modules()]
    tables = [m.weight for m in module.modules() if getattr(m, "max_norm", None) is not None]
    told = [t for _, own in buffers for t in own.values() if t is not None] + tables
    kept = [(t, t.detach().clone()) for t in told]
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
            for t, value in kept:  # versions do not tell: batch normalization moves its statistics without
                if t.shape != value.shape:
                    t.data = value
                elif not torch.equal(t, value):
                    t.copy_(value)


class Exported:
    """A module exported for one form of its inputs.

    proto: the graph, an onnx.ModelProto; inputs, outputs: names, in the order of the tensors; weights: {name: its name
    in the module}; sizes: of each input its dims: a number, or a name where it is open; dtypes: of the outputs; loss:
    the index of that output, or None; rebuild: the result of a call from tensors.
    """

    def __init__(self, module, leaves, spec, dynamic_shapes, opset, keys):
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        told = {}
        self.inputs = [f"input.{i}" for i in range(len(tensors))]
        shapes = dynamic_shapes or map(open_dims, tensors)
        flat = Flat(module, leaves, spec, keys, told)
        flat.training = module.training  # of this one alone: each submodule keeps its mode
        with quiet_and_plain(module):
            try:
                program = dynamo(flat, tensors, self.inputs, opset, shapes)
            except Exception as e:
                raise errors.Unsupported(f"tempo.torch: PyTorch cannot export this module: {e}", 3) from e
        self.spec, self.leaves, self.is_tensor = told["spec"], told["leaves"], told["is_tensor"]
        self.dtypes, self.loss = told["dtypes"], told["loss"]
        self.weights = weights_to_inputs(program.model, module)
        self.proto = ir.serde.serialize_model(program.model)
        self.outputs = [value.name for value in self.proto.graph.output]
        declared = {value.name: value for value in self.proto.graph.input}
        self.sizes = [[dim.dim_param or dim.dim_value for dim in declared[name].type.tensor_type.shape.dim]
                      for name in self.inputs]

    def bindings(self, tensors):
        """{name of an open size: its value}; None: the tensors have other sizes than the graph."""
        found = {}
        for names, tensor in zip(self.sizes, tensors):
            if len(names) != tensor.dim():
                return None
            for name, size in zip(names, tensor.shape):
                if (found.setdefault(name, size) if isinstance(name, str) else name) != size:
                    return None
        return found

    def rebuild(self, tensors):
        given = iter(tensors)
        leaves = [next(given) if is_tensor else leaf for leaf, is_tensor in zip(self.leaves, self.is_tensor)]
        return pytree.tree_unflatten(leaves, self.spec)

    def surrogate(self, asked=()):
        """The graph whose only output is the sum of each float output y times an input `d.y`: its gradients are those
        of whatever the caller makes of the outputs, where d.y are the gradients of that.

        asked: names of inputs, weights among them, whose gradients, NAME_grad, the graph asks for itself; where there
        are none, tempoc appends those of weights.
        """
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        graph, terms = proto.graph, []
        for output, dtype in zip(self.proto.graph.output, self.dtypes):
            if dtype not in FLOATS:
                continue
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
    weights, at = {}, 0
    for name, value in list(model.graph.initializers.items()):
        tensor = own.get(name[len(PREFIX):]) if name.startswith(PREFIX) else None
        if tensor is None:
            continue
        bytes_ = tensor.numel() * tensor.element_size()
        value.const_value = ir.ExternalTensor("bound-when-it-runs", at, bytes_, value.const_value.dtype, name=name,
                                              shape=value.const_value.shape)
        at += bytes_ or 1  # no two lie at one place: they would be taken for one
        model.graph.inputs.append(value)
        weights[name] = name[len(PREFIX):]
    return weights
