#!/usr/bin/env python3
"""Steps of training by tempo.torch.wrap beside plain PyTorch: transformers' BERT, GPT-2 or ViT with torch.optim.AdamW,
each way in a process of its own, on the same data, weights and threads.

usage: wrap.py BUILD_ROOT [--case bert|gpt2|vit] [--layers 4] [--hidden 768] [--batch 8] [--sequence 128]
               [--dropout 0.1] [--threads 2] [--steps 5] [--ways eager,sdpa,exact,...] [--processor]
               [--torch PYTHON]
Ways: eager and sdpa are PyTorch with these attentions; others are recipes of Tempo, of the module with sdpa, and with
:loss behind them without any other output (outputs=["loss"]). Told are seconds of a step (median, after two to warm
up), the most resident memory while stepping and before that (exporting and compiling), each without what the process
had before the model was made, and the last loss.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--case", choices=["bert", "gpt2", "vit"], default="bert")
    for name, value in (("layers", 4), ("hidden", 768), ("batch", 8), ("sequence", 128), ("threads", 2), ("steps", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--vocabulary", type=int, default=30522)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--ways", default="eager,sdpa,exact,tiled,tiled:loss")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--processor", action="store_true", help="seconds of the processor, of all threads")
    parser.add_argument("--way", help=argparse.SUPPRESS)  # of the process that steps
    return parser.parse_args(argv)


def make(o, attention):
    import torch
    import transformers as tf
    d, heads = o.dropout, max(1, o.hidden // 64)
    torch.manual_seed(0)
    if o.case == "bert":
        model = tf.BertForMaskedLM(tf.BertConfig(
            vocab_size=o.vocabulary, hidden_size=o.hidden, num_hidden_layers=o.layers, num_attention_heads=heads,
            intermediate_size=4 * o.hidden, max_position_embeddings=max(512, o.sequence), hidden_dropout_prob=d,
            attention_probs_dropout_prob=d, attn_implementation=attention))
    elif o.case == "gpt2":
        model = tf.GPT2LMHeadModel(tf.GPT2Config(
            vocab_size=o.vocabulary, n_embd=o.hidden, n_layer=o.layers, n_head=heads, n_positions=max(512, o.sequence),
            resid_pdrop=d, embd_pdrop=d, attn_pdrop=d, bos_token_id=1, eos_token_id=1, use_cache=False,
            attn_implementation=attention))
    else:
        model = tf.ViTForImageClassification(tf.ViTConfig(
            hidden_size=o.hidden, num_hidden_layers=o.layers, num_attention_heads=heads, intermediate_size=4 * o.hidden,
            image_size=224, patch_size=16, num_labels=10, hidden_dropout_prob=d, attention_probs_dropout_prob=d,
            attn_implementation=attention))
    g = torch.Generator().manual_seed(1)
    if o.case == "vit":
        return model.train(), {"pixel_values": torch.randn(o.batch, 3, 224, 224, generator=g),
                               "labels": torch.randint(0, 10, (o.batch,), generator=g)}
    ids = torch.randint(5, o.vocabulary, (o.batch, o.sequence), generator=g)
    return model.train(), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def resident(key):
    """KiB, from the kernel: VmRSS now, VmHWM the most since it was reset."""
    with open("/proc/self/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def step_in(o):
    """The process of one way: prints its numbers as a line of JSON."""
    import torch
    torch.set_num_threads(o.threads)
    plain = o.way in ("eager", "sdpa")
    if not plain:
        import tempo.torch
    import transformers  # noqa: F401
    base = resident("VmRSS")
    model, feeds = make(o, "eager" if o.way == "eager" else "sdpa")
    forget_peak()
    if not plain:
        recipe, _, only = o.way.partition(":")
        model = tempo.torch.wrap(model, feeds, recipe=recipe, outputs=[only] if only else None)
    before = resident("VmHWM") - base
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    seconds, now = [], time.process_time if o.processor else time.perf_counter
    for step in range(o.steps + 2):
        if step == 2:
            forget_peak()
        start = now()
        optimizer.zero_grad()
        loss = model(**feeds).loss
        loss.backward()
        optimizer.step()
        seconds.append(now() - start)
    print(json.dumps({"seconds": seconds[2:], "loss": float(loss.detach()), "peak": resident("VmHWM") - base,
                      "before": before}))


def main(argv):
    o = parse(argv)
    if o.way:
        return step_in(o)
    ask = [o.torch, "-c", "import torch, transformers, onnxscript; print(torch.__version__, transformers.__version__)"]
    found = subprocess.run(ask, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        print(f"skipped: {o.torch} lacks torch, transformers or onnxscript; --torch names a Python that has them")
        return 77
    print(f"{o.case}, {o.layers} layers of {o.hidden}, batch {o.batch}, sequence {o.sequence}, dropout {o.dropout}, "
          f"{o.threads} threads; PyTorch, transformers {found.stdout.strip()}")
    print(f"  {'way':12} {'s a step':>9} {'least':>8} {'peak MiB':>9} {'before it':>9} {'loss':>9}")
    path = os.pathsep.join(filter(None, [os.path.join(HERE, "..", "python"), os.environ.get("PYTHONPATH")]))
    env = {"OMP_WAIT_POLICY": "PASSIVE", "TRANSFORMERS_VERBOSITY": "error", **os.environ, "PYTHONPATH": path,
           "TEMPO_HOME": os.path.abspath(o.build), "OMP_NUM_THREADS": str(o.threads)}
    for way in o.ways.split(","):
        done = subprocess.run([o.torch, os.path.abspath(__file__), *argv, "--way", way], env=env, check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return 1
        told = json.loads(done.stdout.splitlines()[-1])
        print(f"  {way:12} {statistics.median(told['seconds']):9.3f} {min(told['seconds']):8.3f} "
              f"{told['peak'] / 1024:9.0f} {told['before'] / 1024:9.0f} {told['loss']:9.5f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
