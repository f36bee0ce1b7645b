"""The state that a module's forward can read besides its operands: flags, numbers, submodules, hooks, the forms of its
tensors, and the values read by functions that it ran.

A graph holds the result of all of it at the time of the export. State(module, reads).key is a list of tuples, equal for
two states in which forward computes the same from its operands and tensors; a key made when fewer functions were known
is the beginning of one made later. `fresh()` says at a tenth of its cost that nothing has changed since. Elements of
parameters, buffers and tensors that are attributes do not belong to it: graphs read them in place. `reason` says why no
graph computes the same as PyTorch in this state, `doubt` the same of values that functions read, in whatever course."""
import array
import collections.abc
import contextvars
import enum
import functools
import operator
import pickle
import random
import sys
import types
import weakref

import numpy as np
import torch
from torch.nn.modules import module as modules

from .torch_reads import LIBRARIES, Attributes, Cells, is_library, names_in, root_of

ATOMS = frozenset([bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, range,
                   slice, type, type(Ellipsis), torch.memory_format, torch.layout])
SIMPLE = ATOMS - {type}  # a class has attributes
HELD = frozenset([torch.float32, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
                  torch.float16, torch.float64, torch.bfloat16])  # the types that Tempo has
MAPPINGS = (dict, types.MappingProxyType)
CONTAINERS = (list, tuple, set, frozenset, collections.deque, *MAPPINGS)
BYTES = (bytearray, array.array, memoryview)
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType,
             functools.partial)
OPAQUE = (types.ModuleType, types.CodeType, enum.EnumMeta, torch.Generator)
FIXED = (types.FunctionType, staticmethod, classmethod, property, types.MemberDescriptorType,
         types.GetSetDescriptorType)
GENERATORS = {random.Random: (random.Random.getstate, random.Random.setstate),
              np.random.BitGenerator: (lambda bits: bits.state, lambda bits, was: setattr(bits, "state", was))}
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
OF_MODULES = frozenset(torch.nn.Module().__dict__) - {"training"}
MOST_ITEMS, MOST_DEPTH, MOST_BYTES = 1000, 8, 4096


@functools.lru_cache(maxsize=4096)
def slots_of(cls):
    """{name: descriptor}, of all bases."""
    return {name: value for c in reversed(cls.__mro__) if "__slots__" in vars(c) for name, value in vars(c).items()
            if type(value) is types.MemberDescriptorType}


def why_not_held(tensor):
    """Why Tempo cannot read this tensor in place; None: it can."""
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
    """A value that changes when its elements do."""
    return None if tensor.is_inference() else tensor._version, tensor.data_ptr()


class State:
    """key, reason, doubt: as above. reads: a torch_reads.Reads. exact: for two looks at one trace: the key
    distinguishes tensors, too, whatever these are; restore() undoes all changes."""

    def __init__(self, module, reads, exact=False):
        self.key, self.reason, self.doubt, self.exact = [], None, None, exact
        self.seen, self.kept = {}, []  # objects by id, kept alive for that
        self.dicts, self.lists, self.empty, self.arrays = [], [], [], []  # contents seen of objects that can change
        self.classes, self.sizes, self.generators = [], [], []
        self.places, self.values, self.puts, self.placed = [], [], [], set()
        self.tensors, self.forms, self.loose, self.versions = [], [], [], []
        self.left, self.reading, self.like = [], False, {}
        everywhere = [getattr(modules, "_global" + name, {}) for name in HOOKS]
        self.empty += everywhere
        if any(everywhere):
            self._refuse("hooks are registered for all modules")
        self._module("", module, 0)
        self._fields()
        for ran in reads.found:
            self.read(ran)

    def fresh(self):
        """Whether nothing has changed; False may also mean that something was replaced by an equal."""
        same = operator.is_
        return not any(self.empty) and \
            all(len(owner) == len(was) and all(map(same, owner.values(), was)) for owner, was in self.dicts) and \
            all(len(owner) == len(was) and all(map(same, owner, was)) for owner, was in self.lists) and \
            all(len(vars(cls)) == len(was) and all(map(same, vars(cls).values(), was))
                for cls, was in self.classes) and \
            all(map(same, [get(name) for get, name in self.places], self.values)) and \
            all(len(owner) == size for owner, size in self.sizes) and \
            all(look() == was for _, look, was in self.arrays) and \
            [_form(t) for t in self.tensors] == self.forms and \
            [version(t) for t in self.loose] == self.versions

    def includes(self, other):
        """Whether forward computes the same as in the other state, which may know fewer functions."""
        if other not in self.like:
            self.like[other] = other is self or other.key == self.key[:len(other.key)]
        return self.like[other]

    def restore(self):
        for owner, was in self.dicts:
            owner.clear()
            owner.update(was)
        for owner, was in self.lists:
            owner.clear()
            (owner.update if isinstance(owner, set) else owner.extend)(was)
        for (get, name), put, value in zip(self.places, self.puts, self.values):
            if get(name) is not value and put is not None:
                put(name, value)
        for cls, was in self.classes:
            now = vars(cls)
            for name in [name for name in {**now, **was} if now.get(name) is not was.get(name)]:
                setattr(cls, name, was[name]) if name in was else delattr(cls, name)
        for put, owner, was in self.generators:
            put(owner, pickle.loads(was))
        for owner, look, was in self.arrays:
            if look() != was:
                memoryview(owner).cast("B")[:] = was

    def _refuse(self, reason):
        if self.reading:
            self.doubt = self.doubt or reason
        else:
            self.reason = self.reason or reason

    def _keep(self, owner):
        if isinstance(owner, MAPPINGS) and not owner and not self.exact:
            self.empty.append(owner)
        elif isinstance(owner, MAPPINGS):
            if not self.exact:
                self.dicts.append((owner, list(owner.values())))
            elif isinstance(owner, dict):
                self.dicts.append((owner, dict(owner)))
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
        self._class(cls, depth)
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
        self.left.append((path, fields, depth))
        for learns in (True, False):
            for name, tensor in fields["_parameters" if learns else "_buffers"].items():
                key.append((name, tensor is None))
                if tensor is not None:
                    self._tensor(f"{path}.{name}" if path else name, tensor, learns and not depth)
                    if depth:
                        self._follow(tensor)
        for name, child in fields["_modules"].items():
            key.append((name, child is None))
            if child is not None:
                self._module(f"{path}.{name}" if path else name, child, depth)

    def _fields(self):
        """Attributes of the modules that were seen, after all of their parameters: the owners of these are known
        then."""
        while self.left:
            path, fields, depth = self.left.pop()
            self._items(path, [(name, value) for name, value in fields.items()
                               if name not in OF_MODULES or value.__class__ in SIMPLE], depth)

    def _class(self, cls, depth):
        """Attributes of a class and its bases; of PyTorch's modules forward alone, which user code may have
        replaced."""
        for owner in cls.__mro__:
            if is_library(owner):
                if issubclass(owner, torch.nn.Module) and self._first(owner)[1] and "forward" in vars(owner):
                    self._place(owner, vars(owner).get, "forward", functools.partial(setattr, owner), depth)
                continue
            number, first = self._first(owner)
            self.key.append((number, owner))
            if not first:
                continue
            fields = vars(owner)
            self.classes.append((owner, dict(fields) if self.exact else list(fields.values())))
            self.key.append((tuple([value for value in fields.values() if isinstance(value, FIXED)]),))
            self._items(owner.__name__, [(name, value) for name, value in fields.items() if
                                         not (isinstance(value, FIXED) or name.startswith(("__", "_abc_")))], depth + 1)

    def _tensor(self, path, tensor, learns=False):
        number, first = self._first(tensor)
        if first:
            self.tensors.append(tensor)
            self.forms.append(_form(tensor))
        self.key.append((number, *_form(tensor)))
        if not self.exact:
            why = why_not_held(tensor) or \
                (tensor.requires_grad and not learns and "requires a gradient and is no parameter of the module's")
            if why:
                self._refuse(f"'{path}' {why}")

    def _follow(self, tensor):
        """A graph holds the elements of a tensor that is no attribute."""
        if not self.exact:
            self.loose.append(tensor)
            self.versions.append(version(tensor))
            self.key.append((id(tensor), *version(tensor)))

    def _value(self, path, value, depth):
        """Values that are no numbers or texts: containers and objects by their contents, others by identity."""
        kind = value.__class__
        if kind in SIMPLE or isinstance(value, (enum.Enum, np.generic)):
            self.key.append((kind, value))
        elif isinstance(value, torch.Tensor):
            self._loose_tensor(path, value, depth)
        elif isinstance(value, (np.ndarray, *BYTES)):
            self._array(path, value)
        elif isinstance(value, torch.nn.Module):
            self._module(path, value, depth)
        elif isinstance(value, FUNCTIONS):
            self._function(path, value, depth)
        else:
            self._object(path, value, depth)

    def _object(self, path, value, depth):
        cls = value.__class__
        number, first = self._first(value)
        self.key.append((number, cls))
        if isinstance(value, OPAQUE) or isinstance(value, type) and is_library(value):
            self.key.append((value,))
        elif not first or depth > MOST_DEPTH:
            return
        elif isinstance(value, type):
            self._class(value, depth)
        else:
            self._parts(path, value, cls, depth + 1)

    def _parts(self, path, value, cls, depth):
        if isinstance(value, collections.abc.Iterator):
            self._refuse(f"'{path}' is an iterator")
        if isinstance(value, CONTAINERS):
            self._container(path, value, depth)
        self._inside(path, value, depth)
        slots, fields = {}, getattr(value, "__dict__", None)
        if not is_library(cls):
            self._class(cls, depth)
            slots = slots_of(cls)
            held = Attributes(value, slots)
            for name in slots:
                self._place(path, held.get, name, held.put, depth)
        if fields.__class__ is dict and root_of(cls.__module__) not in ("logging", "threading", "torch"):
            self._keep(fields)
            self._items(path, fields.items(), depth)
        elif not slots and not isinstance(value, CONTAINERS):
            self.key.append((value,) if is_library(cls) else (id(value),))
            if self.reading and not is_library(cls):
                self._refuse(f"changes inside '{path}', a {cls.__name__}, cannot be noticed")

    def _inside(self, path, value, depth):
        """The contents of C objects."""
        if isinstance(value, contextvars.ContextVar):
            self._place(path, lambda unused: value.get(None), "value", lambda unused, was: value.set(was), depth)
        elif isinstance(value, weakref.ref):
            self._place(path, lambda unused: value(), "referent", None, depth)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._place(path, lambda unused: value.cache_info().currsize > 0, "cached", None, depth)
        elif isinstance(value, (np.random.Generator, np.random.RandomState)):
            self._value(path, getattr(value, "bit_generator", None) or value._bit_generator, depth)
        for kind, (get, put) in GENERATORS.items():
            if self.exact and isinstance(value, kind):
                self.generators.append((put, value, pickle.dumps(get(value))))
                self.key.append((path, "random", self.generators[-1][-1]))

    def _container(self, path, value, depth):
        self.key.append((len(value),))
        self._keep(value)
        if len(value) > MOST_ITEMS:
            values = value.values() if isinstance(value, MAPPINGS) else value
            self.key.append((tuple(map(id, values)),))
            if self.reading and not set(map(type, values)) <= ATOMS:
                self._refuse(f"'{path}' holds more than {MOST_ITEMS} things")
        elif isinstance(value, (set, frozenset)):
            self.key.append((frozenset(value),))
        else:
            self._items(path, list(value.items() if isinstance(value, MAPPINGS) else enumerate(value)), depth)

    def _items(self, path, items, depth):
        for name, value in items:
            kind = value.__class__
            if kind in SIMPLE:
                self.key.append((name, kind, value))
            else:
                self.key.append((name, kind))
                self._value(f"{path}.{name}" if path else name, value, depth)

    def _loose_tensor(self, path, tensor, depth):
        """A graph reads the elements of an attribute in place; it holds those of a tensor in a list."""
        self._tensor(path, tensor)
        if depth and not self.exact:
            self._follow(tensor)
        elif self.exact:
            self.key.append((id(tensor),))

    def _array(self, path, value):
        self._first(value)
        of_numpy = isinstance(value, np.ndarray)
        look = value.tobytes if of_numpy else functools.partial(bytes, value)
        if of_numpy and (value.nbytes > MOST_BYTES or value.dtype.hasobject):
            self._refuse(f"'{path}' is an array of numpy's: register_buffer() it as a tensor")
            return
        self.arrays.append((value, look, look()))
        self.key.append((of_numpy and (value.dtype, value.shape), self.arrays[-1][-1]))

    def _function(self, path, value, depth):
        """A function by identity: the values that it reads come with reads, where it was run."""
        first = self._first(value)[1]
        self.key.append((value,))
        if not first or depth > MOST_DEPTH:
            return
        if isinstance(value, functools.partial):
            self._items(path, [("func", value.func), ("args", value.args), ("keywords", value.keywords)], depth + 1)
        elif not isinstance(value, types.FunctionType):
            self._items(path, [("self", value.__self__)], depth)
        elif not is_library(value) and value.__dict__:
            self._keep(value.__dict__)
            self._items(path, value.__dict__.items(), depth + 1)

    def _place(self, path, get, name, put, depth):
        """The value of a name."""
        value = get(name)
        self.places.append((get, name))
        self.puts.append(put)
        self.values.append(value)
        self._items(path, [(name, value)], depth)

    def read(self, ran):
        """The values that a function reads besides its operands, by the names in its code."""
        self.reading = True
        self.key.append((ran.code,))
        path, names, function = ran.code.co_name, names_in(ran.code), ran.function
        self._globals(ran.space, names, set())
        for name in names:
            module = sys.modules.get(name)  # imported where it is used
            if module is not None and root_of(name) not in LIBRARIES:
                self._globals(vars(module), names, set())
        if function is not None:
            cells = Cells(function)
            for name in cells.cells:
                self._place(path, cells.get, name, cells.put, 1)
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                self._place(path, Attributes(function).get, name, functools.partial(setattr, function), 1)
        self._fields()
        self.reading = False

    def _globals(self, space, names, seen):
        """Those of these names that a Python module has, and those of modules among their values."""
        seen.add(id(space))
        ours = root_of(space.get("__name__")) not in LIBRARIES  # a trace replaces some functions of PyTorch
        if (id(space), None) not in self.placed:
            self.placed.add((id(space), None))
            self.sizes.append((space, len(space)))
        for name in names:
            if name not in space:
                continue
            if (id(space), name) not in self.placed:
                self.placed.add((id(space), name))
                self._place("", space.get, name, space.__setitem__ if ours else None, 1)
            value = space[name]
            if isinstance(value, types.ModuleType) and id(value.__dict__) not in seen:
                self._globals(value.__dict__, names, seen)

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
        """[(dict, name, value)] of the numbers and texts in which the other state, of the same objects, differs from
        this one; None: other things differ, too."""
        pairs = list(zip(self.key, other.key))
        if len(self.key) != len(other.key) or any(a != b and (len(b) != 3 or b[1] not in ATOMS) for a, b in pairs):
            return None
        now, missing = {id(owner): values for owner, values in other.dicts}, object()
        found = [(owner, name, value) for owner, was in self.dicts for name, value in now[id(owner)].items()
                 if value.__class__ in ATOMS and was.get(name, missing) is not value]
        return found if len(found) >= sum(a != b for a, b in pairs) else None  # others are in lists, or are globals
