#!/usr/bin/env python3
"""Compares inferred types with independent sources.

    crosscheck.py DUMP_TYPES                 the node cases of ONNX's backend suite: types of the reference outputs
    crosscheck.py DUMP_TYPES model.onnx ...  models: what onnx.shape_inference says of every value

A type is `dtype[dims]`. Where both sides know a dim as a number, the numbers must be the same; ranks and element types
likewise. A case that is refused must be refused as unsupported (exit code 3), never as wrong. Prints one line per
disagreement and a summary; exits 1 if there was one.
"""
import collections
import json
import os
import re
import sys

import onnx
from onnx import TensorProto

from programs import path as scratch, run

DTYPES = {number: name.lower() for name, number in TensorProto.DataType.items()}


def proto_type(value):
    """(dtype, dims or None) of a ValueInfoProto's tensor type; None for other types."""
    if not value.type.HasField("tensor_type"):
        return None
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return DTYPES[tensor.elem_type], None
    return DTYPES[tensor.elem_type], [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def dumped_type(text):
    match = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if not match or match.group(1) == "tensor":
        return None
    if match.group(2) == "...":
        return match.group(1), None
    dims = [part for part in re.split(r",\s*(?![^(]*\))", match.group(2)) if part]
    return match.group(1), [int(d) if re.fullmatch(r"-?\d+", d) else None for d in dims]


def dump(tool, paths):
    """path -> (status, {name: type text}, diagnostics)"""
    result = {}
    for start in range(0, len(paths), 200):
        for line in run(tool, *paths[start:start + 200]).out.splitlines():
            if line.startswith("FILE "):
                values, notes = {}, []
                path = line[5:]
            elif line.startswith("V "):
                name, end = json.JSONDecoder(strict=False).raw_decode(line[2:])
                values.setdefault(name, line[2 + end:].strip())
            elif line.startswith("END "):
                result[path] = (int(line[4:]), values, notes)
            else:
                notes.append(line)
    return result


def compatible(ours, theirs):
    if ours is None or theirs is None:
        return True
    if ours[0] != theirs[0] and "undefined" not in (ours[0], theirs[0]):
        return False
    if ours[1] is None or theirs[1] is None:
        return True
    return len(ours[1]) == len(theirs[1]) and all(a == b or a is None or b is None for a, b in zip(ours[1], theirs[1]))


def node_cases():
    """Writes the models; path -> expected outputs as (name, dtype, dims)."""
    from onnx.backend.test.loader import load_model_tests
    expected = {}
    for case in load_model_tests(kind="node"):
        path = scratch(case.name + ".onnx")
        onnx.save(case.model, path)
        outputs = {}
        for definition, value in zip(case.model.graph.output, case.data_sets[0][1]):
            if definition.type.HasField("tensor_type"):
                dims = list(value.dims) if isinstance(value, TensorProto) else list(getattr(value, "shape", []))
                outputs[definition.name] = (DTYPES[definition.type.tensor_type.elem_type], dims)
        expected[path] = outputs
    return expected


def model_values(path):
    model = onnx.load(path, load_external_data=False)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    graph = inferred.graph
    return {v.name: proto_type(v) for v in [*graph.input, *graph.output, *graph.value_info]}


def main():
    tool, paths = sys.argv[1], sys.argv[2:]
    expected = {path: model_values(path) for path in paths} if paths else node_cases()
    found = dump(tool, list(expected))
    count = collections.Counter()
    for path, wanted in expected.items():
        status, values, notes = found[path]
        label = path if paths else os.path.basename(path)
        if status == 3:
            count["unsupported"] += 1
            if os.environ.get("VERBOSE"):
                print("unsupported", label, *notes)
            continue
        if status != 0:
            print(f"{label}: refused with {status}: {' '.join(notes)}")
            count["wrong"] += 1
            continue
        count["inferred"] += 1
        for name, theirs in wanted.items():
            if name not in values:
                continue
            ours = dumped_type(values[name])
            count["values"] += 1
            if not compatible(ours, theirs):
                print(f"{label}: {name} is {values[name]}, expected {theirs}")
                count["wrong"] += 1
            elif ours is None or ours[1] is None or None in ours[1]:
                count["not static"] += 1
                if os.environ.get("VERBOSE"):
                    print("not static", label, name, values[name], theirs)
    print(", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    return 1 if count["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
