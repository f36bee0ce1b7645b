#!/usr/bin/env python3
"""Exports a BERT of the hidden size of BERT-base in training mode, dropout on, and tells what PyTorch keeps of it for
the backward pass.

usage: export_base.py OUT_DIR [LAYERS BATCH SEQUENCE]      default: 4 8 128
OUT_DIR gets model.onnx (weights beside it, about 300 MB) and inputs.npz. docs/how-it-works/memory.md has its
numbers. PyTorch's bytes are those of the storages that autograd's saved tensors lie in, each once, parameters left out.
Needs what export.py needs. Not needed to build, test or run Tempo.
"""
import os
import sys
import warnings

import numpy as np
import torch
import transformers as tf

from export import Task

VOCABULARY = 30522


def build(layers, attention):
    torch.manual_seed(7)
    config = tf.BertConfig(vocab_size=VOCABULARY, num_hidden_layers=layers, tie_word_embeddings=False,
                           attn_implementation=attention)
    model = tf.BertForMaskedLM(config).train()
    with torch.no_grad():  # no two parameters are equal: the exporter merges none
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.02 + (1.0 if "LayerNorm.weight" in name else 0.0))
    return model


def saved_bytes(task, feeds):
    parameters = {p.untyped_storage().data_ptr() for p in task.parameters()}
    kept = {}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = (storage.nbytes(), t)  # the tensor, so that its address is not used again
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        task(*feeds.values())
    return sum(size for size, _ in kept.values())


def main(out_dir, layers=4, batch=8, sequence=128):
    ids = torch.randint(5, VOCABULARY, (batch, sequence), generator=torch.Generator().manual_seed(1))
    feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    for attention in ("eager", "sdpa"):
        saved = saved_bytes(Task(build(layers, attention), list(feeds)).train(), feeds)
        print(f"PyTorch {torch.__version__}, attention {attention}: {saved} bytes ({saved / 2**20:.2f} MiB) saved for "
              f"the backward pass")
    os.makedirs(out_dir, exist_ok=True)
    task = Task(build(layers, "eager"), list(feeds)).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(task, tuple(feeds.values()), os.path.join(out_dir, "model.onnx"), input_names=list(feeds),
                          output_names=["loss"],
                          opset_version=18, dynamo=True, external_data=True, verbose=False)
    np.savez(os.path.join(out_dir, "inputs.npz"), **{k: v.numpy() for k, v in feeds.items()})


if __name__ == "__main__":
    if len(sys.argv) not in (2, 5):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
