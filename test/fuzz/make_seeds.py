"""make_seeds.py FOLDER TARGET: seeds for a fuzz target, and FOLDER.dict with the words of the format. Node models of
ONNX's backend suite stand for every op; small models with functions, subgraphs, external, sparse and typed data and
nested messages stand for the reader's branches."""
import glob
import io
import os
import re
import sys
import warnings
import zipfile

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h
from onnx.backend.test.loader import load_model_tests

warnings.filterwarnings("ignore")
folder = sys.argv[1]
LARGEST = 8192  # bytes: small seeds mutate better


def save(name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def field(number, data):
    def varint(n):
        return bytes([n]) if n < 0x80 else bytes([n & 0x7F | 0x80]) + varint(n >> 7)
    return varint(number << 3 | 2) + varint(len(data)) + data


def small_models():
    v = lambda name, *shape, t=T.FLOAT: h.make_tensor_value_info(name, t, shape)
    f = h.make_function("l", "f", ["a"], ["b"],
                        [h.make_node("Relu", ["a"], ["t"]), h.make_node("g", ["t"], ["b"], domain="l")],
                        [h.make_opsetid("", 21), h.make_opsetid("l", 1)], ["k"], [h.make_attribute("d", 1)])
    f.node[0].attribute.add(name="x", type=2, ref_attr_name="k")
    g = h.make_function("l", "g", ["a"], ["b"], [h.make_node("Abs", ["a"], ["b"])], [h.make_opsetid("", 21)])
    ext = T(name="E", data_type=1, dims=[2], data_location=1)
    ext.external_data.add(key="location", value="w")
    ext.external_data.add(key="offset", value="8")
    sparse = onnx.SparseTensorProto(values=T(name="S", data_type=1, dims=[2], float_data=[1, 2]), dims=[2, 3],
                                    indices=T(data_type=7, dims=[2, 2], int64_data=[0, 1, 1, 0]))
    then = h.make_graph([h.make_node("Neg", ["X"], ["p"])], "then", [], [v("p", 2)],
                        [T(name="c", data_type=7, dims=[1], raw_data=bytes(8))])
    els = h.make_graph([h.make_node("Abs", ["X"], ["q"])], "else", [], [v("q", 2)], value_info=[v("gone", 1)])
    nodes = [h.make_node("f", ["X", "", "E"], ["u"], name="call", domain="l", k=1),
             h.make_node("If", ["C"], ["Y"], then_branch=then, else_branch=els)]
    graph = h.make_graph(nodes, "g", [v("X", "n", 2), v("C", t=T.BOOL)], [v("Y", None, 2), v("u", "n + 1")], [ext],
                         value_info=[v("S", 2, 3)])
    graph.sparse_initializer.append(sparse)
    graph.quantization_annotation.add(tensor_name="X")
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("l", 1)], functions=[f, g])
    yield "mixed", m.SerializeToString()
    typed = h.make_graph([h.make_node("Identity", ["W"], ["Y"])], "g", [], [v("Y", 3)],
                         [T(name="W", data_type=d, dims=[3], **{k: [1, 0, 1]}) for d, k in ((10, "int32_data"),)])
    for d, k in ((2, "int32_data"), (9, "int32_data"), (12, "uint64_data"), (11, "double_data"), (7, "int64_data"),
                 (1, "float_data")):
        typed.initializer.add(name=k + str(d), data_type=d, dims=[3], **{k: [1, 0, 1]})
    typed.initializer.add(name="str", data_type=8, dims=[1], string_data=[b"s"])
    typed.initializer.add(name="i4", data_type=22, dims=[3], raw_data=b"\x21\x03")
    yield "typed", h.make_model(typed, opset_imports=[h.make_opsetid("", 21)]).SerializeToString()


def bombs():
    head = b"\x08\x0a" + field(8, b"\x10\x15")
    deep = b""
    for _ in range(3000):
        deep = field(1, field(5, field(6, deep)))
    yield "deep", head + field(7, deep)
    deep = b""
    for _ in range(3000):
        deep = field(4, field(1, deep))
    yield "deep_type", head + field(7, field(11, field(1, b"x") + field(2, deep)))
    yield "merge", head + field(7, b"") * 3000
    yield "nodes", head + field(7, field(1, b"") * 3000)


def texts():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "text"))
    import text_cases as cases
    models = list(cases.GRAPHS.values()) + list(cases.OURS.values()) + [text for text, _ in cases.REFUSED.values()]
    models += [cases.MAIN + text for text in cases.FUNCTIONS.values()]
    texts = [cases.HEADER + text for text in models] + [h + cases.GRAPHS["smallest"] for h in cases.HEADERS.values()]
    texts += ["F" + text for text in cases.FUNCTIONS.values()]                       # one function
    texts += ["I" + cases.HEADER + cases.MAIN + text for text in cases.FUNCTIONS.values()]  # inlined
    for i, text in enumerate(texts):
        yield f"text{i}", text.encode()


def rules():
    """Each rule of the product and of the tests, and the graphs of canonicalize's tests behind an M."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

    def found(suffix, *folders):
        for folder in folders:
            yield from sorted(glob.glob(os.path.join(root, folder, "**", "*" + suffix), recursive=True))
    for file in found(".rules", "passes/rules/texts", "test/rules"):
        for i, rule in enumerate(re.split(r"\n(?=rule|gradient)", open(file).read())):
            yield f"{os.path.basename(file)}{i}", rule.encode()
    for file in found(".onnxt", "test/passes", "test/rules"):
        yield os.path.basename(file), b"M" + open(file, "rb").read()


def checkpoints():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "io"))
    import checkpoints
    arrays = checkpoints.small()
    yield "trained", checkpoints.checkpoint(arrays)
    yield "frozen", checkpoints.checkpoint({}, arrays, version=1)
    yield "outside", checkpoints.checkpoint(arrays, more=[(6, ("Int64", 64))])
    yield "nominal", checkpoints.checkpoint(arrays, state=[(2, "Bool", True)])


def safetensors():
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
    import safetensors_file as st
    w = {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}
    v = {"dtype": "I8", "shape": [], "data_offsets": [8, 9]}
    yield "two", st.pack({"__metadata__": {"format": "pt", "a": ""}, "w": w, "v": v}, bytes(9))
    yield "escapes", st.pack('{"\\u00e4\\ud83d\\ude00\\n": {"shape": [0], "data_offsets": [0, 0], "dtype": "BF16"} }  ')
    yield "many", st.pack({str(i): {**v, "data_offsets": [i, i + 1]} for i in range(200)}, bytes(200))


def archives():
    arrays = {"x": np.arange(6.0).reshape(2, 3), "y.offsets": np.array([0, 2, 5]), "\u00e9": np.zeros(0, "?")}
    for name, how in (("stored", np.savez), ("deflated", np.savez_compressed)):
        out = io.BytesIO()
        how(out, **arrays)
        yield name, out.getvalue()
    yield "empty", b"PK\5\6" + bytes(18)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # so many members that numbers of 64 bits are needed
        zipfile.ZIP_FILECOUNT_LIMIT = 0
        archive.writestr("x.npy", b"")
    yield "zip64", out.getvalue()


words = ["location", "offset", "length", "ai.onnx", "then_branch", "value", "axis", "Constant", "If", "Loop"]
if sys.argv[2] == "fuzz_text":
    sources = [texts()]
    words += ["=>", "float[", "seq(", "ints", "floats", "tensor", "graph", "inf", "nan", "opset_import", "domain",
              "ir_version"]
elif sys.argv[2] == "fuzz_checkpoint":
    sources, words = [checkpoints()], ["ODTC", "\\x04\\x00\\x00\\x00", "\\xff\\xff\\xff\\xff"]
elif sys.argv[2] == "fuzz_safetensors":
    sources = [safetensors()]
    words = ["__metadata__", "dtype", "shape", "data_offsets", "F32", "BOOL", "},", "\\\\u0041", "\\x00\\x00\\x00"]
elif sys.argv[2] == "fuzz_zip":
    sources = [archives()]
    words += ["PK\\x01\\x02", "PK\\x03\\x04", "PK\\x05\\x06", "PK\\x06\\x06", "PK\\x06\\x07", "\\xff\\xff\\xff\\xff",
              "\\x93NUMPY", "descr", "fortran_order", "shape"]
elif sys.argv[2] == "fuzz_rules":
    sources = [rules()]
    words += ["rule", "match", "where", "replace", "gradient", "inexact", "benefit=", "=>", "attrs = @", "recip(",
              "neg(", "add(", "mul(", "Mul(",
              "Add(", "Neg(", "Erf(", "ReduceLike(", "Dropout", "Where(", "Transpose", "Reshape", "float(", "pow2(",
              "same_shape(", "x", "y", "dy"]
else:
    node_cases = ((c.name, c.model.SerializeToString()) for c in load_model_tests(kind="node")
                  if not c.name.endswith("_expanded"))
    sources = [small_models(), bombs(), ((name, data) for name, data in node_cases if len(data) < LARGEST)]
for source in sources:
    for name, data in source:
        save(name, data)
with open(folder + ".dict", "w") as f:
    f.writelines(f'"{w}"\n' for w in words)
