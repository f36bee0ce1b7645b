#!/usr/bin/env python3
"""limits.py TEMPOC TEMPO_RUN TEMPO_TRAIN MODELS [STEPS]: under limits of memory, threads and stacks each program says
so in a line and ends with 4, or ends well with the numbers that it has without a limit; and the batch of its hint fits.
Where memory may not be writable and executable, numbers are PyTorch's. STEPS: limits of addresses that are tried for
each program, evenly up to more than enough; 8."""
import ctypes
import os
import re
import resource
import sys

import numpy as np
import onnx

from compare import load, near
from programs import bytes_of, check, finish, path, run

TEMPOC, TEMPO_RUN, TEMPO_TRAIN, MODELS = sys.argv[1:5]
STEPS = int(sys.argv[5]) if len(sys.argv) > 5 else 8
LEAST, MOST = 16 << 20, 300 << 20  # bytes: below, the system cannot begin; more than any of these takes
PR_SET_MDWE = 65


def limit(which, amount):
    return lambda: resource.setrlimit(which, (amount, resource.getrlimit(which)[1]))


def write_layers(width=128, layers=6, samples=8192):
    """A model whose batch takes more than all else, and data for it."""
    text = "".join(f"h{i} = MatMul(r{i}, w{i})\nr{i + 1} = Gelu(h{i})\n" for i in range(layers))
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 20]> g (float[batch,{width}] r0) => (float loss) {{ {text}'
        f"sq = Mul(r{layers}, r{layers})\nloss = ReduceMean<keepdims = 0>(sq) }}")
    draw = np.random.default_rng(1)
    for i in range(layers):
        weight = (draw.standard_normal((width, width)) * 0.1).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, f"w{i}"))
    onnx.save(model, path("layers.onnx"))
    np.savez(path("layers.npz"), r0=draw.standard_normal((samples, width)).astype(np.float32))


def files_of(names):
    """The bytes of these files, as far as there are such; they are gone then."""
    kept = {}
    for name in names:
        if os.path.exists(path(name)):
            kept[name] = bytes_of(path(name))
            os.remove(path(name))
    return kept


def sweep(name, *command, writes=()):
    """Whatever the limit: the result without one, or a line about it, and the batch of its hint fits."""
    want = run(*command).out, files_of(writes)
    ended = hints = 0
    for bytes_ in np.linspace(LEAST, MOST, STEPS).astype(int):
        held = {"preexec_fn": limit(resource.RLIMIT_AS, int(bytes_)), "code": None}
        done = run(*command, **held)
        got = done.out, files_of(writes)
        ended += done.code == 0
        is_told = done.code == 4 and re.search(r"memory|threads", done.err)
        is_unloaded = done.code == 127 and "error while loading shared libraries" in done.err
        is_unmapped = done.code < 0 and run(command[0], "--version", **held).code == done.code  # the kernel's exec
        check(is_told or is_unloaded or is_unmapped or done.code == 0 and got == want,
              f"{name} in {bytes_ >> 10} KiB: {done.code}: {done.err[-400:]}")
        hint = re.search(r"hint: (--batch=\d+)", done.err)
        if hint:
            hints += 1
            again = run(*command, hint.group(1), **held)
            check(again.code == 0, f"{name} {hint.group(1)} in {bytes_ >> 10} KiB: {again.code}: {again.err[-400:]}")
    print(f"{name}: {ended} of {STEPS} limits do, {hints} hints")
    check(ended > 0, f"{name}: no limit was enough")


def check_sweeps():
    write_layers()
    for name in ("bert-dyn_18", "gpt2-dyn_21-bfloat16", "vit-dyn_18", "t5-dyn_18"):
        model, inputs = f"{MODELS}/{name}/model.onnx", f"{MODELS}/{name}/inputs.npz"
        sweep(f"tempo-run {name}", TEMPO_RUN, model, "--inputs", inputs, "--threads=2", "--outputs", path("out.npz"),
              writes=["out.npz"])
        sweep(f"tempoc {name}", TEMPOC, model, "-o", path("out.onnx"), "--quiet", writes=["out.onnx"])
    train = [TEMPO_TRAIN, path("layers.onnx"), "--data", path("layers.npz"), "--steps=2", "--threads=1", "-q"]
    sweep("tempo-train", *train, "--batch=8192", "--save-weights", path("w.npz"), writes=["w.npz"])
    sweep("tempo-train bfloat16", *train, "--batch=8192", "--precision=bf16", "--save-weights", path("w.npz"),
          writes=["w.npz"])


def check_threads_and_stacks():
    command = [TEMPO_RUN, f"{MODELS}/bert-dyn_18/model.onnx", "--inputs", f"{MODELS}/bert-dyn_18/inputs.npz"]
    for name, words, how in (
            ("small stacks of OpenMP's", "a thread's stack is smaller", {"env": {"OMP_STACKSIZE": "512k"}}),
            ("small stacks", "a thread's stack is smaller", {"preexec_fn": limit(resource.RLIMIT_STACK, 1 << 20)}),
            ("threads", "256 threads cannot be started", {"preexec_fn": limit(resource.RLIMIT_AS, 400 << 20)}),
            ("what OpenMP ends by itself", "a library has ended the process",
             {"env": {"OMP_STACKSIZE": "800M"}, "preexec_fn": limit(resource.RLIMIT_AS, 400 << 20)})):
        done = run(*command, f"--threads={256 if name == 'threads' else 2}", code=None, **how)
        check(done.code == 4 and words in done.err, f"{name}: {done.code}: {done.err}")


def no_new_code():
    if ctypes.CDLL(None).prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0:
        os._exit(99)


def check_no_new_code():
    if run("true", code=None, preexec_fn=no_new_code).code == 99:
        print("this system cannot deny new code: not tried")
        return
    for name in ("bert-dyn_18", "gpt2-dyn_21-bfloat16", "vit-dyn_18", "llama-dyn_21", "convnorms-plain_23"):
        run(TEMPOC, f"{MODELS}/{name}/model.onnx", "-o", path("t.onnx"), "--quiet", preexec_fn=no_new_code)
        run(TEMPO_RUN, path("t.onnx"), "--inputs", f"{MODELS}/{name}/inputs.npz", "--outputs", path("out.npz"),
            preexec_fn=no_new_code)
        got, want = load(path("out.npz")), load(f"{MODELS}/{name}/expected.npz")
        tolerance = {"rtol": 0.02, "atol": 0.02} if "bfloat16" in name else {"rtol": 1e-3, "atol": 1e-4}
        for output in want.keys() & got.keys():
            check(near(got[output], want[output], tolerance), f"{name}: {output} is not PyTorch's")
        check(len(want.keys() & got.keys()) > 1, f"{name}: nothing was compared")


check_no_new_code()
check_threads_and_stacks()
check_sweeps()
finish()
