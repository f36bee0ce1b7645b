#!/usr/bin/env python3
"""--lora-from: adapters that PEFT saved, and .onnx_adapter files that ONNX Runtime wrote, beside PyTorch's loss and
gradients (models/adapters/export_adapters.py); and all that is refused of them.

usage: check_adapters.py TEMPOC TEMPO_RUN MODELS
"""
import json
import os
import shutil
import sys

import numpy as np
import onnxruntime

import safetensors_file
from compare import load, session, worst
from programs import check, finish, json_of, path, run, told, write
from tolerances import GRADIENT

TEMPOC, TEMPO_RUN, MODELS = sys.argv[1:4]
KINDS = ["llama-lora", "gpt2-rslora", "bertcls-dora", "bertcls-saved"]
BAD, UNSUPPORTED, USAGE = 2, 3, 64


def folder_of(kind):
    return os.path.join(MODELS, "adapters", kind)


def tensors_of(kind):
    return safetensors_file.read(os.path.join(folder_of(kind), "adapter_model.safetensors"))[0]


def expected_of(kind):
    expected = load(os.path.join(folder_of(kind), "expected.npz"))
    expected = {name: a for name, a in expected.items() if not name.startswith("after/")}
    return str(expected.pop("base")), expected


def onnx_adapter(name, tensors):
    """As ONNX Runtime writes it."""
    adapter = onnxruntime.AdapterFormat()
    adapter.set_adapter_version(1)
    adapter.set_model_version(1)
    adapter.set_parameters({key: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(a))
                            for key, a in tensors.items()})
    adapter.export_adapter(path(name))
    return path(name)


def gradients(kind, *options):
    """The gradients, by PEFT's names: those in the file may begin with the wrapper's."""
    base, expected = expected_of(kind)
    folder = os.path.join(MODELS, base)
    run(TEMPOC, os.path.join(folder, "model.onnx"), "-q", "-o", path("train.onnx"), *options)
    run(TEMPO_RUN, path("train.onnx"), "--inputs", os.path.join(folder, "inputs.npz"), "--outputs", path("got.npz"))
    got = {name.removeprefix("m."): a for name, a in load(path("got.npz")).items()}
    check(len(got) == len(expected), kind, sorted(got), sorted(expected))
    error, name = worst(got, expected)
    check(error <= GRADIENT / 10, f"{kind} {options}: {error} of {name}")


for at in KINDS:
    gradients(at, "--lora-from", folder_of(at))
for at, settings in ("gpt2-rslora", "4,rslora"), ("bertcls-dora", "4,dora,alpha=8"):
    plain = {key.removeprefix("base_model.model."): a for key, a in tensors_of(at).items()}
    gradients(at, "--lora-from", onnx_adapter(f"{at}.onnx_adapter", plain), f"--lora={settings}")


# --- other names, types and entries that mean the same ---------------------------------------------------------------
def change(kind, config=(), tensors=None, rename=lambda key: key, text=None):
    """A copy of the folder with other entries."""
    to = path("changed")
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(to)
    entries = {**json_of(os.path.join(folder_of(kind), "adapter_config.json")), **dict(config)}
    write(os.path.join(to, "adapter_config.json"), json.dumps(entries) if text is None else text)
    arrays = tensors_of(kind) if tensors is None else tensors
    safetensors_file.write(os.path.join(to, "adapter_model.safetensors"), {rename(k): a for k, a in arrays.items()})
    return to


gradients("llama-lora", "--lora-from", change(
    "llama-lora", rename=lambda k: k.removeprefix("base_model.model.").replace(".weight", ".default.weight")))
gradients("bertcls-dora", "--lora-from", change(
    "bertcls-dora", {"init_lora_weights": "gaussian", "unknown": [{"a": [1, None]}, "]"]},
    tensors={k: a.astype(np.float64) for k, a in tensors_of("bertcls-dora").items()},
    rename=lambda k: k + ".default.weight" if k.endswith("vector") else k))
gradients("llama-lora", "--lora-from", change(
    "llama-lora", {"alpha_pattern": {"down_pro.": 16, r"layers\.1\.self_attn\.v_proj": 3, ".*v_proj": 8}}))

gradients("bertcls-saved", "--lora-from", change("bertcls-saved", {"modules_to_save": ["score", "classifier"]}, rename=(
    lambda k: k.replace("classifier.", "classifier.modules_to_save.default."))))
BASE, EXPECTED = expected_of("bertcls-saved")
run(TEMPOC, os.path.join(MODELS, BASE, "model.onnx"), "-q", "--lora-from", folder_of("bertcls-saved"), "--merge", "-o",
    path("merged.onnx"))
SCORED = session(path("merged.onnx")).run(["loss"], load(os.path.join(MODELS, BASE, "inputs.npz")))[0]
check(abs(SCORED - EXPECTED["loss"]) <= 1e-5, f"merged: {SCORED}, not {EXPECTED['loss']}")


# --- refusals ---------------------------------------------------------------------------------------------------------
def refuse(kind, code, *says, options=(), **how):
    told(TEMPOC, os.path.join(MODELS, expected_of(kind)[0], "model.onnx"), "-q", "--lora-from",
         how.pop("file", None) or change(kind, **how), *options, code=code, says=says)


KIND = "llama-lora"
TENSORS = tensors_of(KIND)
FIRST = next(k for k in TENSORS if k.endswith("lora_A.weight"))
for entry, value in {"bias": "all", "peft_type": "IA3", "lora_bias": True,
                     "target_parameters": ["mlp.w"], "layer_replication": [[0, 2]], "use_qalora": True}.items():
    refuse(KIND, UNSUPPORTED, f'"{entry}"', "are not trained here", config={entry: value})
refuse(KIND, UNSUPPORTED, '"pissa", which changes the base', "path_initial_model",
       config={"init_lora_weights": "pissa"})
refuse(KIND, UNSUPPORTED, r"'layers.\d' is no pattern", config={"alpha_pattern": {r"layers.\d": 2}})
refuse(KIND, BAD, '"r" 0', config={"r": 0})
refuse(KIND, BAD, "expected a number", config={"r": "8"})
refuse(KIND, BAD, "expected true or false", config={"use_dora": 1})
refuse(KIND, BAD, 'it has no "peft_type"', text="{}")
refuse(KIND, BAD, '"r" is there twice', text='{"r": 1, "r": 1}')
refuse(KIND, BAD, "more text after", text='{"peft_type": "LORA"} {')
refuse(KIND, BAD, "64 values", text='{"x": ' + "[" * 99 + "]" * 99 + "}")
refuse(KIND, BAD, "has no lora_magnitude_vector, but DoRA is on", config={"use_dora": True})
refuse("bertcls-dora", BAD, "has a lora_magnitude_vector, but DoRA is off", config={"use_dora": False})
refuse(KIND, BAD, "has no lora_B", tensors={FIRST: TENSORS[FIRST]})
refuse(KIND, BAD, "has a second name", tensors={**TENSORS, FIRST.replace("A.w", "A.other.w"): TENSORS[FIRST]})
refuse(KIND, BAD, "expected [rank, in] and [out, rank]", tensors={**TENSORS, FIRST: TENSORS[FIRST].T.copy()})
refuse(KIND, UNSUPPORTED, "is no lora_A", tensors={**TENSORS, "x.prompt_embeddings": TENSORS[FIRST]})
refuse(KIND, UNSUPPORTED, "of rank 4: expected floats of rank 2", tensors={FIRST: TENSORS[FIRST][..., None, None]})
SAVED, WEIGHT = tensors_of("bertcls-saved"), "base_model.model.classifier.weight"
refuse("bertcls-saved", UNSUPPORTED, "'base_model.model.classifier.", "is no lora_A", config={"modules_to_save": None})
refuse("bertcls-saved", BAD, "has a trained classifier.weight, and it is float[2,32] there and float[3,32] in the file",
       "--head=N", tensors={**SAVED, WEIGHT: SAVED[WEIGHT][:2].copy()})
refuse("bertcls-saved", BAD, "classifier.wait, and the file has no such weight", "m.classifier.weight",
       rename=lambda k: k.replace("classifier.weight", "classifier.wait"))
refuse("bertcls-saved", BAD, "no such weight", "leaves biases of zeros out", rename=(
    lambda k: k.replace("classifier.bias", "classifier.own.bias")))
refuse("bertcls-saved", UNSUPPORTED, "is no lora_A", config={"modules_to_save": ["", "assifier"]})
refuse("bertcls-saved", BAD, "classifier.weight, which is the same weight", "that counts alone", tensors={
    **SAVED, WEIGHT.replace(".classifier", ".m.classifier"): SAVED[WEIGHT]})
refuse(KIND, BAD, 'no tensor is of "modules_to_save": lm_head', config={"modules_to_save": ["lm_head"]})
refuse(KIND, BAD, "no such product", rename=lambda k: k.replace("q_proj", "qq_proj"))
refuse(KIND, USAGE, "exclude each other", options=["--lora=8"])
refuse(KIND, 5, "adapter_model.safetensors", file=path("nothing"))
OWN = onnx_adapter("own.onnx_adapter", {k.removeprefix("base_model.model."): a for k, a in TENSORS.items()})
refuse(KIND, USAGE, "does not say by what its products are scaled", "--lora=RANK,alpha=A", file=OWN)
refuse(KIND, USAGE, "of the adapter has rank 2", file=OWN, options=["--lora=4,alpha=8"])
OLIVE = {k: np.ascontiguousarray(a.T) for k, a in TENSORS.items()}
refuse(KIND, BAD, "a file of Olive's", file=onnx_adapter("olive.onnx_adapter", OLIVE), options=["--lora=4"])
data = bytearray(open(OWN, "rb").read())
data[int.from_bytes(data[:4], "little") + 4] = 2
refuse(KIND, UNSUPPORTED, "format version 2, known is 1", file=write(path("new.onnx_adapter"), bytes(data)),
       options=["--lora=4"])
finish()
