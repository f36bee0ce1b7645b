#!/usr/bin/env python3
"""Makes PEFT's adapters of committed models, with PyTorch's loss and gradients of them.

usage: export_adapters.py OUT_DIR     OUT_DIR is models/adapters for the committed ones

OUT_DIR/NAME holds adapter_config.json and adapter_model.safetensors, as save_pretrained writes them, and expected.npz:
`base`, the model; loss and <module>.lora_A.weight_grad and its kin, for the model's inputs.npz. No B is 0.
Needs: torch 2.15, transformers 5.24, peft 0.21. Not needed to build, test or run Tempo.
"""
import os
import sys

import numpy as np
import peft
import torch

import export

HERE = os.path.dirname(os.path.abspath(__file__))
LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "llama-lora": ("llama-dyn_21", {"target_modules": LINEAR, "task_type": "CAUSAL_LM", "rank_pattern": {"q_proj": 2},
                                    "alpha_pattern": {"layers.1.self_attn.v_proj": 3, "down_proj": 16}}),
    "gpt2-rslora": ("gpt2-dyn_21", {"target_modules": ["c_attn", "c_proj"], "use_rslora": True,
                                    "fan_in_fan_out": True}),
    "bertcls-dora": ("bertcls-dyn_21", {"target_modules": ["query", "dense"], "use_dora": True}),
}


def make(name, out_dir):
    base, settings = ADAPTERS[name]
    arch, folder = base.split("-")[0], os.path.join(out_dir, name)
    feeds = {k: torch.from_numpy(v) for k, v in np.load(os.path.join(HERE, base, "inputs.npz")).items()}
    model = export.build(arch)
    known = np.load(os.path.join(HERE, base, "expected.npz"))["loss"]
    with torch.no_grad():
        loss = export.Task(model, list(feeds))(*feeds.values())
    assert abs(float(loss) - known) < 1e-5, f"{base} has other weights: {float(loss)}, not {known}"
    torch.manual_seed(3)
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=8, **settings)).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key:
                p.normal_(std=0.05)
            if "magnitude" in key:
                p.mul_(1 + 0.1 * torch.randn_like(p))
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    loss = export.Task(model, list(feeds))(*feeds.values())
    loss.backward()
    expected = {"base": np.array(base), "loss": loss.detach().numpy()}
    for key, p in model.named_parameters():
        if p.grad is not None:
            key = key.removeprefix("base_model.model.").replace(".default.", ".")
            expected[key.replace("magnitude_vector.weight", "magnitude_vector") + "_grad"] = p.grad.numpy()
    np.savez(os.path.join(folder, "expected.npz"), **expected)
    print(f"{name}: loss {expected['loss']:.6f}, {len(expected) - 2} gradients")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for adapter in ADAPTERS:
        make(adapter, sys.argv[1])
