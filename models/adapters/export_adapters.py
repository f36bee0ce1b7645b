#!/usr/bin/env python3
"""Makes PEFT's adapters of committed models, with PyTorch's loss and gradients of them, and trains them.

usage: export_adapters.py OUT_DIR     OUT_DIR is models/adapters for the committed ones

OUT_DIR/NAME holds adapter_config.json and adapter_model.safetensors, as save_pretrained writes them, and expected.npz:
`base`, the model; loss and <module>.lora_A.weight_grad and its kin, for the model's inputs.npz; and after/<module>...,
the tensors after UPDATES updates by AdamW (RATE; DECAY for tensors of two axes). No B is 0.
Needs: torch 2.15, transformers 5.24, peft 0.21. Not needed to build, test or run Tempo.
"""
import os
import sys

import numpy as np
import peft
import torch

MODELS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, MODELS)
import export  # noqa: E402

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "llama-lora": ("llama-dyn_21", {"target_modules": LINEAR, "task_type": "CAUSAL_LM", "rank_pattern": {"q_proj": 2},
                                    "alpha_pattern": {"layers.1.self_attn.v_proj": 3, "down_proj": 16}}),
    "gpt2-rslora": ("gpt2-dyn_21", {"target_modules": ["c_attn", "c_proj"], "use_rslora": True,
                                    "fan_in_fan_out": True}),
    "bertcls-dora": ("bertcls-dyn_21", {"target_modules": ["query", "dense"], "use_dora": True}),
    "bertcls-saved": ("bertcls-dyn_21", {"target_modules": ["query"], "modules_to_save": ["classifier"]}),
}
ATTENTION = {"llama-dyn_21": ["q_proj", "v_proj"], "gpt2-dyn_21": ["c_attn"], "bert-ts_14": ["query", "value"]}
for BASE, MODULES in ATTENTION.items():
    for KIND, MORE in ("lora", {}), ("dora", {"use_dora": True}):
        ADAPTERS[f"{BASE.split('-')[0]}-all-{KIND}"] = BASE, {"r": 2, "lora_alpha": 3, "target_modules": "all-linear",
                                                              **MORE}
    ADAPTERS[f"{BASE.split('-')[0]}-attention-rslora"] = BASE, {"target_modules": MODULES, "use_rslora": True}
UPDATES, RATE, DECAY = 96, 1e-3, 0.01


def name_of(key):
    """As in PEFT's file."""
    return key.removeprefix("base_model.model.").replace(".default.", ".").replace("vector.weight", "vector").replace(
        "modules_to_save.", "")


def trained(task, feeds, parameters):
    groups = [{"params": [p for p in parameters.values() if (p.ndim > 1) == decayed], "weight_decay": DECAY * decayed}
              for decayed in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    for _ in range(UPDATES):
        optimizer.zero_grad()
        task(*feeds.values()).backward()
        optimizer.step()
    return {f"after/{name}": p.detach().numpy() for name, p in parameters.items()}


def make(name, out_dir):
    base, settings = ADAPTERS[name]
    arch, folder = base.split("-")[0], os.path.join(out_dir, name)
    feeds = {k: torch.from_numpy(v) for k, v in np.load(os.path.join(MODELS, base, "inputs.npz")).items()}
    model = export.build(arch)
    known = np.load(os.path.join(MODELS, base, "expected.npz"))["loss"]
    with torch.no_grad():
        loss = export.Task(model, list(feeds))(*feeds.values())
    assert abs(float(loss) - known) < 1e-5, f"{base} has other weights: {float(loss)}, not {known}"
    torch.manual_seed(3)
    model = peft.get_peft_model(model, peft.LoraConfig(**{"r": 4, "lora_alpha": 8, **settings})).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_B" in key:
                p.normal_(std=0.05)
            if "modules_to_save" in key:
                p.add_(0.1 * torch.randn_like(p))
            if "magnitude" in key:
                p.mul_(1 + 0.1 * torch.randn_like(p))
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    task = export.Task(model, list(feeds))
    loss = task(*feeds.values())
    loss.backward()
    expected = {"base": np.array(base), "loss": loss.detach().numpy()}
    parameters = {name_of(key): p for key, p in model.named_parameters() if p.grad is not None}
    expected |= {f"{key}_grad": p.grad.numpy().copy() for key, p in parameters.items()}
    expected |= trained(task, feeds, parameters)
    np.savez(os.path.join(folder, "expected.npz"), **expected)
    print(f"{name}: loss {expected['loss']:.6f}, {len(parameters)} gradients")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for adapter in ADAPTERS:
        make(adapter, sys.argv[1])
