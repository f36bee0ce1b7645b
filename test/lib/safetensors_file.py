"""The safetensors format in a few lines of Python, written from its description, for tests: what C writes is read by
read(), what C reads is written by write()."""
import json
import struct

import numpy as np

TYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "F16": "f2", "BF16": "u2", "U32": "u4",
         "I32": "i4", "F32": "f4", "U64": "u8", "I64": "i8", "F64": "f8"}
NAMES = {np.dtype(code): name for name, code in reversed(TYPES.items())}  # u2 is U16


def read(path):
    """(arrays, types, metadata); elements of BF16 are their bits. Asserts all that the format demands."""
    with open(path, "rb") as f:
        data = f.read()
    length, = struct.unpack("<Q", data[:8])
    pairs = json.loads(data[8:8 + length].decode(), object_pairs_hook=list)
    header = {name: dict(fields) for name, fields in pairs}
    assert data[8:9] == b"{" and len(pairs) == len(header)
    metadata = header.pop("__metadata__", {})
    arrays, types, places = {}, {}, []
    for name, fields in header.items():
        assert sorted(fields) == ["data_offsets", "dtype", "shape"]
        begin, end = fields["data_offsets"]
        places.append((begin, end))
        types[name] = fields["dtype"]
        arrays[name] = np.frombuffer(data[8 + length + begin:8 + length + end],
                                     "<" + TYPES[types[name]]).reshape(fields["shape"])
    places.sort()
    assert [p[0] for p in places] == [0, *(p[1] for p in places)][:len(places)], places
    assert not places or places[-1][1] == len(data) - 8 - length
    return arrays, types, metadata


def pack(header, elements=b"", pad=0):
    """A file of any header, a text or what JSON makes of it."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode("utf-8", "surrogateescape") + b" " * pad
    return struct.pack("<Q", len(text)) + text + elements


def describe(arrays, types=()):
    """What the header says of arrays, in their order."""
    header, at = {}, 0
    for name, array in arrays.items():
        dtype = dict(types).get(name) or NAMES[array.dtype]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    return header


def write(path, arrays, metadata=None, types=(), pad=0):
    header = describe(arrays, types)
    if metadata is not None:
        header = {"__metadata__": metadata, **header}
    with open(path, "wb") as f:
        f.write(pack(header, b"".join(a.tobytes() for a in arrays.values()), pad))
