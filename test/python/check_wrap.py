#!/usr/bin/env python3
"""tempo.torch.wrap against PyTorch itself: outputs, gradients, steps of an optimizer, modes, shapes, dropout.

usage: check_wrap.py SOURCE_ROOT BUILD_ROOT [K/N | WORD ...]    part K of N, or checks whose name has WORD
Needs torch, onnx and onnxscript, and transformers for some cases; what is missing is said, and the test then skipped
(exit code 77).
"""
import concurrent.futures
import copy
import io
import pickle
import warnings

from torch_checks import have, run_checks, set_up

set_up("torch", "onnx", "onnxscript", "numpy")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import tempo  # noqa: E402
import tempo.torch  # noqa: E402
from tolerances import GRADIENT  # noqa: E402


class Net(nn.Module):
    """What it returns is chosen: just scores, a tuple with the loss, a dict with nested outputs."""

    def __init__(self, result="scores", dropout=0.0):
        super().__init__()
        self.inner, self.norm = nn.Linear(8, 16), nn.LayerNorm(16)
        self.outer = nn.Linear(16, 3)
        self.register_buffer("scale", torch.full((16,), 0.5))
        self.result, self.dropout = result, dropout

    def forward(self, x, labels=None, gain=1.0):
        h = F.dropout(F.gelu(self.norm(self.inner(x))), self.dropout, self.training) * self.scale * gain
        scores = self.outer(h)
        loss = None if labels is None else F.cross_entropy(scores, labels)
        return {"scores": scores, "tuple": (loss, scores), "dict": {"loss": loss, "more": [scores, {"h": h}]},
                "loss": loss}[self.result]


def make(result="scores", dropout=0.0, seed=0):
    torch.manual_seed(seed)
    return Net(result, dropout).train()


def batch(n=6, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, 8, generator=g), torch.randint(0, 3, (n,), generator=g)


def same(got, want, limit=GRADIENT, scale=0.0):
    with torch.no_grad():
        error = float((got - want).norm() / (want.norm() + scale + 1e-30))
    assert got.shape == want.shape and error <= limit, (error, got.shape, want.shape)


def same_gradients(wrapped, module):
    """A gradient that is zero but for rounding is judged on the scale of the others, as check_models.py does."""
    pairs = list(zip(wrapped.named_parameters(), module.named_parameters()))
    norms = [p.grad.norm() / p.numel() ** 0.5 for _, (_, p) in pairs if p.grad is not None]
    median = float(torch.stack(norms).median())
    for (name, got), (other, want) in pairs:
        assert name == other and (got.grad is None) == (want.grad is None), name
        if want.grad is not None:
            same(got.grad, want.grad, scale=0.01 * median * want.numel() ** 0.5)


def check_loss():
    """One run for loss and gradients; what comes from elsewhere multiplies them, and backward adds up."""
    for result in ("loss", "tuple", "dict"):
        module = make(result)
        wrapped = tempo.torch.wrap(copy.deepcopy(module), batch())
        loss_of = {"loss": lambda r: r, "tuple": lambda r: r[0], "dict": lambda r: r["loss"]}[result]
        for factor in (1.0, 3.0):  # gradients of both add up
            want, got = module(*batch()), wrapped(*batch())
            assert type(got) is type(want)
            same(loss_of(got), loss_of(want))
            (factor * loss_of(want)).backward()
            (factor * loss_of(got)).backward()
            same_gradients(wrapped, module)
        entry = wrapped._tempo.entries[0]
        assert list(entry.graphs) == ["loss"] and len(wrapped._tempo.entries) == 1


def check_other_outputs():
    """Gradients that come by scores, by several outputs at once, or by the loss and others."""
    ways = {"scores": lambda r: r.square().mean(), "tuple": lambda r: r[0] + r[1].sin().sum(),
            "dict": lambda r: r["more"][0].square().sum() + r["more"][1]["h"].abs().mean()}
    for result, way in ways.items():
        module = make(result)
        wrapped = tempo.torch.wrap(copy.deepcopy(module), batch() if result != "scores" else batch()[:1])
        for _ in range(2):
            inputs = batch() if result != "scores" else batch()[:1]
            want, got = way(module(*inputs)), way(wrapped(*inputs))
            same(got, want)
            want.backward()
            got.backward()
            same_gradients(wrapped, module)
        kinds = list(wrapped._tempo.entries[0].graphs)
        assert "forward" in kinds and any(isinstance(kind, tuple) for kind in kinds)


def check_memory_is_shared():
    module = make("loss")
    addresses = [p.data_ptr() for p in module.parameters()]
    wrapped = tempo.torch.wrap(module, batch())
    assert isinstance(wrapped, Net) and list(wrapped.state_dict()) == list(module.state_dict())
    assert all(p is q for p, q in zip(wrapped.parameters(), module.parameters()))
    before = float(wrapped(*batch()).detach())
    with torch.no_grad():
        module.outer.weight.mul_(2)
        module.scale.add_(0.25)  # buffers are the module's, too
    same(wrapped(*batch()).detach(), module(*batch()).detach())
    assert float(wrapped(*batch()).detach()) != before
    module.outer.weight.data = torch.randn(3, 16)  # and memory that is another one
    same(wrapped(*batch()).detach(), module(*batch()).detach())
    assert addresses[:-2] == [p.data_ptr() for p in wrapped.parameters()][:-2]
    session = next(iter(wrapped._tempo.entries[0].graphs["loss"].sessions.values()))
    owned = {t.data_ptr() for t in session._bound.values()}
    assert {t.data_ptr() for t in wrapped.state_dict().values()} <= owned
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        module.outer.weight.data = torch.randn(16, 3).T
        for _ in range(2):
            same(wrapped(*batch()).detach(), module(*batch()).detach())
    assert [str(w.message) for w in seen] == ["tempo.torch: 'outer.weight' is not contiguous: each run copies it"]


def check_gradients_are_lent():
    """.grad lies in the session's memory, until somebody still has it when that is written again."""
    module = make("loss")
    wrapped = tempo.torch.wrap(copy.deepcopy(module), batch())
    graph = wrapped._tempo.entries[0].graph("loss")
    session = graph.session({})
    low, high = None, None
    for _ in range(2):
        wrapped.zero_grad()
        wrapped(*batch()).backward()
        places = [p.grad.data_ptr() for p in wrapped.parameters()]
        assert low in (None, min(places)) and high in (None, max(places))
        low, high = min(places), max(places)
    wrapped(*batch(seed=2)).backward()  # added to: in memory of its own
    assert graph.session({}) is session and not any(low <= p.grad.data_ptr() <= high for p in wrapped.parameters())
    module(*batch()).backward()
    module(*batch(seed=2)).backward()
    same_gradients(wrapped, module)
    wrapped.zero_grad()
    wrapped(*batch()).backward()
    held = [p.grad for p in wrapped.parameters()]
    as_they_were = [g.clone() for g in held]
    wrapped.zero_grad()
    module.zero_grad()
    (wrapped(*batch(seed=3)) + wrapped(*batch(seed=4))).backward()  # two calls at once
    (module(*batch(seed=3)) + module(*batch(seed=4))).backward()
    same_gradients(wrapped, module)
    assert all(torch.equal(g, was) for g, was in zip(held, as_they_were))


def check_outputs_are_lent():
    """Large ones, until the caller turns out to keep them over the next call."""
    torch.manual_seed(0)
    module = nn.Linear(8, 4096).eval()
    wrapped = tempo.torch.wrap(copy.deepcopy(module))
    given = [batch(100, seed)[0] for seed in range(4)]
    with torch.no_grad():
        want = [module(x) for x in given]
        first = wrapped(given[0])
        place = first.data_ptr()
        same(first, want[0])
        del first
        assert wrapped(given[1]).data_ptr() == place
        got = [wrapped(x) for x in given]
        for g, w in zip(got, want):
            same(g, w)
        assert len({g.data_ptr() for g in got}) == len(got)
        assert not wrapped._tempo.entries[0].graphs["forward"].lends_outputs


def check_chosen_outputs():
    module = make("dict")
    wrapped = tempo.torch.wrap(copy.deepcopy(module), batch(), outputs=["loss"])
    got, want = wrapped(*batch()), module(*batch())
    assert list(got) == ["loss"] and type(got) is dict
    same(got["loss"].detach(), want["loss"].detach())
    got["loss"].backward()
    want["loss"].backward()
    same_gradients(wrapped, module)


def check_optimizers():
    for kind in (torch.optim.AdamW, lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9)):
        module = make("tuple")
        wrapped = tempo.torch.wrap(copy.deepcopy(module))
        optimizers = [kind(m.parameters(), lr=1e-2) for m in (module, wrapped)]
        for step in range(10):
            losses = []
            for m, optimizer in zip((module, wrapped), optimizers):
                optimizer.zero_grad()
                loss = m(*batch(seed=step))[0]
                loss.backward()
                nn.utils.clip_grad_norm_(m.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.detach())
            same(losses[1], losses[0])
        for p, q in zip(wrapped.parameters(), module.parameters()):
            same(p, q)


def check_modes():
    module = make("tuple", dropout=0.5)
    wrapped = tempo.torch.wrap(copy.deepcopy(module), batch())
    wrapped.eval()
    module.eval()
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            for got, want in zip(wrapped(*batch(9)), module(*batch(9))):
                same(got.detach(), want.detach())
                assert got.requires_grad == want.requires_grad == grad
    same(wrapped(batch(4)[0])[1].detach(), module(batch(4)[0])[1].detach())  # labels None
    assert wrapped(batch(4)[0])[0] is None
    same(wrapped(x=batch(4)[0], gain=2.0)[1].detach(), module(gain=2.0, x=batch(4)[0])[1].detach())
    wrapped.train()
    with torch.no_grad():
        assert not torch.equal(wrapped(*batch())[1], wrapped(*batch())[1])  # it drops


def check_shapes():
    module = make("loss")
    wrapped = tempo.torch.wrap(copy.deepcopy(module), batch())
    for n in (2, 6, 11, 6):
        module.zero_grad(set_to_none=True)
        wrapped.zero_grad(set_to_none=True)
        module(*batch(n)).backward()
        wrapped(*batch(n)).backward()
        same_gradients(wrapped, module)
    assert len(wrapped._tempo.entries) == 1
    fixed = tempo.torch.wrap(copy.deepcopy(module), batch(), memory_budget="90%", remat_time=0.01)
    for n in (6, 7, 6):  # a plan for each
        fixed.zero_grad(set_to_none=True)
        module.zero_grad(set_to_none=True)
        fixed(*batch(n)).backward()
        module(*batch(n)).backward()
        same_gradients(fixed, module)
    assert len(fixed._tempo.entries) == 1 and len(fixed._tempo.entries[0].graphs["loss"].sessions) == 2


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(8))

    def forward(self, x):
        return F.dropout(x, 0.5, self.training) @ self.weight


def check_dropout():
    """The identity shows what was dropped, and the weight's gradient is that of just this: forward and backward pass
    draw the same masks, another call others; PyTorch's seed decides."""
    wrapped = tempo.torch.wrap(Dropping())
    x, slope = torch.rand(64, 8) + 1, torch.randn(64, 8)
    seen = []
    for _ in range(2):
        torch.manual_seed(3)
        for _ in range(2):
            wrapped.zero_grad()
            y = wrapped(x)
            y.backward(slope)
            same(wrapped.weight.grad, y.detach().T @ slope)
            seen.append(y.detach())
    assert torch.equal(seen[0], seen[2]) and torch.equal(seen[1], seen[3]) and not torch.equal(seen[0], seen[1])
    kept = seen[0] != 0
    same(seen[0][kept], 2 * x[kept])
    assert 0.35 < float(kept.float().mean()) < 0.65


def check_again():
    """backward twice, and after a change of the weights."""
    module = make("loss")
    wrapped = tempo.torch.wrap(copy.deepcopy(module), batch())
    for m in (module, wrapped):
        loss = m(*batch())
        loss.backward(retain_graph=True)
        loss.backward()
    same_gradients(wrapped, module)
    loss = wrapped(*batch())
    loss.backward(retain_graph=True)
    with torch.no_grad():
        wrapped.outer.weight.add_(1)
    try:
        loss.backward()
    except RuntimeError as e:
        assert "changed between forward and backward" in str(e)
        return
    raise AssertionError("the weights were changed, and nobody said so")


def check_inputs():
    """Gradients of inputs, alone and with those of parameters, between modules of PyTorch's."""
    for learns in (True, False):
        module = make("tuple").requires_grad_(learns)
        wrapped = tempo.torch.wrap(copy.deepcopy(module))
        before = nn.Linear(8, 8)
        seen = []
        for m in (module, wrapped, wrapped):
            before.zero_grad()
            m.zero_grad()
            x = batch()[0].requires_grad_()
            loss, scores = m(before(x).tanh(), batch()[1])
            (loss + scores.square().sum()).backward()
            seen.append([x.grad, before.weight.grad])
        for got in seen[1:]:
            for g, w in zip(got, seen[0]):
                same(g, w)
        if learns:
            same_gradients(wrapped, module)
    table = nn.Sequential(nn.Embedding(7, 8, padding_idx=2), nn.Linear(8, 3))
    wrapped = tempo.torch.wrap(copy.deepcopy(table))
    ids = torch.tensor([[1, 2, 2, 5], [2, 2, 0, 6]])
    for m in (table, wrapped):
        m(ids).square().sum().backward()
    same_gradients(wrapped, table)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.out.weight = self.table.weight
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, ids):
        return F.cross_entropy(self.out(self.table(ids).tanh()).flatten(0, 1), ids.flatten())


def check_tied():
    torch.manual_seed(0)
    module = Tied()
    wrapped = tempo.torch.wrap(copy.deepcopy(module))
    for shape in ((3, 5), (2, 7)):
        ids = torch.randint(0, 11, shape)
        module(ids).backward()
        wrapped(ids).backward()
        same_gradients(wrapped, module)
    assert wrapped.unused.grad is None and len(wrapped._tempo.entries) == 1


def check_copies():
    wrapped = tempo.torch.wrap(make("loss"), batch())
    other = copy.deepcopy(wrapped)
    with torch.no_grad():
        other.outer.bias.add_(torch.tensor([3.0, 0.0, -3.0]))
    want = make("loss")
    same(wrapped(*batch()).detach(), want(*batch()).detach())
    with torch.no_grad():
        want.outer.bias.add_(torch.tensor([3.0, 0.0, -3.0]))
    same(other(*batch()).detach(), want(*batch()).detach())
    kept = io.BytesIO()
    torch.save(other, kept)
    kept.seek(0)
    for same_again in (pickle.loads(pickle.dumps(other)), torch.load(kept, weights_only=False), tempo.torch.wrap(other),
                       copy.copy(other), torch.compile(other)):
        got = same_again(*batch())
        got.backward()
        same(got.detach(), want(*batch()).detach())
    assert copy.copy(other).inner is other.inner and other.inner.weight.grad is not None


def check_threads():
    """Threads that share a wrapped module each get the results of what they gave."""
    module = make("scores").eval()
    wrapped = tempo.torch.wrap(copy.deepcopy(module))
    given = [batch(200, seed)[0] for seed in range(4)]
    want = [module(x).detach() for x in given]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for i, got in enumerate(pool.map(lambda i: wrapped(given[i % 4]).detach(), range(40))):
            same(got, want[i % 4])


def check_noise():
    """In evaluation mode, too, another in each call; without noise nothing is drawn from PyTorch's generator."""
    class Noisy(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5, True) + torch.rand(x.shape) + torch.randn_like(x) + torch.rand(2000, 1, 1)

    wrapped, x = tempo.torch.wrap(Noisy().eval()), torch.ones(2000, 4, 1)
    seen = [wrapped(x) for _ in range(2)]
    assert not torch.equal(*seen) and abs(float(seen[0].mean()) - 2) < 0.1 and abs(float(seen[0].std()) - 1.47) < 0.1
    plain = tempo.torch.wrap(make())
    torch.manual_seed(5)
    state = torch.get_rng_state()
    plain(batch()[0])
    assert torch.equal(state, torch.get_rng_state())


def check_nested():
    """A wrapped module inside another."""
    module = nn.Sequential(nn.Linear(8, 8), make("scores"))
    want = copy.deepcopy(module)
    module[1] = tempo.torch.wrap(module[1])
    wrapped = tempo.torch.wrap(module)
    for m in (wrapped, module):
        m.zero_grad()
        want.zero_grad()
        m(batch()[0]).square().sum().backward()
        want(batch()[0]).square().sum().backward()
        same_gradients(m, want)
    assert len(wrapped._tempo.entries) == len(module[1]._tempo.entries) == 1


def check_swapped():
    """Other parameters during forward alone, as torch.func has it: gradients are theirs."""
    module = make()
    wrapped = tempo.torch.wrap(copy.deepcopy(module))
    own = {name: (2 * p.detach()).requires_grad_() for name, p in module.named_parameters()}
    found = [torch.autograd.grad(torch.func.functional_call(m, own, batch()[:1]).sin().sum(), list(own.values()))
             for m in (wrapped, module)]
    for got, want in zip(*found):
        same(got, want)


def check_half():
    """In bfloat16, to its rounding."""
    module = make("loss").bfloat16()
    wrapped = tempo.torch.wrap(copy.deepcopy(module))
    x, labels = batch(64)
    exact = make("loss")
    exact.load_state_dict({k: v.float() for k, v in module.state_dict().items()})
    for m, data in ((module, x.bfloat16()), (wrapped, x.bfloat16()), (exact, x.bfloat16().float())):
        m(data, labels).backward()
    for (name, p), q, r in zip(wrapped.named_parameters(), module.parameters(), exact.parameters()):
        assert p.grad.dtype == torch.bfloat16
        own = float((q.grad.float() - r.grad).norm() / r.grad.norm())
        same(p.grad.float(), r.grad, 2 * max(own, 2 ** -8))


def check_autocast():
    """Casts of autocast are exported with the rest; another form than the one without."""
    exact = make("loss")
    module, wrapped = copy.deepcopy(exact), tempo.torch.wrap(copy.deepcopy(exact), batch(64))
    for m in (module, wrapped):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = m(*batch(64))
        loss.backward()
    exact(*batch(64)).backward()
    assert len(wrapped._tempo.entries) == 2
    for p, q, r in zip(wrapped.parameters(), module.parameters(), exact.parameters()):
        own = float((q.grad - r.grad).norm() / r.grad.norm())
        same(p.grad, r.grad, 2 * max(own, 2 ** -8))
        assert not torch.equal(p.grad, r.grad)


def refused(kind, words, call):
    try:
        call()
    except kind as e:
        assert words in str(e), e
        return
    raise AssertionError(f"not refused: {words}")


def check_refusals():
    x = batch()[0]
    refused(tempo.Usage, "no recipe 'nope'", lambda: tempo.torch.wrap(make("loss"), batch(), recipe="nope"))

    class Jumps(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    refused(tempo.Unsupported, "PyTorch cannot export", lambda: tempo.torch.wrap(Jumps(), x, fallback=False))
    refused(tempo.Usage, "no Python forward", lambda: tempo.torch.wrap(torch.compile(make())))
    wrapped = tempo.torch.wrap(make("loss"), batch())
    with warnings.catch_warnings(record=True) as seen:  # a caller's own mistakes are PyTorch's own errors
        warnings.simplefilter("always")
        refused(TypeError, "missing 1 required positional argument: 'x'", wrapped)
        refused(RuntimeError, "shapes cannot be multiplied", lambda: wrapped(torch.randn(2, 7), batch(2)[1]))
        refused(IndexError, "out of bounds", lambda: wrapped(x, batch()[1] + 7))
    assert not seen, seen[0].message
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        jumps = tempo.torch.wrap(Jumps(), x)
        assert torch.equal(jumps(x), x if x.sum() > 0 else -x) and torch.equal(jumps(-x), jumps(x))
    assert len(seen) == 1 and len(str(seen[0].message)) < 500 and "\x1b" not in str(seen[0].message), seen


# --- transformers' models ---
CACHES = {"past_key_values", "cache"}  # which are no results while a loss is computed


def bert(tf):
    config = tf.BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=64, max_position_embeddings=32, hidden_dropout_prob=0.0,
                           attention_probs_dropout_prob=0.0)
    return tf.BertForMaskedLM(config), tokens


def gpt2(tf):
    config = tf.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0,
                           embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
    return tf.GPT2LMHeadModel(config), tokens


def vit(tf):
    config = tf.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                          image_size=16, patch_size=4, num_labels=5, hidden_dropout_prob=0.0,
                          attention_probs_dropout_prob=0.0)
    return tf.ViTForImageClassification(config), images


def tokens(seed, n=4, length=12):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 97, (n, length), generator=g)
    mask = (torch.arange(length) < torch.tensor([[length - 3]] + [[length]] * (n - 1))).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone().masked_fill(mask == 0, -100)}


def images(seed, n=4, length=0):
    g = torch.Generator().manual_seed(seed)
    return {"pixel_values": torch.randn(n, 3, 16, 16, generator=g), "labels": torch.randint(0, 5, (n,), generator=g)}


def check_transformers():
    if not have("transformers"):
        print("transformers: skipped, the package is not there")
        return
    import transformers as tf
    for build in (bert, gpt2, vit):
        torch.manual_seed(0)
        module, feeds = build(tf)
        module.train()
        wrapped = tempo.torch.wrap(copy.deepcopy(module), feeds(0), recipe="tiled")
        optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (module, wrapped)]
        for step in range(10):
            want, got = module(**feeds(step)), wrapped(**feeds(step))
            assert type(got) is type(want) and got.keys() - CACHES == want.keys() - CACHES
            same(got.loss.detach(), want.loss.detach())
            same(got.logits.detach(), want.logits.detach())
            for optimizer, result in zip(optimizers, (want, got)):
                optimizer.zero_grad()
                result.loss.backward()
            if step == 0:
                same_gradients(wrapped, module)
            for optimizer in optimizers:
                optimizer.step()
        assert isinstance(wrapped, type(module)) and len(wrapped._tempo.entries) == 1
        with torch.no_grad():
            other = feeds(11, n=3, length=9)
            same(wrapped.eval()(**other).loss, module.eval()(**other).loss)
        print(f"{build.__name__}: gradients, and 10 steps of AdamW, as PyTorch's")


if __name__ == "__main__":
    run_checks(globals())
