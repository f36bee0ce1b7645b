#!/usr/bin/env python3
"""Tells how far PyTorch's gradients under autocast are from its own in float, for models that export.py exports:
test/e2e/check_precision.py holds those of tempoc --precision against twice that.

usage: autocast_errors.py [NAME ...]      NAME: as for export.py; default: those of the test
For each: its error in bfloat16, the norm of the difference of all gradients over the norm of all, and that of the loss.
Needs what export.py needs.
"""
import copy
import sys

import numpy as np
import torch

from export import Task, build, inputs_of

DEFAULT = ["bert", "gpt2", "vit", "llama", "t5"]


def step(task, feeds, dtype=None):
    """The loss, and all gradients as one vector."""
    task = copy.deepcopy(task)
    with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
        loss = task(*feeds.values())
    loss.backward()
    grads = [p.grad.double().reshape(-1) for p in task.parameters() if p.grad is not None]
    return loss.item(), torch.cat(grads).numpy()


def main(names):
    for name in names or DEFAULT:
        arch = name.split("-")[0]
        feeds = inputs_of(arch, np.random.default_rng(11))
        task = Task(build(arch), list(feeds)).eval()
        loss, want = step(task, feeds)
        found, got = step(task, feeds, torch.bfloat16)
        print(f"{arch}: gradients {np.linalg.norm(got - want) / np.linalg.norm(want):.2e}, loss "
              f"{abs(found / loss - 1):.1e}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
