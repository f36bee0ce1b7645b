"""What a module's forward can read beside its operands: flags, numbers, submodules, hooks, the forms of its tensors.

A graph holds what forward does with all of it as it was when the module was exported. State(module).key is a list of
tuples, equal for two states in which forward computes the same of its operands and tensors, and `fresh()` says at a
tenth of its cost that nothing has changed since. Elements of parameters, buffers and tensors that are attributes are no
part of it: graphs read them where they lie. `reason` says why no graph does what PyTorch does in this state.
"""
import collections.abc
import enum
import functools
import operator
import types

import numpy as np
import torch
from torch.nn.modules import module as modules

ATOMS = frozenset([bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, range,
                   slice, type, type(Ellipsis), torch.memory_format, torch.layout])
WATCHED = (ATOMS - {type}) | {list, tuple, set, dict, np.ndarray, torch.Tensor}
HELD = frozenset([torch.float32, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
                  torch.float16, torch.float64, torch.bfloat16])  # the types that Tempo has
CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
OPAQUE = (types.ModuleType, type, torch.Generator)
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
OF_MODULES = frozenset(torch.nn.Module().__dict__) - {"training"}
MOST_ITEMS, MOST_DEPTH, MOST_BYTES = 1000, 8, 4096


class _Cells(dict):
    """A function's closure as a namespace."""

    def get(self, name):
        try:
            return self[name].cell_contents
        except ValueError:  # nothing yet
            return None


def _is_torch(thing):
    return (getattr(thing, "__module__", None) or "").startswith("torch.")


@functools.lru_cache(maxsize=None)
def _names_in(code):
    """The names that a function's code reads, and that of functions inside it."""
    inner = [name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names_in(const)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


@functools.lru_cache(maxsize=4096)
def _read_by(function):
    """[(namespace, name)] of what a function reads beside its operands: numbers, texts, containers and tensors; through
    the functions that it calls, as far as these are not PyTorch's own."""
    found, seen, left = {}, set(), [function]
    while left:
        function = left.pop()
        if function in seen or _is_torch(function):
            continue
        seen.add(function)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for space, names in ((function.__globals__, _names_in(function.__code__)), (_Cells(cells), cells)):
            for name in names:
                value = space.get(name)
                if isinstance(value, types.FunctionType):
                    left.append(value)
                elif name in space and (value.__class__ in WATCHED or isinstance(value, torch.Tensor)):
                    found[id(space), name] = (space, name)
    return list(found.values())


@functools.lru_cache(maxsize=4096)
def _read_by_class(cls):
    """The same of a module's class: its attributes, and what its methods read."""
    owners = [c for c in cls.__mro__ if c is not object and not _is_torch(c)]
    values = [(c.__dict__, name, value) for c in owners for name, value in c.__dict__.items()
              if not name.startswith("__") or name == "__call__"]
    found = [(space, name) for space, name, value in values if value.__class__ in WATCHED]
    for _, _, value in values:
        value = getattr(value, "__wrapped__", value)
        if isinstance(value, types.FunctionType):
            found += _read_by(value)
    return list({(id(space), name): (space, name) for space, name in found}.values())


def why_not_held(tensor):
    """Why Tempo cannot read this tensor where it lies; None: it can."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"is a {type(tensor).__name__}"
    if tensor.device.type != "cpu":
        return f"is on {tensor.device}"
    if tensor.layout is not torch.strided:
        return f"is {tensor.layout}"
    return None if tensor.dtype in HELD else f"is of {tensor.dtype}"


def _form(tensor):
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return (type(tensor),)
    return tensor.dtype, tensor.shape, tensor.requires_grad, tensor.device


def version(tensor):
    """What tells of a change of its elements."""
    return None if tensor.is_inference() else tensor._version, tensor.data_ptr()


class State:
    """key, reason: as above. exact: for two looks at one trace: the key tells one tensor from another, too, whatever
    these are; restore() puts back all that was changed."""

    def __init__(self, module, exact=False):
        self.key, self.reason, self.exact = [], None, exact
        self.seen, self.classes, self.kept = {}, {}, []  # objects by id, which are kept for that
        self.dicts, self.lists, self.empty, self.arrays = [], [], [], []  # what was seen of what can be changed
        self.tensors, self.loose, self.names = [], [], []
        everywhere = [getattr(modules, "_global" + name, {}) for name in HOOKS]
        self.empty += everywhere
        if any(everywhere):
            self._refuse("hooks are registered for all modules")
        self._module("", module, 0)
        for cls in self.classes:
            self._read(cls.__name__, _read_by_class(cls), 0)
        self.values = [space.get(name) for space, name in self.names]
        self.forms = [_form(t) for t in self.tensors]
        self.versions = [version(t) for t in self.loose]

    def fresh(self):
        """Whether all is as it was; False may also mean that something was replaced by an equal."""
        same = operator.is_
        return not any(self.empty) and \
            all(len(owner) == len(was) and all(map(same, owner.values(), was)) for owner, was in self.dicts) and \
            all(len(owner) == len(was) and all(map(same, owner, was)) for owner, was in self.lists) and \
            all(array.tobytes() == was for array, was in self.arrays) and \
            all(map(same, [space.get(name) for space, name in self.names], self.values)) and \
            [_form(t) for t in self.tensors] == self.forms and \
            [version(t) for t in self.loose] == self.versions

    def restore(self):
        for owner, was in self.dicts:
            owner.clear()
            owner.update(was)
        for owner, was in self.lists:
            owner.clear()
            (owner.update if isinstance(owner, set) else owner.extend)(was)

    def _refuse(self, reason):
        self.reason = self.reason or reason

    def _keep(self, owner):
        if isinstance(owner, dict) and not owner and not self.exact:
            self.empty.append(owner)
        elif isinstance(owner, dict):
            self.dicts.append((owner, dict(owner) if self.exact else list(owner.values())))
        elif not isinstance(owner, (tuple, frozenset)):
            self.lists.append((owner, list(owner)))

    def _first(self, thing):
        """(its number, whether it is seen for the first time)"""
        number = self.seen.setdefault(id(thing), len(self.seen))
        return number, number == len(self.seen) - 1 and not self.kept.append(thing)

    def _module(self, path, module, depth):
        key, fields, cls = self.key, module.__dict__, type(module)
        number, first = self._first(module)
        key.append((number, cls))
        if not first:
            return
        self.classes[cls] = True
        self._keep(fields)
        for name in ("_parameters", "_buffers", "_modules"):
            self._keep(fields[name])
        hooks = [fields[name] for name in HOOKS]
        if self.exact:
            key.append(tuple(map(len, hooks)))
        for owner in [fields[name] for name in OF_MODULES if self.exact and isinstance(fields.get(name), (dict, set))]:
            self._keep(owner)
        if path and any(hooks):
            self._refuse(f"'{path}' has a hook")
        if path and not self.exact:
            self.empty += hooks
        for name, value in fields.items():
            kind = value.__class__
            if kind in ATOMS:
                key.append((name, kind, value))
            elif name not in OF_MODULES:
                key.append((name, kind))
                self._value(f"{path}.{name}" if path else name, value, depth)
        for learns in (True, False):
            for name, tensor in fields["_parameters" if learns else "_buffers"].items():
                key.append((name, tensor is None))
                if tensor is not None:
                    self._tensor(f"{path}.{name}" if path else name, tensor, learns)
        for name, child in fields["_modules"].items():
            key.append((name, child is None))
            if child is not None:
                self._module(f"{path}.{name}" if path else name, child, depth)

    def _tensor(self, path, tensor, learns=False):
        number, first = self._first(tensor)
        if first:
            self.tensors.append(tensor)
        self.key.append((number, *_form(tensor)))
        if not self.exact:
            why = why_not_held(tensor) or \
                (tensor.requires_grad and not learns and "requires a gradient and is no parameter of the module's")
            if why:
                self._refuse(f"'{path}' {why}")

    def _value(self, path, value, depth):
        """What is no number or text: containers and objects by what is in them, others by what they are."""
        kind = value.__class__
        if kind in ATOMS or isinstance(value, (enum.Enum, np.generic)):
            self.key.append((kind, value))
        elif isinstance(value, torch.Tensor):
            self._loose_tensor(path, value, depth)
        elif isinstance(value, np.ndarray):
            self._array(path, value)
        elif isinstance(value, torch.nn.Module):
            self._module(path, value, depth)
        elif isinstance(value, FUNCTIONS):
            self._function(path, value, depth)
        else:
            self._object(path, value, depth)

    def _object(self, path, value, depth):
        number, first = self._first(value)
        self.key.append((number, value.__class__))
        if isinstance(value, OPAQUE):
            self.key.append((value,))
            return
        if not first or depth > MOST_DEPTH:
            return
        if isinstance(value, collections.abc.Iterator):
            self._refuse(f"'{path}' is an iterator")
        if isinstance(value, CONTAINERS):
            self._container(path, value, depth + 1)
        fields = getattr(value, "__dict__", None)
        if fields.__class__ is dict and not value.__class__.__module__.startswith(("logging", "threading", "torch.")):
            self._keep(fields)
            self._items(path, fields.items(), depth + 1)

    def _container(self, path, value, depth):
        self.key.append((len(value),))
        if len(value) > MOST_ITEMS:
            self.key.append((id(value),))
            return
        self._keep(value)
        if isinstance(value, (set, frozenset)):
            self.key.append((frozenset(value),))
        else:
            self._items(path, list(value.items() if isinstance(value, dict) else enumerate(value)), depth)

    def _items(self, path, items, depth):
        for name, value in items:
            kind = value.__class__
            if kind in ATOMS:
                self.key.append((name, kind, value))
            else:
                self.key.append((name, kind))
                self._value(f"{path}.{name}", value, depth)

    def _loose_tensor(self, path, tensor, depth):
        """Of an attribute a graph reads the elements where they lie; those of a tensor in a list it holds."""
        self._tensor(path, tensor)
        if depth and not self.exact:
            self.loose.append(tensor)
            self.key.append((id(tensor), *version(tensor)))
        elif self.exact:
            self.key.append((id(tensor),))

    def _array(self, path, array):
        self._first(array)
        if array.nbytes > MOST_BYTES or array.dtype.hasobject:
            self._refuse(f"'{path}' is an array of numpy's: register_buffer() it as a tensor")
            return
        self.key.append((array.dtype, array.shape, array.tobytes()))
        self.arrays.append((array, array.tobytes()))

    def _function(self, path, value, depth):
        self.key.append((value,))
        while not isinstance(value, types.FunctionType):
            value = value.func if isinstance(value, functools.partial) else getattr(value, "__func__", None)
            if value is None:
                return
        self._read(path, _read_by(value), depth)

    def _read(self, path, found, depth):
        self.names += found
        for space, name in found:
            value = space.get(name)
            kind = value.__class__
            if kind in ATOMS:
                self.key.append((name, kind, value))
            else:
                self.key.append((name, kind))
                self._value(f"{path}.{name}", value, depth + 1)

    def difference(self, other):
        """The name of the first thing in which two states differ, or None."""
        old, new = self.key, other.key
        if old == new:
            return None
        at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)) - 1)
        for entry in reversed((new if at < len(new) else old)[:at + 1]):
            if isinstance(entry[0], str):
                return entry[0]
        return "its class"

    def settings(self, other):
        """[(dict, name, value)] of the numbers and texts alone in which the other state, of the same objects, differs
        from this one; None: other things differ, too."""
        pairs = list(zip(self.key, other.key))
        if len(self.key) != len(other.key) or any(a != b and (len(b) != 3 or b[1] not in ATOMS) for a, b in pairs):
            return None
        now, missing = {id(owner): values for owner, values in other.dicts}, object()
        found = [(owner, name, value) for owner, was in self.dicts for name, value in now[id(owner)].items()
                 if value.__class__ in ATOMS and was.get(name, missing) is not value]
        return found if len(found) >= sum(a != b for a, b in pairs) else None  # others are in lists, or are globals
