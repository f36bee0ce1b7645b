"""From a PyTorch module that computes its loss to an ONNX file that tempoc trains, in one call:

    from export_training import export
    export(model_with_loss, (x, labels), "model.onnx")

It picks the exporter and the form in which the module can be trained, tries another way where the first fails, and
compares with PyTorch before it returns. docs/howto/exporting.md says more. Needs torch 2.6 or later, onnx, onnxscript
and ml_dtypes; for the comparison tempoc and libtempo (TEMPO_HOME, or the build folder of this repository), or else
onnxruntime."""
import collections
import contextlib
import copy
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Mapping

import numpy as np
import onnx
import torch
from torch.utils import _pytree as pytree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "python"), HERE]
import export_names  # noqa: E402
from export_compare import Comparison, ExportError, GradientError  # noqa: E402
from tempo import torch_export  # noqa: E402

__all__ = ["ExportError", "Result", "WAYS", "Way", "export"]

Way = collections.namedtuple("Way", ["exporter", "opset", "open"])
WAYS = [Way("dynamo", 18, True), Way("dynamo", 18, False), Way("TorchScript", 17, True), Way("TorchScript", 17, False)]

Result = collections.namedtuple("Result", ["path", "way", "loss", "worst", "notes", "files"])
Result.__doc__ = """path: the model; way: (exporter, opset, open: whether the batch is symbolic); loss: of the batch, by
PyTorch, dropout off; worst: (largest error of a gradient relative to its norm, parameter), None where gradients were
not compared; notes: what was found on the way; files: {"batch", "names", "train"}: what was written beside the model.
"""


# --- the module as a function of tensors ---------------------------------------------------------

def _named_batch(module, batch):
    """({name: tensor}, whether they are keywords)"""
    named, by_name = None, isinstance(batch, dict)
    if by_name:
        named = dict(batch)
    elif isinstance(batch, (tuple, list)):
        known = [p.name for p in inspect.signature(module.forward).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        named = {known[i] if i < len(known) else f"input_{i}": t for i, t in enumerate(batch)}
    if not named or not all(isinstance(t, torch.Tensor) for t in named.values()):
        raise ExportError("the batch has to be a tuple or a dict of tensors, as the module is called with: other "
                          "operands belong into the module around the model that computes the loss")
    away = [name for name, t in [*named.items(), *module.named_parameters()] if t.device.type != "cpu"]
    if away:
        raise ExportError(f"'{away[0]}' is on another device than the CPU: module.cpu(), and tensors by .cpu()")
    own = {id(t): name for name, t in reversed(named.items())}  # one tensor for two inputs would become one input
    return {name: t if own[id(t)] == name else t.clone() for name, t in named.items()}, by_name


def _loss_in(result):
    """The loss in what a module returns: what a mapping calls so, the only float without dims, or a tuple's first."""
    tensors = [leaf for leaf in pytree.tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    at = torch_export.find_loss(result, tensors)
    if at is None and isinstance(result, (tuple, list)) and tensors and tensors[0].dim() == 0:
        at = 0
    if at is None:
        shapes = ", ".join(str(list(t.shape)) for t in tensors[:6]) or "no tensor"
        raise ExportError(f"the module returns no loss (a float without dimensions) but {shapes}: put a module around "
                          "it whose forward returns one, such as cross_entropy(self.model(x), labels)")
    return tensors[at]


def _predictions_in(result, named):
    """What a module returns beside the loss, such as logits: floats with a row for each sample, by name. Not what lies
    deeper, such as caches and hidden states, and not what only repeats an input."""
    items = result.items() if isinstance(result, Mapping) else (
        ((f"output_{i}", t) for i, t in enumerate(result)) if isinstance(result, (tuple, list)) else ())
    size = next((t.shape[0] for t in named.values() if t.dim()), None)
    return {name: t for name, t in items if isinstance(t, torch.Tensor) and t.is_floating_point() and t.dim()
            and t.shape[0] == size and name not in named and "hidden_state" not in name}


def _with_loss(module, named, by_name, predicts):
    """The module with tensors in, in order, and the loss out; in `showing`, predictions after it, of which `shown` has
    the names. A copy of its outermost layer, with the same parameters under the same names."""
    own, forward, names = copy.copy(module), module.forward, list(named)
    own.shows, own.shown = False, []

    def call(*tensors):
        result = forward(**dict(zip(names, tensors))) if by_name else forward(*tensors)
        found = _predictions_in(result, dict(zip(names, tensors))) if own.shows else {}
        own.shown = list(found) if own.shows else own.shown
        return (_loss_in(result), *found.values()) if found else _loss_in(result)

    own.forward = call
    own.predicts = predicts
    return own


@contextlib.contextmanager
def _showing(module, tensors):
    """Calls of the module give what it predicts, too."""
    module.shows = module.predicts
    try:
        with torch.no_grad(), torch_export.keeping_state(module):
            module(*tensors)
        yield ["loss", *module.shown]
    finally:
        module.shows = False


# --- modes, and back again -----------------------------------------------------------------------

# What transformers draw on the side of Python, so that a file would have one draw for ever.
DRAWN_IN_PYTHON = {"layerdrop": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "apply_spec_augment": False}


def _switches(module):
    """What has attributes that decide what is computed."""
    return [*module.modules(), *torch_export.configs_of(module)]


@contextlib.contextmanager
def _as_it_was(module):
    """Modes, statistics, the configurations of transformers and what is drawn from are put back at the end."""
    states = [(owner, dict(owner.__dict__)) for owner in _switches(module)]
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with torch_export.keeping_state(module):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for owner, state in states:
            owner.__dict__.update(state)


def _for_training(module, train, eager, notes):
    """Training mode, attention in its parts, and experts that pick nothing by the data."""
    if train and not module.training:
        module.train()
        notes.append("the module was in evaluation mode and is exported in training mode; train=False: as it is")
    off = set()
    for owner in _switches(module):
        for name, value in DRAWN_IN_PYTHON.items():
            if owner.__dict__.get(name):
                owner.__dict__[name] = value
                off.add(name)
    if off and module.training:
        notes.append(f"{', '.join(sorted(off))}: drawn by Python, not by the graph, and left out")
    wanted = {"set_attn_implementation": "eager" if eager else None, "set_experts_implementation": "batched_mm"}
    for m in module.modules():
        for call, word in wanted.items():
            if word and hasattr(m, call):
                try:
                    getattr(m, call)(word)
                except (ValueError, NotImplementedError, AttributeError) as e:
                    notes.append(f"{type(m).__name__} has no '{word}': {export_names.reason(e)}")


# --- exporting -----------------------------------------------------------------------------------

def _symbols(named, dims):
    """Of each tensor {dim: name}: the batch, the first dimension of all that are as long as the first, and `dims`."""
    size = next((t.shape[0] for t in named.values() if t.dim()), None)
    found = {name: {0: "batch"} if t.dim() and t.shape[0] == size else {} for name, t in named.items()}
    for name, more in (dims or {}).items():
        if name not in found:
            raise ExportError(f"dims: the batch has no '{name}', but {', '.join(found)}")
        found[name] = {**found[name], **more}
    return found


def _twice(named, symbols):
    """Another batch: each sample twice."""
    return {name: torch.cat([t, t]) if symbols[name].get(0) == "batch" else t for name, t in named.items()}


def _name_dims(path, symbols):
    """Open dims of inputs are called as `symbols` does, wherever they stand: programs have names of their own."""
    model = onnx.load(path, load_external_data=False)
    own = {}
    for value in model.graph.input:
        for axis, name in symbols[value.name].items():
            own[value.type.tensor_type.shape.dim[axis].dim_param] = name
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(r"\w+", lambda word: own.get(word[0], word[0]), dim.dim_param)
    onnx.save(model, path)


def _export_one_way(way, module, named, symbols, path, outputs, stop=False):
    names, size = list(named), sum(p.numel() * p.element_size() for p in module.parameters())
    if way.exporter == "dynamo":
        dims = {d: torch.export.Dim(d) for of_one in symbols.values() for d in of_one.values()} if way.open else {}
        shapes = [{axis: dims[d] for axis, d in symbols[name].items() if d in dims} for name in names]
        what = torch_export.with_stops(module, tuple(named.values()), shapes) if stop else module
        torch_export.dynamo(what, named.values(), names, way.opset, shapes, f=path, output_names=outputs,
                            external_data=size > 1 << 30)
        if stop and dims:
            _name_dims(path, symbols)
        return
    buffers = {name: b.detach().clone() for name, b in module.named_buffers()}
    torch.onnx.export(module, tuple(named.values()), path, input_names=names, output_names=outputs,
                      opset_version=way.opset, dynamo=False, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.PRESERVE, dynamic_axes=symbols if way.open else None)
    moved = {name for name, b in module.named_buffers() if name in buffers and not torch.equal(b, buffers[name])}
    if moved:  # by the call that this exporter follows, before it writes them
        model = onnx.load(path)
        for initializer in model.graph.initializer:
            if initializer.name in moved:
                value = onnx.numpy_helper.from_array(buffers[initializer.name].numpy(), initializer.name)
                initializer.CopyFrom(value)
        onnx.save(model, path)


def _try_ways(ways, comparison, symbols, path, train_list):
    """(the first way whose file is right, its worst gradient, what failed before: (way, exception))"""
    module, failed = comparison.module, []
    for way, stop in [(way, stop) for way in ways for stop in (False, True)]:
        if stop and not (way.exporter == "dynamo" and isinstance(failed[-1][1], GradientError)):
            continue

        def again(to, way=way, stop=stop):
            named = comparison.named
            with torch_export.keeping_state(module), _showing(module, named.values()) as outputs:
                _export_one_way(way, module, named, symbols, to, outputs, stop)

        try:
            with torch_export.quiet_and_plain(module):
                again(path)
                comparison.write_list(path, train_list)
                error = comparison.check(path, way, again)
                if stop:
                    failed.pop()
                    comparison.notes.append("what the module computes under torch.no_grad is detached in the file")
                return way, error, failed
        except Exception as e:  # PyTorch's exporters raise what they please
            failed.append((way, e))
            for made in (path, path + ".data", train_list):
                with contextlib.suppress(OSError):
                    os.remove(made)
    lines = {}
    for way, e in failed:
        lines.setdefault(export_names.reason(e), []).append(f"{way.exporter}, {'symbolic' if way.open else 'static'}")
    told = dict.fromkeys(filter(None, map(export_names.advice, lines)))
    raise ExportError("\n  ".join(["no export of this module can be trained:",
                                   *(f"{'; '.join(of)} batch: {why}" for why, of in lines.items()),
                                   *(f"to change: {text}" for text in told)])) from failed[0][1]


def _tell_failed(way, failed, notes):
    """What was not the first way."""
    why = export_names.reason(failed[0][1]) if failed else None
    if failed and way.exporter == failed[0][0].exporter:
        notes.append(f"the batch is static, for a symbolic one failed: {why}")
    elif failed:
        notes.append(f"the {failed[0][0].exporter} exporter failed: {why}")
        if export_names.by_data(why):
            notes.append("the file has the course that the module takes with this batch, whatever is in others")


def export(model_with_loss, batch, path, *, dims=None, exporter=None, opset=None, eager=True, train=True,
           predictions=True):
    """Exports the module for tempoc, and returns a Result.

    model_with_loss: a module on the CPU that returns the loss: a float without dimensions, or one as `loss` of a dict
    or ModelOutput, or as the first of a tuple. It is left as it was. batch: what it is called with, a tuple or a dict
    of tensors. path: the model to write. Beside it are written, NAME being path without its
    suffix: NAME.batch.npz, the batch; NAME.names.json, which initializer holds which parameter, and in what layout;
    NAME.train.txt, the parameters with requires_grad that the loss depends on, which the model's metadata list, too
    (tempo.train): tempoc and tempo-train train these.
    dims: more symbolic dimensions than the batch, such as {"input_ids": {1: "sequence"}}. exporter ("dynamo" or
    "TorchScript") and opset leave just these ways. eager=False: transformers' models keep the attention that they have;
    train=False: the module keeps its mode; predictions=False: the file has the loss alone, not what the module returns
    beside it, such as logits (floats with a row for each sample), by which a trained file predicts.

    Raises ExportError, which tells what to change, where no way gives a file with PyTorch's loss and a gradient for
    each of these parameters, that of PyTorch.
    """
    path, notes = os.fspath(path), []
    base = os.path.splitext(path)[0]
    files = {"batch": base + ".batch.npz", "names": base + ".names.json", "train": base + ".train.txt"}
    named, by_name = _named_batch(model_with_loss, batch)
    ways = [way._replace(opset=opset or way.opset) for way in WAYS if exporter in (None, way.exporter)]
    if not ways:
        raise ExportError(f"exporter: there is no '{exporter}', but dynamo and TorchScript")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with _as_it_was(model_with_loss):
        _for_training(model_with_loss, train, eager, notes)
        module, symbols = _with_loss(model_with_loss, named, by_name, predictions), _symbols(named, dims)
        comparison = Comparison(module, named, _twice(named, symbols), notes)
        ways = [way for way in ways if not way.open or comparison.loss_of_twice is not None]
        way, error, failed = _try_ways(ways, comparison, symbols, path, files["train"])
        _tell_failed(way, failed, notes)
        with open(files["names"], "w", encoding="utf-8") as f:
            json.dump(comparison.names(path), f, indent=1)
        np.savez(files["batch"], **comparison.feeds)
    for note in notes:
        warnings.warn(f"export: {note}", stacklevel=2)
    return Result(path, way, float(comparison.loss), error, notes, files)
