#!/usr/bin/env python3
"""What tempo-train writes of trained adapters: ONNX Runtime runs the saved models, merged ones and ones that take an
.onnx_adapter, with the scores that were told; PEFT's folder has PEFT's names; --resume goes on with the same bits; the
base stays as it is.

usage: train_adapters.py TEMPO_TRAIN TEMPOC MODELS
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime as ort

import train_tool as t
from programs import json_of, run, told

TEMPOC, MODELS = sys.argv[2:4]
ort.set_default_logger_severity(3)  # it warns of each input that has a default
LIMIT = {"rtol": 1e-5, "atol": 0}


def score(model, feeds, adapter=None):
    options, made = ort.RunOptions(), ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    if adapter:
        loaded = ort.LoraAdapter()
        loaded.Load(adapter)
        options.add_active_adapter(loaded)
    return float(made.run(["loss"], feeds, options)[0])


def train(base, *options, log="log.jsonl", **how):
    data = os.path.join(MODELS, base, "inputs.npz")
    t.run(os.path.join(MODELS, base, "model.onnx"), "--data", data, "--eval-data", data, "--epochs=6", "--lr=1e-2",
          "--log", t.path(log), *options, **how)
    return t.records(log)[1][-1]["loss"] if not how else None


def saved(base, prefix, config, *options, whole=True):
    path, adapter, folder = os.path.join(MODELS, base, "model.onnx"), t.path("a.onnx_adapter"), t.path(base)
    before = os.stat(path), t.bytes_of(path)
    feeds = dict(np.load(os.path.join(MODELS, base, "inputs.npz")))
    told_ = train(base, *options, "--save", t.path("beside.onnx"), "--save-adapter", adapter)
    t.close(score(t.path("beside.onnx"), feeds), told_, f"{base}: beside", LIMIT)
    t.check(train(base, *options, "--save", t.path("merged.onnx"), "--merge", "--save-adapter", folder) == told_, base)
    t.close(score(t.path("merged.onnx"), feeds), told_, f"{base}: merged", LIMIT)
    run(TEMPOC, path, "--lora-from", folder, "--merge", "-o", t.path("later.onnx"), "-q")
    t.check(t.bytes_of(t.path("later.onnx")) == t.bytes_of(t.path("merged.onnx")), f"{base}: merged later: other bytes")
    own, beside, merged = (onnx.load(at) for at in (path, t.path("beside.onnx"), t.path("merged.onnx")))
    t.check(merged.graph.node == own.graph.node and merged.graph.input == own.graph.input, f"{base}: other nodes")
    names = {n.name for n in beside.graph.node}
    t.check(not whole or {n.name for n in own.graph.node} <= names, f"{base}: nodes are lost")
    t.check((os.stat(path).st_mtime_ns, t.bytes_of(path)) == (before[0].st_mtime_ns, before[1]), "the base changed")

    # another adapter stands in the file: the active one counts
    for tensor in beside.graph.initializer:
        if "lora_B" in tensor.name:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(tensor.dims, np.float32), tensor.name))
    onnx.save(beside, t.path("other.onnx"))
    t.check(abs(score(t.path("other.onnx"), feeds) - told_) > 1e-3, f"{base}: B counts for nothing")
    t.close(score(t.path("other.onnx"), feeds, adapter), told_, f"{base}: active", LIMIT)

    tensors = t.safetensors(os.path.join(folder, "adapter_model.safetensors"))
    read = ort.AdapterFormat.read_adapter(adapter)  # owns the elements
    by_ort = {k: v.numpy().copy() for k, v in read.get_parameters().items()}
    t.check({k.replace(prefix, "base_model.model.", 1) for k in by_ort} == {k for k in tensors if "lora_" in k}, base)
    for key, array in by_ort.items():
        t.check(np.array_equal(array, tensors[key.replace(prefix, "base_model.model.", 1)]), f"{base}: {key}")
    entries = json_of(os.path.join(folder, "adapter_config.json"))
    t.check({key: entries.get(key) for key in config} == config, entries)
    return folder, path


LLAMA = [f"model.layers.{i}.self_attn.{m}_proj" for i in (0, 1) for m in "qv"]
FOLDER, BASE = saved("llama-dyn_21", "m.", {
    "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": LLAMA,
    "rank_pattern": {m: 2 for m in LLAMA[1::2]}, "alpha_pattern": {m: 3 for m in LLAMA[1::2]},
    "fan_in_fan_out": False, "bias": "none"}, "--lora=4,alpha=8:*q_proj", "--lora=2,alpha=3:*v_proj")
saved("gpt2-dyn_21", "m.", {"fan_in_fan_out": True, "use_rslora": True, "lora_dropout": 0.25},
      "--lora=4,rslora,dropout=0.25:*c_attn")
saved("bertcls-dyn_21", "m.", {"use_dora": True, "task_type": None, "modules_to_save": ["classifier"]},
      "--lora=4,dora:*query", "--train=*classifier*")
saved("bert-ts_14", "m.", {}, "--lora=4:*query")  # without types of values and names of modules
saved("bert-ts_14", "m.", {"use_dora": True}, "--lora=4,dora:*query", whole=False)  # opset 14: the evaluation's graph

# --- going on ---------------------------------------------------------------------------------------------------------
KEPT = ("--lora=4,dropout=0.25:*q_proj", "--checkpoint", t.path("run"), "--checkpoint-every=3", "--keep=9")
train("llama-dyn_21", *KEPT, "--save-adapter", t.path("first.onnx_adapter"))
WEIGHTS = t.safetensors(t.path("run/step-3/weights.safetensors"))
t.check(WEIGHTS and all("lora_" in k for k in WEIGHTS), "a checkpoint has frozen weights")
for step in (4, 5, 6):
    shutil.rmtree(t.path(f"run/step-{step}"))
train("llama-dyn_21", *KEPT, "--resume", "--save-adapter", t.path("again.onnx_adapter"), log="again.jsonl")
t.check(t.bytes_of(t.path("first.onnx_adapter")) == t.bytes_of(t.path("again.onnx_adapter")), "--resume: other bits")

# --- refusals ---------------------------------------------------------------------------------------------------------
OUT = ("--save-adapter", t.path("refused"))
train("llama-dyn_21", *OUT, code=64, says=["no adapter is trained", "--lora-from reads some"])
train("llama-dyn_21", "--lora=4:*q_proj", "--lora=4,dora:*v_proj", *OUT, code=64, says=["one use_dora for all"])
train("llama-dyn_21", "--lora=4:*q_proj", "--adapter-prefix=w.", *OUT, code=64, says=["does not begin so"])
train("llama-dyn_21", "--lora=4:*q_proj", "--save-adapter", t.write(t.path("text"), "mine"), code=64,
      says=["would write over a file that is not"])
t.write(os.path.join(FOLDER, "adapter_config.json"), "{}")
train("llama-dyn_21", "--lora=4:*q_proj", "--save-adapter", FOLDER, code=64, says=["not a configuration of PEFT's"])
t.check(not os.path.exists(t.path("refused")), "a folder is left")
told(TEMPOC, BASE, "--merge", "-o", t.path("x.onnx"), code=64, says=["--merge needs --lora-from"])
train("llama-dyn_21", "--merge", code=64, says=["--merge: no adapter is trained"])
TIED = t.write(t.path("tied.onnxt"), """<ir_version: 10, opset_import: ["" : 21]>
g (int64[2] ids, int64[2] labels) => (float loss) <float[5,4] embed = {""" + ",".join(
    str(i / 8) for i in range(20)) + """}> {
    x = Gather (embed, ids)
    w = Transpose <perm = [1, 0]> (embed)
    scores = MatMul (x, w)
    loss = SoftmaxCrossEntropyLoss (scores, labels)
}""")
np.savez(t.path("ids.npz"), ids=np.zeros(2, np.int64), labels=np.zeros(2, np.int64))
t.run(TIED, "--data", t.path("ids.npz"), "--lora=2:embed", "--merge", "--save", t.path("y.onnx"), code=3,
      says=['Gather "x": --merge: it reads embed, too'])
t.finish()
