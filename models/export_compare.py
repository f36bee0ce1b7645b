"""What PyTorch computes of a batch, and how an exported file is held against it: its loss, a gradient for each
parameter, and these gradients. A module that draws at random (dropout) is compared without: it is exported once more
for that. With tempoc and libtempo all is compared; without, the loss by ONNX Runtime, and whether the loss depends on
each parameter by the graph."""
import contextlib
import os
import sys
import tempfile
import unittest.mock
import warnings

import numpy as np
import onnx
import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "test", "lib"), HERE]
import export_names  # noqa: E402
import tempo  # noqa: E402
from compare import worst  # noqa: E402
from tempo import torch_export  # noqa: E402

# Of the loss, and of a gradient's norm: sums in another order differ by 1e-6, a wrong term shows at 1e-3 and above.
LOSS, GRADIENT, IN_16_BITS, AS_FAR = 1e-4, 1e-3, 5e-2, 4
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


class ExportError(Exception):
    """No way of exporting gave a file that trains what PyTorch trains; tells why, and what to change."""


class GradientError(ExportError):
    """The file's loss is PyTorch's, its gradients are not."""


def listed(names):
    return ", ".join(f"'{name}'" for name in names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def array(tensor):
    """numpy has no bfloat16: its bits."""
    return tensor.numpy() if tensor.dtype != torch.bfloat16 else tensor.view(torch.uint16).numpy()


@contextlib.contextmanager
def drawing_nothing(module):
    """Dropout and its kin are off; all else, norms above all, stays in its mode."""
    attend = functional.scaled_dot_product_attention

    def keep(x, *args, **kwargs):
        return x

    def attend_all(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        return attend(query, key, value, attn_mask, 0.0, *args, **kwargs)

    with contextlib.ExitStack() as stack:
        for m in module.modules():
            if m.training and any(word in type(m).__name__.lower() for word in ("drop", "stochastic")):
                stack.callback(setattr, m, "training", True)
                m.training = False
            if isinstance(m, torch.nn.RNNBase) and m.dropout:  # between its layers
                stack.callback(setattr, m, "dropout", m.dropout)
                m.dropout = 0.0
        for owner, name in [(torch, "dropout"), *((functional, name) for name in DROPOUTS)]:
            stack.enter_context(unittest.mock.patch.object(owner, name, keep))
        stack.enter_context(unittest.mock.patch.object(functional, "scaled_dot_product_attention", attend_all))
        yield


def _loss_by_torch(module, tensors, seed):
    with torch_export.keeping_state(module):
        torch.manual_seed(seed)
        return module(*tensors)


def _draws(module, tensors):
    """Whether a call takes numbers from PyTorch's generator."""
    with torch_export.keeping_state(module), torch.no_grad():
        torch.manual_seed(1)
        before = torch.get_rng_state()
        module(*tensors)
        return not torch.equal(before, torch.get_rng_state())


def _differs(module, tensors):
    """Whether what is drawn makes a difference."""
    with torch.no_grad():
        a, b = (float(_loss_by_torch(module, tensors, seed)) for seed in (1, 2))
    return abs(a - b) > 1e-6 * abs(a)


def _gradients(module, tensors):
    """(loss, {parameter: its gradient}) of those that are learned and that the loss depends on."""
    learned = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not learned:
        raise ExportError("no parameter has requires_grad: there is nothing to train")
    with torch_export.keeping_state(module):
        torch.manual_seed(1)
        loss = module(*tensors)
        if not torch.isfinite(loss):
            raise ExportError(f"the loss of the batch is {float(loss)} in PyTorch: give another batch")
        found = torch.autograd.grad(loss, list(learned.values()), allow_unused=True)
    return loss.detach(), {name: g for name, g in zip(learned, found) if g is not None}


class _InDouble(torch.nn.Module):
    """A module with copies of its parameters and buffers in double, under the same names."""

    def __init__(self, module):
        super().__init__()
        self.call = [module]
        own = [*module.named_parameters(), *module.named_buffers()]
        self.own = {n: t.detach().double() if t.is_floating_point() else t.detach().clone() for n, t in own}
        for name, p in module.named_parameters():
            self.own[name].requires_grad_(p.requires_grad)

    def named_parameters(self, *args, **kwargs):
        return ((name, self.own[name]) for name, _ in self.call[0].named_parameters())

    def forward(self, *tensors):
        tensors = tuple(t.double() if t.is_floating_point() else t for t in tensors)
        return torch.func.functional_call(self.call[0], self.own, tensors)


def _has_tempo():
    try:
        tempo.library.load()
        return True
    except tempo.Error:
        return False


def _normalizes_batches(module):
    return any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.training for m in module.modules())


def _loss_by_onnxruntime(path, feeds):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    taken = {i.name for i in session.get_inputs()}
    return float(session.run(["loss"], {k: v for k, v in feeds.items() if k in taken})[0].reshape(()))


class Comparison:
    """module: takes the batch's tensors by *, and returns the loss; named: the batch; twice: another one, twice as
    large; notes: a list, more is added.

    loss, gradients: PyTorch's, dropout off; feeds: the batch as arrays; loss_of_twice: None where the module takes no
    other batch."""

    def __init__(self, module, named, twice, notes):
        self.module, self.named, self.notes = module, named, notes
        self.feeds, self.feeds_of_twice = ({name: array(t) for name, t in b.items()} for b in (named, twice))
        tensors = list(named.values())
        self.draws = _draws(module, tensors)
        with drawing_nothing(module) if self.draws else contextlib.nullcontext():
            self.still_draws = self.draws and _differs(module, tensors)
            self.loss, self.gradients = _gradients(module, tensors)
            try:
                with torch.no_grad():
                    self.loss_of_twice = _loss_by_torch(module, list(twice.values()), 1)
            except (RuntimeError, ValueError) as e:
                self.loss_of_twice = None
                notes.append(f"the module takes no other batch, so that it is static: {export_names.reason(e)}")
        self.tempo = _has_tempo()
        if self.still_draws:
            notes.append("the module draws random numbers beside dropout: its numbers are not compared")
        own = dict(module.named_parameters())
        unused = [name for name, p in own.items() if p.requires_grad and name not in self.gradients]
        if unused:
            notes.append(f"the loss does not depend on {listed(unused)}: not on the list of what is trained")
        self.aliases = {name: [n for n, p in module.named_parameters(remove_duplicate=False) if p is own[name]]
                        for name in self.gradients}
        self.options = {}  # of tempoc

    def names(self, path):
        """Which initializers hold the parameters (export_names.names_of)."""
        own = dict(self.module.named_parameters())
        return export_names.names_of(path, {name: (names, lambda name=name: array(own[name].detach()))
                                            for name, names in self.aliases.items()})

    def write_list(self, path, train_list):
        """What tempoc is to train, into the model's metadata and a file; a parameter of several names is listed under
        the one that the file has."""
        stored, told = self.names(path), ""
        for name, names in self.aliases.items():
            here = stored.get(name, {}).get("initializer")
            told += (here if here in names else name) + "\n"
        with open(train_list, "w", encoding="utf-8") as f:
            f.write(told)
        model = onnx.load(path, load_external_data=False)
        model.metadata_props.add(key=torch_export.TRAINED, value=told)
        onnx.save(model, path)
        self.options = {"train_list": train_list}

    def check(self, path, way, again):
        """(error, name) of the gradient that is worst, None where none were compared. Raises ExportError or
        tempo.Error. way: its exporter, and whether its batch is open; again: exports the module to a path."""
        if self.still_draws or not self.draws:
            return self._hold(path, way)
        if self.tempo:
            tempo.compile(path, write=False, loss="loss", **self.options)
        with tempfile.TemporaryDirectory() as folder, drawing_nothing(self.module):
            still = os.path.join(folder, "still.onnx")
            again(still)
            return self._hold(still, way)

    def _hold(self, path, way):
        if self.tempo:
            session = self._session(path)
            losses, found = self._by_tempo(session, way)
            if self.still_draws:
                return None
            self._same_losses(losses, way)
            return self._worst(found)
        self._check_graph(path)
        if self.still_draws or way.exporter == "dynamo" and _normalizes_batches(self.module):
            return None  # that exporter writes batch normalization as in inference, and tempoc knows better
        try:
            self._same_losses([_loss_by_onnxruntime(path, feeds) for feeds in self._all_feeds(way)], way)
        except ImportError:
            self.notes.append("neither tempoc nor onnxruntime is there, nothing was compared: TEMPO_HOME names a build")
        return None

    def _all_feeds(self, way):
        return [self.feeds, self.feeds_of_twice] if way.open else [self.feeds]

    def _session(self, path):
        """The training graph, with a gradient for each parameter."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = tempo.compile(path, names="pytorch", loss="loss", **self.options)
        session = tempo.Session(compiled)
        made = {info.name for info in session.outputs}
        lost = [name for name, names in self.aliases.items() if made.isdisjoint(n + "_grad" for n in names)]
        if lost:
            told = [line for line in compiled.messages if "warning: " in line or "note: " in line]
            raise ExportError("; ".join([f"the file has no gradient for {listed(lost)}", *told[:2]]))
        return session

    def _by_tempo(self, session, way):
        """(losses, {parameter: gradient for the batch})"""
        results = [session.run(feeds) for feeds in self._all_feeds(way)]
        got = results[0]
        found = {name: next(got[n + "_grad"] for n in names if n + "_grad" in got)
                 for name, names in self.aliases.items()}
        return [float(r["loss"].reshape(())) for r in results], found

    def _check_graph(self, path):
        graph = onnx.load(path, load_external_data=False).graph
        seen, stored = export_names.values_before(graph, graph.output[0].name), self.names(path)
        lost = [name for name in self.gradients if stored.get(name, {}).get("initializer") not in seen]
        if lost:
            raise ExportError(f"the loss in the file does not depend on {listed(lost)}")

    def _same_losses(self, losses, way):
        limit = LOSS if self.loss.dtype.itemsize > 2 else IN_16_BITS
        for got, want in zip(losses, map(float, (self.loss, self.loss_of_twice if way.open else self.loss))):
            if not abs(got - want) <= limit * max(1.0, abs(want)):
                raise ExportError(f"its loss is {got:.7g}, that of PyTorch {want:.7g}: the {way.exporter} exporter "
                                  "changed what is computed")

    def _worst(self, found):
        want = {name: g.float().numpy() for name, g in self.gradients.items()}
        got = {k: v.astype(np.float32).reshape(want[k].shape) for k, v in found.items()}
        error, name = worst(got, want)
        if not error <= (GRADIENT if self.gradients[name].dtype.itemsize > 2 else IN_16_BITS):
            error, name = self._worst_by_double(got, want)
        return error, name

    def _worst_by_double(self, got, want):
        """PyTorch's own gradient may be as far from the true one, behind norms of few numbers above all."""
        try:
            with drawing_nothing(self.module):
                exact = _gradients(_InDouble(self.module), list(self.named.values()))[1]
        except Exception:  # a module that casts to float by itself
            exact = self.gradients
        exact = {k: v.double().numpy() for k, v in exact.items()}
        own, _ = worst(want, exact)
        error, name = worst(got, exact)
        if not error <= max(GRADIENT, AS_FAR * own):
            raise GradientError(f"the gradient of '{name}' is not PyTorch's (off by {error:.1e} of its norm): the file "
                                "has no trace of something that PyTorch does (torch.no_grad, a detached value, "
                                "padding_idx, an autograd.Function)")
        return error, name
