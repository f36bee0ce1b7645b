#!/usr/bin/env python3
"""Tries models that were exported for inference, without a loss: adds one (--add-loss), compares loss and gradients
with PyTorch's of the same loss in evaluation mode, trains two steps, and compares what ONNX Runtime makes of the file
that --save wrote with PyTorch after the same two steps.

usage: survey_inference.py --tempoc FILE --tempo-train FILE --tempo-run FILE --cases DIR [--kinds GLOB]
                           [--only export|check]
A kind is WHO_MODEL.EXPORTER: tf (transformers), timm, tv (torchvision), each by `ts` (TorchScript) and `dyn` (dynamo),
as users call torch.onnx.export; `optimum` (its main_export, with keys and values of the past) and `genai` (ONNX Runtime
GenAI's builder). All are small, with random weights. DIR gets a folder each; exports that are there are taken. Exit
code 1 where a kind is wrong. Step `check` needs numpy, onnx and onnxruntime alone; `export` torch 2.15, transformers
(4.57 for Optimum's, 5.23 for GenAI's), and for theirs timm, torchvision, optimum-onnx, onnxruntime-genai. Not needed to
build, test or run Tempo.
"""
import argparse
import fnmatch
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "lib"))
from compare import by_onnxruntime, norm_error, worst  # noqa: E402
from tolerances import GRADIENT  # noqa: E402

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99,
         "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED, IMAGE = {"hidden_size": 64, "num_key_value_heads": 2, "head_dim": 16}, {"image_size": 32, "patch_size": 8}
B, S, CLASSES, RATE = 3, 8, 5, 0.05
# WHO_MODEL -> class or name, the loss, more of the configuration, exporters
KINDS = {
    "tf_bert": ("BertForSequenceClassification", "cross-entropy", {}, "ts dyn optimum"),
    "tf_bert_masked": ("BertForMaskedLM", "cross-entropy", {"tie_word_embeddings": False}, "ts dyn"),
    "tf_roberta": ("RobertaForSequenceClassification", "mse",
                   {"num_labels": 2, "pad_token_id": 1, "bos_token_id": 0}, "ts dyn"),
    "tf_distilbert": ("DistilBertForSequenceClassification", "bce", {}, "ts dyn optimum"),
    "tf_electra": ("ElectraForTokenClassification", "cross-entropy", {}, "ts dyn"),
    "tf_albert": ("AlbertForMaskedLM", "cross-entropy", {"embedding_size": 16}, "ts dyn"),
    "tf_mpnet": ("MPNetForSequenceClassification", "cross-entropy", {}, "ts"),
    "tf_gpt2": ("GPT2LMHeadModel", "next-token", {}, "dyn optimum"),
    "tf_gpt_neox": ("GPTNeoXForCausalLM", "next-token", {}, "dyn"),
    "tf_opt": ("OPTForCausalLM", "next-token", {"ffn_dim": 64, "word_embed_proj_dim": 32}, "dyn"),
    "tf_phi": ("PhiForCausalLM", "next-token", {}, "dyn"),
    "tf_llama": ("LlamaForCausalLM", "next-token", GROUPED, "dyn optimum genai"),
    "tf_mistral": ("MistralForCausalLM", "next-token", GROUPED, "dyn optimum genai"),
    "tf_qwen2": ("Qwen2ForCausalLM", "next-token", GROUPED, "dyn optimum genai"),
    "tf_qwen3": ("Qwen3ForCausalLM", "next-token", GROUPED, "dyn optimum genai"),
    "tf_gemma": ("GemmaForCausalLM", "next-token", GROUPED, "dyn genai"),
    "tf_phi3": ("Phi3ForCausalLM", "next-token", {**GROUPED, "original_max_position_embeddings": 64}, "genai"),
    "tf_t5": ("T5ForConditionalGeneration", "cross-entropy", {"d_ff": 64, "d_kv": 8, "num_layers": 2}, "ts"),
    "tf_vit": ("ViTForImageClassification", "cross-entropy", IMAGE, "ts dyn optimum"),
    "tf_dinov2": ("Dinov2ForImageClassification", "cross-entropy", IMAGE, "dyn"),
    "tf_segformer": ("SegformerForSemanticSegmentation", "cross-entropy",
                     {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 4, 8]},
                     "ts dyn"),
    "timm_resnet10t": ("resnet10t", "cross-entropy", {}, "ts dyn"),
    "timm_efficientnet_b0": ("efficientnet_b0", "cross-entropy", {}, "ts dyn"),
    "timm_mobilenetv3": ("mobilenetv3_small_050", "cross-entropy", {}, "ts dyn"),
    "timm_regnety": ("regnety_002", "l1", {}, "ts dyn"),
    "timm_convnext": ("convnext_atto", "cross-entropy", {"depths": (1, 1, 1, 1)}, "ts dyn"),
    "timm_vit": ("vit_tiny_patch16_224", "cross-entropy", {"img_size": 64, "depth": 2}, "ts dyn"),
    "timm_byobnet": ("test_byobnet", "bce", {}, "ts dyn"),
    "tv_mobilenet_v2": ("mobilenet_v2", "cross-entropy", {}, "ts dyn"),
    "tv_shufflenet": ("shufflenet_v2_x0_5", "cross-entropy", {}, "ts dyn"),
    "tv_squeezenet": ("squeezenet1_1", "mse", {}, "ts dyn"),
}


def make(kind):
    """(model in evaluation mode, inputs by name)"""
    import torch
    name, _, more, _ = KINDS[kind]
    if kind.startswith("tf_"):
        import transformers as tf
        cls = getattr(tf, name)
        more = {"num_labels": CLASSES, "use_cache": False, "tie_word_embeddings": False, **more}
        model = cls(cls.config_class(**{**SIZES, **more}))
        if model.main_input_name == "pixel_values":
            feeds = {"pixel_values": torch.randn(B, 3, 32, 32)}
        else:
            ids = torch.randint(3, 99, (B, S))
            feeds = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            if model.config.is_encoder_decoder:
                feeds["decoder_input_ids"] = ids.flip(1)
    else:
        import timm
        import torchvision
        build = timm.create_model if kind.startswith("timm_") else torchvision.models.get_model
        model = build(name, num_classes=CLASSES, **more)
        feeds = {"x": torch.randn(B, 3, 64, 64)}
    with torch.no_grad():  # no two parameters are equal, so that a weight of a file is known by its values
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.02 if p.ndim > 1 else 0.1))
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b.normal_(0, 0.1)
            elif name.endswith("running_var"):
                b.uniform_(0.5, 1.5)
    return model.eval(), feeds


def logits(model, feeds):
    out = model(**feeds)
    return next(iter(out.values())) if isinstance(out, dict) else out


def loss_of(scores, labels, kind):
    from torch.nn import functional as F
    if kind == "next-token":
        scores, labels = scores[:, :-1], labels[:, 1:]
    if kind in ("next-token", "cross-entropy"):
        tokens = scores.ndim == 3
        return F.cross_entropy(scores.flatten(0, 1) if tokens else scores, labels.flatten() if tokens else labels)
    return {"mse": F.mse_loss, "l1": F.l1_loss, "bce": F.binary_cross_entropy_with_logits}[kind](scores, labels)


def labels_for(scores, feeds, kind):
    import torch
    if kind == "next-token":
        return feeds["input_ids"].clone()
    if kind == "cross-entropy":
        made = torch.randint(0, CLASSES, scores.shape[:-1] if scores.ndim == 3 else (B, *scores.shape[2:]))
        if made.ndim > 1:
            made[0, :2] = -100
        return made
    return (torch.rand_like(scores) > 0.5).float() if kind == "bce" else torch.randn_like(scores)


def export(model, feeds, folder, exporter, kind):
    """model.onnx in the folder, as a user would export it"""
    import torch
    path = os.path.join(folder, "model.onnx")
    if exporter in ("ts", "dyn"):
        free = {n: {0: "batch", **({1: "sequence"} if t.ndim == 2 else {})} for n, t in feeds.items()}
        how = {"dynamo": False, "dynamic_axes": free, "opset_version": 17} if exporter == "ts" else \
            {"dynamo": True, "dynamic_shapes": {n: {0: "batch"} for n in feeds}, "external_data": False}
        torch.onnx.export(model, (), path, kwargs=feeds, input_names=list(feeds), output_names=["logits"], **how)
        return
    saved = os.path.join(folder, "saved")
    model.config.use_cache = True
    model.save_pretrained(saved)
    if exporter == "optimum":
        task = {"next-token": "text-generation-with-past"}.get(KINDS[kind][1], "image-classification" if
               "pixel_values" in feeds else "text-classification")
        command = ["optimum.exporters.onnx", "--model", saved, "--task", task, folder]
    else:
        tokenizer(saved)
        command = ["onnxruntime_genai.models.builder", "-i", saved, "-o", folder, "-p", "fp32", "-e", "cpu",
                   "-c", os.path.join(folder, "cache")]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    if not os.path.exists(path):
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def tokenizer(folder):
    """GenAI's builder copies one."""
    import tokenizers
    import transformers as tf
    words = tokenizers.models.WordLevel({f"t{i}": i for i in range(99)}, unk_token="t0")
    tf.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words)).save_pretrained(folder)


def folded(model, feeds):
    """The model as exporters for inference write it: the norms in the convolutions before them. Changes the model."""
    import torch
    from torch.nn.utils.fusion import fuse_conv_bn_weights
    made, pairs = {}, []

    def see(name, module, args, out):
        if isinstance(module, torch.nn.Conv2d):
            made[id(out)] = (module, out)
        elif isinstance(module, torch.nn.BatchNorm2d) and id(args[0]) in made:
            pairs.append((made[id(args[0])][0], name, module))

    hooks = [m.register_forward_hook(lambda m, a, out, name=n: see(name, m, a, out)) for n, m in model.named_modules()]
    logits(model, feeds)
    for hook in hooks:
        hook.remove()
    for conv, name, norm in pairs:
        conv.weight, conv.bias = fuse_conv_bn_weights(conv.weight, conv.bias, norm.running_mean, norm.running_var,
                                                      norm.eps, norm.weight, norm.bias)
        conv.bias.requires_grad_(True)
        model.set_submodule(name, getattr(norm, "act", torch.nn.Identity()))
    return model


def write_case(folder, kind, exporter):
    import torch
    warnings.simplefilter("ignore")
    torch.manual_seed(7)
    os.makedirs(folder, exist_ok=True)
    model, feeds = make(kind)
    with torch.no_grad():
        labels = labels_for(logits(model, feeds), feeds, KINDS[kind][1])
    given, name = dict(feeds), "target" if labels.is_floating_point() else "labels"
    feeds[name] = labels
    export(model, given, folder, exporter, kind)
    model = folded(model, given)
    values, told, before = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}, {}, None
    for step in range(3):
        model.zero_grad()
        scores = logits(model, given)
        loss = loss_of(scores, labels, KINDS[kind][1])
        told[f"loss_{step}"], told[f"logits_{step}"] = loss.detach().numpy(), scores.detach().numpy()
        loss.backward()
        gradients = {n: p.grad.numpy().copy() for n, p in model.named_parameters() if p.grad is not None}
        before = before or gradients
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= RATE * p.grad
    feeds["token_type_ids"], feeds["position_ids"] = torch.zeros(B, S, dtype=torch.int64), torch.arange(S).repeat(B, 1)
    np.savez(os.path.join(folder, "inputs.npz"), **{n: t.numpy() for n, t in feeds.items()})
    np.savez(os.path.join(folder, "expected.npz"), **told, **{f"value:{n}": v for n, v in values.items()},
             **{f"gradient:{n}": g for n, g in before.items()})


def numbered(expected):
    """Of the parameters by name: values, and numbers for their elements, no two alike"""
    values, first, numbers = {n[6:]: v for n, v in expected.items() if n.startswith("value:")}, 0, {}
    for name, v in values.items():
        numbers[name] = np.arange(first, first + v.size).reshape(v.shape)
        first += v.size
    return values, numbers


def elements_of(weight, values, numbers):
    """Which elements of parameters an initializer has, by its values: a parameter as it is, transposed, plus 1 (Gemma's
    norms), or rows of several one after the other; None where it is none"""
    for name, v in values.items():
        if v.size == weight.size:
            for turn, add in ((False, 0), (True, 0), (False, 1)):
                shown = v.T if turn else v
                if (not turn or weight.shape == shown.shape) and \
                        np.allclose(weight, shown.reshape(weight.shape) + add, 1e-4, 1e-6):
                    return (numbers[name].T if turn else numbers[name]).reshape(weight.shape)
    rows = {r.tobytes(): numbers[n].reshape(-1, *r.shape)[i] for n, v in values.items()
            if v.ndim == min(weight.ndim, 2) for i, r in enumerate(v)}
    flat = weight.reshape(-1, *weight.shape[-1:] * (weight.ndim > 1))
    for turn in (False, True):
        found = [rows.get(np.ascontiguousarray(r).tobytes()) for r in (flat.T if turn else flat)]
        if all(r is not None for r in found):
            return (np.array(found).T if turn else np.array(found)).reshape(weight.shape)
    return None


def compare_gradients(model, got, expected):
    """(error, name) of the worst, and the names of parameters that are in no trained initializer"""
    values, numbers = numbered(expected)
    total, seen = np.zeros(sum(v.size for v in values.values())), np.zeros(sum(v.size for v in values.values()), bool)
    for i in model.graph.initializer:
        if i.name + "_grad" in got:
            places = elements_of(numpy_helper.to_array(i), values, numbers)
            if places is not None:
                np.add.at(total, places.ravel(), got[i.name + "_grad"].ravel())
                seen[places.ravel()] = True
    want = {n[9:]: g for n, g in expected.items() if n.startswith("gradient:")}
    lost = [n for n in want if want[n][~seen[numbers[n]]].any()]
    made = {n: total[numbers[n]] for n in want if n not in lost}
    want = {**{n: want[n] for n in made}, "loss": expected["loss_0"]}
    return worst({**made, "loss": got["loss"]}, want), lost


def feeds_of(model, inputs):
    """With an empty past"""
    made = dict(inputs)
    for i in model.graph.input:
        dims = [d.dim_value or (B if "batch" in d.dim_param else 0) for d in i.type.tensor_type.shape.dim]
        if "past" in i.name:
            dims[3] = dims[3] or GROUPED["head_dim"]  # which GenAI leaves open
            made[i.name] = np.zeros(dims, np.float32)
    return made


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error: " in line] or done.stderr.splitlines()[-1:]
        raise RuntimeError(f"{os.path.basename(command[0])} {done.returncode}: {' '.join(said)[:400]}")


def check(folder, loss, o):
    """What is wrong, or None, and a note"""
    path, inputs = os.path.join(folder, "model.onnx"), os.path.join(folder, "inputs.npz")
    model, expected = onnx.load(path), dict(np.load(os.path.join(folder, "expected.npz")))
    with tempfile.TemporaryDirectory() as scratch:
        got = os.path.join(scratch, "got.npz")
        # external weights lie beside them
        train, saved = (os.path.join(folder, n) for n in ("train.onnx", "saved.onnx"))
        # dynamo's exporter writes the names of what it folded norms into, and Tempo asks before it trains these;
        # TorchScript's writes a tied weight twice, which Tempo warns of
        how = {".ts": ["--retie"], ".dyn": ["--train=*.weight"]}.get(os.path.splitext(folder)[1], [])
        options = [f"--add-loss={loss}", *how]
        options += [f"--dim={n}" for n in ("num_channels=3", "height=32", "width=32")] * folder.endswith("vit.optimum")
        run(o.tempoc, path, "-o", train, *options)
        run(o.tempo_run, train, "--inputs", inputs, "--outputs", got)
        (error, name), lost = compare_gradients(model, dict(np.load(got)), expected)
        run(o.tempo_train, path, "--data", inputs, *options, f"--batch={B}", "--steps=2", "--shuffle=off",
            "--optimizer=sgd", "--schedule=constant", f"--lr={RATE}", "--save", saved)
        scores = by_onnxruntime(saved, feeds_of(model, np.load(inputs)))
        scored = norm_error(scores[model.graph.output[0].name], expected["logits_2"])
    moved = norm_error(expected["logits_2"], expected["logits_0"])
    note = f"{error:.1e} ({name}), scores {scored:.1e} (moved by {moved:.1e})"
    wrong = [f"not trained: {', '.join(lost)}"] if lost else []
    wrong += ["loss or gradients"] if not error <= GRADIENT else []
    wrong += ["saved scores"] if not scored <= GRADIENT else []
    return "; ".join(wrong) or None, note


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--tempoc", default="tempoc")
    a.add_argument("--tempo-train", default="tempo-train")
    a.add_argument("--tempo-run", default="tempo-run")
    a.add_argument("--cases", required=True)
    a.add_argument("--kinds", default="*")
    a.add_argument("--only", choices=["export", "check"])
    o, right, total = a.parse_args(), 0, 0
    for kind, (_, loss, _, exporters) in KINDS.items():
        for exporter in exporters.split():
            name = f"{kind}.{exporter}"
            folder = os.path.join(o.cases, name)
            if not fnmatch.fnmatch(name, o.kinds):
                continue
            total += 1
            try:
                if o.only != "check" and not os.path.exists(os.path.join(folder, "expected.npz")):
                    write_case(folder, kind, exporter)
                wrong, note = check(folder, loss, o) if o.only != "export" else (None, "exported")
            except Exception as e:
                wrong, note = f"{type(e).__name__}: {str(e)[:500]}".replace("\n", " "), ""
            right += wrong is None
            print("ok  " if wrong is None else "FAIL", name, wrong or "", note, flush=True)
    print(f"{right} of {total} are right")
    sys.exit(right != total)


if __name__ == "__main__":
    main()
