#!/usr/bin/env python3
"""Exports of models with PEFT's adapters, compiled without a list: is what is trained what PyTorch trains, and are loss
and gradients PyTorch's?

usage: survey_peft.py [--tempoc=FILE] [--keep=FOLDER] [WORD ...]     cases whose name has all WORDs
A case is KIND-ARCH-EXPORTER. KIND: a method of PEFT's; lora0: as PEFT begins, with B zero, else every parameter is
drawn. EXPORTER: dyn (dynamo), plain (dynamo, optimize=False), ts (TorchScript), fold (TorchScript with
do_constant_folding). Prints a line for each case, and a table. A refusal is no error; another set of weights is.
--keep writes each case as a folder of models/. Needs torch, transformers, peft, onnx, onnxscript."""
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import peft
import torch
import transformers as tf

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "test", "lib"))
from compare import worst  # noqa: E402

EXPORTERS, SIZE = ("dyn", "plain", "ts", "fold"), {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT = dict(SIZE, intermediate_size=48, vocab_size=97, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
VIT = {k: v for k, v in BERT.items() if k != "vocab_size"}
# model, task, [query and value], [a product of the feed-forward layer], [what is saved whole], inputs
ARCHS = {
    "llama": (lambda **k: tf.LlamaForCausalLM(tf.LlamaConfig(vocab_size=97, **SIZE, intermediate_size=48, **k)),
              "CAUSAL_LM", ["q_proj", "v_proj"], ["down_proj"], ["lm_head"], "tokens"),
    "gpt2": (lambda **k: tf.GPT2LMHeadModel(tf.GPT2Config(
        vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **k)),
        "CAUSAL_LM", ["c_attn"], ["mlp.c_proj"], ["ln_f"], "tokens"),
    "bert": (lambda **k: tf.BertForSequenceClassification(tf.BertConfig(num_labels=3, **BERT, **k)),
             "SEQ_CLS", ["query", "value"], ["output.dense"], ["classifier"], "class"),
    "t5": (lambda **k: tf.T5ForConditionalGeneration(tf.T5Config(
        vocab_size=97, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, dropout_rate=0, decoder_start_token_id=0,
        **k)), "SEQ_2_SEQ_LM", ["q", "v"], ["wo"], ["lm_head"], "tokens"),
    "vit": (lambda **k: tf.ViTForImageClassification(tf.ViTConfig(
        image_size=8, patch_size=4, num_channels=1, num_labels=3, **VIT, **k)),
        None, ["q_proj", "v_proj"], ["fc2"], ["classifier"], "picture"),
}
# of (task, query and value, feed-forward, saved): a configuration
KINDS = {
    "lora": lambda task, qv, ff, saved: peft.LoraConfig(r=4, target_modules=qv + ff, task_type=task),
    "dora": lambda task, qv, ff, saved: peft.LoraConfig(r=4, target_modules=qv, use_dora=True, task_type=task),
    "saved": lambda task, qv, ff, saved: peft.LoraConfig(r=4, target_modules=qv, modules_to_save=saved),
    "ia3": lambda task, qv, ff, saved: peft.IA3Config(
        target_modules=qv + ff, feedforward_modules=ff, task_type=task),
    "prompt": lambda task, qv, ff, saved: peft.PromptTuningConfig(num_virtual_tokens=4, task_type=task),
    "prefix": lambda task, qv, ff, saved: peft.PrefixTuningConfig(num_virtual_tokens=4, task_type=task),
    "ptuning": lambda task, qv, ff, saved: peft.PromptEncoderConfig(
        num_virtual_tokens=4, encoder_hidden_size=16, task_type=task),
    "adalora": lambda task, qv, ff, saved: peft.AdaLoraConfig(
        target_modules=qv, init_r=4, target_r=2, total_step=10, task_type=task),
    "vera": lambda task, qv, ff, saved: peft.VeraConfig(r=4, target_modules=qv, task_type=task),
    "loha": lambda task, qv, ff, saved: peft.LoHaConfig(r=4, target_modules=qv, task_type=task),
    "lokr": lambda task, qv, ff, saved: peft.LoKrConfig(r=4, target_modules=qv, task_type=task),
    "oft": lambda task, qv, ff, saved: peft.OFTConfig(oft_block_size=8, r=0, target_modules=qv, task_type=task),
    "boft": lambda task, qv, ff, saved: peft.BOFTConfig(boft_block_size=8, target_modules=qv, task_type=task),
    "hra": lambda task, qv, ff, saved: peft.HRAConfig(r=4, target_modules=qv, task_type=task),
    "miss": lambda task, qv, ff, saved: peft.MissConfig(r=4, target_modules=qv, task_type=task),
    "fourier": lambda task, qv, ff, saved: peft.FourierFTConfig(n_frequency=16, target_modules=qv, task_type=task),
    "randlora": lambda task, qv, ff, saved: peft.RandLoraConfig(r=4, target_modules=qv, task_type=task),
    "vblora": lambda task, qv, ff, saved: peft.VBLoRAConfig(
        num_vectors=8, vector_length=8, target_modules=qv, task_type=task),
    "hira": lambda task, qv, ff, saved: peft.HiraConfig(r=4, target_modules=qv, task_type=task),
    "tokens": lambda task, qv, ff, saved: peft.LoraConfig(r=4, target_modules=qv, trainable_token_indices=[3, 5]),
}


class Task(torch.nn.Module):
    def __init__(self, model, names):
        super().__init__()
        self.m, self.names = model, names

    def forward(self, *tensors):
        return self.m(**dict(zip(self.names, tensors))).loss


def make(kind, arch):
    """(module, inputs by name)"""
    torch.manual_seed(0)
    build, task, qv, ff, saved, form = ARCHS[arch]
    more = {} if arch in ("bert", "vit") else {"use_cache": False}
    model = build(attn_implementation="eager", **more)
    model = peft.get_peft_model(model, KINDS[kind.rstrip("0")](task, qv, ff, saved))
    ids, labels = torch.randint(0, 97, (2, 8)), torch.tensor([0, 2])
    feeds = {"pixel_values": torch.randn(2, 1, 8, 8), "labels": labels} if form == "picture" else \
        {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels if form == "class" else ids}
    if not kind.endswith("0"):
        for p in model.parameters():
            torch.nn.init.normal_(p, 0.5 if p.dim() < 2 else 0.0, 0.3)
    return Task(model, list(feeds)).train(), feeds


def export(task, feeds, path, how):
    common = dict(input_names=list(feeds), output_names=["loss"])
    if how in ("dyn", "plain"):
        torch.onnx.export(task, tuple(feeds.values()), path, dynamo=True, opset_version=18, optimize=how == "dyn",
                          verbose=False, external_data=False, **common)
    else:
        torch.onnx.export(task, tuple(feeds.values()), path, dynamo=False, opset_version=17, **common,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=how == "fold")


def said(done):
    lines = [line.split("error: ", 1)[1] for line in done.stderr.splitlines() if "error: " in line]
    return (lines or [f"exit code {done.returncode}"])[0][:160]


def try_case(kind, arch, how, folder, tempoc):
    """(a word for the table, a line)"""
    path, train, got = (os.path.join(folder, name) for name in ("model.onnx", "train.onnx", "got.npz"))
    try:
        task, feeds = make(kind, arch)
        loss = task(*feeds.values())
        loss.backward()
        want = {f"{n}_grad": p.grad.numpy() for n, p in task.named_parameters() if p.grad is not None}
        want["loss"] = loss.detach().numpy()
        export(task, feeds, path, how)
    except Exception as e:
        return "-", f"no export: {type(e).__name__}: {str(e).strip().splitlines()[0][:120] if str(e) else ''}"
    np.savez(os.path.join(folder, "inputs.npz"), **{n: t.numpy() for n, t in feeds.items()})
    np.savez(os.path.join(folder, "expected.npz"), **want)
    done = subprocess.run([tempoc, path, "-o", train, "--names=pytorch"], capture_output=True, text=True)
    if done.returncode:
        return "asked" if done.returncode == 64 else "refused", said(done)
    done = subprocess.run([os.path.join(os.path.dirname(tempoc), "tempo-run"), train, "--inputs",
                           os.path.join(folder, "inputs.npz"), "--outputs", got], capture_output=True, text=True)
    if done.returncode:
        return "run", said(done)
    found = dict(np.load(got))
    for p in onnx.load(train, load_external_data=False).metadata_props:  # of another layout than PyTorch's
        own, name = p.key.replace("tempo.parameter.", "") + "_grad", p.value.split(" ")[0] + "_grad"
        if own in found and name in want:
            found[name] = found.pop(own)
            if found[name].shape != want[name].shape:
                want[name] = found[name]  # reordered, or rows: not compared
    grads, whole = {n for n in found if n.endswith("_grad")}, len(list(task.parameters()))
    if how == "fold" and len(grads) == len(want) - 1:  # made-up names: the norms of gradients, sorted, decide
        norms = [np.sort([np.linalg.norm(v) for k, v in of.items() if k.endswith("_grad")]) for of in (found, want)]
        error = float(np.max(np.abs(norms[0] - norms[1]) / (norms[1] + 1e-6)))
        return "right" if error <= 1e-4 else "WRONG", f"{len(grads)} of {whole}, sorted norms {error:.1e}"
    if grads != want.keys() - {"loss"}:
        more, less = sorted(grads - want.keys()), sorted(want.keys() - {"loss"} - grads)
        return "SET", f"{len(grads)} trained, {len(want) - 1} by PyTorch; too many: {more[:2]}, too few: {less[:2]}"
    found.update({n: found[n].reshape(a.shape) for n, a in want.items() if found[n].size == a.size})
    error, name = worst(found, want)
    return "right" if error <= 1e-4 else "WRONG", f"{len(grads)} of {whole}, {name} {error:.1e}"


def main(args):
    warnings.simplefilter("ignore")
    options = dict(a[2:].split("=", 1) for a in args if a.startswith("--"))
    words = [a for a in args if not a.startswith("--")]
    tempoc, table = os.path.abspath(options.get("tempoc", os.path.join(ROOT, "build", "tempoc"))), {}
    for kind in [*KINDS, "lora0", "ia30", "dora0"]:
        for arch in ARCHS:
            for how in EXPORTERS:
                name = f"{kind}-{arch}-{how}"
                if not all(word in name.split("-") for word in words):
                    continue
                with tempfile.TemporaryDirectory() as scratch:
                    folder = os.path.join(options["keep"], name) if "keep" in options else scratch
                    os.makedirs(folder, exist_ok=True)
                    table[name], line = try_case(kind, arch, how, folder, tempoc)
                print(f"{name:22} {table[name]:8} {line}", flush=True)
    counts = {word: list(table.values()).count(word) for word in dict.fromkeys(table.values())}
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    return any(word.isupper() for word in table.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
