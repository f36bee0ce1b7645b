#!/usr/bin/env python3
"""LoRA beside PEFT in PyTorch: a Llama-like model with random weights, the same data, rank, batch and optimizer. One
run, contenders in turn: seconds of a step and bytes resident at most. With --plan: what a step of Llama-2-7B needs,
from plans alone.

usage: lora.py BUILD_DIR --torch PYTHON [--layers 12] [--hidden 768] [--batch 2] [--sequence 512] [--rank 16]
               [--times 5] [--rounds 1] [--threads 2] [--modes tiled,chunked,...,pt-sdpa,...] [--folder DIR]
       lora.py BUILD_DIR --torch PYTHON --plan [--folder DIR]
PYTHON has torch, transformers, peft and onnxscript. The model is exported without a loss, as for inference; tempo-train
adds the loss and the adapters. A mode is a recipe, with +NN% within so much of what recipe none takes, with +bf16 in
that precision; or pt-eager, pt-sdpa (attention) or pt-checkpoint of PyTorch. Every contender's first loss must be the
same: adapters begin as zero. DIR keeps the export. No time is ever asserted.
"""
import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time

from bench_common import machine_line, measured, run, table

TARGETS = {"all linear": (None, "all-linear"), "q, v": ("*[qv]_proj", ["q_proj", "v_proj"])}
PLANS = "tiled", "chunked", "chunked+10%", "tiled+bf16", "chunked+bf16", "chunked+bf16+10%"
NEEDS = ("parameters", "optimizer", "arena", "total")


def build(o, attention):
    import torch
    import transformers as tf
    torch.manual_seed(0)
    return tf.LlamaForCausalLM(tf.LlamaConfig(
        vocab_size=32000, hidden_size=o.hidden, num_hidden_layers=o.layers, num_attention_heads=o.hidden // o.head,
        num_key_value_heads=o.hidden // o.head, intermediate_size=o.intermediate, max_position_embeddings=2048,
        use_cache=False, tie_word_embeddings=False, attn_implementation=attention))


def export(o):
    """model.onnx without a loss and train.npz; of a plan no weights"""
    import contextlib
    import numpy as np
    import onnx
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
    from export_large import without_weights
    ids = torch.randint(5, 32000, (o.batch, o.sequence), generator=torch.Generator().manual_seed(1))
    np.savez(os.path.join(o.folder, "train.npz"), input_ids=ids.numpy(), labels=ids.numpy())
    with FakeTensorMode(allow_non_fake_inputs=True) if o.plan else contextlib.nullcontext():
        program = torch.onnx.export(build(o, "sdpa").eval(), (torch.zeros_like(ids),), dynamo=True, optimize=False,
                                    input_names=["input_ids"], output_names=["logits"], verbose=False,
                                    dynamic_shapes={"input_ids": {0: "batch", 1: "sequence"}})
        path = os.path.join(o.folder, "model.onnx")
        if o.plan:
            onnx.save(without_weights(program.model), path)
        else:
            program.save(path, external_data=True)


def peft(o):
    """Steps in PyTorch: prints what they took as a line of JSON."""
    import numpy as np
    import peft as pf
    import torch
    torch.set_num_threads(o.threads)
    model = build(o, "eager" if o.way == "eager" else "sdpa")
    config = pf.LoraConfig(r=o.rank, lora_alpha=2 * o.rank, target_modules=TARGETS[o.targets][1])
    model = pf.get_peft_model(model, config)
    if o.way == "checkpoint":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    ids = torch.from_numpy(np.load(os.path.join(o.folder, "train.npz"))["input_ids"])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    seconds, losses = [], []
    for _ in range(o.times + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": seconds, "losses": losses,
                      "resident": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


def flags(o, mode, targets):
    glob, (recipe, *more) = TARGETS.get(targets, (None,))[0], mode.split("+")
    lora = f"--lora={o.rank},alpha={2 * o.rank}{':' + glob if glob else ''}"
    return ["--add-loss=next-token", *([lora] if targets != "full" else []), f"--recipe={recipe}",
            *(f"--memory-budget={m}" if m.endswith("%") else f"--precision={m}" for m in more),
            f"--dim=batch={o.batch}", f"--dim=sequence={o.sequence}"]


def given(o):
    return [f"--{n}={getattr(o, n)}" for n in ("layers", "hidden", "batch", "sequence", "rank", "times", "threads",
                                               "folder")]


def contend(o, mode, targets):
    """Seconds of steps, losses and bytes resident at most of one process"""
    if mode.startswith("pt-"):
        told = run(o.torch, __file__, o.build, "--way", mode[3:], "--targets", targets, *given(o))
        return json.loads(told.splitlines()[-1])
    log = os.path.join(o.folder, "log.jsonl")
    _, took = measured(o.build, os.path.join(o.build, "tempo-train"), os.path.join(o.folder, "model.onnx"), "-q",
                       "--data", os.path.join(o.folder, "train.npz"), *flags(o, mode, targets), "--lr=1e-4",
                       "--log", log, f"--steps={o.times + 1}", f"--batch={o.batch}", f"--threads={o.threads}")
    with open(log, encoding="utf-8") as f:
        steps = [step for step in map(json.loads, f) if "loss" in step]
    return {"seconds": [step["seconds"] for step in steps], "losses": [step["loss"] for step in steps],
            "resident": took["resident"]}


def race(o):
    for targets in TARGETS:
        found = {}
        for i in range(o.rounds):
            for mode in o.modes[i:] + o.modes[:i]:
                found.setdefault(mode, []).append(contend(o, mode, targets))
        rows, first = [("rank %d, %s" % (o.rank, targets), "s a step", "least", "resident MiB", "last loss")], None
        for mode, runs in found.items():
            seconds = [s for r in runs for s in r["seconds"][1:]]
            first = first or runs[0]["losses"][0]
            if abs(runs[0]["losses"][0] - first) > 1e-4 * abs(first):
                sys.exit(f"{mode} begins with loss {runs[0]['losses'][0]}, {o.modes[0]} with {first}")
            rows.append((mode, f"{statistics.median(seconds):.3f}", f"{min(seconds):.3f}",
                         f"{max(r['resident'] for r in runs) / 2**20:.0f}", f"{runs[0]['losses'][-1]:.4f}"))
        table(f"{o.layers} layers of {o.hidden}, batch {o.batch}, sequence {o.sequence}:", rows)


def plan(o):
    rows = [("Llama-2-7B, batch 1, sequence 2048, GiB", "weights", "moments", "arena", "all of a step")]
    for targets in ("full", *TARGETS):
        for mode in PLANS:
            report = os.path.join(o.folder, "report.json")
            run(os.path.join(o.build, "tempoc"), os.path.join(o.folder, "model.onnx"), "-q", "--update=adamw",
                *flags(o, mode, targets), f"--report={report}")
            with open(report, encoding="utf-8") as f:
                need = json.load(f)["need"]
            rows.append((f"{targets}, {mode}", *(f"{need[n] / 2**30:.2f}" for n in NEEDS)))
    table("From plans alone:", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--torch", default=sys.executable)
    for name, value in (("layers", 12), ("hidden", 768), ("batch", 2), ("sequence", 512), ("rank", 16), ("times", 5),
                        ("rounds", 1), ("threads", len(os.sched_getaffinity(0)))):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--modes", default="tiled,chunked,chunked+25%,pt-eager,pt-sdpa,pt-checkpoint")
    parser.add_argument("--folder")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--way", help=argparse.SUPPRESS)  # of the process in PyTorch
    parser.add_argument("--targets", help=argparse.SUPPRESS)
    o = parser.parse_args()
    o.head, o.modes = 64, o.modes.split(",")
    if o.plan:  # Llama-2-7B
        o.layers, o.hidden, o.head, o.batch, o.sequence = 32, 4096, 128, 1, 2048
    o.intermediate = 11008 * o.hidden // 4096
    if o.way:
        return export(o) if o.way == "export" else peft(o)
    print(machine_line(o.threads))
    with tempfile.TemporaryDirectory(prefix="tempo-lora-") as scratch:
        o.folder = o.folder or scratch
        if not os.path.exists(os.path.join(o.folder, "model.onnx")):
            run(o.torch, __file__, o.build, "--way=export", *given(o), *(["--plan"] if o.plan else []))
        (plan if o.plan else race)(o)


if __name__ == "__main__":
    main()
