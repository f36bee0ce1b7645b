"""Graphs of an exported module: compiled, bound to the module's own tensors, and run."""
import ctypes
import weakref

import onnx
import torch

from . import compiler, errors
from .session import Session

SEED, MOST_SESSIONS = "tempo.seed", 4
SMALL = 1 << 20  # bytes of an output that is copied: a loss is kept for a while, and its copy costs nothing
NUMBERS = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7,
           torch.bool: 9, torch.float16: 10, torch.float64: 11, torch.bfloat16: 16}
DTYPES = {number: dtype for dtype, number in NUMBERS.items()}


def _view(tensor):
    """A tempo_tensor as a torch.Tensor in the same memory, and the bytes that hold it; None, where there are none."""
    dtype, shape = DTYPES[tensor.dtype], [tensor.dims[i] for i in range(tensor.rank)]
    if tensor.bytes == 0:
        return torch.empty(shape, dtype=dtype), None
    bytes_ = (ctypes.c_char * tensor.bytes).from_address(tensor.data)
    flat = torch.frombuffer(bytes_, dtype=dtype)
    return torch.empty(0, dtype=dtype).set_(flat.untyped_storage(), 0, shape), bytes_  # no view: callers write into it


def copy_out(tensor):
    """A tempo_tensor as a torch.Tensor of its own."""
    return _view(tensor)[0].clone()


def lend(session, name, lent):
    """An output as a torch.Tensor in the session's own memory, which stays as long as the tensor does; `lent` lists
    weak references that show its end. A copy of an output that no run writes again: PyTorch adds to gradients in
    place."""
    tensor = session.output_tensor(name)
    if name in session.constant:
        return copy_out(tensor)
    view, bytes_ = _view(tensor)
    if bytes_ is not None:
        bytes_.session = session
        lent.append(weakref.ref(bytes_))
    return view


def _constant(path):
    """Outputs of a compiled file that depend on no input."""
    graph = onnx.load(path, load_external_data=False).graph
    moved = {value.name for value in graph.input}
    for node in graph.node:
        if not moved.isdisjoint(node.input):
            moved.update(node.output)
    return {value.name for value in graph.output} - moved


def _take_back(session, parameters):
    """Before the session writes into memory that it has lent: gradients that are still there, to be added to, move to
    memory of their own. False: another tensor still uses some."""
    addresses = {ctypes.addressof(lent()) for lent in session.lent if lent() is not None}
    for p in parameters if addresses else ():
        if p.grad is not None and p.grad.data_ptr() in addresses:
            p.grad = p.grad.clone()
    return all(lent() is None for lent in session.lent + session.lent_outputs)


class Weights:
    """The module's parameters and buffers by name, as they are now."""

    def __init__(self, module):
        self.module = module
        self.copied = set()

    def _owner(self, name):
        *owners, last = name.split(".")
        module = self.module
        for owner in owners:
            module = module._modules[owner]
        return module, last

    def at(self, name):
        module, last = self._owner(name)
        for place in (module._parameters, module._buffers, module.__dict__):  # a tensor that is an attribute
            if place.get(last) is not None:
                return place[last]
        raise AttributeError(f"tempo.torch: the module has no '{name}' any more")

    def put(self, name, tensor):
        """Sets a buffer, or an attribute, to another tensor."""
        module, last = self._owner(name)
        (module._buffers if last in module._buffers else module.__dict__)[last] = tensor

    def bytes_of(self, name):
        """The tensor to bind: the weight itself; a copy, and a warning, where it is not contiguous."""
        tensor = self.at(name)
        if tensor.is_contiguous():
            return tensor.detach()
        if name not in self.copied:
            errors.warn(f"tempo.torch: '{name}' is not contiguous: each run copies it")
            self.copied.add(name)
        return tensor.detach().contiguous()


class Graph:
    """One graph of an exported module: compiled once with open sizes, or, where tempoc needs numbers, for each."""

    def __init__(self, proto, exported, weights, options, settings, outputs, reached):
        self.proto, self.exported, self.weights, self.options = proto, exported, weights, options
        self.threads, self.device, self.reached = settings["threads"], settings["device"], reached
        self.outputs = outputs
        self.open = not options.get("memory_budget")
        self.sessions = {}  # by sizes; the one used last is the last
        self.lends_outputs = True

    def session(self, sizes):
        key = () if self.open else tuple(sizes.items())
        session = self.sessions.pop(key, None)
        if session is None:
            try:
                session = self._make(sizes)
            except errors.Unsupported:
                if not self.open or not sizes:
                    raise
                self.open = False
                return self.session(sizes)
        self.sessions[key] = session
        while len(self.sessions) > MOST_SESSIONS:
            del self.sessions[next(iter(self.sessions))]  # the tensors that it has lent keep it
        return session

    def _make(self, sizes):
        options = {**self.options, "dims": {**self.options.get("dims", {}), **({} if self.open else sizes)}}
        compiled = compiler.compile(self.proto, **options)
        session = Session(compiled, device=self.device, threads=self.threads or torch.get_num_threads())
        lost = [name for name in compiled.report["trained"] if name not in self.exported.weights]
        if lost:
            raise errors.Unsupported(f"tempo.torch: the export has no parameter of its own for {', '.join(lost)}", 3)
        made, session.takes = {info.name for info in session.outputs}, {info.name for info in session.inputs}
        session.gradients = [name for name in self.exported.weights if name + "_grad" in made]
        session.input_gradients = [name for name in self.exported.inputs if name + "_grad" in made]
        session.addresses, session.lent, session.lent_outputs = {}, [], []
        session.constant = _constant(compiled.path)
        self._check(session, made)
        return session

    def _check(self, session, made):
        """Refuses graphs that differ from PyTorch: in outputs, and in which values have a gradient."""
        lost = [name for name in self.outputs if name not in made]
        if lost:
            raise errors.Unsupported(f"tempoc has left out the output '{lost[0]}'", 3)
        found = {id(self.weights.at(self.exported.weights[name])) for name in session.gradients}
        found.update(session.input_gradients)
        if self.reached is not None and found != self.reached:
            names = {id(self.weights.at(own)): own for own in self.exported.weights.values()}
            which = next(iter(found ^ self.reached))
            raise errors.Unsupported(f"gradients of '{names.get(which, which)}' are PyTorch's alone" if which in
                                     self.reached else f"PyTorch has no gradient of '{names.get(which, which)}'", 3)

    def run(self, sizes, feeds, seed, instead):
        """Runs the graph on {input: tensor} and the weights, or replacements (`instead`) of some."""
        session = self.session(sizes)
        if any(lent() is not None for lent in session.lent_outputs):
            self.lends_outputs = False  # the caller keeps them from step to step: no second session for each
        if not _take_back(session, self.weights.module.parameters()):
            self.sessions.popitem()
            session = self.session(sizes)
        session.lent, session.lent_outputs = [], []
        for name, own in self.exported.weights.items():
            if name in session.takes:
                _bind(session, name, instead[own].detach().contiguous() if instead else self.weights.bytes_of(own))
        for name, tensor in feeds.items():
            if name in session.takes:
                _bind(session, name, tensor.detach().contiguous())
        if seed is not None and SEED in session.takes:
            session.seed(seed)
        session.run(outputs=[])
        return session


def _bind(session, name, tensor):
    """Binds a tensor's own memory, unless it is bound already."""
    what = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape))
    if session.addresses.get(name) != what:
        number = NUMBERS.get(tensor.dtype)
        if number is None:
            raise errors.Unsupported(f"tempo.torch: '{name}' is of {tensor.dtype}, which Tempo does not support", 3)
        described = session.describe(number, what[2], what[0], tensor.numel() * tensor.element_size())
        session.bind_address(name, described, tensor)
        session.addresses[name] = what
    session._bound[name] = tensor


