#!/usr/bin/env python3
"""Adapters beside models of this folder, with the numbers of PEFT: what tempoc --lora is compared with.

usage: export_lora.py OUT_DIR
For each base model ARCH-EXPORTER_OPSET of BASES (export.py) and each kind of KINDS, OUT_DIR/lora-ARCH/KIND holds an
adapter as PEFT saves it (adapter_model.safetensors, adapter_config.json), with random numbers in B and in the
magnitudes, and expected.npz for the base's inputs.npz: `loss`, NAME_grad for each of its tensors, and after/NAME, its
value after UPDATES updates by AdamW (RATE, DECAY for tensors of two axes). NAME is "m.layers.0.q.lora_A.weight", as
tempoc calls it. Needs: export.py's packages, peft 0.21. Not needed to build, test or run Tempo.
"""
import os
import sys

import numpy as np
import peft
import torch

import export

BASES = ["llama-dyn_21", "gpt2-dyn_21", "bert-ts_14"]
KINDS = {"lora": {"r": 2, "lora_alpha": 3, "target_modules": "all-linear"},
         "rslora": {"r": 4, "lora_alpha": 3, "use_rslora": True},
         "dora": {"r": 2, "lora_alpha": 3, "use_dora": True, "target_modules": "all-linear"}}
ATTENTION = {"llama": ["q_proj", "v_proj"], "gpt2": ["c_attn"], "bert": ["query", "value"]}
UPDATES, RATE, DECAY = 96, 1e-3, 0.01


def adapted(arch, settings):
    """The model with an adapter, and its trained tensors by their names in the file."""
    task = export.Task(export.build(arch), list(export.inputs_of(arch, np.random.default_rng(11)))).eval()
    torch.manual_seed(3)
    config = peft.LoraConfig(**{"target_modules": ATTENTION[arch], **settings})
    task.m = peft.get_peft_model(task.m, config).eval()
    trained = {}
    for name, p in task.named_parameters():
        if not p.requires_grad:
            continue
        short = name.replace("m.base_model.model.", "m.").replace(".default", "")
        trained[short.replace("lora_magnitude_vector.weight", "lora_magnitude_vector")] = p
        with torch.no_grad():
            if "lora_B" in name:
                p.copy_(0.1 * torch.randn_like(p))
            if "magnitude" in name:
                p.mul_(1 + 0.1 * torch.randn_like(p))
    return task, trained


def numbers(task, feeds, trained):
    loss = task(*feeds.values())
    loss.backward()
    expected = {"loss": loss.detach().numpy()}
    expected |= {f"{name}_grad": p.grad.numpy().copy() for name, p in trained.items()}
    groups = [{"params": [p for p in trained.values() if (p.ndim > 1) == decayed], "weight_decay": DECAY * decayed}
              for decayed in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    for _ in range(UPDATES):
        optimizer.zero_grad()
        task(*feeds.values()).backward()
        optimizer.step()
    return expected | {f"after/{name}": p.detach().numpy() for name, p in trained.items()}


def main(out_dir):
    for base in BASES:
        arch = base.split("-")[0]
        for kind, settings in KINDS.items():
            folder = os.path.join(out_dir, f"lora-{arch}", kind)
            task, trained = adapted(arch, settings)
            task.m.save_pretrained(folder)
            os.remove(os.path.join(folder, "README.md"))
            expected = numbers(task, export.inputs_of(arch, np.random.default_rng(11)), trained)
            np.savez(os.path.join(folder, "expected.npz"), **expected)
            print(f"{folder}: loss {expected['loss']:.6f}, {len(trained)} tensors")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
