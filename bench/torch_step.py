#!/usr/bin/env python3
"""One training step of bert.py's network in PyTorch, timed when asked: the peer of step.py and cuda_step.py.

usage: torch_step.py MODE [--threads N] [--processor] [--device NAME] [--type TYPE] [--layers N] ...
MODE: eager | sdpa | compile | compile-sdpa
Reads lines `N` or `N adamw` and answers each with a line of JSON: seconds of N steps and the last loss. A step is
forward and backward pass, gradients made anew; with adamw, the optimizer's step too. Attention is spelled in matmul and
softmax, or, in mode sdpa, PyTorch's own call. compile is torch.compile of eager or sdpa. On a GPU the answer has the
most bytes that tensors took, too; products of floats may use TF32 there. Only torch and numpy are needed.
"""
import argparse
import json
import sys
import time

import bert
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, c, fused):
        super().__init__()
        self.c, self.fused = c, fused
        for name in ("query", "key", "value", "output"):
            setattr(self, name, nn.Linear(c.hidden, c.hidden))
        self.norm = nn.LayerNorm(c.hidden, eps=1e-12)

    def heads(self, x):
        return x.view(*x.shape[:2], self.c.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, mask, self.c.dropout if self.training else 0.0)
        else:
            scores = q @ k.transpose(2, 3) * (self.c.hidden // self.c.heads) ** -0.5 + mask
            y = F.dropout(scores.softmax(-1), self.c.dropout, self.training) @ v
        context = y.transpose(1, 2).reshape(x.shape)
        return self.norm(F.dropout(self.output(context), self.c.dropout, self.training) + x)


class Output(nn.Linear):
    """The second half of a block's MLP; bert.py calls its parameters output.weight and output.norm.weight."""

    def __init__(self, c):
        super().__init__(4 * c.hidden, c.hidden)
        self.c, self.norm = c, nn.LayerNorm(c.hidden, eps=1e-12)

    def forward(self, inner, x):
        return self.norm(F.dropout(super().forward(inner), self.c.dropout, self.training) + x)


class Layer(nn.Module):
    def __init__(self, c, fused):
        super().__init__()
        self.attention, self.intermediate, self.output = Attention(c, fused), nn.Linear(c.hidden,
                                                                                        4 * c.hidden), Output(c)

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.output(F.gelu(self.intermediate(x)), x)


class Bert(nn.Module):
    def __init__(self, c, fused):
        super().__init__()
        self.c = c
        self.embeddings = nn.ModuleDict({"word": nn.Embedding(c.vocabulary, c.hidden),
                                         "segment": nn.Embedding(2, c.hidden),
                                         "position": nn.Embedding(max(c.sequence, 512), c.hidden),
                                         "norm": nn.LayerNorm(c.hidden, eps=1e-12)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(c, fused) for _ in range(c.layers))})
        self.head = nn.ModuleDict({"transform": nn.Linear(c.hidden, c.hidden),
                                   "norm": nn.LayerNorm(c.hidden, eps=1e-12),
                                   "decoder": nn.Linear(c.hidden, c.vocabulary)})
        self.register_buffer("row", torch.arange(c.sequence).view(1, -1))

    def forward(self, input_ids, attention_mask, labels):
        e, h = self.embeddings, self.head
        x = e["norm"](e["word"](input_ids) + e["segment"](0 * self.row) + e["position"](self.row))
        x = F.dropout(x, self.c.dropout, self.training)
        mask = (1 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        logits = h["decoder"](h["norm"](F.gelu(h["transform"](x))))
        return F.cross_entropy(logits.view(-1, self.c.vocabulary), labels.view(-1))


def build(c, fused):
    model = Bert(c, fused).train()
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in bert.parameters(c):
            value = torch.from_numpy(value)
            own.pop(name).copy_(value.T if value.ndim == 2 and not name.startswith("embeddings") else value)
    assert not own, own.keys()
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["eager", "sdpa", "compile", "compile-sdpa"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processor", action="store_true", help="seconds of the processor, not of the clock")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--type", default="float32", help="of weights and activations")
    bert.add_arguments(parser)
    args = parser.parse_args()
    now = time.process_time if args.processor else time.perf_counter
    c = bert.from_arguments(args)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    on_gpu = args.device.startswith("cuda")
    torch.set_float32_matmul_precision("high" if on_gpu else "highest")
    model = build(c, args.mode.endswith("sdpa")).to(args.device, getattr(torch, args.type))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-9)  # the weights stay what they are
    feeds = {name: torch.from_numpy(value).to(args.device) for name, value in bert.inputs(c).items()}
    call = torch.compile(model) if args.mode.startswith("compile") else model

    def step(update):
        start = now()
        optimizer.zero_grad(set_to_none=True)
        loss = call(**feeds)
        loss.backward()
        if update:
            optimizer.step()
        loss = loss.item()
        if on_gpu:
            torch.cuda.synchronize()
        return now() - start, loss

    step(False)
    for line in sys.stdin:
        count, *update = line.split()
        done = [step(bool(update)) for _ in range(int(count))]
        answer = {"seconds": [seconds for seconds, _ in done], "loss": done[-1][1]}
        if on_gpu:
            answer["bytes"] = torch.cuda.max_memory_allocated()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
