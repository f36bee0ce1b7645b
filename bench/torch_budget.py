#!/usr/bin/env python3
"""bert.py's network in PyTorch with less memory: activation checkpointing of each block, and torch.compile's
activation_memory_budget; the peer of budget_steps.py.

usage: torch_budget.py CASE [--threads N] [--times N] [--rounds N] [--processor] [--budgets 0.75 0.5 0.35 0.25]
Each contender is a process of its own, in which all draw the same dropout masks by the same seed. Memory: the most that
was resident during a step, less what was before it. Gradients are held against those of the same mode (eager or
torch.compile) without a budget, in bits. Networks other than BERT are left out, with a line that says so.
"""
import argparse
import ctypes
import hashlib
import json
import subprocess
import sys
import time

import bert
import budget_steps

CASES = {name: network for name, (module, network) in budget_steps.CASES.items() if module is bert}


def status_bytes(key):
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(key))


def forget_peak():
    """VmHWM begins anew, and what was freed is given back."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def child(options):
    """One mode: eager, checkpoint, or compile with a budget; prints a line of JSON."""
    import torch
    from torch.utils.checkpoint import checkpoint
    import torch_step
    torch.set_num_threads(options.threads)
    c = CASES[options.case]
    model = torch_step.build(c, False)
    if options.mode == "checkpoint":
        for layer in model.encoder["layer"]:
            layer.forward = (lambda f: lambda x, mask: checkpoint(f, x, mask, use_reentrant=False))(layer.forward)
    call = model
    if options.mode.startswith("compile"):
        import torch._functorch.config
        torch._functorch.config.activation_memory_budget = float(options.mode.split("-")[1])
        call = torch.compile(model)
    feeds = {name: torch.from_numpy(value) for name, value in bert.inputs(c).items()}
    now = time.process_time if options.processor else time.perf_counter

    def step():
        torch.manual_seed(0)
        model.zero_grad(set_to_none=True)
        start = now()
        call(**feeds).backward()
        return now() - start

    step()
    model.zero_grad(set_to_none=True)
    forget_peak()
    before = status_bytes("VmRSS")
    seconds = [step() for _ in range(options.times)]
    peak = status_bytes("VmHWM") - before
    digest = hashlib.sha256()
    for _, p in sorted(model.named_parameters()):
        if p.grad is not None:
            digest.update(p.grad.contiguous().numpy().tobytes())
    print(json.dumps({"seconds": min(seconds), "peak": peak, "gradients": digest.hexdigest()}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.75, 0.5, 0.35, 0.25])
    parser.add_argument("--mode", help="run this one, in this process")
    options = parser.parse_args()
    if options.case not in CASES:
        print(f"torch_budget.py has no {options.case}, only {', '.join(CASES)}")
        return
    if options.mode:
        child(options)
        return
    modes = ["eager", "checkpoint", "compile-1.0", *(f"compile-{b:g}" for b in options.budgets)]
    found = {mode: [] for mode in modes}
    for i in range(options.rounds):
        for mode in modes[i % len(modes):] + modes[:i % len(modes)]:
            command = [sys.executable, __file__, options.case, "--mode", mode, "--threads", str(options.threads),
                       "--times", str(options.times), *(["--processor"] if options.processor else [])]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{mode}: {done.stderr[-2000:]}")
            found[mode].append(json.loads(done.stdout.splitlines()[-1]))
    print("| PyTorch | peak, MiB | least ms | extra time | gradients |\n|---|---|---|---|---|")
    for mode in modes:
        base = found["compile-1.0" if mode.startswith("compile") else "eager"]
        least, of = (min(r["seconds"] for r in rows) for rows in (found[mode], base))
        same = {r["gradients"] for r in found[mode]} == {r["gradients"] for r in base}
        print(f"| {mode} | {min(r['peak'] for r in found[mode]) / 2**20:.1f} | {1e3 * least:.1f} | "
              f"{100 * (least / of - 1):+.1f}% | {'the same bits' if same else 'other bits'} |")


if __name__ == "__main__":
    main()
