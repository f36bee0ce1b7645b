"""tempo.torch.wrap: a torch.nn.Module whose forward and backward pass run in Tempo, on the module's own parameters.

    model = tempo.torch.wrap(model, {"input_ids": ids, "labels": labels}, recipe="tiled")
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()

Where the module returns a loss, one run of the training graph in forward gives the loss and all gradients, and backward
hands them out. Where gradients go by other outputs, forward runs the forward pass, and backward the training graph, in
which the forward pass is computed again. docs/python.md tells more.
"""
import contextlib
import copy
import ctypes
import functools
import warnings
import weakref

import torch
from torch.utils import _pytree as pytree

from . import compiler, errors, torch_export
from .session import Session

SEED, MOST_SESSIONS, MANY_EXPORTS = "tempo.seed", 4, 8
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
    return torch.frombuffer(bytes_, dtype=dtype).view(shape), bytes_


def _copy_out(tensor):
    """A tempo_tensor as a torch.Tensor of its own."""
    return _view(tensor)[0].clone()


def _flatten(args, kwargs):
    """Leaves, and what they are the leaves of; the order of keywords makes no difference."""
    return pytree.tree_flatten((args, dict(sorted(kwargs.items()))))


def _lend(session, tensor, lent):
    """A tempo_tensor as a torch.Tensor in the session's own memory, which stays as long as the tensor does; `lent`
    lists what tells of its end."""
    view, bytes_ = _view(tensor)
    if bytes_ is not None:
        bytes_.session = session
        lent.append(weakref.ref(bytes_))
    return view


def _take_back(session, parameters):
    """Before the session writes into what it has lent: gradients that are still there, to be added to, move to memory
    of their own. False: somebody else holds some."""
    addresses = {ctypes.addressof(lent()) for lent in session.lent if lent() is not None}
    for p in parameters if addresses else ():
        if p.grad is not None and p.grad.data_ptr() in addresses:
            p.grad = p.grad.clone()
    return all(lent() is None for lent in session.lent + session.lent_outputs)


class _Weights:
    """The module's parameters and buffers by name, as they lie now."""

    def __init__(self, module):
        self.module = module
        self.copied = set()

    def at(self, name):
        *owners, last = name.split(".")
        module = self.module
        for owner in owners:
            module = module._modules[owner]
        tensor = module._parameters.get(last)
        return module._buffers[last] if tensor is None else tensor

    def bytes_of(self, name):
        """The tensor to bind: the weight itself; a copy, and a warning, where it does not lie in one piece."""
        tensor = self.at(name)
        if tensor.device.type != "cpu":
            raise errors.Unsupported(f"tempo.torch: '{name}' is on {tensor.device}; hint: module.cpu()", 3)
        if tensor.is_contiguous():
            return tensor.detach()
        if name not in self.copied:
            warnings.warn(f"tempo.torch: '{name}' is not contiguous: each run copies it", stacklevel=2)
            self.copied.add(name)
        return tensor.detach().contiguous()


class _Graph:
    """One graph of an exported module: compiled once with open sizes, or, where tempoc wants numbers, for each."""

    def __init__(self, proto, exported, weights, options, threads, device):
        self.proto, self.exported, self.weights, self.options = proto, exported, weights, options
        self.threads, self.device = threads, device
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
            del self.sessions[next(iter(self.sessions))]  # what it has lent keeps it
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
        return session

    def run(self, sizes, feeds, seed):
        """Runs the graph on {input: tensor} and the weights."""
        session = self.session(sizes)
        if any(lent() is not None for lent in session.lent_outputs):
            self.lends_outputs = False  # the caller keeps them from step to step: no second session for each
        if not _take_back(session, self.weights.module.parameters()):
            self.sessions.popitem()
            session = self.session(sizes)
        session.lent, session.lent_outputs = [], []
        for name, own in self.exported.weights.items():
            if name in session.takes:
                _bind(session, name, self.weights.bytes_of(own))
        for name, tensor in feeds.items():
            if name in session.takes:
                _bind(session, name, tensor.detach().contiguous())
        if seed is not None and SEED in session.takes:
            session.seed(seed)
        session.run(outputs=[])
        return session


def _bind(session, name, tensor):
    """Binds a tensor's own memory; where it is bound already, that is all."""
    what = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape))
    if session.addresses.get(name) != what:
        number = NUMBERS.get(tensor.dtype)
        if number is None:
            raise errors.Unsupported(f"tempo.torch: '{name}' is of {tensor.dtype}, which Tempo does not hold", 3)
        told = session.describe(number, what[2], what[0], tensor.numel() * tensor.element_size())
        session.bind_address(name, told, tensor)
        session.addresses[name] = what
    session._bound[name] = tensor


class _Entry:
    """A module exported for one form of its inputs, and the graphs that are made of it when they are needed."""

    def __init__(self, runner, leaves, spec, modes, dynamic_shapes):
        self.runner, self.spec, self.modes = runner, spec, modes
        self.constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.dtypes = [leaf.dtype if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        self.exported = torch_export.Exported(runner.module, leaves, spec, dynamic_shapes, runner.opset, runner.keys)
        self.frozen = runner.frozen()
        self.graphs = {}
        self.by_loss = self.exported.loss is not None

    def bindings(self, leaves, spec, modes):
        """Values of the open sizes; None: made for other inputs, or another mode."""
        if modes != self.modes or spec != self.spec or self.frozen != self.runner.frozen():
            return None
        for leaf, constant, dtype in zip(leaves, self.constants, self.dtypes):
            if isinstance(leaf, torch.Tensor) != (dtype is not None):
                return None
            if dtype is not None and leaf.dtype != dtype or dtype is None and leaf != constant:
                return None
        return self.exported.bindings([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])

    def graph(self, kind):
        """kind: forward; loss, with the gradients of the loss; surrogate, with those of all outputs; or a tuple of
        inputs: with those of all outputs, for these inputs as well."""
        if kind not in self.graphs:
            runner, exported = self.runner, self.exported
            proto, options = exported.proto, {"recipe": "forward"}
            if isinstance(kind, tuple):
                learned = [name for name, own in exported.weights.items() if runner.weights.at(own).requires_grad]
                proto, options = exported.surrogate([*kind, *learned]), runner.options
            elif kind != "forward":
                proto = proto if kind == "loss" else exported.surrogate()
                options = {**runner.options, "freeze": [torch_export.PREFIX + name for name in self.frozen],
                           "loss": exported.outputs[exported.loss] if kind == "loss" else torch_export.SURROGATE}
            self.graphs[kind] = _Graph(proto, exported, runner.weights, options, runner.threads, runner.device)
        return self.graphs[kind]

    def run(self, kind, sizes, tensors, seed, more=None):
        return self.graph(kind).run(sizes, {**dict(zip(self.exported.inputs, tensors)), **(more or {})}, seed)

    def outputs(self, session, kind):
        lends = self.graphs[kind].lends_outputs
        told = [session.output_tensor(name) for name in self.exported.outputs]
        return [_lend(session, t, session.lent_outputs) if lends and t.bytes >= SMALL else _copy_out(t) for t in told]

    def gradients(self, session):
        """{id of a parameter, in the session's memory, or name of an input: gradient}; of a parameter with several
        names the file may have any of them."""
        found = {name: _copy_out(session.output_tensor(name + "_grad")) for name in session.input_gradients}
        for name in session.gradients:
            key = id(self.runner.weights.at(self.exported.weights[name]))
            gradient = _lend(session, session.output_tensor(name + "_grad"), session.lent)
            found[key] = found[key].add_(gradient) if key in found else gradient
        return found


class _Step(torch.autograd.Function):
    """Forward and backward pass of a call; what gradients are wanted of, parameters among them, are its operands."""

    @staticmethod
    def forward(ctx, call, *operands):
        ctx.call = call
        ctx.set_materialize_grads(False)
        outputs = call.forward()
        ctx.mark_non_differentiable(*(y for y in outputs if y.dtype not in torch_export.FLOATS))
        return tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *slopes):
        return (None, *ctx.call.backward(slopes))


class _Call:
    """One call of the module with gradients."""

    def __init__(self, entry, sizes, tensors, parameters, seed):
        self.entry, self.sizes, self.tensors, self.seed = entry, sizes, tensors, seed
        learning = {name: t for name, t in zip(entry.exported.inputs, tensors) if t.requires_grad}
        self.operands = [*parameters, *learning.values()]
        self.keys = [*map(id, parameters), *learning]
        self.versions = [t._version for t in self.operands]
        self.inputs = tuple(learning)
        self.by_loss = entry.by_loss and not learning
        self.gradients = None

    def forward(self):
        kind = "loss" if self.by_loss else "forward"
        session = self.entry.run(kind, self.sizes, self.tensors, self.seed)
        if self.by_loss:
            self.gradients = self.entry.gradients(session)
        outputs = self.entry.outputs(session, kind)
        self.shapes = [y.shape for y in outputs]
        return outputs

    def backward(self, slopes):
        loss = self.entry.exported.loss
        only_loss = all(slope is None for i, slope in enumerate(slopes) if i != loss)
        if only_loss and (loss is None or slopes[loss] is None):
            return [None] * len(self.keys)
        gradients, self.gradients = self.gradients, None
        factor = float(slopes[loss]) if only_loss and gradients is not None else 1.0
        if not only_loss or gradients is None:
            self.entry.by_loss = self.entry.by_loss and only_loss
            gradients = self._by_surrogate(slopes)
        found = [gradients.pop(key, None) for key in self.keys]
        return [g if g is None or factor == 1.0 else g.mul_(factor) for g in found]

    def _by_surrogate(self, slopes):
        """The forward pass once more, with the same masks, then back from all outputs."""
        if self.versions != [t._version for t in self.operands]:
            raise RuntimeError("tempo.torch: parameters or inputs were changed between forward and backward, which "
                               "computes the forward pass again")
        exported = self.entry.exported
        more = {}
        for name, dtype, slope, shape in zip(exported.outputs, exported.dtypes, slopes, self.shapes):
            if dtype in torch_export.FLOATS:
                more["d." + name] = torch.zeros(shape, dtype=dtype) if slope is None else slope.to(dtype)
        session = self.entry.run(self.inputs or "surrogate", self.sizes, self.tensors, self.seed, more)
        return self.entry.gradients(session)


class _Runner:
    """What a wrapped module has beside its own: exports, graphs and sessions."""

    def __init__(self, module, options, opset, dynamic_shapes, threads, device, keys):
        self.module, self.options, self.opset, self.keys = module, options, opset, keys
        self.dynamic_shapes, self.threads, self.device = dynamic_shapes, threads, device
        self.weights = _Weights(module)
        self.entries = []

    def __deepcopy__(self, memo):
        return _Runner(copy.deepcopy(self.module, memo), self.options, self.opset, self.dynamic_shapes, self.threads,
                       self.device, self.keys)

    def frozen(self):
        named = self.module.named_parameters(remove_duplicate=False)
        return [name for name, p in named if not p.requires_grad]

    def entry(self, leaves, spec):
        modes = [torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")]
        modes += [m.training for m in self.module.modules()]
        for entry in reversed(self.entries):
            sizes = entry.bindings(leaves, spec, modes)
            if sizes is not None:
                return entry, sizes
        if len(self.entries) == MANY_EXPORTS:
            warnings.warn(f"tempo.torch: the module is exported for the {MANY_EXPORTS + 1}th form of its inputs, which "
                          "takes seconds each; pad them to a few shapes, or see dynamic_shapes", stacklevel=2)
        entry = _Entry(self, leaves, spec, modes, self.dynamic_shapes)
        self.entries.append(entry)
        sizes = entry.bindings(leaves, spec, modes)
        if sizes is None:
            raise errors.Bug("tempo.torch: the export does not fit the inputs that it was made for", 70)
        return entry, sizes

    def call(self, args, kwargs):
        leaves, spec = _flatten(args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        entry, sizes = self.entry(leaves, spec)
        seed = int(torch.randint(2 ** 62, ())) if any(entry.modes[1:]) else None
        parameters = [p for p in self.module.parameters() if p.requires_grad] if torch.is_grad_enabled() else []
        if not parameters and not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            session = entry.run("forward", sizes, tensors, seed)
            return entry.exported.rebuild(entry.outputs(session, "forward"))
        call = _Call(entry, sizes, tensors, parameters, seed)
        return entry.exported.rebuild(_Step.apply(call, *call.operands))

    def prepare(self, args, kwargs):
        """Exports and compiles what a first step needs."""
        entry, sizes = self.entry(*_flatten(args, kwargs))
        learns = any(p.requires_grad for p in self.module.parameters())
        entry.graph("loss" if learns and entry.by_loss else "surrogate" if learns else "forward").session(sizes)


class Wrapped:
    """A base of every wrapped module's class, beside the module's own."""


def wrap(module, example=None, *, recipe=None, outputs=None, opset=18, dynamic_shapes=None, threads=0, device=None,
         **options):
    """The module with its forward and backward pass in Tempo: of the module's own class, with the same parameters,
    buffers and submodules.

    example: what it is called with: a tuple of positional operands, a dict of keywords, or one tensor; for these it is
    exported and compiled at once. Other forms of inputs, and evaluation mode, are exported when they come. None: all
    when it comes. outputs: of a module that returns a dict, or a ModelOutput, the keys that are wanted: others are left
    out, and take neither time nor memory. dynamic_shapes: of each tensor among the operands, in their order, what
    torch.export takes; by default the first dimension is open, and of integers the second. threads: those of Tempo; 0:
    as many as PyTorch uses. options are those of tempo.compile, memory_budget among them, for the training graph.
    """
    if any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats for m in module.modules()):
        warnings.warn("tempo.torch: running statistics of BatchNorm stay as they are", stacklevel=2)
    cls = type(module)

    @functools.wraps(cls.forward)
    def forward(self, *args, **kwargs):
        runner = self.__dict__["_tempo"]
        runner.module.training = self.training
        return runner.call(args, kwargs)

    wrapped = copy.copy(module)
    wrapped.__class__ = type(cls.__name__, (Wrapped, cls), {"forward": forward, "__module__": cls.__module__})
    inner = copy.copy(module)  # is exported, in the mode that the wrapped one has
    runner = _Runner(inner, dict(options, recipe=recipe), opset, dynamic_shapes, threads, device, outputs)
    wrapped.__dict__["_tempo"] = runner
    with contextlib.suppress(KeyError):
        del wrapped.__dict__["_compiled_call_impl"]
    if example is not None:
        args, kwargs = ((), example) if isinstance(example, dict) else \
            (example, {}) if isinstance(example, (tuple, list)) else ((example,), {})
        runner.prepare(tuple(args), kwargs)
    return wrapped
