"""What was not changed comes back: models read and written again are equal, field for field, as the onnx package sees
them. One model holds every field of the schema (the script checks that it does), one is made for each kind of data, and
the node models of ONNX's backend suite (1,884 with onnx 1.23) bring every op, subgraphs, sequences, optionals and
functions."""
import warnings
from onnx.backend.test.loader import load_model_tests
from io_common import *

warnings.filterwarnings("ignore")  # the suite divides by zero on purpose
folder = tempfile.mkdtemp()
A = onnx.AttributeProto


def entries(*names):
    return [onnx.StringStringEntryProto(key=n, value="value of " + n) for n in names]


def typed(name, doc=True):
    v = h.make_tensor_value_info(name, T.FLOAT, ["batch", 4, None], doc_string="what " + name + " is" if doc else "")
    v.type.denotation = "TENSOR"
    v.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    v.metadata_props.extend(entries("k" + name, ""))
    return v


def kinds_of_types():
    seq = h.make_sequence_type_proto(h.make_tensor_type_proto(T.INT64, None))
    yield seq
    yield h.make_optional_type_proto(seq)
    yield h.make_map_type_proto(T.STRING, h.make_tensor_type_proto(T.FLOAT, [2]))
    yield h.make_sparse_tensor_type_proto(T.FLOAT, [2, "n"])
    yield onnx.TypeProto(opaque_type=onnx.TypeProto.Opaque(domain="d", name="n"), denotation="x")


def kinds_of_attributes():
    tensor = T(name="t", data_type=T.INT64, dims=[2], int64_data=[-5, 7], doc_string="a tensor",
               metadata_props=entries("t"))
    sparse = onnx.SparseTensorProto(values=T(name="v", data_type=T.FLOAT, dims=[2], float_data=[1, 2]), dims=[2, 4],
                                    indices=T(name="i", data_type=T.INT64, dims=[2], int64_data=[1, 6]))
    graph = h.make_graph([h.make_node("Identity", ["X"], ["inner_out"], doc_string="inner")], "inner",
                         [typed("inner_in")],
                         [h.make_empty_tensor_value_info("inner_out")], doc_string="nested",
                         value_info=[typed("elsewhere")])
    other = h.make_graph([], "outer value", [], [typed("X")])
    types = list(kinds_of_types())
    values = dict(f=0.0, i=0, s=b"\xff\0bytes", t=tensor, g=graph, floats=[1.5, -0.0], ints=[1, -1, 2**62],
                  strings=[b"", b"\xfe"],
                  tensors=[tensor, tensor], graphs=[other], sparse_tensor=sparse, sparse_tensors=[sparse], tp=types[1],
                  type_protos=types)
    kinds = dict(f=A.FLOAT, i=A.INT, s=A.STRING, t=A.TENSOR, g=A.GRAPH, floats=A.FLOATS, ints=A.INTS, strings=A.STRINGS,
                 tensors=A.TENSORS,
                 graphs=A.GRAPHS, sparse_tensor=A.SPARSE_TENSOR, sparse_tensors=A.SPARSE_TENSORS, tp=A.TYPE_PROTO,
                 type_protos=A.TYPE_PROTOS)
    for key, to in values.items():
        a = A(name="with_" + key, type=kinds[key], doc_string="of kind " + key)
        if isinstance(to, list):
            getattr(a, key).extend(to)
        elif hasattr(to, "CopyFrom"):
            getattr(a, key).CopyFrom(to)
        else:
            setattr(a, key, to)
        yield a
    yield A(name="no_value", type=A.INT)
    yield A(name="no_items", type=A.STRINGS)


def everything():
    shard = onnx.ShardedDimProto(axis=-1, simple_sharding=[onnx.SimpleShardedDimProto(dim_value=8, num_shards=2),
                                                           onnx.SimpleShardedDimProto(dim_param="n", num_shards=4)])
    placed = onnx.NodeDeviceConfigurationProto(configuration_id="two", pipeline_stage=1,
                                               sharding_spec=[onnx.ShardingSpecProto(
        tensor_name="X", device=[0, 1], index_to_device_group_map=[onnx.IntIntListEntryProto(key=0, value=[0, 1])],
        sharded_dim=[shard])])
    all_kinds = h.make_node("AllKinds", ["X", "", "W"], ["a", "", "b"], name="kinds", domain="odd", overload="v2",
                            doc_string="every attribute")
    all_kinds.attribute.extend(kinds_of_attributes())
    all_kinds.metadata_props.extend(entries("pkg.torch.onnx.stack_trace"))
    all_kinds.device_configurations.append(placed)
    call = h.make_node("f", ["a"], ["Y"], domain="local", overload="two")
    f = h.make_function("local", "f", ["p", "q"], ["r"], [h.make_node("Flatten", ["p"], ["r"], name="body")],
                        [h.make_opsetid("ai.onnx", 21)],
                        attributes=["ax"], attribute_protos=[h.make_attribute("alpha", 0.5)], doc_string="a function",
                        overload="two",
                        value_info=[typed("p"), typed("nobody")])
    f.node[0].attribute.append(A(name="axis", type=A.INT, ref_attr_name="ax"))
    f.metadata_props.extend(entries("fn"))
    ext = T(name="ext", data_type=T.FLOAT16, dims=[8, 2], data_location=T.EXTERNAL)
    ext.external_data.extend([onnx.StringStringEntryProto(key=k, value=v) for k, v in
                              (("location", "w/x.bin"), ("offset", "4096"), ("length", "32"), ("checksum", "ab"),
                               ("custom", "kept"))])
    w = weight(doc_string="a weight", metadata_props=entries("w"), data_location=T.DEFAULT)
    g = h.make_graph([all_kinds, call], "g", [typed("X"), value("W")],
                     [typed("Y"), h.make_empty_tensor_value_info("b")],
                     [w, ext, T(name="empty", data_type=T.INT32, dims=[0, 3])], doc_string="the graph",
                     value_info=[typed("ghost"), typed("a"), typed("W"), typed("a", False), typed("Y")])
    for i, t in enumerate(kinds_of_types()):
        g.input.add(name=f"in{i}").type.CopyFrom(t)
    g.sparse_initializer.append(onnx.SparseTensorProto(values=T(name="sp", data_type=T.DOUBLE, dims=[1],
                                                                double_data=[3]), dims=[2, 2],
                                                       indices=T(data_type=T.INT64, dims=[1, 2], int64_data=[1, 1])))
    g.quantization_annotation.add(tensor_name="X", quant_parameter_tensor_names=entries("SCALE_TENSOR"))
    g.metadata_props.extend(entries("graph"))
    m = onnx.ModelProto(ir_version=11, producer_name="p", producer_version="1", domain="ai.example", model_version=-3,
                        doc_string="ünïcode",
                        graph=g, functions=[f], metadata_props=entries("a", "a"))
    m.opset_import.extend([h.make_opsetid("", 21), h.make_opsetid("odd", 1), h.make_opsetid("local", 3),
                           h.make_opsetid("unused", 9),
                           h.make_opsetid("ai.onnx", 21)])
    m.training_info.add(initialization=h.make_graph([h.make_node("Constant", [], ["z"], value_float=1.0)], "init", [],
                                                    [value("z")]),
                        algorithm=h.make_graph([], "step", [], []), initialization_binding=entries("z"),
                        update_binding=entries("y"))
    m.configuration.add(name="two", num_devices=2, device=["a", "b"])
    return m


# Fields of the schema that no readable model has: tensors in segments are refused.
NOT_IN_MODELS = {"TensorProto.segment", "Segment.begin", "Segment.end"}


def fields_of(message, seen):
    for f, to in message.ListFields():
        seen.add(f"{message.DESCRIPTOR.name}.{f.name}")
        for item in (to if not isinstance(to, (str, bytes)) and hasattr(to, "__len__") else [to]):
            if hasattr(item, "ListFields"):
                fields_of(item, seen)
    return seen


def fields_of_schema():
    todo, seen, out = [onnx.ModelProto.DESCRIPTOR], set(), set()
    while todo:
        d = todo.pop()
        if d.full_name in seen:
            continue
        seen.add(d.full_name)
        out |= {f"{d.name}.{f.name}" for f in d.fields}
        todo += [f.message_type for f in d.fields if f.message_type]
    return out


def data_models():
    """A tensor of each element type, by each field that can hold it."""
    counts = {T.COMPLEX64: 2, T.COMPLEX128: 2}
    fields = {"float_data": (T.FLOAT, T.COMPLEX64), "double_data": (T.DOUBLE, T.COMPLEX128), "int64_data": (T.INT64,),
              "uint64_data": (T.UINT64, T.UINT32), "string_data": (T.STRING,),
              "int32_data": (T.INT32, T.INT16, T.INT8, T.UINT16, T.UINT8, T.BOOL, T.FLOAT16, T.BFLOAT16, T.FLOAT8E4M3FN,
                             T.FLOAT8E4M3FNUZ,
                             T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ, T.FLOAT8E8M0, T.UINT4, T.INT4, T.FLOAT4E2M1, T.UINT2,
                             T.INT2)}
    for key, dtypes in fields.items():
        for dtype in dtypes:
            n = {T.UINT4: 2, T.INT4: 2, T.FLOAT4E2M1: 2, T.UINT2: 1, T.INT2: 1}.get(dtype, 3 * counts.get(dtype, 1))
            items = [b"a", b"", b"\xff\0"] if dtype == T.STRING else [1, 0, 1, 1, 0, 1][:n]
            yield with_weight(dims=[3], data_type=dtype, raw_data=None, **{key: items})
    for dtype in range(1, 27):
        if dtype != T.STRING:
            bits = onnx.helper.tensor_dtype_to_np_dtype(dtype).itemsize * 8 if dtype < 17 else 8
            bits = {T.UINT4: 4, T.INT4: 4, T.FLOAT4E2M1: 4, T.UINT2: 2, T.INT2: 2}.get(dtype, bits)
            yield with_weight(dims=[5, 1], data_type=dtype, raw_data=b"\1" * ((5 * bits + 7) // 8))


def unknown_fields():
    """Fields of a future schema, at several levels, of each wire type."""
    extra = field(4000, 7) + varint(4001 << 3 | 1) + b"12345678" + field(4002, b"bytes")
    extra += varint(4003 << 3 | 5) + b"1234" + field(4000, 9)
    node = field(1, b"X") + field(2, b"Y") + field(4, b"Relu") + extra
    graph = field(1, node) + field(11, field(1, b"X") + extra) + field(12, field(1, b"Y")) + extra
    return extra + field(1, 10) + field(8, field(2, 21) + extra) + field(7, graph) + extra


def old_files():
    # no opset_import yet
    yield field(1, 1) + model(opsets=(), ir=1).SerializeToString()[2:]
    # attribute without type
    node = field(1, b"X") + field(2, b"Y") + field(4, b"Softmax") + field(5, field(1, b"axis") + field(3, 1))
    yield field(1, 3) + field(8, field(1, b"") + field(2, 6)) + field(7,
                                                                      field(1, node) + field(11, field(1, b"X")) +
                                                                      field(12, field(1, b"Y")))
    # dims packed, as proto3 writes them
    packed = field(8, b"W") + field(1, bytes([4, 4])) + field(2, 1) + field(9, bytes(64))
    node = field(1, b"W") + field(2, b"Y") + field(4, b"Relu")
    yield field(1, 10) + field(8, field(2, 21)) + field(7, field(1, node) + field(5, packed) +
                                                        field(12, field(1, b"Y")))


full = everything()
missing = fields_of_schema() - fields_of(full, set()) - NOT_IN_MODELS
data = {"TensorProto." + f for f in ("int32_data", "string_data", "uint64_data")}  # data_models has these
check(not missing - data, "fields of the schema that no model here has:", sorted(missing - data))

models = {"everything": full.SerializeToString(), "unknown_fields": unknown_fields()}
models |= {f"data{i}": m.SerializeToString() for i, m in enumerate(data_models())}
models |= {f"old{i}": m for i, m in enumerate(old_files())}
for kind in ("node", "simple"):
    models |= {f"{kind}/{c.name}": c.model.SerializeToString()
               for c in load_model_tests(kind=kind) if c.model is not None}

paths = []
for i, data in enumerate(models.values()):
    paths += [os.path.join(folder, f"{i}.in"), os.path.join(folder, f"{i}.out")]
    write(paths[-2], data)
for start in range(0, len(paths), 400):
    r = run("trip", *paths[start : start + 400])
    check(r.code == 0 and not r.err, "exit", r.code, r.err[:500])
normal = lambda data: onnx.ModelProto.FromString(data).SerializeToString(deterministic=True)
for i, (name, data) in enumerate(models.items()):
    out = os.path.join(folder, f"{i}.out")
    check(os.path.exists(out) and normal(data) == normal(open(out, "rb").read()), name,
          "did not come back the same")
finish()
