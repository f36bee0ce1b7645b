"""A module exported for one form of its operands: the graphs that its calls run, forward and back."""
import torch
from torch.utils import _pytree as pytree

from . import errors, torch_export
from .torch_graph import SEED, Graph, Weights, copy_out, lend, SMALL
from .torch_state import version


class Entry:
    """An export, and the graphs that are made of it when they are needed.

    A graph's kind is forward; loss, with the gradients of the loss; or (numbers of outputs, numbers of inputs): with
    the gradients of any function of these outputs, for the parameters and these inputs."""
    reason = None

    def __init__(self, runner, exported, operands, state):
        self.runner, self.exported, self.state = runner, exported, state
        self.form, self.spec = operands.form, operands.spec
        self.weights, self.graphs, self.record = Weights(runner.module), {}, exported.record
        self.learning = [i for i, needs in enumerate(self.record.needs) if needs]  # outputs
        reached = set().union(*(self.record.reaches[i] for i in self.learning))
        self.parameters = sorted(name for name in reached if isinstance(name, str))
        self.inputs = tuple(sorted(number for number in reached if isinstance(number, int)))
        self.by_loss = self.record.loss in self.learning and not self.inputs

    def sizes(self, operands):
        """Values of the open sizes; None: made for others."""
        return self.exported.bindings(operands.tensors)

    def prepare(self, sizes):
        """Compiles the graphs that a call needs: a failure is then known before the first call."""
        kinds = ["forward"] if not self.learning else ["loss"] if self.by_loss else \
            ["forward", (tuple(self.learning), self.inputs)]
        sessions = [self.graph(kind).session(sizes) for kind in kinds]
        self.draws = any(SEED in session.takes for session in sessions)

    def _reached(self, outputs, inputs):
        """Parameters (as ids) and inputs (as names) that have a gradient in PyTorch."""
        names = set().union(*(self.record.reaches[i] for i in outputs))
        return {id(self.weights.at(name)) for name in names if isinstance(name, str)} | \
            {self.exported.inputs[number] for number in names if number in inputs}

    def graph(self, kind):
        if kind not in self.graphs:
            exported, runner = self.exported, self.runner
            proto, options, reached = exported.proto, {"recipe": "forward"}, None
            if kind != "forward":
                outputs, inputs = ([self.record.loss], ()) if kind == "loss" else kind
                reached = self._reached(outputs, inputs)
                learned = [name for name, own in exported.weights.items() if id(self.weights.at(own)) in reached]
                asked = [*(exported.inputs[i] for i in inputs), *learned] if inputs else ()
                proto = proto if kind == "loss" else exported.surrogate(outputs, asked)
                options = runner.options if inputs else {
                    **runner.options, "freeze": [name for name in exported.weights if name not in learned],
                    "loss": exported.outputs[self.record.loss] if kind == "loss" else torch_export.SURROGATE}
            results = [*exported.outputs, *exported.updates] if isinstance(kind, str) else []
            self.graphs[kind] = Graph(proto, exported, self.weights, options, runner.settings, results, reached)
        return self.graphs[kind]

    def run(self, kind, sizes, tensors, seed, more=None, instead=None):
        feeds = {**dict(zip(self.exported.inputs, tensors)), **(more or {})}
        return self.graph(kind).run(sizes, feeds, seed, instead or {})

    def outputs(self, session, kind):
        lends = self.graphs[kind].lends_outputs
        tensors = {name: session.output_tensor(name) for name in self.exported.outputs}
        return [lend(session, name, session.lent_outputs) if lends and t.bytes >= SMALL else copy_out(t)
                for name, t in tensors.items()]

    def update(self, session):
        """Updates buffers as forward does: in place, or by another tensor."""
        for output, (name, is_new) in zip(self.exported.updates, self.record.updates):
            tensor = copy_out(session.output_tensor(output))
            if is_new:
                self.weights.put(name, tensor)
            else:
                with torch.no_grad():
                    self.weights.at(name).copy_(tensor)

    def gradients(self, session, weights=None):
        """{id of a parameter, in the session's memory, or name of an input: gradient}; for a parameter with several
        names the file may have any of them. weights: {name: tensor}, used instead of the module's own."""
        found = {name: copy_out(session.output_tensor(name + "_grad")) for name in session.input_gradients}
        for name in session.gradients:
            own = self.exported.weights[name]
            key = id(weights[own] if weights else self.weights.at(own))
            gradient = lend(session, name + "_grad", session.lent)
            found[key] = found[key].add_(gradient) if key in found else gradient
        return found

    def rebuild(self, operands, outputs):
        """The result of a call."""
        read = {"output": outputs.__getitem__, "input": operands.tensors.__getitem__, "weight": self.weights.at,
                "constant": lambda value: value}
        return pytree.tree_unflatten([read[kind](which) for kind, which in self.record.leaves], self.record.spec)

    def call(self, sizes, operands):
        seed = int(torch.randint(2 ** 62, ())) if self.draws else None
        step = _Call(self, sizes, operands, seed)
        outputs = _Step.apply(step, *step.operands) if step.operands else step.forward()
        return self.rebuild(operands, outputs)


class _Step(torch.autograd.Function):
    """Forward and backward pass of a call; its operands are all tensors that need a gradient, parameters among them."""

    @staticmethod
    def forward(ctx, call, *operands):
        ctx.call = call
        ctx.set_materialize_grads(False)
        outputs = call.forward()
        ctx.save_for_backward(torch.empty(0))  # PyTorch frees it with the graph, and reports an error afterwards
        ctx.mark_non_differentiable(*(y for i, y in enumerate(outputs) if i not in call.entry.learning))
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *slopes):
        if torch.is_grad_enabled():  # once_differentiable lets them pass where no incoming gradient requires a gradient
            raise errors.Unsupported("tempo.torch: create_graph=True asks for gradients of gradients, which Tempo does "
                                     "not compute; hint: call the module that wrap() was given", 3)
        came = tuple(i for i, slope in enumerate(slopes) if slope is not None)
        if not ctx.call.alone(came):
            ctx.saved_tensors
        return (None, *ctx.call.backward(came, slopes))


class _Call:
    """One call of the module."""

    def __init__(self, entry, sizes, operands, seed):
        self.entry, self.sizes, self.seed, self.tensors = entry, sizes, seed, operands.tensors
        parameters = [entry.weights.at(name) for name in entry.parameters]
        self.operands = [*parameters, *(self.tensors[i] for i in entry.inputs)]
        self.keys = [*map(id, parameters), *(entry.exported.inputs[i] for i in entry.inputs)]
        self.updated = {name for name, _ in entry.record.updates}
        self.by_loss, self.gradients = entry.by_loss and bool(self.operands), None
        self.passed = set()  # the tensors that PyTorch would have saved for earlier backward passes

    def _versions(self):
        """Versions that show changes of all that the forward pass read."""
        read = [*self.tensors, *(t for name, t in self.weights.items() if name not in self.updated)]
        return list(map(version, read))

    def forward(self):
        entry, kind = self.entry, "loss" if self.by_loss else "forward"
        session = entry.run(kind, self.sizes, self.tensors, self.seed)
        if self.by_loss:
            self.gradients = entry.gradients(session)
        outputs = entry.outputs(session, kind)
        if self.operands:
            self.weights = {name: entry.weights.at(name) for name in entry.exported.weights.values()}
            self.versions = self._versions()
            self.weights.update((name, self.weights[name].clone()) for name in self.updated & self.weights.keys())
        entry.update(session)
        return outputs

    def alone(self, came):
        """Whether a backward pass from these outputs needs nothing that PyTorch has freed after an earlier one."""
        saved = set().union(*(self.entry.record.saved[i] for i in came))
        shared, self.passed = saved & self.passed, saved | self.passed
        return not shared

    def backward(self, came, slopes):
        loss = self.entry.record.loss
        if not came:
            return [None] * len(self.keys)
        with self.entry.runner.lock:
            gradients, self.gradients = self.gradients, None
            if came == (loss,) and gradients is not None:
                factor = float(slopes[loss])
            else:
                self.entry.by_loss = self.entry.by_loss and came == (loss,)
                gradients, factor = self._by_surrogate(came, slopes), 1.0
            found = [gradients.pop(key, None) for key in self.keys]
            return [g if g is None or factor == 1.0 else g.mul_(factor) for g in found]

    def _by_surrogate(self, came, slopes):
        """The forward pass once more, with the same masks, parameters and buffers, then back from these outputs."""
        if self.versions != self._versions():
            raise RuntimeError("tempo.torch: parameters, buffers or inputs were changed between forward and backward, "
                               "which computes the forward pass again")
        exported = self.entry.exported
        more = {"d." + exported.outputs[i]: slopes[i].to(self.entry.record.dtypes[i]) for i in came}
        session = self.entry.run((came, self.entry.inputs), self.sizes, self.tensors, self.seed, more, self.weights)
        return self.entry.gradients(session, self.weights)
