"""Reads and prints ONNX text beside onnx's own parser and printer. Both must find the same model in a text, and onnx
must find the same model in our print as in its own. Run by Meson: cross_check.py TEXT_CHECK SCRATCH_FOLDER"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, parser, printer

from programs import case, finish, run as run_any
from text_cases import FUNCTIONS, GRAPHS, HEADER, HEADERS, MAIN, OURS, PRINTER_LOSES, REFUSED

TOOL, SCRATCH = sys.argv[1], sys.argv[2]


def run(*words, code=0):
    return run_any(TOOL, *words, code=code, timeout=60)


def is_read(path):
    run(path)


def put(name, text):
    path = os.path.join(SCRATCH, name)
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path


def packed(tensor):
    """Little-endian bytes of a tensor, from whichever field holds them."""
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    fields = {TensorProto.FLOAT: ("float_data", "<f4"), TensorProto.COMPLEX64: ("float_data", "<f4"),
              TensorProto.DOUBLE: ("double_data", "<f8"), TensorProto.COMPLEX128: ("double_data", "<f8"),
              TensorProto.INT64: ("int64_data", "<i8"), TensorProto.UINT64: ("uint64_data", "<u8"),
              TensorProto.UINT32: ("uint64_data", "<u4"), TensorProto.INT32: ("int32_data", "<i4")}
    two = (TensorProto.INT16, TensorProto.UINT16, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    field, code = fields.get(tensor.data_type, ("int32_data", "<u2" if tensor.data_type in two else "u1"))
    return np.array(list(getattr(tensor, field)), dtype=object).astype("<i8" if "i4" in code
                                                                       or "u" in code
                                                                       else code).astype(code).tobytes() \
        if code not in ("<i8", "<u8") else np.array(list(getattr(tensor, field)), dtype=code).tobytes()


def plain_tensor(tensor):
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type == TensorProto.STRING:
        return
    data = packed(tensor)
    for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.raw_data = data


def plain(message):
    """The message without differences that mean nothing: empty fields that are there, typed or raw data, ai.onnx for
    the empty domain, dims of -1."""
    for field, value in message.ListFields():
        many = hasattr(value, "append") or hasattr(value, "add")
        if field.type == field.TYPE_MESSAGE:
            for part in value if many else [value]:
                plain(part)
        elif not many and field.name == "domain" and value == "ai.onnx":
            message.domain = ""
        elif not many and field.name == "dim_value" and value < 0:
            message.ClearField("dim_value")
    if isinstance(message, TensorProto):
        plain_tensor(message)
    if isinstance(message, onnx.FunctionProto):
        message.ClearField("doc_string")
    keep = ("s", "i", "f", "dim_value", "raw_data", "producer_name", "producer_version", "value")
    for field, value in message.ListFields():
        single = field.type in (field.TYPE_STRING, field.TYPE_BYTES) and not hasattr(value, "append")
        if single and not value and field.name not in keep:
            message.ClearField(field.name)
    if isinstance(message, onnx.ModelProto) and not message.domain:
        message.ClearField("domain")
    return message


def same(a, b, what):
    # NaN differs from itself, so the bytes are compared.
    if plain(a).SerializeToString(deterministic=True) != plain(b).SerializeToString(deterministic=True):
        raise AssertionError(f"{what}:\n{a}\n--- and\n{b}")


def check_text(name, text):
    theirs = parser.parse_model(text)
    source, out, proto = put("in.onnxt", text), os.path.join(SCRATCH, "out.onnxt"), os.path.join(SCRATCH, "out.onnx")
    run(source, "--text", out, "--onnx", proto)
    same(onnx.load(proto, load_external_data=False), parser.parse_model(text), "what we read is not what onnx reads")
    with open(out, encoding="utf-8", newline="") as f:
        same(parser.parse_model(f.read()), theirs, "onnx reads our print as another model")
    if name not in PRINTER_LOSES:
        run(put("theirs.onnxt", printer.to_text(parser.parse_model(text))), "--like", source)


def check_model(name, model):
    path, out = os.path.join(SCRATCH, "in.onnx"), os.path.join(SCRATCH, "out.onnxt")
    onnx.save(model, path)
    run(path, "--text", out)
    theirs = printer.to_text(model)
    with open(out, encoding="utf-8", newline="") as f:
        same(parser.parse_model(f.read()), parser.parse_model(theirs),
             "onnx reads our print as another model than its own")
    run(put("theirs.onnxt", theirs), "--like", out)


def make_model(nodes, inputs, outputs, initializers=(), value_info=(), **words):
    graph = helper.make_graph(nodes, "made", inputs, outputs, initializers, value_info=value_info)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, **words)


def made_models():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", None, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    relu = helper.make_node("Relu", ["x"], ["y"], name="a/b")
    yield "plain", make_model([relu], [x], [y], producer_name="p", doc_string="doc \"quoted\"\n")
    rng = np.random.default_rng(1)
    inits = []
    for t in ("float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool float16").split():
        bits = np.frombuffer(rng.bytes(64), dtype=np.uint8)
        array = (bits & 1).astype(bool) if t == "bool" else bits.view(t)
        array = np.nan_to_num(array) if "float" in t else array
        inits.append(onnx.numpy_helper.from_array(array.copy(), t + "_raw"))
        inits.append(helper.make_tensor(t + "_typed", inits[-1].data_type, array.shape, array))
    inits.append(helper.make_tensor("strings", TensorProto.STRING, [2], ["a", 'b "\\']))
    inits.append(helper.make_tensor("empty", TensorProto.FLOAT, [0, 3], []))
    yield "initializers", make_model([relu], [x], [y], inits)
    yield "sequence", make_model([helper.make_node("SequenceConstruct", ["x"], ["s"]),
                                  helper.make_node("SequenceAt", ["s", "i"], ["y"])],
                                 [x, helper.make_tensor_value_info("i", TensorProto.INT64, [])], [y],
                                 value_info=[helper.make_value_info("s", helper.make_sequence_type_proto(x.type))])
    branch = [helper.make_graph([helper.make_node(op, ["x"], [op])], op.lower(), [],
                                [helper.make_tensor_value_info(op, 1, ["N", None, 3])])
              for op in ("Neg", "Abs")]
    yield "nested", make_model([helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1])],
                               [x, helper.make_tensor_value_info("c", TensorProto.BOOL, [])], [y])


def numbers(count):
    """Floats and doubles of all sizes, as bit patterns; no NaN, whose payload text does not hold."""
    rng = np.random.default_rng(7)
    for dtype in (np.float32, np.float64):
        values = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype=dtype)
        round_ones = np.array([0.0, -0.0, 1, -1, 0.1, 1e5, 123456, 1e-4, 1e-5, 0.001, 1e10, 16777216, 16777217, 5e-324,
                               1e15, 1e16, 1e17, 1e22,
                               1e23, 123456789, 0.000123456, np.inf, -np.inf, 3.4028234663852886e38, 1.17549435e-38,
                               1e-45], dtype=dtype)
        powers = np.ldexp(np.ones(60), rng.integers(-120, 120, 60)).astype(dtype)
        values = np.concatenate([values[~np.isnan(values)], round_ones, powers,
                                 np.float64(rng.integers(-10**6, 10**6, 500)).astype(dtype) / 1000])
        yield dtype.__name__, values.astype(dtype)


def check_numbers():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [])
    for name, values in numbers(20000):
        model = make_model([], [x], [x], [onnx.numpy_helper.from_array(values, name)])
        path, out = os.path.join(SCRATCH, "in.onnx"), os.path.join(SCRATCH, "out.onnxt")
        onnx.save(model, path)
        run(path, "--text", out)
        ours, theirs = ([w for w in text.replace("{", ",").replace("}", ",").split(",")]
                        for text in (open(out).read(), printer.to_text(model)))
        longer = [(a, b) for a, b in zip(ours, theirs) if a != b]
        # At powers of two the shortest decimal may be another than the nearest of its length: ours has one digit more
        # there.
        if len(ours) != len(theirs) or len(longer) > len(ours) // 1000 or any(float(a) != float(b) for a, b in longer):
            raise AssertionError(f"numbers are spelled otherwise: {longer[:5]}")


def check_refused(text, message):
    done = run(put("bad.onnxt", text), code=None)
    code, output = done.code, done.text
    placed = "bad.onnxt:1:" in output
    if code not in (2, 4) or message not in output or placed != ("^" in output):
        raise AssertionError(f"exit code {code}, expected '{message}', found: {output}")


def main():
    os.makedirs(SCRATCH, exist_ok=True)
    cases = [(f"graph: {n}", check_text, (n, HEADER + t)) for n, t in GRAPHS.items()]
    cases += [(f"header: {n}", check_text, (n, t + GRAPHS["smallest"])) for n, t in HEADERS.items()]
    cases += [(f"function: {n}", check_text, (n, HEADER + MAIN + t)) for n, t in FUNCTIONS.items()]
    ours = '<ir_version: 10, opset_import: ["": 21, "my-ops": 1]>\n'
    cases += [(f"ours: {n}", is_read, (put(f"ours{i}.onnxt", ours + t),)) for i, (n, t) in enumerate(OURS.items())]
    cases += [(f"model: {n}", check_model, (n, m)) for n, m in made_models()]
    cases += [("numbers", check_numbers, ())]
    cases += [(f"refused: {n}", check_refused, (HEADER.strip() + " " + t, m)) for n, (t, m) in REFUSED.items()]
    for name, function, arguments in cases:
        case(name, function, *arguments)
    finish()


main()
