"""Files that must be refused, made here one defect at a time: a wire format, b versions and domains, c structure, d
tensors, e locations, f attributes. Each answer is one line that names the culprit, the right exit code, under 1 s and
100 MB."""
import random
from io_common import *

BAD, UNSUPPORTED, LIMIT = 2, 3, 4
folder = tempfile.mkdtemp()


def refuse(name, data, code, *words, mode="read"):
    if not isinstance(data, bytes):
        data = data.SerializeToString()
    path = os.path.join(folder, name + ".onnx")
    write(path, data)
    refused(name, run(mode, path), code, *words)


def accept(name, data, mode="read"):
    path = os.path.join(folder, name + ".onnx")
    write(path, data if isinstance(data, bytes) else data.SerializeToString())
    r = run(mode, path)
    check(r.code == 0 and not r.err, name, "exit", r.code, r.err[:300])


good = with_weight().SerializeToString()
accept("good", good)

# --- a: the wire ---------------------------------------------------------------------------------------------------
refuse("a01_empty", b"", BAD, "empty")
refuse("a02_random", random.Random(1).randbytes(4096), BAD, "at byte")
refuse("a03_truncated", good[: len(good) * 6 // 10], BAD, "at byte", "announced", "the file was cut off")
refuse("a04_wire_type", field(1, 10) + field(7, 5), BAD, "graph", "wire type 0, expected 2")
refuse("a05_len_huge", field(1, 10) + varint(7 << 3 | 2) + varint(2**31 - 1) + b"abcd", BAD, "2147483647",
       "only 4 left")
refuse("a05_len_64", field(1, 10) + varint(7 << 3 | 2) + varint(2**64 - 1) + b"abcd", BAD, "18446744073709551615")


def nested_ifs(depth):
    """Bytes, since the onnx package refuses to build it."""
    graph = b""
    for i in range(depth):
        body = field(2, b"o%d" % i) + (field(1, b"c") + field(4, b"If")
                                       if i else field(1, b"c") + field(4, b"Identity"))
        for branch in (b"then_branch", b"else_branch")[: 1 if i else 0]:
            body += field(5, field(1, branch) + field(6, graph) + field(20, 5))
        graph = field(1, body) + field(2, b"g") + field(12, field(1, b"o%d" % i))
    return field(1, 10) + field(8, field(2, 21)) + field(7, graph + field(11, field(1, b"c")))


accept("a06_ifs_30", nested_ifs(30))
refuse("a06_deep_if", nested_ifs(400), LIMIT, "more than 100 nested", "node[0].attribute[0]")
deep = b""
for _ in range(4000):
    deep = field(1, field(5, field(6, deep)))
refuse("a07_deep_wire", field(1, 10) + field(7, deep), LIMIT, "more than 100 nested")
deep_type = b""
for _ in range(6000):
    deep_type = field(4, field(1, deep_type))
refuse("a08_deep_type", field(1, 10) + field(7, field(11, field(1, b"x") + field(2, deep_type))), LIMIT,
       "more than 100 nested")
refuse("a09_nul_name", with_weight(name="W\0a"), BAD, "NUL", "initializer[0].name", "at byte")
refuse("utf8", good.replace(b"add", b"a\xffd"), BAD, "UTF-8", "0xFF", "graph.node[0].name")
refuse("utf8_overlong", good.replace(b"add", b"\xc0\xafd"), BAD, "UTF-8")
refuse("utf8_surrogate", good.replace(b"add", b"\xed\xa0\x80"), BAD, "UTF-8")
accept("a10_huge_name", model([h.make_node("Relu", ["X"], ["Y"], name="\x1b[2J" * 10000)]))
refuse("name_limit", model([h.make_node("Relu", ["X"], ["Y"], name="n" * 70000)]), LIMIT, "name of 70000 bytes",
       "65536")
refuse("escapes", model([h.make_node("Relu", ["\x1b[2J\n" * 1000], ["Y"], name="\x1b]0;x\x07")]), BAD,
       "defined nowhere", "\\x1B")
refuse("a11_merge_bomb", field(1, 10) + field(7, b"") * 12000, BAD, "graph", "twice")
refuse("a12_node_bomb", field(1, 10) + field(7, field(1, b"") * 24000), LIMIT, "64 KiB + 16 times")
refuse("node_bomb_small", field(1, 10) + field(8, field(2, 21)) + field(7, field(1, b"") * 20), BAD, "no op type")
refuse("value_twice", field(1, 10) + field(7, field(11, field(1, b"x") + field(2, field(1, b"") + field(4, b"")))), BAD,
       "twice")
refuse("group", field(1, 10) + varint(7 << 3 | 3) + varint(7 << 3 | 4), BAD, "wire type 3")
refuse("group_unknown", field(1, 10) + varint(500 << 3 | 3), BAD, "wire type 3 of field 500")
refuse("varint_open", field(1, 10) + varint(5 << 3) + b"\xff", BAD, "does not end", "model_version")
refuse("varint_long", field(1, 10) + varint(5 << 3) + b"\xff" * 10 + b"\x01", BAD, "64 bits")
refuse("tag_zero", field(1, 10) + b"\x00\x00", BAD, "field number 0")
refuse("tag_huge", field(1, 10) + varint((2**29 + 5) << 3) + b"\x00", BAD, "field number 536870917")
refuse("packed_open", field(1, 10) + field(7, field(5, field(7, b"\x80"))), BAD, "int64_data", "does not end")
refuse("packed_part", field(1, 10) + field(7, field(5, field(4, b"123"))), BAD, "float_data", "whole number")
refuse("not_a_model", field(2, b"producer"), BAD, "IR version")

# --- b: versions and domains ------------------------------------------------------------------------------------------
refuse("b01_no_opset", model(opsets=()), BAD, "opset_import")
refuse("b02_opset_future", model(opsets=[("", 9999)]), UNSUPPORTED, "9999", "ai.onnx")
refuse("b03_ir_future", model(ir=9999), UNSUPPORTED, "9999")
refuse("opset_zero", model(opsets=[("", 0)]), BAD, "opset 0")
refuse("opset_twice", model(opsets=[("", 21), ("ai.onnx", 17)]), BAD, "twice", "21", "17")
refuse("b05_unknown_domain", model([h.make_node("Evil", ["X"], ["Y"], name="bad", domain="com.evil")]), BAD, "com.evil",
       "bad")
accept("opset_28", model(opsets=[("", 28)], ir=14))

# --- c: structure ---------------------------------------------------------------------------------------------------
relu = lambda a, b, name=None: h.make_node("Relu", [a], [b], name=name or f"to_{b}")
refuse("c01_cycle", model([h.make_node("Add", ["X", "q"], ["p"], name="P"), relu("p", "q"), relu("q", "Y")]), BAD,
       "cycle", '"P"', "q")
refuse("c01_own", model([h.make_node("Add", ["X", "Y"], ["Y"], name="P")]), BAD, "own result", '"P"')
refuse("c02_undefined_input", model([relu("nowhere", "Y")]), BAD, "nowhere", "to_Y")
refuse("c03_dup_output", model([relu("X", "Y", "first"), relu("X", "Y", "second")]), BAD, '"Y"', "second", "already")
refuse("c04_dup_init", model([relu("W", "Y")], initializers=[weight(), weight()]), BAD, "two initializers", '"W"')
refuse("init_shadows", model([relu("X", "W"), relu("W", "Y")], initializers=[weight()]), BAD, '"W"', "an initializer")
refuse("input_twice", model(inputs=[value("X"), value("X")]), BAD, "two inputs", '"X"')
refuse("output_is_input", model([relu("X", "X")]), BAD, '"X"', "a graph input")
refuse("c05_output_missing", model(outputs=[value("Z")]), BAD, '"Z"', "produced by no node")
refuse("c06_not_sorted", model([relu("a", "Y", "late"), relu("X", "a", "early")]), BAD, "topological", "late", "early")
refuse("c07_empty_graph", model([], [], []), BAD, "no outputs")
refuse("no_graph", field(1, 10) + field(8, field(2, 21)), BAD, "no graph")
refuse("c08_empty_name", model([h.make_node("Add", ["X", ""], ["Y"], name="hole")]), BAD, "hole", "absent", mode="ops")
refuse("c09_arity", model([h.make_node("Add", ["X"] * 5, ["Y"], name="many")]), BAD, "many", "5 operands", mode="ops")
refuse("arity_low", model([h.make_node("Add", ["X"], ["Y"], name="few")]), BAD, "few", "1 operands", mode="ops")
refuse("no_op_type", model([h.make_node("", ["X"], ["Y"], name="what")]), BAD, "no op type", "what")
refuse("input_no_name", model(inputs=[value("X"), value("")]), BAD, "input 1", "no name")


def function(name, nodes, inputs=("a",), outputs=("b",), domain="local", **more):
    return h.make_function(domain, name, list(inputs), list(outputs), nodes,
                           [h.make_opsetid("", 21), h.make_opsetid("local", 1)], **more)


def calling(functions, node=None):
    node = node or h.make_node("f", ["X"], ["Y"], name="call", domain="local")
    return model([node], opsets=[("", 21), ("local", 1)], functions=functions)


call = lambda name, a="a", b="b": h.make_node(name, [a], [b], name="in_" + name, domain="local")
refuse("c10_fn_recursion", calling([function("f", [call("f")])]), BAD, '"f"', "calls itself")
refuse("fn_mutual", calling([function("f", [call("g")]), function("g", [call("f")])]), BAD,
       "calls itself through others")
branch = h.make_graph([call("f", "a", "t")], "then", [], [value("t")])
other = h.make_graph([relu("a", "e")], "else", [], [value("e")])
refuse("fn_by_subgraph",
       calling([function("f", [h.make_node("If", ["a"], ["b"], then_branch=branch, else_branch=other)])]), BAD,
       "calls itself")
chain = [function(f"f{i}", [call(f"f{i + 1}")]) for i in range(3000)] + [function("f3000", [relu("a", "b")])]
accept("fn_chain", calling(chain, h.make_node("f0", ["X"], ["Y"], domain="local")))
laughs = [function(f"f{i}", [call(f"f{i + 1}", "a", "t"), call(f"f{i + 1}", "t", "b")]) for i in range(100)]
laughs += [function("f100", [relu("a", "b")])]
refuse("fn_laughs", calling(laughs, h.make_node("f0", ["X"], ["Y"], name="call", domain="local")), LIMIT, "call",
       "expand")
refuse("fn_arity",
       calling([function("f", [relu("a", "b")])], h.make_node("f", ["X", "X"], ["Y"], name="call", domain="local")),
       BAD,
       "call", "2 operands")
refuse("fn_twice", calling([function("f", [relu("a", "b")]), function("f", [relu("a", "b")])]), BAD, "two functions",
       '"f"')
refuse("fn_undefined", calling([function("f", [relu("z", "b", "inner")])]), BAD, "inner", '"z"')
refuse("fn_no_result", calling([function("f", [relu("a", "c")])]), BAD, '"b"')
refuse("fn_domain",
       calling([h.make_function("local", "f", ["a"], ["b"], [relu("a", "b", "inner")], [h.make_opsetid("x", 1)])]), BAD,
       "ai.onnx", "inner")
ref = h.make_node("Flatten", ["X"], ["Y"], name="flat")
ref.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="ax", type=onnx.AttributeProto.INT))
refuse("ref_outside", model([ref]), BAD, "flat", "'ax'")
inner_ref = h.make_node("Flatten", ["a"], ["b"], name="flat")
inner_ref.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="ax", type=onnx.AttributeProto.INT))
refuse("ref_unknown", calling([function("f", [inner_ref])]), BAD, "flat", "'ax'")


def branches(then, extra=()):
    els = h.make_graph([relu("X", "else_out")], "else", [], [value("else_out")])
    return model([*extra, h.make_node("If", ["c"], ["Y"], name="choice", then_branch=then, else_branch=els)],
                 inputs=[value("X"), value("c", T.BOOL, [])])


refuse("sub_undefined", branches(h.make_graph([relu("nowhere", "t", "inner")], "then", [], [value("t")])), BAD, "inner",
       "nowhere")
refuse("sub_shadows", branches(h.make_graph([relu("X", "Y")], "then", [], [value("Y")])), BAD, '"Y"', "enclosing")
refuse("sub_shadows_before", branches(h.make_graph([relu("X", "w")], "then", [], [value("w")]), [relu("X", "w")]), BAD,
       '"w"', "enclosing")
refuse("sub_no_output", branches(h.make_graph([relu("X", "t")], "then", [], [value("u")])), BAD, '"u"', '"then"')

# --- d: tensors -----------------------------------------------------------------------------------------------------
refuse("d01_dim_negative", with_weight(dims=[-4, 4]), BAD, '"W"', "[-4,4]", "negative")
refuse("d01_type_negative", model(inputs=[value("X", shape=[-4, 4])]), BAD, '"X"', "-4")
refuse("d02_dims_overflow", with_weight(dims=[2**32, 2**32], raw_data=b""), BAD, '"W"', "4294967296")
refuse("dims_wrap_bits", with_weight(dims=[2**58], data_type=T.COMPLEX128, raw_data=b""), BAD, '"W"')
refuse("dims_many", with_weight(dims=[1] * 40), LIMIT, '"W"', "40 dims")
refuse("d03_raw_short", with_weight(raw_data=bytes(60)), BAD, '"W"', "60 bytes", "needs 64")
refuse("d03_none", with_weight(raw_data=None), BAD, '"W"', "no data", "16 elements")
refuse("d04_dtype_bad", with_weight(data_type=77), BAD, '"W"', "77")
refuse("dtype_none", with_weight(data_type=None), BAD, '"W"', "element type 0")
accept("d05_nan_fp16", with_weight(data_type=T.FLOAT16, raw_data=b"\x00\x7e\x00\x7c" * 8))
refuse("raw_and_float", with_weight(float_data=[0] * 16), BAD, '"W"', "float_data and raw_data")
refuse("float_in_int64", with_weight(raw_data=None, int64_data=[0] * 16), BAD, '"W"', "int64_data", "float")
refuse("float_count", with_weight(raw_data=None, float_data=[0] * 15), BAD, '"W"', "15 items")
accept("int4_odd", with_weight(data_type=T.INT4, dims=[3], raw_data=b"\x21\x03"))
refuse("int4_short", with_weight(data_type=T.INT4, dims=[3], raw_data=b"\x21"), BAD, '"W"', "1 bytes", "needs 2")
refuse("uint8_range", with_weight(data_type=T.UINT8, dims=[1], raw_data=None, int32_data=[300]), BAD, '"W"', "300",
       "uint8")
refuse("bool_raw", with_weight(data_type=T.BOOL, dims=[2], raw_data=b"\1\2"), BAD, '"W"', "bool element 1 is 2")
refuse("string_raw", with_weight(data_type=T.STRING), BAD, '"W"', "raw_data")
refuse("location_kind", with_weight(data_location=1, raw_data=None), BAD, '"W"', "location")
refuse("init_vs_input", model([relu("W", "Y")], inputs=[value("W", shape=[3, 4])], initializers=[weight()]), BAD, '"W"',
       "float[4,4]",
       "float[3,4]")
refuse("init_vs_dtype", model([relu("W", "Y")], inputs=[value("W", T.INT64)], initializers=[weight()]), BAD, '"W"',
       "int64")


def sparse(indices, values=3, index_dims=None, dims=(2, 3)):
    m = model([h.make_node("Add", ["X", "S"], ["Y"])])
    v = T(name="S", data_type=T.FLOAT, dims=[values], raw_data=bytes(4 * values))
    i = T(name="", data_type=T.INT64, dims=index_dims or [len(indices)], int64_data=indices)
    m.graph.sparse_initializer.append(onnx.SparseTensorProto(values=v, indices=i, dims=dims))
    return m


accept("sparse", sparse([0, 2, 5]))
accept("sparse_rows", sparse([0, 0, 0, 2, 1, 2], index_dims=[3, 2]))
accept("sparse_huge", sparse([0, 2, 2**40], dims=[2**30, 2**20]))
refuse("sparse_range", sparse([0, 2, 6]), BAD, '"S"', "index 2", "[2,3]")
refuse("sparse_order", sparse([0, 2, 1]), BAD, '"S"', "ascending")
refuse("sparse_negative", sparse([-1, 2, 4]), BAD, '"S"', "index 0")
refuse("sparse_count", sparse([0, 2]), BAD, '"S"', "values [n]")

# --- e: locations, as far as words tell -------------------------------------------------------------------------------
def external(**keys):
    t = weight(raw_data=None, data_location=T.EXTERNAL)
    for key, to in keys.items():
        t.external_data.add(key=key, value=to)
    return model([h.make_node("Add", ["X", "W"], ["Y"])], initializers=[t])


accept("e00_good", external(location="w.bin", offset="4096", length="64"))
refuse("e01_dotdot", external(location="../outside.bin"), BAD, '"W"', "../outside.bin", "leaves")
refuse("e01_dotdot_inside", external(location="a/../../outside.bin"), BAD, '"W"', "leaves")
refuse("e02_absolute", external(location="/etc/passwd"), BAD, '"W"', "/etc/passwd", "absolute")
refuse("e_none", external(offset="0"), BAD, '"W"', "no location")
refuse("e_empty", external(location=""), BAD, '"W"', "empty")
refuse("e_dot", external(location="."), BAD, '"W"', "folder")
refuse("e_offset", external(location="w", offset="12abc"), BAD, '"W"', "12abc")
refuse("e_offset_sign", external(location="w", offset="-1"), BAD, '"W"', "-1")
refuse("e_offset_huge", external(location="w", offset=str(2**64)), BAD, '"W"', str(2**64))
refuse("e05_overflow", external(location="w", offset=str(2**64 - 10), length="64"), BAD, '"W"', "past the end")
refuse("e_length", external(location="w", length=str(2**50)), BAD, '"W"', str(2**50), "needs 64")

# --- f: attributes, as far as the op's row tells ----------------------------------------------------------------------
def softmax(**attrs):
    return model([h.make_node("Softmax", ["X"], ["Y"], name="soft", **attrs)])


refuse("f01_attr_type", softmax(axis="1"), BAD, "soft", "'axis'", "a string, expected an int", mode="ops")
refuse("f01_attr_unknown", softmax(axes=1), BAD, "soft", "'axes'", mode="ops")
refuse("f02_attr_missing", model([h.make_node("Cast", ["X"], ["Y"], name="cast")]), BAD, "cast", "'to'", mode="ops")
twice = softmax(axis=1)
twice.graph.node[0].attribute.append(h.make_attribute("axis", 0))
refuse("attr_twice", twice, BAD, "soft", "two attributes", "'axis'")
mixed = softmax(axis=1)
mixed.graph.node[0].attribute[0].f = 1.0
refuse("attr_two_values", mixed, BAD, "soft", "'axis'", "INT but holds FLOAT")
mixed.graph.node[0].attribute[0].ClearField("f")
mixed.graph.node[0].attribute[0].type = onnx.AttributeProto.TENSOR
refuse("attr_wrong_field", mixed, BAD, "soft", "'axis'", "TENSOR but holds INT")
no_tensor = model([h.make_node("Constant", [], ["Y"], name="const")])
no_tensor.graph.node[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
refuse("attr_no_value", no_tensor, BAD, "const", "'value'", "holds none")
kind = field(1, 10) + field(8, field(2, 21)) + field(7,
                                                     field(1,
                                                           field(2, b"Y") + field(3, b"odd") + field(4, b"Constant") +
                                                           field(
    5, field(1, b"value") + field(20, 99))) + field(12, field(1, b"Y")))
refuse("attr_kind", kind, BAD, "odd", "'value'", "99")
bad_const = model([h.make_node("Constant", [], ["Y"], name="const", value=weight(raw_data=bytes(3)))])
refuse("attr_tensor", bad_const, BAD, "const", "'value'", "3 bytes")
unnamed = softmax(axis=1)
unnamed.graph.node[0].attribute[0].name = ""
refuse("attr_no_name", unnamed, BAD, "soft", "no name")

# --- tensor files ---------------------------------------------------------------------------------------------------
accept("tensor", weight(), mode="tensor")
refuse("tensor_short", weight(raw_data=bytes(3)), BAD, "3 bytes", mode="tensor")
missing = run("read", os.path.join(folder, "missing.onnx"))
refused("missing", missing, 5, "missing.onnx", "No such file")
refused("folder", run("read", folder), 5, "folder")
# Devices without an end are refused before they are read; a pipe is read to its end.
refused("endless", run("read", "/dev/zero"), 5, "/dev/zero", "device")
refused("empty_device", run("read", "/dev/null"), BAD, "empty")
piped = programs.run(TOOL, "read", "/dev/stdin", input=good, timeout=60, code=None)
check(piped.code == 0 and not piped.err, "pipe", piped.code, piped.err)
finish()
