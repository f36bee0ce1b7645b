#!/usr/bin/env python3
"""Exports small language models as others publish them for inference, with PyTorch's loss and gradients.

usage: export_decoders.py OUT_DIR [NAME ...]      NAME: ARCH-MAKER, as in COMMITTED, which is the default
  MAKER     optimum: Optimum's exporter, a past as inputs and outputs
            genai: the model builder of ONNX Runtime GenAI, the same by GroupQueryAttention
            fused: Optimum's file after ONNX Runtime's optimizer for transformers
Each OUT_DIR/NAME holds model.onnx, inputs.npz (without the past) and expected.npz: the loss, next-token for decoders
and cross-entropy for bert, and <initializer>_grad. Sequences are padded at their end. Initializers are told by their
values: parameters, their transposes, or those of queries, keys and values joined. Needs: torch 2.15, onnx,
onnxruntime; optimum-onnx 0.1 with transformers 4.57, or onnxruntime-genai 0.18 with transformers 5. Not needed to
build, test or run Tempo.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import tokenizers
import torch
import transformers as tf
from onnx import numpy_helper

COMMITTED = ["llama-optimum", "qwen2-genai", "bert-fused"]
# The builder takes a product as wide as the vocabulary for the head: no other is.
V, B, S, LENGTHS = 48, 3, 9, (9, 6, 8)
DECODER = {"vocab_size": V, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2,
           "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64, "pad_token_id": 0}
MODELS = {
    "llama": (tf.LlamaForCausalLM, tf.LlamaConfig, DECODER),
    "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config, {**DECODER, "tie_word_embeddings": True}),
    "bert": (tf.BertForSequenceClassification, tf.BertConfig,
             {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 64, "max_position_embeddings": 64}),
}


def build(arch):
    torch.manual_seed(7)
    model_class, config_class, settings = MODELS[arch]
    model = model_class(config_class(**settings, attn_implementation="eager")).eval()
    with torch.no_grad():  # no two parameters are equal: the exporter merges none
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (1.0 if "norm" in name.lower() and "weight" in name else 0.0))
    return model


def feeds_of(arch):
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(1, V, (B, S), generator=draw)
    mask = (torch.arange(S) < torch.tensor(LENGTHS)[:, None]).long()
    feeds = {"input_ids": ids * mask, "attention_mask": mask}
    if arch == "bert":
        feeds["token_type_ids"] = torch.randint(0, 2, (B, S), generator=draw)
        feeds["labels"] = torch.tensor([1, 0, 1])
    else:
        feeds["position_ids"] = torch.arange(S).expand(B, S).contiguous()
        feeds["labels"] = torch.where(mask > 0, ids, -100)
    return feeds


def loss_of(model, feeds):
    scores, labels = model(**{k: v for k, v in feeds.items() if k != "labels"}).logits, feeds["labels"]
    if labels.dim() == 2:
        scores, labels = scores[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return torch.nn.functional.cross_entropy(scores, labels)


def save_checkpoint(model, folder):
    model.save_pretrained(folder)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(V)}, unk_token="w0"))
    tf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0").save_pretrained(folder)


def exported(arch, maker, folder):
    checkpoint, out = os.path.join(folder, "checkpoint"), os.path.join(folder, "out")
    save_checkpoint(build(arch), checkpoint)
    task = "text-classification" if arch == "bert" else "text-generation-with-past"
    command = ["optimum.exporters.onnx", "--model", checkpoint, "--task", task, out]
    if maker == "genai":
        command = ["onnxruntime_genai.models.builder", "-i", checkpoint, "-o", out, "-p", "fp32", "-e", "cpu", "-c",
                   os.path.join(folder, "cache")]
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL)
    path = os.path.join(out, "model.onnx")
    if maker != "fused":
        return onnx.load(path)
    from onnxruntime.transformers import optimizer
    optimizer.optimize_model(path, model_type="bert" if arch == "bert" else "gpt2", opt_level=0, hidden_size=32,
                             num_heads=MODELS[arch][2]["num_attention_heads"]).save_model_to_file(path)
    return onnx.load(path)


def forms(model):
    """(value, gradient) of parameters, of their transposes, and of queries, keys and values as one."""
    rows = dict(model.named_parameters())
    for name in list(rows):
        for first, others in (("q_proj", ("k_proj", "v_proj")), ("query", ("key", "value"))):
            if f".{first}." in name:
                parts = [rows[name.replace(first, other)] for other in (first, *others)]
                rows[name + "+"] = tuple(parts)
    for parts in rows.values():
        parts = parts if isinstance(parts, tuple) else (parts,)
        value, gradient = (torch.cat(t).numpy() for t in ([p.detach() for p in parts], [p.grad for p in parts]))
        yield value, gradient
        if value.ndim == 2:
            yield value.T, gradient.T


def make(name, out_dir):
    arch, maker = name.split("-")
    model, feeds = build(arch), feeds_of(arch)
    loss = loss_of(model, feeds)
    loss.backward()
    with tempfile.TemporaryDirectory() as folder:
        file = exported(arch, maker, folder)
    expected, known = {"loss": loss.detach().numpy()}, list(forms(model))
    for tensor in file.graph.initializer:
        array = numpy_helper.to_array(tensor)
        for value, gradient in known:
            if array.dtype == np.float32 and array.shape == value.shape and np.array_equal(array, value):
                expected[tensor.name + "_grad"] = gradient
    has = {i.name for i in file.graph.input} | {"labels"}
    folder = os.path.join(out_dir, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(file, os.path.join(folder, "model.onnx"))
    np.savez(os.path.join(folder, "inputs.npz"), **{k: v.numpy() for k, v in feeds.items() if k in has})
    np.savez(os.path.join(folder, "expected.npz"), **expected)
    elements = sum(v.size for v in expected.values()) - 1
    print(f"{name}: loss {loss.item():.6f}, {len(expected) - 1} gradients of {elements} elements, "
          f"{sum(p.numel() for p in model.parameters())} in PyTorch")


if __name__ == "__main__":
    for one in sys.argv[2:] or COMMITTED:
        make(one, sys.argv[1])
