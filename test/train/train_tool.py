"""train_tool.py: what the tests of tempo-train share: a scratch folder, a small classifier as ONNX text and as numpy,
runs of the tool whose exit code is checked, and readers of what it writes."""
import json
import signal
import struct
import subprocess
import sys

import numpy as np

import tolerances
from compare import by_onnxruntime, session  # noqa: F401
from programs import FOLDER, bytes_of, check, failed, finish, path, text_of, told, write  # noqa: F401

TOOL = sys.argv[1]


def close(got, want, what, limit=tolerances.TRAINED):
    rtol, atol = limit["rtol"], limit["atol"]
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    same = got.shape == want.shape
    worst = np.max(np.abs(got - want) / (atol + rtol * np.abs(want)), initial=0) if same else np.inf
    check(worst <= 1, f"{what}: {worst:.3g} times the tolerance\n  got  {got.ravel()[:8]}\n  want {want.ravel()[:8]}")


def run(*args, **how):
    """Its exit code and what it prints: see told."""
    return told(TOOL, *args, timeout=120, **how)


def begin(*args):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has ignored
    return subprocess.Popen([TOOL, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process, number, code, says=()):
    """Sends the signal, and checks how the process ends."""
    process.send_signal(number)
    text, _ = process.communicate(timeout=60)
    check(process.returncode == code, f"exit code {process.returncode}, expected {code}, by signal "
          f"{signal.Signals(number).name}\n{text}")
    for words in says:
        check(words in text, f"{words!r} is not in what was printed\n{text}")


def records(name):
    """The lines of a log: updates, evaluations."""
    with open(path(name), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [r for r in lines if "eval" not in r], [r for r in lines if "eval" in r]


def losses(name):
    return [r["loss"] for r in records(name)[0]]


def safetensors(name):
    """Tensors by name, by the format's own description."""
    types = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}
    data = bytes_of(name)
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    found = {}
    for key, entry in header.items():
        first, last = (8 + length + at for at in entry["data_offsets"])
        found[key] = np.frombuffer(data[first:last], types[entry["dtype"]]).reshape(entry["shape"])
    return found


def crc32c(data):
    """Bit by bit: the reflected polynomial of RFC 3720."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


# --- a classifier: two products, tanh between them, cross-entropy ---

INPUTS, HIDDEN, CLASSES = 5, 7, 3


def classifier(name, batch="batch", dropout=0.0, extra=""):
    """A file with the classifier as ONNX text."""
    drop = f"""ratio = Constant <value = float {{{dropout}}}> ()
    training = Constant <value = bool {{1}}> ()
    h2 = Dropout <seed = 3> (h1, ratio, training)""" if dropout else "h2 = Identity (h1)"
    weights = initial()

    def initializer(key):
        w = weights[key]
        return (f"float[{','.join(map(str, w.shape))}] {key} = "
                f"{{{','.join(repr(float(v)) for v in w.ravel())}}}")
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
classifier (float[{batch},{INPUTS}] x, int64[{batch}] labels) => (float loss, float accuracy{extra})
<{', '.join(map(initializer, weights))}> {{
    h0 = MatMul (x, W1)
    h1a = Add (h0, b1)
    h1 = Tanh (h1a)
    {drop}
    s0 = MatMul (h2, W2)
    scores = Add (s0, b2)
    loss = SoftmaxCrossEntropyLoss <reduction = "mean"> (scores, labels)
    best = ArgMax <axis = 1, keepdims = 0> (scores)
    right = Equal (best, labels)
    one = Cast <to = 1> (right)
    accuracy = ReduceMean <keepdims = 0> (one)
}}
"""
    return write(path(name), text)


def initial():
    draw = np.random.default_rng(7)
    shapes = {"W1": (INPUTS, HIDDEN), "b1": (HIDDEN,), "W2": (HIDDEN, CLASSES), "b2": (CLASSES,)}
    return {key: (0.5 * draw.standard_normal(shape)).astype(np.float32) for key, shape in shapes.items()}


def samples(n, seed=1):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, INPUTS)).astype(np.float32)
    labels = (np.argmax(x[:, :CLASSES], axis=1)).astype(np.int64)
    return {"x": x, "labels": labels}


def data(name, n, seed=1):
    np.savez(path(name), **samples(n, seed))
    return path(name)


def forward(w, x, labels):
    """Loss and gradients, in double, by the chain rule."""
    x = x.astype(np.float64)
    hidden = np.tanh(x @ w["W1"] + w["b1"])
    scores = hidden @ w["W2"] + w["b2"]
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.mean(np.log(p[rows, labels]))
    d_scores = p.copy()
    d_scores[rows, labels] -= 1
    d_scores /= len(labels)
    d_hidden = (d_scores @ w["W2"].T) * (1 - hidden ** 2)
    gradients = {"W1": x.T @ d_hidden, "b1": d_hidden.sum(0), "W2": hidden.T @ d_scores, "b2": d_scores.sum(0)}
    return loss, gradients, np.mean(np.argmax(scores, axis=1) == labels)
