#!/usr/bin/env python3
"""Training steps of transformers' own models in PyTorch on the CPU, timed when asked, and their exports: the peer of
race.py and memory_limit.py.

usage: hf_models.py CASE MODE [--batch N] [--layers N] [--threads N]
       hf_models.py CASE export FOLDER [--batch N] [--layers N]
MODE: eager, sdpa (PyTorch's own attention), compile (torch.compile of sdpa), bf16 (autocast, sdpa), bf16-eager,
checkpoint (gradient checkpointing of every layer, eager) or checkpoint-sdpa.
Reads lines with a number N and answers each with a line of JSON: seconds of N steps, the last loss, and bytes resident
at most. A step is forward and backward pass and AdamW's step. `export` writes model.onnx, in training mode with a
symbolic batch, and inputs.npz. Needs torch, transformers and numpy.
"""
import argparse
import json
import os
import resource
import sys
import time
import warnings

import numpy as np
import torch
import transformers as tf

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from export import Task  # noqa: E402
from export_base import saved_bytes  # noqa: E402

VOCABULARY = 30522


def bert(layers, hidden, sequence, attention):
    return tf.BertForMaskedLM(tf.BertConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden, max_position_embeddings=max(512, sequence), attn_implementation=attention,
        tie_word_embeddings=False))


def gpt2(layers, hidden, sequence, attention):
    return tf.GPT2LMHeadModel(tf.GPT2Config(
        n_embd=hidden, n_layer=layers, n_head=hidden // 64, n_positions=max(1024, sequence), use_cache=False,
        attn_implementation=attention))


def llama(layers, hidden, sequence, attention):
    return tf.LlamaForCausalLM(tf.LlamaConfig(
        vocab_size=32000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 64, intermediate_size=2048 * hidden // 768, max_position_embeddings=2048,
        use_cache=False, attn_implementation=attention))


def vit(layers, hidden, sequence, attention):
    del sequence  # 197, by the image
    return tf.ViTForImageClassification(tf.ViTConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64, intermediate_size=4 * hidden,
        num_labels=1000, attn_implementation=attention, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1))


# What makes it, layers, hidden size, batch, sequence.
CASES = {"bert": (bert, 4, 768, 8, 128), "bert-large": (bert, 2, 1024, 2, 512),
         "bert-large-128": (bert, 2, 1024, 8, 128), "gpt2": (gpt2, 4, 768, 1, 1024), "llama": (llama, 4, 768, 2, 512),
         "vit": (vit, 4, 768, 8, 197), "tiny": (bert, 1, 64, 2, 8)}


def build(args, attention):
    make, layers, hidden, batch, sequence = CASES[args.case]
    torch.manual_seed(0)
    model = make(args.layers or layers, hidden, sequence, attention).train()
    batch = args.batch or batch
    if make is vit:
        feeds = {"pixel_values": torch.randn(batch, 3, 224, 224), "labels": torch.randint(0, 1000, (batch,))}
    else:
        ids = torch.randint(5, VOCABULARY, (batch, sequence))
        feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.randint_like(ids, 5,
                                                                                                       VOCABULARY)}
        if make is not bert:
            del feeds["attention_mask"]
    return Task(model, list(feeds)).train(), feeds


def export(args):
    task, feeds = build(args, "eager")
    with torch.no_grad():  # no two parameters are equal: the exporter merges none
        for p in task.parameters():
            p.add_(1e-3 * torch.randn_like(p))
    os.makedirs(args.folder, exist_ok=True)
    batch = torch.export.Dim("batch", min=1, max=4096)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(task, tuple(feeds.values()), os.path.join(args.folder, "model.onnx"),
                          input_names=list(feeds), output_names=["loss"], opset_version=18, dynamo=True,
                          external_data=True, verbose=False, optimize=False,
                          dynamic_shapes=(tuple({0: batch} for _ in feeds),))
    np.savez(os.path.join(args.folder, "inputs.npz"), **{k: v.numpy() for k, v in feeds.items()})


def serve(args):
    task, feeds = build(args, "sdpa" if args.mode in ("sdpa", "compile", "bf16", "checkpoint-sdpa") else "eager")
    if args.mode.startswith("checkpoint"):
        task.m.gradient_checkpointing_enable()
    call = torch.compile(task) if args.mode == "compile" else task
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-9, foreach=False)  # the weights stay what they are

    def step():
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.mode.startswith("bf16")):
            loss = call(*feeds.values())
        loss.backward()
        optimizer.step()
        return time.perf_counter() - start, loss.item()

    saved = saved_bytes(task, feeds) if args.saved else 0
    for line in sys.stdin:
        done = [step() for _ in range(int(line))]
        resident = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"seconds": [s for s, _ in done], "loss": done[-1][1], "resident": resident, "saved": saved}),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("mode", choices=["export", "eager", "sdpa", "compile", "bf16", "bf16-eager", "checkpoint",
                                         "checkpoint-sdpa"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--saved", action="store_true", help="count the bytes saved for the backward pass, too")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tf.logging.set_verbosity_error()
    if args.mode == "export":
        export(args)
    else:
        serve(args)


if __name__ == "__main__":
    main()
