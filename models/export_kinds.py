#!/usr/bin/env python3
"""Exports small modules with PyTorch's dynamo exporter whose files tell what is a parameter, or of which its optimizer
computed parameters away, each with PyTorch's own loss and gradients.

usage: export_kinds.py OUT_DIR [NAME ...]      NAME: MODULE-EXPORTER_OPSET, as in folds-dyn_18; default: all
  MODULE    kinds folds merged lostfolds
  EXPORTER  dyn, or plain (the same with optimize=False)
Each OUT_DIR/NAME holds model.onnx, inputs.npz and expected.npz: loss, and a gradient under each name that tempoc goes
by. That is the initializer's where it holds the parameter's elements in some layout or rows of a table: of those it has
PyTorch's gradient, each row once, in the order in which they come first in the file. Elsewhere it is PyTorch's: the
file has a result, and the parameter is to be made again. lostfolds-dyn_18, which
tempoc is to refuse, has the gradients of what is left (KEPT).

Needs: torch 2.15, onnx 1.23, onnxscript. Not needed to build, test or run Tempo.
"""
import ast
import itertools
import math
import os
import re
import sys
import warnings

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

B, S, H, A, V, C = 2, 4, 6, 2, 11, 3
SEED = 7


def drawn(*shape):
    return nn.Parameter(torch.zeros(shape))


class Scores(nn.Module):
    """Attention with a learned temperature by head and a learned bias of full size."""

    def __init__(self):
        super().__init__()
        self.qkv, self.temperature, self.bias = nn.Linear(H, 3 * H), drawn(A, 1, 1), drawn(A, S, S)

    def forward(self, x, more=0.0):
        q, k, v = self.qkv(x).view(B, S, 3, A, H // A).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * self.temperature + self.bias + more
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, S, H)


class Kinds(nn.Module):
    """Parameters that look like constants, and tables that look like parameters."""

    def __init__(self):
        super().__init__()
        self.words, self.layers = nn.Embedding(V, H), nn.ModuleList([nn.Linear(H, H) for _ in range(2)])
        self.scale, self.rezero = drawn(), nn.ParameterList([drawn(1), drawn(1)])
        self.prelu, self.scores = nn.PReLU(), Scores()
        self.gate, self.head, self.value = nn.Linear(H, H), nn.Linear(H, C), nn.Linear(H, 1)
        self.register_buffer("inv_freq", 1.0 / 10 ** (torch.arange(0, H, 2) / H), persistent=False)
        at = torch.arange(S).unsqueeze(1) * torch.exp(torch.arange(0, H, 2) * (-math.log(1e4) / H))
        self.register_buffer("sinusoid", torch.cat((at.sin(), at.cos()), -1))
        self.register_buffer("class_weights", torch.tensor([0.5, 1.5, 1.0]))

    def forward(self, ids, positions, labels, target):
        turns = positions[:, None] * self.inv_freq
        x = self.words(ids) * self.scale + self.sinusoid + torch.cat((turns.cos(), turns.sin()), -1)
        for layer, alpha in zip(self.layers, self.rezero):
            x = x + alpha * self.prelu(layer(x))
        x = x + self.scores(x) * torch.tensor([0.3, 1.2, -0.4, 0.9, 2.1, 0.7])
        x = x * self.gate(x).view(B, S, 2, H // 2).softmax(-1).view(B, S, H)
        x = x.mean(1)
        off = (self.value(x).squeeze(-1) - target).square().mean()
        return F.cross_entropy(self.head(x), labels, weight=self.class_weights) + off


class Folds(nn.Module):
    """Results that tell which parameter they were computed from, and how."""

    def __init__(self):
        super().__init__()
        self.words, self.positions, self.types = nn.Embedding(V, H), nn.Embedding(9, H), nn.Embedding(2, H)
        self.token, self.prompts, self.more = drawn(1, 1, H), nn.Embedding(2, H), drawn(1, 8, H)
        self.buckets, self.swin = nn.Embedding(5, A), drawn(9, A)
        self.log_scale, self.log_var, self.decay = drawn(), drawn(1), drawn(H)
        self.near, self.window, self.prelu, self.head = Scores(), Scores(), nn.PReLU(H), nn.Linear(H, C)
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + 1
        self.register_buffer("window_index", apart[0] * 3 + apart[1])

    def forward(self, ids, labels):
        x = self.words(ids) + self.positions(torch.arange(S) + 2) + self.types(torch.zeros_like(ids))
        x = x + self.more[:, :S]
        apart = torch.arange(S)[:, None] - torch.arange(S)[None, :]
        table = self.swin[self.window_index.view(-1)].view(S, S, A).permute(2, 0, 1).contiguous()
        x = x + self.near(x, self.buckets(apart.clamp(-2, 2) + 2).permute(2, 0, 1).unsqueeze(0))
        x = x + self.window(x, table.unsqueeze(0))
        x = torch.cat((self.token.expand(B, -1, -1), self.prompts.weight.unsqueeze(0).expand(B, -1, -1), x), 1)
        x = self.prelu(x.transpose(1, 2)).transpose(1, 2) * torch.sigmoid(-torch.exp(self.decay) * x)
        loss = F.cross_entropy(self.head(x.mean(1)) * self.log_scale.exp(), labels)
        return (torch.exp(-self.log_var) * loss + self.log_var).sum()


class LostFolds(nn.Module):
    """Results that the file does not tell enough of."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(H, H), drawn(H)
        self.wn = nn.utils.parametrizations.weight_norm(nn.Linear(H, H))
        self.sn = nn.utils.parametrizations.spectral_norm(nn.Linear(H, H))
        self.base, self.down, self.up = drawn(H, H), drawn(H, 2), drawn(2, H)
        self.mixture, self.head = drawn(2), nn.Linear(H, C)
        self.eval()  # leaves the norm's vectors as they are

    def forward(self, x, labels, whole=True):
        mixture = self.mixture.softmax(0)
        x = mixture[0] * x + mixture[1] * torch.tanh(self.fc(x)) * (1 + self.norm)
        x = torch.tanh(self.sn(torch.tanh(self.wn(x))))
        x = torch.tanh(x @ (self.base + self.down @ self.up))
        weight = self.head.weight if whole else self.head.weight.detach()
        return F.cross_entropy(self.head(x), labels) + 0.1 * weight.square().sum()


class Merged(nn.Module):
    """Layers of equal weights and other biases, whose first nodes the exporter merges; beside them what is no merging:
    a parameter that is not used, one under two names, and a call that stands there twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.unused = nn.Linear(H, H), nn.Linear(H, H), drawn(H)
        self.words, self.head, self.norm = nn.Embedding(C, H), nn.Linear(H, C, bias=False), nn.LayerNorm(H)
        self.head.weight, self.parted = self.words.weight, ("first.weight", "second.weight")

    def equalize(self):
        self.second.weight.copy_(self.first.weight)

    def forward(self, x, labels):
        x = torch.tanh(self.first(x)) * self.second(x).sigmoid() + self.words(labels)
        x = torch.sin(self.norm(x)) + torch.cos(self.norm(x))
        return F.cross_entropy(self.head(x), labels)


def token_ids():
    return torch.tensor([[1, 5, 3, 9], [4, 4, 10, 2]])


LABELS = torch.tensor([2, 0])
MODULES = {
    "kinds": (Kinds, lambda: {"ids": token_ids(), "positions": torch.arange(S).float(), "labels": LABELS,
                              "target": torch.tensor([0.3, -0.8])}),
    "folds": (Folds, lambda: {"ids": token_ids(), "labels": LABELS}),
    "merged": (Merged, lambda: {"x": torch.randn(B, H), "labels": LABELS}),
    "lostfolds": (LostFolds, lambda: {"x": torch.randn(B, H), "labels": LABELS}),
}
ALL = [f"{module}-{exporter}" for module in MODULES for exporter in ("dyn_18", "plain_23")
       if (module, exporter) != ("merged", "plain_23")]
# What is trained of lostfolds-dyn_18, with --train for a copy (base + down up) and --freeze for other results.
KEPT = {"fc.weight": "fc.weight", "fc.bias": "fc.bias", "wn.bias": "wn.bias", "sn.bias": "sn.bias",
        "head.weight": "head.weight", "head.bias": "head.bias", "norm": "add", "base": "add_2"}


def make(module):
    torch.manual_seed(SEED)
    made, inputs = MODULES[module][0](), MODULES[module][1]()
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.randn_like(p) * 0.4)
        if hasattr(made, "equalize"):
            made.equalize()
    return made, inputs


def export(module, inputs, path, exporter, opset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), path, input_names=list(inputs), output_names=["loss"],
                          opset_version=opset, dynamo=True, optimize=exporter == "dyn", external_data=False,
                          verbose=False)
    model = onnx.load(path)
    for node in model.graph.node:  # their stack traces have paths of the exporting machine
        kept = [p for p in node.metadata_props if "stack_trace" not in p.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)
    return model


def layout(stored, value, grad):
    """The gradient in the layout in which the parameter's elements are stored; None: they are not."""
    for perm in itertools.permutations(range(value.ndim)):
        if stored.size == value.size and np.array_equal(stored.ravel(), value.transpose(perm).ravel()):
            return np.ascontiguousarray(grad.transpose(perm)).reshape(stored.shape)
    return None


def rows(stored, value, grad):
    """The gradient's rows for those of a table that are stored along some axis, each once; None: they are not."""
    table, grads = value.reshape(-1, value.shape[-1]), grad.reshape(-1, value.shape[-1])
    number = {row.tobytes(): i for i, row in enumerate(table)}
    for axis in range(stored.ndim):
        if stored.shape[axis] != table.shape[1]:
            continue
        found = [number.get(row.tobytes()) for row in np.moveaxis(stored, axis, -1).reshape(-1, table.shape[1])]
        if None in found:
            continue
        once = list(dict.fromkeys(found))
        return grads[once].reshape(stored.shape) if len(once) == len(found) else grads[once]
    return None


def folds(model):
    """initializer -> names of what it was computed from"""
    return {value.name: ast.literal_eval(p.value) for value in model.graph.value_info
            for p in value.metadata_props if p.key.endswith(".folded_from")}


def gradient(name, value, grad, stored, folded):
    """(name that tempoc goes by, gradient)"""
    if name in stored:
        return name, grad
    inits = [init for init in stored if name in folded.get(init, ())]
    assert len(inits) == 1, (name, inits)
    data = stored[inits[0]]
    found = layout(data, value, grad)
    if any(re.fullmatch(r"(embedding|index|slice)(_\d+)?", step) for step in [inits[0], *folded[inits[0]]]):
        found = rows(data, value, grad)
    return (name, grad) if found is None else (inits[0], found)


def expected(module, inputs, model):
    loss = module(*inputs.values())
    loss.backward()
    stored = {init.name: numpy_helper.to_array(init) for init in model.graph.initializer}
    used = {p: name for name, p in module.named_parameters(remove_duplicate=False) if p.grad is not None}
    parted = getattr(module, "parted", ())  # tempoc makes these again as they were; tied ones go by their last names
    pairs = [(name, p.grad.numpy()) if name in parted else
             gradient(name, p.detach().numpy(), p.grad.numpy(), stored, folds(model)) for p, name in used.items()]
    return {"loss": loss.detach().numpy(), **{name + "_grad": grad for name, grad in pairs}}


def expected_of_lost(module, inputs):
    loss = module(*inputs.values(), whole=False)
    loss.backward()
    return {"loss": loss.detach().numpy(),
            **{init + "_grad": module.get_parameter(name).grad.numpy() for name, init in KEPT.items()}}


def main(out_dir, names):
    for name in names or ALL:
        arch, flavour = name.split("-")
        exporter, opset = flavour.split("_")
        module, inputs = make(arch)
        folder = os.path.join(out_dir, name)
        os.makedirs(folder, exist_ok=True)
        model = export(module, inputs, os.path.join(folder, "model.onnx"), exporter, int(opset))
        lost = name == "lostfolds-dyn_18"
        want = expected_of_lost(module, inputs) if lost else expected(module, inputs, model)
        np.savez(os.path.join(folder, "inputs.npz"), **{k: v.numpy() for k, v in inputs.items()})
        np.savez(os.path.join(folder, "expected.npz"), **want)
        print(f"{name}: loss {want['loss']:.6f}, {len(want) - 1} gradients")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
