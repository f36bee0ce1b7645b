"""npz.py TEMPO_RUN: .npz files of numpy in, ours out: every element type, layout and header version; bad files are
refused by name."""
import io
import os
import zipfile

import numpy as np
import onnx
from numpy.lib import format as npy

from compare import same_bits
from programs import check, finish, path, write
from tool import model, run

TYPES = {"float": "f4", "double": "f8", "float16": "f2", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
         "uint8": "u1",
         "uint16": "u2", "uint32": "u4", "uint64": "u8", "bool": "?"}
rng = np.random.default_rng(5)


def sample(kind, shape):
    raw = rng.integers(0, 2 if kind == "?" else 256, (*shape, np.dtype(kind).itemsize)).astype(np.uint8)
    return np.ascontiguousarray(raw).view(kind).reshape(shape)


def round_trip(array, onnx_type, save, what):
    name = model("identity.onnxt",
                 f"g ({onnx_type}[] x) => ({onnx_type}[] y) {{ y = Identity (x) }}".replace("[]", "[" + ",".join(
        f"d{i}" for i in range(array.ndim)) + "]" if array.ndim else ""))
    save(path("in.npz"))
    run(name, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    with np.load(path("out.npz")) as out:
        check(list(out) == ["y"] and same_bits(out["y"], array), f"round trip of {what}")


def names():
    """Each output comes back, under its name, or under one that tells it where the archive cannot hold it."""
    long = "x" * 65536
    cases = {"a/b": "a/b", "../up": "../up", "/top": "/top", ".": ".", "a\nb\tc": "a\nb\tc",
             "\u00e9\u4e16": "\u00e9\u4e16",
             "a\\b": "a\\b", "q.npy": "q.npy", "a\x01": "a\\x01", "\u00e9\x1f": "\u00e9\\x1F", "a\\x01": "a\\x01_2",
             long: long[:65000], long[1:]: long[:65000] + "_2", "y" + "\u4e16" * 21700: "y" + "\u4e16" * 21666}
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Add", ["x", f"c{i}"], [name]) for i, name in enumerate(cases)]
    weights = [onnx.helper.make_tensor(f"c{i}", 1, [1], [i]) for i in range(len(cases))]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [1])], [value(name, 1, [1]) for name in cases], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10),
              path("names.onnx"))
    np.savez(path("in.npz"), x=np.zeros(1, "f4"))
    run(path("names.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    with np.load(path("out.npz")) as out:
        check(out.files == list(cases.values()), f"names of outputs: {[name[:40] for name in out.files]}")
        check([float(out[name][0]) for name in out.files] == list(range(len(cases))), "values under these names")


def member(header_and_data, deflate=False):
    def save(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
            archive.writestr("x.npy", header_and_data)
    return save


def npy_bytes(array, version=None):
    out = io.BytesIO()
    npy.write_array(out, array, version=version)
    return out.getvalue()


def good_files():
    for onnx_type, kind in TYPES.items():
        for shape in ((), (0,), (3,), (2, 0, 4), (2, 3, 4)):
            array = sample(kind, shape)
            round_trip(array, onnx_type, lambda f, a=array: np.savez(f, x=a), f"{kind} {shape}")
        array = sample(kind, (3, 4, 5))
        round_trip(array, onnx_type, lambda f, a=array: np.savez(f, x=np.asfortranarray(a)), f"fortran {kind}")
        round_trip(array, onnx_type, lambda f, a=array: np.savez_compressed(f, x=a), f"deflated {kind}")
        big = array.astype(array.dtype.newbyteorder(">"))
        round_trip(array, onnx_type, lambda f, a=big: np.savez(f, x=a), f"big-endian {kind}")
    array = np.arange(6.0, dtype="f4").reshape(2, 3)
    for version in ((1, 0), (2, 0), (3, 0)):
        round_trip(array, "float", member(npy_bytes(array, version)), f"version {version}")
    old = npy_bytes(array)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
    unpadded = old[:8] + len(header).to_bytes(2, "little") + header + array.tobytes()
    round_trip(array, "float", member(unpadded), "unpadded header")
    deep = sample("f4", (1,) * 20)
    round_trip(deep, "float", lambda f: np.savez(f, x=deep), "rank 20")


def bfloat16():
    """numpy has no bfloat16: it is saved as two-byte voids, and comes back so."""
    array = np.array([0x3F80, 0xC000, 0x7FC0], "u2").view("V2")
    name = model("b.onnxt",
                 "g (bfloat16[n] x) => (bfloat16[n] y, float[n] z) { y = Identity (x) z = Cast <to = 1> (x) }")
    np.savez(path("in.npz"), x=array)
    run(name, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    with np.load(path("out.npz")) as out:
        check(out["y"].tobytes() == array.tobytes() and out["y"].dtype == np.dtype("V2"), "bfloat16 comes back")
        check(out["z"][0] == 1 and out["z"][1] == -2 and np.isnan(out["z"][2]), "bfloat16 as floats")


def bad_files():
    name = model("identity.onnxt", "g (float[a,b] x) => (float[a,b] y) { y = Identity (x) }")
    good = npy_bytes(np.zeros((2, 3), "f4"))

    def refused(data, says=("'x'",), code=2, deflate=False):
        member(data, deflate)(path("bad.npz"))
        run(name, "--inputs", path("bad.npz"), code=code, says=says)

    for cut in (0, 5, 9, 11, 40, 64, len(good) - 1):
        refused(good[:cut])
    refused(good + b"\0")
    refused(b"PK" + good[2:])
    refused(good.replace(b"(2, 3)", b"(2, 9)"))
    refused(good.replace(b"(2, 3)", b"(-2,3)"))
    refused(good.replace(b"(2, 3)", b"[2, 3]"))
    refused(good.replace(b"False", b"Maybe"))
    refused(good.replace(b"'shape'", b"'shapf'"))
    refused(good.replace(b"'<f4'", b"'<c8'"), says=("'x'", "'<c8'"))
    refused(good.replace(b"'<f4'", b"'<f4\0"))
    refused(good.replace(b"(2, 3), }" + b" " * 11, b"(9999999999, 9999999)"))
    refused(good[:6] + b"\x09" + good[7:])
    refused(npy_bytes(np.array(["text"])), says=("'x'", "'<U4'"))
    refused(npy_bytes(np.zeros(2, [("a", "f4"), ("b", "f4")])), says=("'x'", "records"))

    write(path("bad.npz"), b"this is no archive")
    run(name, "--inputs", path("bad.npz"), code=2, says=("bad.npz",))
    run(name, "--inputs", path("none.npz"), code=5, says=("none.npz",))
    np.savez_compressed(path("bad.npz"), x=np.arange(60000, dtype="f4").reshape(2, -1))
    data = bytearray(open(path("bad.npz"), "rb").read())
    data[len(data) // 2] ^= 0xFF
    write(path("bad.npz"), data)
    run(name, "--inputs", path("bad.npz"), code=2, says=("'x'",))


def crafted_archives():
    """Archives that no tool writes: sizes that lie, names that are no text, arrays that nobody asked for."""
    name = model("identity.onnxt", "g (float[a,b] x) => (float[a,b] y) { y = Identity (x) }")
    good = npy_bytes(np.zeros((2, 3), "f4"))

    def with_size(size, deflate):
        """The uncompressed size of both headers, replaced."""
        member(good, deflate)(path("bad.npz"))
        data = bytearray(open(path("bad.npz"), "rb").read())
        for at in (data.find(b"PK\3\4") + 22, data.rfind(b"PK\1\2") + 24):
            data[at:at + 4] = size.to_bytes(4, "little")
        write(path("bad.npz"), data)

    for deflate in (False, True):
        for size in (0, 1, 10, 2**31, 2**32 - 2):
            with_size(size, deflate)
            run(name, "--inputs", path("bad.npz"), code=2, says=("'x'",))
        with_size(2**32 - 1, deflate)  # announces a zip64 size that is not there
        run(name, "--inputs", path("bad.npz"), code=2, says=("bad.npz", "damaged"))

    with zipfile.ZipFile(path("bad.npz"), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", good)
        file.writestr("unasked.npy", npy_bytes(np.zeros(60 << 20, "i1")))
        file.writestr("no array.txt", "text")
    text = run(name, "--inputs", path("bad.npz"),
               says=("array 'unasked' is ignored", "array 'no array.txt' is ignored"))
    check("y  float[2,3]" in text, "other members do no harm")
    with zipfile.ZipFile(path("bad.npz"), "w") as file:
        file.writestr("zzz.npy", good)
    data = open(path("bad.npz"), "rb").read().replace(b"zzz", b"\x94\x9b[")
    write(path("bad.npz"), data)
    run(name, "--inputs", path("bad.npz"), code=2, says=("\\x94\\x9B[",))


def not_over_what_is_read():
    """Outputs never replace the model or the inputs, whatever path leads to them."""
    name = model("identity.onnxt", "g (float[a] x) => (float[a] y) { y = Identity (x) }")
    np.savez(path("in.npz"), x=np.zeros(3, "f4"))
    run(name, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
    run(name, "--inputs", os.path.dirname(name), code=5, says=("is a folder",))


def written_whole():
    """A file that cannot be written leaves what was there, and nothing beside it."""
    name = model("identity.onnxt", "g (float[a] x) => (float[a] y) { y = Identity (x) }")
    np.savez(path("in.npz"), x=np.zeros(3, "f4"))
    run(name, "--inputs", path("in.npz"), "--outputs", path("no/such/out.npz"), code=5, says=("no/such: No such file",))
    run(name, "--inputs", path("in.npz"), "--outputs", "/dev/null", code=5, says=("/dev/null",))
    first = path("first.npz")
    run(name, "--inputs", path("in.npz"), "--outputs", first)
    before = open(first, "rb").read()
    run(name, "--inputs", path("in.npz"), "--outputs", first)
    check(open(first, "rb").read() == before, "the same outputs give the same bytes")
    check(not [f for f in os.listdir(os.path.dirname(first)) if "tmp" in f], "no temporary file is left")


good_files()
bfloat16()
names()
bad_files()
crafted_archives()
not_over_what_is_read()
written_whole()
finish()
