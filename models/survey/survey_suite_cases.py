"""What survey_suites.py tries: samples of PyTorch's module_db and op_db, each as a module from tensors to a loss."""
import contextlib
import copy

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

# Of each float tensor of a sample another one.
TWISTS = {
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "ties": lambda x: x.clamp(-1, 1).round(),
    "large": lambda x: x * 64,
    "tiny": lambda x: x * 1e-12,
    "infinite": lambda x: x.masked_fill(torch.arange(x.numel()).reshape(x.shape) % 5 == 1, -torch.inf),
}
# How a sample comes to what it is given to: parameters that lie otherwise, sums of a parameter and of an input whose
# first dim is open, autocast.
FORMS = ["plain", "strided", "open", "bfloat16", "float16"]
LIMITS = {"bfloat16": 3e-2, "float16": 4e-3}  # the precision of the type, by what sums lose


class Case(nn.Module):
    """A sample as a module from tensors to a loss: what needs a gradient is a parameter, other tensors are inputs"""

    def __init__(self, name, call, args, kwargs, finish, form):
        super().__init__()
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.name, self.call, self.finish, self.form = name, call, finish, form
        self.learned, self.given, self.leaves = nn.ParameterList(), [], []
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                self.leaves.append((None, leaf))
            elif leaf.layout != torch.strided or leaf.is_complex():
                raise ValueError("sparse or complex")
            elif leaf.requires_grad:
                self.leaves.append(("learned", len(self.learned)))
                self.learn(leaf.detach().clone())
            else:
                self.leaves.append(("given", len(self.given)))
                self.given.append(leaf.detach().clone())
        with torch.no_grad():
            found = list(self.results(self.given))
        self.weights = len(found)
        self.given += [torch.cos(torch.arange(y.numel()) + 1.0).reshape(y.shape).to(y.dtype) for y in found]

    def learn(self, x):
        if self.form == "strided":
            x = x.transpose(0, -1).contiguous() if x.dim() > 1 else x
        elif self.form == "open" and x.dim():
            base = torch.linspace(-0.1, 0.1, x[0:1].numel(), dtype=x.dtype).reshape(x.shape[1:])
            self.leaves[-1] = ("open", (len(self.learned), len(self.given)))
            self.given.append(x - base)
            x = base
        self.learned.append(nn.Parameter(x))

    def leaf(self, kind, which, given):
        if kind is None:
            return which
        if kind == "given":
            return given[which]
        if kind == "open":
            return given[which[1]] + self.learned[which[0]]
        x = self.learned[which]
        return x.transpose(0, -1) if self.form == "strided" and x.dim() > 1 else x

    def results(self, given):
        args, kwargs = pytree.tree_unflatten([self.leaf(*leaf, given) for leaf in self.leaves], self.spec)
        made = self.call(*args, **kwargs)
        made = self.finish(made) if self.finish else made
        for y in pytree.tree_flatten(made)[0]:
            if isinstance(y, torch.Tensor) and (y.is_floating_point() or y.is_complex()):
                yield torch.view_as_real(y) if y.is_complex() else y

    def forward(self, *given):
        own = getattr(torch, self.form) if self.form in LIMITS else None
        with torch.autocast("cpu", own) if own else contextlib.nullcontext():
            found = list(self.results(given))
        weights = given[len(given) - self.weights:]
        return sum((y.to(w.dtype) * w).sum() for y, w in zip(found, weights))


class Cases(nn.Module):
    """Several at once, for an export takes its time: the sum of their losses, and each"""

    def __init__(self, cases):
        super().__init__()
        self.cases = nn.ModuleList(cases)

    def given(self):
        return [t for case in self.cases for t in case.given]

    def forward(self, *given):
        given = iter(given)
        parts = [case(*[next(given) for _ in case.given]) for case in self.cases]
        return sum(p.float() for p in parts), *parts

    def twisted(self, twist):
        """A copy with other elements, but for the weights of the losses, and for what PyTorch refuses them in"""
        cases = []
        for case in self.cases:
            other = copy.deepcopy(case)
            for t in [*other.learned, *other.given[:len(other.given) - other.weights]]:
                if t.is_floating_point():
                    t.data.copy_(twist(t.data))
            with contextlib.suppress(Exception):
                case = other if gradients(Cases([other])) else case
            cases.append(case)
        return Cases(cases)


def op_samples(op):
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=True):
        yield op.op, (sample.input, *sample.args), sample.kwargs, sample.output_process_fn_grad


def module_samples(info):
    for made in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True):
        given = made.constructor_input
        yield (info.module_cls(*given.args, **given.kwargs).train(), made.forward_input.args,
               made.forward_input.kwargs, None)


def suites(wanted):
    """{name: (function that gives samples, entry)}"""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    found = {}
    if wanted in (None, "modules"):
        found.update({info.name: (module_samples, info) for info in module_db})
    if wanted in (None, "ops"):
        for op in op_db:
            if op.supports_autograd and torch.float32 in op.dtypes:
                found[".".join(filter(None, [op.name, op.variant_test_name]))] = (op_samples, op)
    return found


def evenly(samples, n):
    return [samples[i * (len(samples) - 1) // max(n - 1, 1)] for i in range(n)] if len(samples) > n else samples


def gradients(module, double=False):
    """{"loss", "loss.N" of each case, "cases.N.learned.0_grad"}; the module stays as it was"""
    module, given = copy.deepcopy(module), module.given()
    if double:
        module, given = module.double(), [t.double() if t.is_floating_point() else t for t in given]
    torch.manual_seed(1)
    losses = module(*given)
    losses[0].backward()
    names = ["loss", *(f"loss.{i}" for i in range(len(losses) - 1))]
    return {**{name: y.detach().numpy() for name, y in zip(names, losses)},
            **{name + "_grad": np.zeros(p.shape) if p.grad is None else p.grad.numpy()
               for name, p in module.named_parameters()}}


def cases_of(name, make, entry, o):
    """Those samples that have a gradient"""
    cases = []
    for call, args, kwargs, finish in evenly(list(make(entry)), o.samples):
        with contextlib.suppress(Exception):  # of sparse tensors, say
            case = Case(name, call, args, kwargs, finish, o.form)
            if any(p.numel() for p in case.parameters()) and gradients(Cases([case])):
                cases.append(case)
    return cases
