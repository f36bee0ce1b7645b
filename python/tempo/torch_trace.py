"""One call of a module as PyTorch's exporter traces it, with effects that a graph of tensors does not show: attributes
and buffers that it changes, operands that it writes into, gradients that it stops, random numbers of Python's."""
import contextlib
import io
import random
import types
import unittest.mock

import numpy as np
import torch
from torch.utils import _pytree as pytree

from . import errors
from .torch_state import ATOMS, HELD, State

CACHES = ("past_key_values", "cache", "cache_params", "mems")  # the name that transformers give them in a result
FLOATS = (torch.float32, torch.float16, torch.float64, torch.bfloat16)


class Unlike(errors.Unsupported):
    """No graph can replace forward, whatever the sizes. changes: because it changes the module's own attributes."""

    def __init__(self, message, changes=False):
        super().__init__(message, 3)
        self.changes = changes


class Again(Exception):
    """Caches of keys and values are part of this result: trace once more, with them."""


def find_loss(result, tensors):
    """Which of the tensors is the loss: the one that a mapping names so, else the only float without dims; None: none
    is."""
    scalars = [i for i, t in enumerate(tensors) if t.dim() == 0 and t.dtype in FLOATS]
    named = result.get("loss") if hasattr(result, "get") and hasattr(result, "keys") else None
    if named is not None:
        return next((i for i in scalars if tensors[i] is named), None)
    return scalars[0] if len(scalars) == 1 else None


def odd_in(value):
    """The class of the first thing in operands or a result that is no tensor, number, text, list, tuple or mapping of
    these; None: there is none."""
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(odd_in, value)), None)
    if isinstance(value, dict):
        return next(filter(None, map(odd_in, value.values())), None)
    return None if isinstance(value, torch.Tensor) or value.__class__ in ATOMS else type(value).__name__


def choose(result, keys):
    """The result with these keys alone; None: all."""
    if keys is None:
        return result
    return type(result)(**{key: value for key, value in result.items() if key in keys})


def loose_tensors_as_buffers(module):
    """Tensors that are attributes become buffers, which graphs read where they lie. State.restore() undoes it."""
    for m in module.modules():
        for name, value in list(m.__dict__.items()):
            if isinstance(value, torch.Tensor) and not value.requires_grad:
                m._buffers[name] = m.__dict__.pop(name)


def _generators():
    """The sources of random numbers; a trace draws none of PyTorch's."""
    name, keys, *rest = np.random.get_state()
    return random.getstate(), keys.tobytes(), rest, torch.initial_seed()


class _Norms:
    """Replaces torch.batch_norm: it updates running statistics, which the exporter forgets."""

    def __init__(self, module):
        self.names = {f"{name}.{buffer}".lstrip(".") for name, m in module.named_modules() for buffer in m._buffers
                      if isinstance(m, torch.nn.modules.batchnorm._NormBase) and m.training and m.track_running_stats}
        self.left, self.norm = {}, torch.batch_norm  # by the id of the buffer

    def __call__(self, x, weight, bias, mean, var, training, momentum, *more):
        if training and mean is not None:
            with torch.no_grad():
                dims, values = [i for i in range(x.dim()) if i != 1], x.to(mean.dtype)
                for buffer, new in ((mean, values.mean(dims)), (var, values.var(dims, correction=1))):
                    self.left[id(buffer)] = (1 - momentum) * self.left.get(id(buffer), buffer) + momentum * new
        return self.norm(x, weight, bias, mean, var, training, momentum, *more)


def _nodes_behind(tensor):
    """The nodes of PyTorch's autograd that a gradient of the tensor passes."""
    seen, left = set(), [tensor.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left += [after for after, _ in node.next_functions]
    return seen


def _saves(node):
    """Whether a node of autograd keeps tensors that PyTorch frees after a backward pass."""
    held = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(held))


class Flat(torch.nn.Module):
    """The module with tensors in and tensors out, whatever it takes and returns.

    own: its forward; reads: a torch_reads.Reads; states: those that must learn of functions that run; operands: leaves,
    of spec, and slots: of each leaf the number of a tensor, or None for a constant; keys: the wanted keys of the
    result; caches: whether caches of keys and values may be returned. `record` is set by a trace: reason, why
    no graph does the same; leaves, of each leaf of the result ("output", number), ("input", number), ("weight", name)
    or ("constant", value); spec; loss: the number of that output, or None; needs: which outputs require a gradient;
    reaches: of each output the names of parameters and numbers of inputs that its gradient reaches; saved: of each the
    nodes before it that keep tensors; updates: (name of a buffer, whether it is another tensor now), outputs after the
    others; settings: numbers and texts of the module's own that forward changes, as State.settings() has them."""

    def __init__(self, module, own, reads, operands, keys, caches):
        super().__init__()
        self.module, self.own, self.reads, self.keys, self.caches = module, own, reads, keys, caches
        self.states = ()
        self.leaves, self.slots, self.spec = operands.leaves, operands.slots, operands.spec
        self.record = types.SimpleNamespace(reason=None, changes=False)
        self.training = module.training  # of this one alone: each submodule keeps its mode

    def _refuse(self, reason, changes=False):
        if self.record.reason is None:
            self.record.reason, self.record.changes = reason, changes

    def forward(self, *tensors):
        leaves = [leaf if slot is None else tensors[slot] for leaf, slot in zip(self.leaves, self.slots)]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        names = {id(t): ("input", i) for i, t in enumerate(tensors)}
        own = dict(self.module.named_parameters())
        names.update((id(p), ("weight", name)) for name, p in own.items())
        buffers = dict(self.module.named_buffers())
        versions = {id(t): t._version for t in (*tensors, *own.values(), *buffers.values())}
        needed, norms = {id(t): t.requires_grad for t in (*tensors, *own.values())}, _Norms(self.module)
        result = self._watch(args, kwargs, norms)
        for t in (*tensors, *own.values()):
            if t._version != versions[id(t)] or t.requires_grad != needed[id(t)]:
                self._refuse(f"forward changes {self._called(names[id(t)])} in place")
        left = pytree.tree_leaves((args, kwargs))
        if len(left) != len(leaves) or any(a is not b for a, b in zip(left, leaves)):
            self._refuse("forward changes a list or dict among its operands")
        updates = [(name, norms.left.get(id(now), now), now is not buffers.get(name))
                   for name, now in self.module.named_buffers() if now is not buffers.get(name) or
                   now._version != versions[id(now)] or id(now) in norms.left]
        unseen = norms.names - {name for name, _, _ in updates}
        if unseen:
            self._refuse(f"forward updates '{min(unseen)}'")
        return self._flatten(choose(result, self.keys), names, updates)

    def _called(self, name):
        return f"operand {name[1]}" if name[0] == "input" else f"'{name[1]}'"

    def _watch(self, args, kwargs, norms):
        """Calls forward, and records its other effects."""
        module = self.module  # once: a trace may give a proxy of another class each time
        before, drawn, said = State(module, self.reads, exact=True), _generators(), io.StringIO()

        def refused(what):
            return lambda *unused: self._refuse(what) or unittest.mock.Mock()

        data = property(torch.Tensor.detach, torch._C.TensorBase.data.__set__)  # the exporter does not know of it
        patch = unittest.mock.patch.object
        with contextlib.redirect_stdout(said), patch(torch.Tensor, "data", data, create=True), \
                patch(torch.Tensor, "register_hook", refused("forward registers a hook on a tensor")), \
                patch(torch.Tensor, "detach_", refused("forward detaches a tensor in place")), \
                patch(torch, "manual_seed", refused("forward seeds a generator")), patch(torch, "batch_norm", norms):
            with self.reads.watching(before, *self.states):
                try:
                    result = self.own(*args, **kwargs)
                finally:
                    if before.doubt:
                        self._refuse(before.doubt)
            if drawn != _generators():
                self._refuse("forward draws random numbers of Python's or numpy's")
            after = State(module, self.reads, exact=True)
        if self.reads.outside:
            self._refuse(f"forward calls {self.reads.outside}(), which may have another result in each call")
        self.record.settings = before.settings(after)
        self.record.changed = f"forward changes the module's own '{before.difference(after)}'"
        if self.record.settings is None:
            self._refuse(self.record.changed, True)
        if said.getvalue():
            self._refuse("forward prints")
        return result

    def _flatten(self, result, names, updates):
        record, outputs = self.record, {}
        odd = odd_in(result)
        if odd in ("SymInt", "SymFloat", "SymBool"):
            raise errors.Unsupported("the result holds a size that is open", 3)
        if odd:
            self._refuse(f"the result holds a {odd}" + "; hint: use_cache=False" * ("Cache" in odd))
        found, record.spec = pytree.tree_flatten(result)
        buffers = {id(b): ("weight", name) for name, b in self.module.named_buffers()}
        record.leaves = []
        for leaf in found:
            if not isinstance(leaf, torch.Tensor):
                record.leaves.append(("constant", leaf))
                continue
            named = names.get(id(leaf)) or buffers.get(id(leaf))
            if named is None and leaf.dtype not in HELD:
                self._refuse(f"the result is of {leaf.dtype}")
            record.leaves.append(named or ("output", outputs.setdefault(id(leaf), (len(outputs), leaf))[0]))
        tensors = [leaf for _, leaf in outputs.values()]
        record.loss = find_loss(result, tensors)
        if not self.caches and record.loss is None and not self.module.training and \
                (isinstance(result, tuple) or any(getattr(result, name, 0) is None for name in CACHES)):
            raise Again
        record.dtypes, record.needs = [t.dtype for t in tensors], [t.requires_grad for t in tensors]
        record.reaches = [self._reached(t, names) for t in tensors]
        record.saved = [frozenset(map(hash, filter(_saves, _nodes_behind(t)))) for t in tensors]
        record.updates = [(name, is_new) for name, _, is_new in updates]
        return (*tensors, *(now.clone() for _, now, _ in updates))

    def _reached(self, tensor, names):
        found = set()
        for node in _nodes_behind(tensor) if tensor.requires_grad else ():
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                self._refuse(f"forward uses the autograd.Function {node.name().removesuffix('Backward')}")
            found.add(names.get(id(getattr(node, "variable", None)), (None, None))[1])
        return found - {None}
