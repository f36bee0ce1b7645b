"""tempo.torch.wrap: a torch.nn.Module whose forward and backward pass run in Tempo, on the module's own parameters.

    model = tempo.torch.wrap(model, {"input_ids": ids, "labels": labels}, recipe="tiled")
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()

Where the module returns a loss, one run of the training graph in forward gives the loss and all gradients, and backward
hands them out. Where gradients go by other outputs, forward runs the forward pass, and backward the training graph, in
which the forward pass is computed again. Where no graph does what the module's forward does, that runs instead.
docs/howto/own-loop.md says more.
"""
import collections.abc
import copy
import functools
import threading

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from . import errors, forks
from .torch_export import Exported, Unlike, open_dims
from .torch_reads import Reads
from .torch_state import ATOMS, State, slots_of, why_not_held
from .torch_entry import Entry
from .torch_trace import choose, odd_in

MANY_EXPORTS, MOST_ENTRIES, MOST_STATES, MOST_CHANGES = 8, 32, 8, 2


class _Exporting:
    """PyTorch's exporter changes modules, and functions of PyTorch, while it traces: one thread at a time."""
    lock, thread = forks.Lock(), None

    def __enter__(self):
        self.lock.__enter__()
        _Exporting.thread = threading.get_ident()

    def __exit__(self, *unused):
        _Exporting.thread = None
        self.lock.__exit__()


def _traced_by_another():
    """Whether a mode or hook watches the operators of forward: a graph of Tempo's would hide them."""
    is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return is_exporting() and _Exporting.thread in (None, threading.get_ident()) or torch.jit.is_tracing() or \
        forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


class Operands:
    """The operands of a call. leaves, of spec; tensors, each once; slots: of each leaf the number of its tensor, or
    None; form: the key of an export; reason: why it cannot be exported."""

    def __init__(self, args, kwargs):
        given = (tuple(args), dict(sorted(kwargs.items())))  # the order of keywords makes no difference
        self.leaves, self.spec = pytree.tree_flatten(given)
        odd = odd_in(given)
        self.reason = odd and f"an operand is a {odd}"
        self.slots, self.form, found = [], [torch.is_grad_enabled()], {}
        for leaf in self.leaves:
            if not isinstance(leaf, torch.Tensor):
                self.slots.append(None)
                self.form.append((type(leaf), leaf if type(leaf) in ATOMS else None))
                continue
            slot = found.setdefault(id(leaf), (len(found), leaf))[0]
            self.slots.append(slot)
            self.form.append((slot, leaf.dtype, leaf.requires_grad))
            why = why_not_held(leaf)
            self.reason = self.reason or why and f"an operand {why}"
        self.tensors = [leaf for _, leaf in found.values()]
        self.form += [torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
                      torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")]
        self.shapes = [t.shape for t in self.tensors]


class _Refused:
    """Stands for an export that cannot be made, with the reason. For these shapes; once PyTorch's forward succeeded,
    for all."""

    def __init__(self, reason, operands, state):
        self.reason, self.state = reason, state
        self.form, self.spec, self.shapes = operands.form, operands.spec, operands.shapes

    def sizes(self, operands):
        return {} if self.shapes in (None, operands.shapes) else None


class _Runner:
    """The data that wrapping adds to a module: exports, graphs and sessions. `module` is the module in its own class,
    with the attributes of the wrapped one."""

    def __init__(self, module, forward, settings):
        self.module, self.settings = module, settings
        self.forward = forward  # an attribute of the module that hid one of its class
        self.options = dict(settings["options"], recipe=settings["recipe"])
        self.entries, self.reported, self.state, self.reads = [], set(), None, Reads()
        self.changes, self.restless = 0, None  # how often forward was seen to change attributes, and which
        self.lock = forks.Lock()

    def own(self, *args, **kwargs):
        """PyTorch's forward."""
        if self.forward is not None:
            return self.forward(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)

    def tell(self, reason):
        """Warns, once for each reason, that PyTorch's forward runs."""
        text = f"tempo.torch: PyTorch runs {type(self.module).__name__}'s forward: {reason}"
        if not self.settings["fallback"]:
            raise errors.Unsupported(f"{text}; fallback=False refuses that", 3)
        if reason not in self.reported:
            self.reported.add(reason)
            errors.warn(text)

    def entry(self, operands):
        """(entry, values of open sizes) for these operands and the module as it is; an entry may be a _Refused."""
        if self.state is None or not self.state.fresh():
            self.state = State(self.module, self.reads)
        state = self.state
        reason = operands.reason or state.reason
        if reason:
            return _Refused(reason, operands, state), {}
        others = 0
        for entry in reversed(self.entries):
            if entry.form != operands.form or entry.spec != operands.spec:
                continue
            if not state.includes(entry.state):
                others += 1
                continue
            sizes = entry.sizes(operands)
            if sizes is not None:
                self.entries.remove(entry)
                self.entries.append(entry)
                return entry, sizes
        if self.changes >= MOST_CHANGES:
            return _Refused(self.restless, operands, state), {}
        if state.doubt:
            return _Refused(state.doubt, operands, state), {}
        if others >= MOST_STATES:
            what = next(e.state for e in reversed(self.entries) if not state.includes(e.state)).difference(state)
            return _Refused(f"the module's '{what}' has another value in each call; a buffer's elements may change",
                            operands, state), {}
        entry = self.make(operands)
        if len(self.entries) == MANY_EXPORTS:
            errors.warn(f"tempo.torch: the module is exported for the {MANY_EXPORTS + 1}th form of its inputs, which "
                        "takes seconds each; pad them to a few shapes, or see dynamic_shapes")
        self.entries = [*self.entries[1 - MOST_ENTRIES:], entry]
        return entry, entry.sizes(operands)

    def _export(self, operands, shapes):
        """An Exported; it is made for the current state, after forward has set the values that it sets in its first
        call, and all that it reads is known."""
        try:
            with _Exporting():
                exported = Exported(self.module, self.own, self.reads, operands, shapes, self.settings["opset"],
                                    self.settings["outputs"])
        finally:
            self.state = State(self.module, self.reads)
        if self.state.doubt:
            raise Unlike(self.state.doubt)
        return exported

    def make(self, operands):
        """An export compiled for the call's first needs, with open sizes, else with the sizes given."""
        asked, reason = self.settings["dynamic_shapes"], None
        fixed = [{} for _ in operands.tensors]
        for shapes in [asked] if asked else [list(map(open_dims, operands.tensors)), fixed]:
            try:
                entry = Entry(self, self._export(operands, shapes), operands, self.state)
                sizes = entry.sizes(operands)
                if sizes is None:
                    raise errors.Unsupported("the export does not fit the operands that it was made for", 3)
                entry.prepare(sizes)
                return entry
            except Unlike as e:
                self.changes, self.restless = self.changes + e.changes, e.message
                return _Refused(e.message, operands, self.state)
            except (errors.Unsupported, errors.BadInput, errors.Bug) as e:
                reason = e.message.split("\n")[0]
            if shapes == fixed:
                break
        return _Refused(reason, operands, self.state)

    def call(self, args, kwargs):
        if _traced_by_another():
            return self.own(*args, **kwargs)
        operands = Operands(args, kwargs)
        with self.lock:
            entry, sizes = self.entry(operands)
            reason = entry.reason
            try:
                if reason is None:
                    return entry.call(sizes, operands)
            except (errors.Unsupported, errors.BadInput) as e:
                reason = e.message.split("\n")[0]
        if not self.settings["fallback"]:
            self.tell(reason)
        with _Exporting.lock:  # another thread's export is over
            pass
        result = choose(self.own(*args, **kwargs), self.settings["outputs"])
        self.tell(reason)  # now that it was no mistake of the caller's
        if isinstance(entry, _Refused):
            entry.shapes = None
        return result

    def prepare(self, args, kwargs):
        """Exports and compiles the graphs that a first step needs."""
        with self.lock:
            entry, _ = self.entry(Operands(args, kwargs))
        if entry.reason is not None:
            self.tell(entry.reason)


class Wrapped:
    """A base of every wrapped module's class, beside the module's own."""

    def __reduce_ex__(self, protocol):
        return _again, (self._tempo.module, self._tempo.forward, self._tempo.settings)

    def __copy__(self):
        return _again(copy.copy(self._tempo.module), self._tempo.forward, self._tempo.settings)


@functools.lru_cache(maxsize=None)
def _class_of(cls):
    @functools.wraps(cls.forward)
    def forward(self, *args, **kwargs):
        return self._tempo.call(args, kwargs)

    return type(cls.__name__, (Wrapped, cls), {"forward": torch.compiler.disable(forward), "__slots__": ("_tempo",),
                                               "__module__": cls.__module__, "__qualname__": cls.__qualname__})


def _again(module, forward, settings):
    """A wrapped module with the attributes of `module`, which it keeps."""
    wrapped = object.__new__(_class_of(type(module)))
    object.__setattr__(wrapped, "__dict__", module.__dict__)
    object.__setattr__(wrapped, "_tempo", _Runner(module, forward, settings))
    return wrapped


def wrap(module, example=None, *, recipe=None, outputs=None, opset=18, dynamic_shapes=None, threads=0, device=None,
         fallback=True, **options):
    """The module with its forward and backward pass in Tempo: of the module's own class, with the same parameters,
    buffers and submodules.

    example: operands to export and compile for at once: a tuple of positional operands, a dict of keywords, or one
    tensor. Inputs of other shapes, and evaluation mode, are exported at their first call; None: all at the first call.
    outputs: for a module that returns a dict, or a ModelOutput, the keys that are wanted: others are left out, and take
    neither time nor memory. dynamic_shapes: for each tensor among the operands, each counted once, an argument as in
    torch.export; by default the first dimension is open, and of integers the second. threads: those of Tempo; 0: as
    many as PyTorch uses. fallback: where no graph can replace the module's forward, PyTorch runs it, with a warning;
    False: tempo.Unsupported. options are those of tempo.compile, memory_budget among them, for the training graph."""
    if isinstance(module, Wrapped):
        module = module._tempo.module
    if isinstance(module, (torch.jit.ScriptModule, torch._dynamo.OptimizedModule)):
        raise errors.Usage(f"tempo.torch: a {type(module).__name__} has no Python forward; hint: wrap the module "
                           "that it was made of", 64)
    if slots_of(type(module)):
        raise errors.Unsupported(f"tempo.torch: the class {type(module).__name__} has __slots__; hint: take them out: "
                                 "modules have a __dict__ anyway", 3)
    module = copy.copy(module)
    module.__dict__.pop("_compiled_call_impl", None)
    settings = {"recipe": recipe, "outputs": outputs, "opset": opset, "dynamic_shapes": dynamic_shapes,
                "threads": threads, "device": device, "fallback": fallback, "options": options}
    wrapped = _again(module, module.__dict__.pop("forward", None), settings)
    if example is not None:
        args, kwargs = ((), dict(example)) if isinstance(example, collections.abc.Mapping) else \
            (example, {}) if isinstance(example, (tuple, list)) else ((example,), {})
        wrapped._tempo.prepare(args, kwargs)
    return wrapped
