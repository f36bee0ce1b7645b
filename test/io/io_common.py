"""What the tests of this folder share: runs of a program (the first argument) under limits, what a refusal is, and
small models and raw protobuf fields to break."""
import os
import re
import sys
import tempfile

import onnx
from onnx import TensorProto as T, helper as h

import programs
from programs import bytes_of, check, finish, watched, write  # noqa: F401

TOOL = os.path.abspath(sys.argv[1])
MAX_SECONDS, MAX_BYTES = 1.0, 100 << 20


def run(*args, cwd=None):
    return watched(TOOL, *args, cwd=cwd)


def refused(name, result, code, *words):
    """One clear line that names the culprit, the right exit code, within the limits."""
    lines = result.err.splitlines()
    check(result.code == code, name, "exit", result.code, "expected", code, result.err[:300])
    check(len(lines) == 1 and ": error: " in result.err, name, "not one line:", result.err[:500])
    check(all(w in result.err for w in words), name, "expected", words, "in", result.err[:300])
    check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.err), name, "control characters:", repr(result.err[:300]))
    check(result.seconds < MAX_SECONDS and result.peak < MAX_BYTES, name,
          f"{result.seconds:.2f} s, {result.peak >> 20} MiB")


def value(name, dtype=T.FLOAT, shape=(4, 4)):
    return h.make_tensor_value_info(name, dtype, list(shape))


def model(nodes=None, inputs=None, outputs=None, initializers=(), opsets=(("", 21),), ir=10, **more):
    """Y = Relu(X), or whatever is given instead."""
    nodes = [h.make_node("Relu", ["X"], ["Y"], name="act")] if nodes is None else nodes
    graph = h.make_graph(nodes, "g", [value("X")] if inputs is None else inputs,
                         [value("Y")] if outputs is None else outputs,
                         list(initializers))
    m = h.make_model(graph, ir_version=ir, opset_imports=[h.make_opsetid(d, v) for d, v in opsets], **more)
    return m


def weight(**fields):
    """float W[4,4] of zeros; `fields` replace its own, None removes one."""
    t = T(name="W", data_type=T.FLOAT, dims=[4, 4], raw_data=bytes(64))
    for key, to in fields.items():
        t.ClearField(key)
        if isinstance(to, (list, tuple)):
            getattr(t, key).extend(to)
        elif to is not None:
            setattr(t, key, to)
    return t


def with_weight(**fields):
    return model([h.make_node("Add", ["X", "W"], ["Y"], name="add")], initializers=[weight(**fields)])


def varint(n):
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    """A length-delimited field (bytes) or a varint field (int)."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    return varint(number << 3 | 2) + varint(len(data)) + data


def nest(number, depth, inner=b""):
    for _ in range(depth):
        inner = field(number, inner)
    return inner
