#!/usr/bin/env python3
"""tempo.torch.wrap in the cases that ONNX Runtime's ORTModule is tested in, and their relatives: whatever a module is,
and whatever is changed between calls, the wrapped one does what the plain one does. Compared are results and their
classes, which of them require a gradient, gradients (and which are None), operands, buffers and attributes after each
call; and whether a graph ran, or, with one warning of this reason, PyTorch's own forward.

usage: check_wrap_cases.py SOURCE_ROOT BUILD_ROOT [K/N | WORD ...]    K/N: part K of N; WORD: cases whose name has it
"""
import collections
import contextlib
import copy
import dataclasses
import functools
import io
import random
import time
import types
import warnings

from torch_checks import chosen, set_up

set_up("torch", "onnx", "onnxscript", "numpy")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.utils import parametrizations, prune  # noqa: E402
from torch.utils import checkpoint  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import tempo  # noqa: E402
import tempo.torch  # noqa: E402
from tolerances import GRADIENT  # noqa: E402

CASES = {}  # name: (make a module, [call, or change between calls], words of the warning, or None: a graph runs)
FACTOR, MASK = 1.0, torch.ones(4)


class Of(nn.Module):
    """A module of a function: body(self, *operands)."""

    def __init__(self, body, prepare=None):
        super().__init__()
        self.f, self.drop, self.act, self.body = nn.Linear(4, 4), nn.Dropout(0.0), nn.Tanh(), body
        if prepare:
            prepare(self)

    def forward(self, *args, **kwargs):
        return self.body(self, *args, **kwargs)


def x(n=3, seed=0, learns=False):
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_(learns)


def ids(n=3, m=4, seed=0):
    return torch.randint(0, 4, (n, m), generator=torch.Generator().manual_seed(seed))


class Call(types.SimpleNamespace):
    mode = contextlib.nullcontext

    def __call__(self, m):
        with self.mode():
            return m(*self.args, **self.kwargs)


def call(*args, **kwargs):
    return Call(args=args, kwargs=kwargs)


def under(mode, step):
    return Call(**vars(step), mode=mode)


def case(name, body, *steps, warns=None, prepare=None, make=None):
    """steps: calls, and changes between; changes alone have a call before and after each. None: two batches."""
    if steps and not any(isinstance(step, Call) for step in steps):
        steps = (call(x()), *(each for step in steps for each in (step, call(x()))))
    CASES[name] = (make or (lambda: Of(body, prepare)), steps or (call(x()), call(x(5, 1))), warns)


def change(**attributes):
    def act(m):
        for name, value in attributes.items():
            *owners, last = name.split("__")
            setattr(m.get_submodule(".".join(owners)), last, value)
    return act


def buffer(name="b", value=None):
    return lambda m: m.register_buffer(name, torch.zeros(4) if value is None else value.clone())


def mean(m, x):
    return m.act(m.f(x)).pow(2).mean()


# --- results --------------------------------------------------------------------------------------
Pair = collections.namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Plain:
    y: torch.Tensor


case("a loss", mean)
case("a tensor", lambda m, x: m.f(x))
case("one result twice", lambda m, x: (lambda y: (y, y))(m.f(x)))
case("a loss twice", lambda m, x: (lambda y: {"loss": y, "again": y})(mean(m, x)))
case("nested results", lambda m, x: {"a": [m.f(x), (x.sum(1), {"b": m.f(x).sin()})], "c": None, "n": 3, "s": "text"})
case("a named tuple", lambda m, x: Pair(m.f(x), x + 1))
case("an OrderedDict", lambda m, x: collections.OrderedDict(b=m.f(x), a=mean(m, x)))
case("a dataclass", lambda m, x: Plain(m.f(x)), warns="the result holds a Plain")
case("a size", lambda m, x: (m.f(x), x.shape[0]))
case("integers alone", lambda m, x: m.f(x).argmax(1))
case("an accuracy beside the loss", lambda m, x: (mean(m, x), (m.f(x).argmax(1) == 1).float().mean()))
case("detached scores beside the loss", lambda m, x: {"loss": mean(m, x), "scores": m.f(x).detach()}, warns="either")
case("scores and the same detached", lambda m, x: (lambda y: (y, y.detach()))(m.f(x)), warns="either")
case("an operand handed through", lambda m, x: (mean(m, x), x))
case("a parameter", lambda m, x: (m.f(x), m.f.weight))
case("a buffer", lambda m, x: (m.f(x), m.b), prepare=buffer())
case("complex numbers", lambda m, x: torch.view_as_complex(m.f(x).reshape(-1, 2, 2)), warns="complex")
case("nothing that learns", lambda m, x: x * 2)
case("two heads, one used", lambda m, x: {"loss": m.a(x).mean(), "other": m.b(x)},
     prepare=lambda m: (m.add_module("a", nn.Linear(4, 2)), m.add_module("b", nn.Linear(4, 2))))

# --- operands -------------------------------------------------------------------------------------
both = lambda m, a, b: m.f(a).mean() - (b * b).sum()  # noqa: E731
case("one tensor for two operands", both, call(*[x()] * 2), call(x(), x(3, 1)), call(*[x(4, 2)] * 2))
case("one tensor for two, with gradients", both, lambda m: m(*[x(3, 0, True)] * 2), call(x(3, 0, True), x(3, 1, True)))
case("is it the same", lambda m, a, b: m.f(a) if a is b else m.f(a) - b, call(*[x()] * 2), call(x(), x(3, 1)))
case("keywords in any order", lambda m, a, b: both(m, a, b), call(a=x(), b=x(3, 1)), call(b=x(3, 1), a=x()))
case("None and defaults", lambda m, x, y=None, k=2.0: m.f(x) * k + (0 if y is None else y), call(x()),
     call(x(), x(3, 1)), call(x(), None, 3.0), call(x(), k=True))
case("lists and dicts", lambda m, p: m.f(p["a"][0]) + p["a"][1], call({"a": [x(), x(3, 1)]}),
     call({"a": (x(), x(3, 2))}))
case("an array of numpy's", lambda m, x, a: m.f(x) * float(a.sum()), call(x(), np.ones(3)), call(x(), np.ones(5)),
     warns="an operand is a ndarray")
case("a mapping of its own class", lambda m, d: m.f(d["x"]), call(collections.UserDict(x=x())), warns="UserDict")
case("an operand that is changed", lambda m, x: m.f(x.mul_(2)), call(x()), call(x(5)), warns="operand 0 in place")
case("a row of an operand is changed", lambda m, x: (x[0].zero_(), m.f(x))[1], call(x()), warns="operand 0 in place")
case("masks of one head", lambda m, x, k: F.scaled_dot_product_attention(*[m.f(x)[:, None]] * 3, attn_mask=k),
     call(x()[:, None].expand(3, 5, 4), torch.ones(5, 5).tril().bool().expand(3, 1, 5, 5)))
case("labels of one column", lambda m, x, y: F.cross_entropy(m.f(x), y.squeeze(1)), call(x(), ids(3, 1)),
     call(x(5), ids(5, 1)))
case("a batch of one", lambda m, x: m.f(x).squeeze(), call(x()), call(x(1)), call(x(4)))
case("a course by size", lambda m, x: m.f(x) * (2 if x.shape[0] > 4 else 1), call(x(3)), call(x(6)), call(x(4)))
case("an odd batch", lambda m, x: m.f(x) * (2 if x.shape[0] % 2 else 1), call(x(3)), call(x(4)), call(x(5)))
case("an empty batch", lambda m, x: m.f(x).sum(), call(x()), call(x(0)))
case("bfloat16", lambda m, x: m.f(x.float()).to(x.dtype), call(x()), call(x().bfloat16()))
case("a course by values", lambda m, x: m.f(x) if x.sum() > 0 else m.f(-x), warns="PyTorch cannot export it")
case("stacks",
     lambda m, a: torch.cat([f([a, m.f(a)]).flatten() for f in (torch.hstack, torch.vstack, torch.dstack)]))

# --- what is changed between calls ----------------------------------------------------------------
Slotted = dataclasses.make_dataclass("Slotted", [("k", float, 2.0)], slots=True,
                                     namespace={"times": lambda o, x: x * o.k})
scaled = lambda x, o=Slotted(), k=1.0: x * o.k * k  # noqa: E731
NS, TIMES, Settings = types.SimpleNamespace(k=2.0), Slotted.times, type("Settings", (), {"k": 2.0})
holds = lambda m, k=2.0: m.__dict__.update(k=1, o=Slotted(), g=Slotted().times, c=lambda x: x * k,  # noqa: E731
                                           r=np.random.default_rng(0), p=functools.partial(scaled, o=Slotted()))
for what, read, held in (("the module", lambda m, x: x * m.k, lambda m: m),
                         ("a global object", lambda m, x: x * NS.k, lambda m: NS),
                         ("a class", lambda m, x: x * Settings.k, lambda m: Settings),
                         ("slots", lambda m, x: x * m.o.k, lambda m: m.o),
                         ("a method's object", lambda m, x: m.g(x), lambda m: m.g.__self__),
                         ("a partial's keyword", lambda m, x: m.p(x), lambda m: m.p.keywords["o"])):
    case("number of " + what, lambda m, x, read=read: read(m, m.f(x)), prepare=holds,
         *[lambda m, k=k, held=held: setattr(held(m), "k", k) for k in (3.0, 2.0)])
case("method of a class replaced", lambda m, x: m.o.times(m.f(x)), prepare=holds,
     *[lambda m, f=f: setattr(Slotted, "times", f) for f in (lambda o, x: x.sin(), TIMES)])
case("a default and a closure's variable", lambda m, x: scaled(m.c(m.f(x))), prepare=holds, *[
    lambda m: setattr(scaled, "__defaults__", (NS, 3.0)), lambda m: setattr(m.c.__closure__[0], "cell_contents", 3.0)])
case("flag of a submodule", lambda m, x: m.drop(m.f(x)) * (2 if m.act.training else 1), change(act__training=False),
     change(act__training=True))
case("dropout's p", lambda m, x: m.drop(m.f(x)), change(drop__p=1.0), change(drop__p=0.0), warns="either")
case("number in a list of a dict", lambda m, x: m.f(x) * m.c["k"][0], lambda m: m.c["k"].append(1),
     lambda m: m.c["k"].__setitem__(0, 5), prepare=lambda m: setattr(m, "c", {"k": [2]}))
case("global number", lambda m, x: m.f(x) * FACTOR, lambda m: globals().update(FACTOR=3.0))
case("global tensor", lambda m, x: m.f(x) * MASK, lambda m: MASK.zero_(), lambda m: MASK.fill_(1))
case("tensor that is an attribute", lambda m, x: m.f(x) * m.t, lambda m: m.t.data.fill_(3), change(t=torch.zeros(4)),
     prepare=lambda m: setattr(m, "t", torch.ones(4)))
case("tensor in a list", lambda m, x: m.f(x) * m.t[0], lambda m: m.t[0].fill_(3),
     prepare=lambda m: setattr(m, "t", [torch.ones(4)]))
case("tensor that learns and is no parameter", lambda m, x: m.f(x) * m.t[0], warns="is no parameter",
     prepare=lambda m: setattr(m, "t", [torch.ones(4, requires_grad=True)]))
case("module in a list", lambda m, x: m.l[0](x), warns="", prepare=lambda m: setattr(m, "l", [nn.Linear(4, 4)]))
case("submodule replaced", lambda m, x: m.act(m.f(x)), change(act=nn.ReLU()),
     lambda m: setattr(m, "f", copy.deepcopy(m.f)))
case("function of PyTorch's replaced", lambda m, x: m.g(m.f(x)), lambda m: setattr(m, "g", torch.sin),
     prepare=lambda m: setattr(m, "g", torch.cos))
case("method replaced", lambda m, x: m.f(x), lambda m: setattr(m.f, "forward", torch.sin))
case("a larger table", lambda m, i: m.e(i).pow(2).mean(), call(ids()), change(e=nn.Embedding(20, 3)), call(ids() + 9),
     prepare=lambda m: m.add_module("e", nn.Embedding(4, 3)))
case("another type", lambda m, x: m.f(x.to(m.f.weight.dtype)).float(), lambda m: m.double())
case("frozen and not", mean, lambda m: m.f.weight.requires_grad_(False), lambda m: m.f.requires_grad_(False),
     lambda m: m.requires_grad_())
case("tied and not", lambda m, x: m.g(m.f(x)), lambda m: setattr(m.g, "weight", m.f.weight),
     lambda m: setattr(m.g, "weight", nn.Parameter(m.f.weight.detach() * 2)),
     prepare=lambda m: m.add_module("g", nn.Linear(4, 4)))
case("without gradients", lambda m, x: m.f(x) * (2 if torch.is_grad_enabled() else 1), call(x()),
     under(torch.no_grad, call(x())), under(torch.inference_mode, call(x())), call(x()))
case("a flag of PyTorch's", lambda m, x: m.f(x) * (2 if torch.are_deterministic_algorithms_enabled() else 1),
     *[lambda m, on=on: torch.use_deterministic_algorithms(on) for on in (True, False)])
case("the usual type", lambda m, x: m.f(x) + torch.ones(4).to(x.dtype) * len(str(torch.ones(1).dtype)), call(x()))
case("a new value in each call", lambda m, x: m.f(x) * m.k,
     *[step for k in range(11) for step in (change(k=float(k)), call(x()))],
     warns="'k' has another value in each call", prepare=lambda m: setattr(m, "k", 0.5))

# --- what forward changes -------------------------------------------------------------------------
ema = lambda m, x: (lambda y: (y - m.b.mul_(0.9).add_(0.1 * y.detach().mean(0))).pow(2).mean())(m.f(x))  # noqa: E731
case("running mean, loss", ema, *[call(x(3, i)) for i in range(3)], prepare=buffer())
case("running mean, scores", lambda m, x: (lambda y: y * m.b.mul_(0.9).add_(y.detach().mean(0)))(m.f(x)),
     *[call(x(3, i)) for i in range(3)], prepare=buffer())
case("buffer assigned", lambda m, x: (setattr(m, "b", m.b * 0.5 + x.mean(0)), m.f(x) + m.b)[1],
     *[call(x(3, i)) for i in range(3)], prepare=buffer())
case("counter in a buffer", lambda m, x: m.f(x) * m.b.add_(1), *[call(x())] * 3, prepare=buffer("b", torch.tensor(0)))
case("row of a codebook", lambda m, x, i: (m.b.index_add_(0, i, x), m.f(x) + m.b[i])[1], call(x(), ids()[0][:3]),
     call(x(), ids()[1][:3]), prepare=buffer("b", torch.zeros(4, 4)))
case("buffer with a graph", lambda m, x: (setattr(m, "b", m.f(x).mean(0)), m.b.sum())[1], prepare=buffer(),
     warns="the module's own 'b'")
case("batch norm", None, *[call(x(3 + i, i)) for i in range(3)], lambda m: m.eval()(x()),
     make=lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, momentum=0.3), nn.Tanh()))
case("batch norm, cumulative", None, *[call(x(3, i)) for i in range(3)], warns="",
     make=lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, momentum=None)))
case("counter", lambda m, x: (setattr(m, "calls", m.calls + 1), m.f(x))[1], *[call(x())] * 4,
     prepare=lambda m: setattr(m, "calls", 0), warns="changes the module's own 'calls'")
case("list that grows", lambda m, x: (m.seen.append(x.shape[1]), m.f(x))[1], *[call(x())] * 3,
     prepare=lambda m: setattr(m, "seen", []), warns="changes the module's own")
case("counter in a list", lambda m, x: (m.c.__setitem__(0, m.c[0] + 1), m.f(x) * m.c[0])[1], *[call(x())] * 3,
     prepare=lambda m: setattr(m, "c", [0]), warns="changes the module's own")
case("an iterator", lambda m, x: m.f(x) * next(m.it), *[call(x())] * 3, warns="'it' is an iterator",
     prepare=lambda m: setattr(m, "it", iter(range(9))))
case("made in the first call", lambda m, x: m.f(x) * m.__dict__.setdefault("mask", torch.ones(4)), call(x()),
     call(x()), warns="changes the module's own 'mask'")
case("last activation kept", lambda m, x: (setattr(m, "last", m.f(x)), m.last.sum())[1], warns="own 'last'")
case("parameter clipped", lambda m, x: (m.f.weight.data.clamp_(-0.1, 0.1), m.f(x))[1], warns="f.weight")
case("prints", lambda m, x: (print("forward"), m.f(x))[1], warns="prints")
case("seeds a generator", lambda m, x: (torch.manual_seed(3), m.f(x) + torch.rand(4))[1], warns="seeds a generator")
case("a list among operands", lambda m, b: (b.append(x()), m.f(b[0]))[1], call([x()]), warns="among its operands")
case("a dict among operands", lambda m, b: m.f(b["x"]) * b.pop("k"), call({"x": x(), "k": 2.0}), warns="its operands")
case("an operand that is to learn", lambda m, x: m.f(x.requires_grad_()), call(x()), warns="operand 0 in place")
case("a table with max_norm", lambda m, i: m.e(i).sum(), *[call(ids())] * 2, warns="e.weight",
     prepare=lambda m: m.add_module("e", nn.Embedding(4, 3, max_norm=0.1)))
case("draws of a generator", lambda m, x: m.f(x) * float(m.r.random()), *[call(x())] * 2, warns="own 'r", prepare=holds)
case("a clock", lambda m, x: m.f(x) * min(time.time(), 2.0), warns="time.time()")
case("draws of Python", lambda m, x: m.f(x) * (random.random() * 0 + 1), warns="Python's or numpy's")

# --- gradients ------------------------------------------------------------------------------------
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, slope):
        return slope


def without(m, x, way):
    y = m.f(x)
    with way():
        n = y.norm(dim=1, keepdim=True)
    return (y / n).pow(3).sum()


def hooked(m, x):
    y = m.f(x)
    y.register_hook(lambda g: g * 2)
    return y


def twice(m):
    with contextlib.suppress(RuntimeError):
        return [y.backward() for y in [m(x())] * 2]


case("backward twice", mean, twice)
case("a gradient that is constant", lambda m, x: (m.f.weight + 1).sum(), *[call(x())] * 3)
case("no_grad inside", lambda m, x: without(m, x, torch.no_grad))
case("no_grad, then with", lambda m, x: without(m, x, torch.no_grad) + torch.enable_grad()(m.f)(x).sum())
case("a frozen part under no_grad", lambda m, x: m.g(torch.no_grad()(m.f)(x)).tanh(),
     prepare=lambda m: m.add_module("g", nn.Linear(4, 4)))
case("inference_mode inside", lambda m, x: (mean(m, x), torch.inference_mode()(m.f)(x)))
case("detach", lambda m, x: (m.f(x) / m.f(x).norm(dim=1, keepdim=True).detach()).pow(3).sum())
case("detach_", lambda m, x: m.f(x).detach_() * m.f(x), warns="detaches a tensor in place")
case("data", lambda m, x: (m.f(x) / m.f(x).norm(dim=1, keepdim=True).data).pow(3).sum())
case("straight through", lambda m, x: (lambda y: (y + (y.round() - y).detach()) * x)(m.f(x)))
case("round", lambda m, x: m.f(x).round(), warns="")
case("autograd.Function", lambda m, x: Straight.apply(m.f(x)) * x, warns="autograd.Function Straight")
case("hook on a tensor", hooked, warns="hook on a tensor")
case("checkpoint", lambda m, x: checkpoint.checkpoint(lambda t: m.f(t).sin(), x.cos(), use_reentrant=False))
case("reentrant checkpoint", lambda m, x: checkpoint.checkpoint(lambda t: m.f(t).sin(), m.f(x), use_reentrant=True),
     warns="CheckpointFunction")
case("gradient inside", lambda m, x: torch.autograd.grad(m.f(x).sin().sum(), m.f.weight, create_graph=True)[0].sum())
case("times zero", lambda m, x: m.f(x) * 0)
case("no use of a parameter", lambda m, x: m.f.weight.sum() * x)

# --- hooks ----------------------------------------------------------------------------------------
hooks = {
    "forward hook": lambda m: m.register_forward_hook(lambda m, i, y: y * 2),
    "forward pre-hook": lambda m: m.register_forward_pre_hook(lambda m, i: (i[0] + 1,)),
    "pre-hook with keywords": lambda m: m.register_forward_pre_hook(lambda m, i, k: ((i[0] * 3,), k), with_kwargs=True),
    "backward hook": lambda m: m.register_full_backward_hook(lambda m, i, o: tuple(g and g * 2 for g in i)),
    "backward pre-hook": lambda m: m.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,)),
}
for what, add in hooks.items():
    case(what, lambda m, x: m.f(x), add, call(x(5)))
    case(what + " of a submodule", lambda m, x: m.f(x), lambda m, add=add: add(m.f), warns="'f' has a hook")
case("hooks that forward registers",
     lambda m, x: (None if m.f._forward_hooks else hooks["forward hook"](m.f), m.f(x))[1], *[call(x())] * 2, warns="")
case("weight norm", lambda m, x: m.f(x), prepare=lambda m: parametrizations.weight_norm(m.f))
case("orthogonal", lambda m, x: m.f(x), prepare=lambda m: parametrizations.orthogonal(m.f), warns="")
case("spectral norm", lambda m, x: m.f(x), *[call(x())] * 3, lambda m: m.eval()(x()),
     prepare=lambda m: parametrizations.spectral_norm(m.f))
case("old weight norm", lambda m, x: m.f(x), prepare=lambda m: nn.utils.weight_norm(m.f), warns="'f' has a hook")
case("pruned", lambda m, x: m.f(x), lambda m: prune.l1_unstructured(m.f, "weight", 0.5),
     lambda m: prune.remove(m.f, "weight"), warns="'f' has a hook")
case("lazy", None, call(x()), call(x()), make=lambda: nn.Sequential(nn.LazyLinear(3), nn.Tanh()), warns="")


def state_of(m):
    numbers = {f"{name}.{k}": v for name, s in m.named_modules() for k, v in s.__dict__.items()
               if type(v) in (int, float, bool)}
    return {**numbers, **dict(m.named_buffers()), **{n: p.grad for n, p in m.named_parameters()}}


def same(got, want, what):
    assert type(got) is type(want), (what, type(got), type(want))
    if isinstance(want, torch.Tensor):
        assert (got.requires_grad, got.dtype, got.shape) == (want.requires_grad, want.dtype, want.shape), \
            (what, got.requires_grad, want.requires_grad, got.dtype, want.dtype, got.shape, want.shape)
        wide = torch.complex128 if want.is_complex() else torch.float64
        error = float((got.detach().to(wide) - want.detach().to(wide)).norm())
        assert error <= GRADIENT * (1 + float(want.detach().to(wide).norm())), (what, got, want)
    elif isinstance(want, (int, float, str, type(None))):
        assert got == want, (what, got, want)


def take(step, m, with_loss):
    """(result, operands) of a step, after a backward pass; operands are its own."""
    step = copy.deepcopy(step) if isinstance(step, Call) else step
    args = (step.args, step.kwargs) if isinstance(step, Call) else ()
    torch.manual_seed(1)
    m.zero_grad()
    result = step(m)
    leaves = [result.y] if isinstance(result, Plain) else [] if result is m else pytree.tree_leaves(result)
    for leaf in leaves[:1] if with_loss else leaves:
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None:
            (leaf.abs() if leaf.is_complex() else leaf).sin().sum().backward(retain_graph=True)
    return leaves, pytree.tree_leaves(args), state_of(m)


def try_case(make, steps, warns, with_loss):
    torch.manual_seed(0)
    plain = make()
    torch.manual_seed(0)
    wrapped = tempo.torch.wrap(make())
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for i, step in enumerate(steps):
            found = [take(step, m, with_loss) for m in (wrapped, plain)]
            for got, want in zip(*found):
                assert len(got) == len(want), (i, got, want)
                for key in want if isinstance(want, dict) else range(len(want)):
                    same(got[key], want[key], f"step {i}, {key}")
    ours = [str(w.message) for w in seen if "tempo.torch" in str(w.message)]
    right = {None: not ours, "either": True}.get(warns, ours and (warns or "") in ours[0])
    assert right, (warns, ours)
    return sum(isinstance(leaf, torch.Tensor) for leaf in found[1][0]) > 1


def main():
    failed = []
    for name in chosen(CASES):
        make, steps, warns = CASES[name]
        try:
            if try_case(make, steps, warns, True):  # gradients by the first result, and by all
                try_case(make, steps, warns, False)
        except Exception as e:
            failed.append(name)
            print(f"{name}: {type(e).__name__}: {e}", flush=True)
    assert not failed, failed


if __name__ == "__main__":
    main()
