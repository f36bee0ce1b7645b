#!/usr/bin/env python3
"""tempo.torch.wrap in transformers' Trainer and generate(), accelerate, Lightning and PEFT: each trains, or writes,
what it does with the plain module.

usage: check_wrap_libraries.py SOURCE_ROOT BUILD_ROOT [K/N | WORD ...]    part K of N, or checks whose name has WORD
A library that is missing is said; the test is skipped (exit code 77) where all are, or torch.
"""
import contextlib
import copy
import os
import tempfile
import warnings

from torch_checks import have, run_checks, set_up

set_up("torch", "onnx", "onnxscript", "transformers")

import torch  # noqa: E402
import transformers as tf  # noqa: E402

import tempo.torch  # noqa: E402
from tolerances import GRADIENT  # noqa: E402

SMALL = {"vocab_size": 97, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 3,
         "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def bert(**more):
    torch.manual_seed(0)
    return tf.BertForSequenceClassification(tf.BertConfig(**SMALL, **more))


def gpt2():
    torch.manual_seed(0)
    return tf.GPT2LMHeadModel(tf.GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        initializer_range=0.3, bos_token_id=0, eos_token_id=None, pad_token_id=0))


def samples(n=16):
    g = torch.Generator().manual_seed(2)
    return [{"input_ids": torch.randint(0, 97, (10,), generator=g), "attention_mask": torch.ones(10, dtype=torch.long),
             "labels": torch.tensor(i % 3)} for i in range(n)]


def batches(size=4):
    return torch.utils.data.DataLoader(samples(), size)


@contextlib.contextmanager
def by_tempo(wrapped, warns=()):
    """Without a warning of PyTorch's forward beside those of `warns`, and with at least one graph."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    told = [str(w.message) for w in seen if "tempo.torch" in str(w.message)]
    assert all(any(word in line for word in warns) for line in told) and len(told) == len(warns), told
    assert any(entry.reason is None for entry in wrapped._tempo.entries)


@torch.no_grad()
def same_weights(got, want, exact=None):
    """exact: what training in float gives, of which training in bfloat16 may be off twice as far as PyTorch's is."""
    for (name, p), (other, q) in zip(got.named_parameters(), want.named_parameters()):
        limit = GRADIENT * (q.norm() + 1e-3)
        if exact is not None:
            limit, q = 2 * (exact.get_parameter(name) - q).norm() + limit, exact.get_parameter(name)
        assert name == other and (p - q).norm() <= limit, (name, (p - q).norm(), limit)


def check_trainer():
    """In float, and in bfloat16 with the attention that transformers pick, to its rounding."""
    exact = None
    for bf16, limit in ((False, GRADIENT), (True, 2 ** -8)):
        want, losses = bert(), []
        wrapped = tempo.torch.wrap(copy.deepcopy(want))
        for model, use in ((want, contextlib.nullcontext()), (wrapped, by_tempo(wrapped))):
            with tempfile.TemporaryDirectory() as folder, use:
                trainer = tf.Trainer(model, tf.TrainingArguments(
                    folder, max_steps=6, per_device_train_batch_size=4, learning_rate=0.1, use_cpu=True, bf16=bf16,
                    optim="sgd", gradient_accumulation_steps=2, report_to=[], save_strategy="steps", save_steps=6,
                    disable_tqdm=True, logging_strategy="no", log_level="error"), train_dataset=samples(),
                    eval_dataset=samples(8))
                trainer.train()
                losses.append(trainer.evaluate()["eval_loss"])
                again = tf.BertForSequenceClassification.from_pretrained(os.path.join(folder, "checkpoint-6"))
                same_weights(again, model)
        same_weights(wrapped, want, exact)
        exact = want
        assert abs(losses[0] - losses[1]) <= limit * abs(losses[0]), losses


def check_generate():
    """PyTorch's tokens, with a cache, by PyTorch, and without, by Tempo; decoding by hand; and the usual training."""
    want = gpt2().eval()
    wrapped = tempo.torch.wrap(copy.deepcopy(want))
    ids = torch.randint(1, 62, (2, 5), generator=torch.Generator().manual_seed(0))
    more = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 6}
    with by_tempo(wrapped, ["Cache"]):
        for ways in ({"do_sample": False}, {"num_beams": 3}, {"do_sample": False, "use_cache": False}):
            assert torch.equal(wrapped.generate(ids, **more, **ways), want.generate(ids, **more, **ways)), ways
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = [m(ids) for m in (wrapped, want)]
        got, asked = [m(ids[:, :1], past_key_values=r.past_key_values).logits
                      for m, r in zip((wrapped, want), first)]
    assert torch.allclose(got, asked, atol=1e-5)
    for labels in (ids, ids.clone().fill_(-100).index_fill_(1, torch.tensor([3]), 7)):
        losses = [m.train()(input_ids=ids, labels=labels).loss for m in (wrapped, want)]
        assert torch.allclose(*losses)


def check_accelerate():
    if not have("accelerate"):
        return print("accelerate: skipped, it is not here")
    import accelerate
    exact = None
    for precision in ("no", "bf16"):
        want = bert()
        wrapped = tempo.torch.wrap(copy.deepcopy(want))
        for model, use in ((want, contextlib.nullcontext()), (wrapped, by_tempo(wrapped))):
            accelerate.state.AcceleratorState._reset_state(True)
            accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=2)
            ready, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), batches())
            with use:
                for batch in data:
                    with accelerator.accumulate(ready):
                        accelerator.backward(ready(**batch).loss)
                        accelerator.clip_grad_norm_(ready.parameters(), 1.0)
                        optimizer.step()
                        optimizer.zero_grad()
            assert accelerator.unwrap_model(ready) is model
        same_weights(wrapped, want, exact)
        exact = want


def check_lightning():
    if not have("lightning"):
        return print("lightning: skipped, it is not here")
    import lightning

    class Task(lightning.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def training_step(self, batch, index):
            return self.model(**batch).loss

        def validation_step(self, batch, index):
            self.log("loss", self.model(**batch).loss)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    want = bert()
    wrapped = tempo.torch.wrap(copy.deepcopy(want))
    found = []
    for model, use in ((want, contextlib.nullcontext()), (wrapped, by_tempo(wrapped))):
        with use, tempfile.TemporaryDirectory() as folder:
            trainer = lightning.Trainer(accelerator="cpu", max_steps=4, logger=False, enable_progress_bar=False,
                                        enable_model_summary=False, default_root_dir=folder, gradient_clip_val=1.0)
            trainer.fit(Task(model), batches(), batches(8))
            found.append(float(trainer.callback_metrics["loss"]))
    same_weights(wrapped, want)
    assert abs(found[0] - found[1]) <= GRADIENT, found


def check_peft():
    """LoRA: adapters train alone; switched, merged, taken apart, each is seen."""
    if not have("peft"):
        return print("peft: skipped, it is not here")
    import peft

    def lora():
        torch.manual_seed(0)
        config = peft.LoraConfig(r=4, target_modules=["query", "value"], lora_dropout=0.0, init_lora_weights=False)
        model = peft.get_peft_model(bert(), config)
        model.add_adapter("other", config)
        return model

    want, wrapped = lora(), tempo.torch.wrap(lora())
    batch = next(iter(batches()))
    for act in (lambda m: m, lambda m: m.set_adapter("other"), lambda m: m.merge_adapter(),
                lambda m: m.unmerge_adapter(), lambda m: m.set_adapter("default")):
        with by_tempo(wrapped):
            for m in (want, wrapped):
                act(m)
                m.zero_grad()
                loss = m(**batch).loss
                if loss.requires_grad:  # of merged adapters none is trained
                    loss.backward()
        for (name, p), (_, q) in zip(wrapped.named_parameters(), want.named_parameters()):
            assert (p.grad is None) == (q.grad is None) and p.requires_grad == q.requires_grad, name
            assert q.grad is None or torch.allclose(p.grad, q.grad, atol=1e-6, rtol=1e-3), name
    with wrapped.disable_adapter(), want.disable_adapter():
        assert torch.allclose(wrapped(**batch).loss, want(**batch).loss)


def check_peft_methods():
    """Each method: the adapters' state after updates, and what save_pretrained writes; the base's memory is shared."""
    if not have("peft"):
        return print("peft: skipped, it is not here")
    import peft
    qv = {"target_modules": ["query", "value"]}
    methods = {"DoRA": peft.LoraConfig(r=4, use_dora=True, **qv),
               "modules_to_save": peft.LoraConfig(r=4, modules_to_save=["classifier"], **qv),
               "IA3": peft.IA3Config(feedforward_modules=[], **qv),
               "prompts": peft.PromptTuningConfig(num_virtual_tokens=3, task_type="SEQ_CLS")}
    batch = next(iter(batches()))
    for name, config in methods.items():
        torch.manual_seed(0)
        want = peft.get_peft_model(bert(), config)
        plain = copy.deepcopy(want)
        wrapped, states = tempo.torch.wrap(plain), []
        with by_tempo(wrapped):
            for m in (want, wrapped):
                optimizer = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], 0.01)
                for _ in range(3):
                    m(**batch).loss.backward()
                    assert all((p.grad is None) or p.requires_grad for p in m.parameters()), name
                    optimizer.step()
                    optimizer.zero_grad()
                states.append(peft.get_peft_model_state_dict(m))
        assert all(p is q for p, q in zip(wrapped.parameters(), plain.parameters())), name
        assert states[0].keys() == states[1].keys(), name
        for key, value in states[0].items():
            assert (states[1][key] - value).norm() <= 1e-5 * value.norm() + 1e-7, (name, key)
        with tempfile.TemporaryDirectory() as folder:
            wrapped.save_pretrained(folder)
            again = peft.PeftModel.from_pretrained(bert(), folder)
            saved = peft.get_peft_model_state_dict(again)
            assert all(torch.equal(saved[key], value) for key, value in states[1].items()), name


if __name__ == "__main__":
    run_checks(globals())
