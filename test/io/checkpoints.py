"""Checkpoints of ONNX Runtime's training tools, built here with flatbuffers' own library."""
import flatbuffers
import numpy as np
from onnx import helper


def _vector(b, offsets):
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def _numbers(b, items):
    b.StartVector(8, len(items), 8)
    for item in reversed(items):
        b.PrependInt64(item)
    return b.EndVector()


def _table(b, slots):
    """Slots: (index, function of the builder that adds the field, value)."""
    b.StartObject(max(slot for slot, _, _ in slots) + 1 if slots else 0)
    for slot, kind, value in slots:
        add = getattr(b, f"Prepend{kind}Slot")
        add(slot, value, {"UOffsetTRelative": 0, "Bool": False}.get(kind, -99))  # -99: no default
    return b.EndObject()


def _tensor(b, name, array, more=()):
    name = b.CreateString(name)
    dims, data = _numbers(b, array.shape), b.CreateByteVector(array.tobytes())
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    fields = {0: ("UOffsetTRelative", name), 2: ("UOffsetTRelative", dims), 3: ("Int32", dtype),
              4: ("UOffsetTRelative", data), **dict(more)}
    return _table(b, [(slot, kind, value) for slot, (kind, value) in fields.items() if value is not None])


def checkpoint(trained, frozen=(), version=2, state=(), more=()):
    """Bytes of a checkpoint; arrays by name. `state` and `more`: further fields of ModuleState and of tensors."""
    b = flatbuffers.Builder(1024)
    lists = [_vector(b, [_tensor(b, name, array, more) for name, array in arrays])
             for arrays in (list(trained.items()), list(dict(frozen).items()))]
    module = _table(b, [(0, "UOffsetTRelative", lists[0]), (1, "UOffsetTRelative", lists[1]), *state])
    b.Finish(_table(b, [(0, "Int32", version), (1, "UOffsetTRelative", module)]), file_identifier=b"ODTC")
    return bytes(b.Output())


def small():
    rng = np.random.default_rng(3)
    return {"w": rng.standard_normal((3, 2)).astype(np.float32), "b": rng.standard_normal(2).astype(np.float32)}
