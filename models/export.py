#!/usr/bin/env python3
"""Exports small transformers with PyTorch's two ONNX exporters, each with an input and PyTorch's own loss and
gradients.

usage: export.py OUT_DIR [NAME ...]      NAME: ARCH-EXPORTER_OPSET[-TYPE], as in bert-dyn_18 or gpt2-ts_14; default:
those of COMMITTED
  ARCH      bert bertcls roberta distilbert albert alberttied gpt2 vit t5 llama, and those of small.py
  EXPORTER  dyn (torch.export based, static shapes), plain (the same with optimize=False), ts (TorchScript, dynamic
            batch and sequence), or call (export_training.py, dynamic batch)
  TYPE      of all weights: float16 or bfloat16
Each OUT_DIR/NAME holds model.onnx, inputs.npz and expected.npz (keys: loss, and <initializer>_grad, several of them
joined by '+' where the exporter stored one parameter several times). Where a TYPE is named, these are PyTorch's numbers
in float for the same weights, and `limit` is twice the error of its own in that type, as test/e2e/check_models.py
measures it.

Every parameter is drawn from a normal distribution first: no two are equal, so that the exporter merges none of them
and each initializer can be told by its values. Those of TIED keep their biases and scales: tempoc is to give
back what was one and what was several, under the parameters' names. Attention is the eager one where EAGER
names the architecture, else PyTorch's fused call. Needs: torch 2.15, transformers 5.23, onnx 1.23, onnxscript. Not
needed to build, test or run Tempo.
"""
import copy
import os
import shutil
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch
import transformers as tf
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from compare import worst  # noqa: E402
import export_training  # noqa: E402
import small  # noqa: E402

COMMITTED = ["bert-dyn_18", "bert-ts_14", "bertcls-dyn_21", "gpt2-dyn_21", "gpt2-dyn_23", "roberta-dyn_18",
             "distilbert-ts_17",
             "albert-dyn_21", "alberttied-dyn_21", "vit-dyn_18", "t5-dyn_18", "llama-dyn_21",
             "bert-dyn_18-float16", "gpt2-dyn_21-bfloat16",
             "norms-dyn_18", "norms-plain_18", "convnorms-dyn_18", "convnorms-plain_23",
             "stops-dyn_18", "stops-plain_23", "codes-dyn_18",
             "drops-dyn_18", "drops-plain_18", "drops-plain_23", "dropsparts-plain_18",
             "scores-ts_17", "equal-dyn_18",
             "recurrent-dyn_18", "recurrent-plain_23", "recurrent-ts_17", "predicting-call_18"]
EAGER = {"bertcls", "distilbert", "t5"}
# the decoder is the embedding, biases are 0 and scales 1, as in a new model: the exporter splits and merges
TIED = {"alberttied"}
# without PyTorch's numbers: tempoc is to refuse the first; the others are random, and equal one another
LOST = {"convnorms-dyn_18", "drops-dyn_18", "drops-plain_18", "drops-plain_23", "dropsparts-plain_18"}
RESTORED = {"recurrent"}  # tempoc makes the parameters again that the exporter put together
V, H, L, A, B, S = 97, 32, 2, 4, 2, 12


class Task(torch.nn.Module):
    """A model with its loss; `m` is the model, so that initializers are named m.<parameter>."""

    def __init__(self, model, names):
        super().__init__()
        self.m, self.names = model, names

    def forward(self, *args):
        feeds = dict(zip(self.names, args))
        labels = feeds.pop("labels")
        logits = self.m(**feeds).logits
        return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def encoder(config_class, model_class, **more):
    config = config_class(vocab_size=V, hidden_size=H, num_hidden_layers=L, num_attention_heads=A,
                          intermediate_size=4 * H,
                          max_position_embeddings=64, **more)
    return config, model_class


def architecture(arch):
    if arch == "bert":
        return encoder(tf.BertConfig, tf.BertForMaskedLM, tie_word_embeddings=False)
    if arch == "bertcls":
        return encoder(tf.BertConfig, tf.BertForSequenceClassification, num_labels=3)
    if arch == "roberta":
        return encoder(tf.RobertaConfig, tf.RobertaForMaskedLM, tie_word_embeddings=False)
    if arch == "distilbert":
        return tf.DistilBertConfig(vocab_size=V, dim=H, n_layers=L, n_heads=A, hidden_dim=4 * H,
                                   max_position_embeddings=64,
                                   tie_word_embeddings=False), tf.DistilBertForMaskedLM
    if arch in ("albert", "alberttied"):  # one layer's weights, used L times
        return encoder(tf.AlbertConfig, tf.AlbertForMaskedLM, embedding_size=16, tie_word_embeddings=arch in TIED)
    if arch == "gpt2":
        return tf.GPT2Config(vocab_size=V, n_embd=H, n_layer=L, n_head=A, n_positions=64, tie_word_embeddings=False,
                             use_cache=False), tf.GPT2LMHeadModel
    if arch == "vit":
        return tf.ViTConfig(hidden_size=H, num_hidden_layers=L, num_attention_heads=A, intermediate_size=4 * H,
                            image_size=16,
                            patch_size=4, num_labels=5), tf.ViTForImageClassification
    if arch == "t5":
        return tf.T5Config(vocab_size=V, d_model=H, d_kv=8, d_ff=64, num_layers=L, num_heads=A,
                           feed_forward_proj="gated-gelu",
                           tie_word_embeddings=False, use_cache=False), tf.T5ForConditionalGeneration
    if arch == "llama":
        return tf.LlamaConfig(vocab_size=V, hidden_size=H, num_hidden_layers=L, num_attention_heads=A,
                              num_key_value_heads=2,
                              intermediate_size=64, max_position_embeddings=64, tie_word_embeddings=False,
                              use_cache=False), tf.LlamaForCausalLM
    sys.exit(f"export.py: no architecture {arch}")


def inputs_of(arch, rng):
    def ids():
        drawn = rng.integers(3, V, (B, S))
        drawn[0, 5], drawn[1, 2] = 0, 1  # padding tokens of BERT and RoBERTa: PyTorch gives their rows no gradient
        return torch.from_numpy(drawn)

    mask = torch.ones(B, S, dtype=torch.int64)
    mask[1, S - 4:] = 0
    if arch == "vit":
        return {"pixel_values": torch.from_numpy(rng.normal(size=(B, 3, 16, 16)).astype(np.float32)),
                "labels": torch.from_numpy(rng.integers(0, 5, (B,)))}
    if arch == "t5":
        return {"input_ids": ids(), "attention_mask": mask, "decoder_input_ids": ids(), "labels": ids()}
    feeds = {"input_ids": ids()}
    if arch != "gpt2":
        feeds["attention_mask"] = mask
    labels = torch.from_numpy(rng.integers(0, 3, (B,))) if arch == "bertcls" else ids()
    if labels.ndim == 2:
        labels[0, :3] = -100  # ignored by the loss
    return {**feeds, "labels": labels}


def build(arch, seed=7):
    torch.manual_seed(seed)
    config, model_class = architecture(arch)
    config._attn_implementation = "eager" if arch in EAGER else "sdpa"
    model = model_class(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if arch in TIED and p.ndim == 1:
                continue
            scale_like = p.ndim == 1 and ("norm" in name.lower() or "ln_" in name) and name.endswith("weight")
            p.copy_(torch.randn_like(p) * 0.1 + (1.0 if scale_like else 0.0))
    return model


def export(task, feeds, path, exporter, opset):
    names = list(feeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter in ("dyn", "plain"):
            torch.onnx.export(task, tuple(feeds.values()), path, input_names=names, output_names=["loss"],
                              opset_version=opset,
                              dynamo=True, external_data=False, verbose=False, optimize=exporter == "dyn")
        else:
            axes = {n: {0: "batch", 1: "seq"} if t.ndim == 2 else {0: "batch"} for n, t in feeds.items()}
            torch.onnx.export(task, tuple(feeds.values()), path, input_names=names, output_names=["loss"],
                              opset_version=opset,
                              dynamo=False, dynamic_axes=axes, do_constant_folding=False)


def strip_stack_traces(path):
    """The dynamo exporter writes the Python stack of each node, with paths of the exporting machine, into its
    metadata."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if "stack_trace" not in p.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def gradients(task, feeds, model, tied, told, restored=False):
    """PyTorch's gradient for each initializer that holds a parameter's values, transposed as the exporter transposed
    it.

    Where the exporter wrote one parameter several times (a shared layer's pre-transposed weight, say), PyTorch's
    gradient is that of all copies together: it stands under their names joined by '+'. `told`: under one name, the
    parameter's where an initializer has it, or several parameters are equal (`tied`), else that of the first copy.
    `restored`: also of those that are nowhere in the file."""
    loss = task(*feeds.values())
    loss.backward()
    expected = {"loss": loss.detach().float().numpy()}
    stored_names = {init.name for init in model.graph.initializer}
    for name, p in task.named_parameters():
        if p.grad is None:
            continue
        copies = {}  # transposed? -> gradient names
        value, grad = p.detach().float().numpy(), p.grad.float().numpy()
        own = [n for n, q in task.named_parameters(remove_duplicate=False) if q is p and n in stored_names]
        if told and (own or (tied and value.ndim < 2)):
            expected[(own or [name])[0] + "_grad"] = grad
            continue
        for init in model.graph.initializer:
            stored = numpy_helper.to_array(init)
            stored = stored if stored.dtype.kind in "iub" else stored.astype(np.float32)
            for transposed in (False, True):
                spelled = value.T if transposed else value
                if stored.shape == spelled.shape and stored.dtype == spelled.dtype and np.array_equal(stored, spelled):
                    copies.setdefault(transposed, []).append(init.name + "_grad")
                    break
        if not copies and restored:
            expected[name + "_grad"] = grad
            continue
        if len(copies) != 1:
            print(f"  {name}: {'no initializer of its own' if not copies else 'stored both ways, left out'}")
            continue
        (transposed, names), = copies.items()
        expected[names[0] if told else "+".join(names)] = np.ascontiguousarray(grad.T if transposed else grad)
    return expected


def write_predictions(task, feeds, folder):
    """model.onnx by export_training.py, and the logits of the module in evaluation mode after a forward pass in
    training mode, which moves running statistics."""
    with tempfile.TemporaryDirectory() as made:
        path = export_training.export(task, feeds, os.path.join(made, "model.onnx")).path
        shutil.copy(path, folder)
    task.train()(*feeds.values())
    logits = task.eval()(*feeds.values())["logits"].detach().numpy()
    np.savez(os.path.join(folder, "expected.npz"), logits=logits)


def main(out_dir, names):
    for name in names or COMMITTED:
        arch, flavour, dtype = (name.split("-") + [None])[:3]
        exporter, opset = flavour.split("_")
        if arch in small.SMALL:
            task, feeds = small.make(arch)
        else:
            feeds = inputs_of(arch, np.random.default_rng(11))
            task = Task(build(arch), list(feeds)).eval()
        if dtype:
            task = task.to(getattr(torch, dtype))
        folder = os.path.join(out_dir, name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "model.onnx")
        if exporter == "call":
            write_predictions(task, feeds, folder)
        else:
            export(task, feeds, path, exporter, int(opset))
        strip_stack_traces(path)
        np.savez(os.path.join(folder, "inputs.npz"), **{k: v.numpy() for k, v in feeds.items()})
        if name in LOST or exporter == "call":
            continue
        # the dynamo exporter tells what is one
        how = onnx.load(path), arch in TIED or arch in small.SMALL, exporter != "ts", arch in RESTORED
        expected = gradients(copy.deepcopy(task).float(), feeds, *how)
        if dtype:
            error, _ = worst(gradients(task, feeds, *how), expected)
            expected["limit"] = np.float64(2 * error)
        np.savez(os.path.join(folder, "expected.npz"), **expected)
        print(f"{name}: loss {expected['loss']:.6f}, {sum(k.endswith('_grad') for k in expected)} gradients")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
