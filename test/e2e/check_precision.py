#!/usr/bin/env python3
"""tempoc --precision on exported models: gradients no further from PyTorch's in float than twice as far as PyTorch's
own under autocast are, a loss within a hundredth, the same bits under `none` and `exact`, gradients of floats, and
what is saved about halved.

usage: check_precision.py TEMPOC TEMPO_RUN MODELS
AUTOCAST is what models/autocast_errors.py found: the norm of the difference of all gradients over the norm of all, in
bfloat16 on a CPU. float16 has three bits more: an eighth. Its gradients are made under a loss scale and divided by it.
"""
import os
import sys

import numpy as np

from check_autocast import compiled
from compare import load, total, same_bits
from programs import case, finish
from tolerances import AUTOCAST_LOSS

AUTOCAST = {"bert-dyn_18": 7.26e-3, "gpt2-dyn_21": 6.89e-3, "vit-dyn_18": 9.33e-3, "llama-dyn_21": 1.09e-2,
            "t5-dyn_18": 1.62e-2}
FINER = {"bf16": 1, "fp16": 8}
SCALE = np.float32(512)
SAVED = 0.6  # of what is saved in float: log-probabilities and statistics stay floats


def check(tools, folder, name, precision):
    want, feeds = (load(os.path.join(folder, file)) for file in ("expected.npz", "inputs.npz"))
    scale = SCALE if precision == "fp16" else 1
    scaled = {"tempo.loss_scale": scale} if scale != 1 else {}
    source, flag = os.path.join(folder, "model.onnx"), f"--precision={precision}"
    _, _, plain = compiled(tools, source, "exact", feeds)
    _, none, _ = compiled(tools, source, "none", {**feeds, **scaled}, flag)
    _, got, report = compiled(tools, source, "exact", {**feeds, **scaled}, flag)
    if not same_bits(got, none):
        return "exact has not the bits of none"
    if any(v.dtype != np.float32 for v in got.values()):
        return "a result is not of float"
    loss = abs(float(got["loss"]) / float(want.pop("loss")) - 1)
    far = [(total(got, n) / scale - w, w) for n, w in want.items()]
    error = np.sqrt(sum(np.sum(d ** 2) for d, _ in far) / sum(np.sum(w.astype(np.float64) ** 2) for _, w in far))
    limit = 2 * AUTOCAST[name] / FINER[precision]
    if not (error <= limit and loss <= AUTOCAST_LOSS):
        return f"gradients are off by {error:.1e}, of {limit:.1e}, the loss by {loss:.1e}"
    part = sum(row["bytes"] for row in report["saved"]["after"]) / sum(row["bytes"] for row in plain["saved"]["after"])
    if part > SAVED:
        return f"{part:.0%} of what float saves is saved"
    return None, f"gradients off by {error:.1e}, of {limit:.1e}, the loss by {loss:.1e}; {part:.0%} saved"


for model in AUTOCAST:
    for bits in FINER:
        case(f"{model} in {bits}", check, sys.argv[1:3], os.path.join(sys.argv[3], model), model, bits)
finish()
