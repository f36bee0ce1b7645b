"""Models that are well-formed but wrong: attributes, types and shapes that do not fit, through tempoc as a user meets
it. Each is refused by the name of the node, in one line, with the right exit code, under 1 s and 100 MB; sizes that
nobody has cost nothing."""
import numpy as np
from io_common import *

BAD, UNSUPPORTED, LIMIT = 2, 3, 4
folder = tempfile.mkdtemp()
path = os.path.join(folder, "m.onnx")
const = lambda name, array: onnx.numpy_helper.from_array(np.array(array), name)
ints = lambda name, *items: const(name, np.array(items, np.int64))


def graph(op, operands=("X",), attrs=None, inits=(), shape=(4, 4), others=(), results=("r",)):
    """loss = the sum of the first result of one node, named "culprit"."""
    nodes = [h.make_node(op, list(operands), list(results), name="culprit", **(attrs or {})),
             h.make_node("ReduceSum", [results[0]], ["loss"], keepdims=0)]
    return model(nodes, [value("X", shape=shape), *others], [value("loss", shape=())], list(inits))


def compile_(m):
    write(path, m.SerializeToString())
    return run(path, "-o", os.path.join(folder, "out.onnx"), "-q")


def refuse(name, code, m, *words):
    refused(name, compile_(m), code, '"culprit"', *words)


check(compile_(graph("Softmax", attrs=dict(axis=1))).code == 0, "good")
refuse("b04_unknown_op", UNSUPPORTED, graph("Frobnicate"), "Frobnicate")
refuse("c08_empty_name", BAD, graph("Add", ("X", "")), "operand 1")
refuse("c09_arity", BAD, graph("Add", ("X",) * 5), "5 operands")
refuse("f01_attr_type", BAD, graph("Softmax", attrs=dict(axis="1")), "'axis'")
refuse("f02_attr_missing", BAD, graph("Cast"), "'to'")
refuse("f03_axis_range", BAD, graph("Softmax", attrs=dict(axis=7)), "axis", "7", "rank 2")
refuse("f04_perm", BAD, graph("Transpose", attrs=dict(perm=[0, 0])), "perm")
refuse("f05_type_mismatch", BAD, graph("Add", ("X", "B"), others=[value("B", T.INT64)]), "float[4,4]", "int64[4,4]")
refuse("f06_shape_mismatch", BAD, graph("MatMul", ("X", "B"), shape=(2, 4), others=[value("B", shape=(5, 4))]), "[2,4]",
       "[5,4]")
refuse("f07_gather_oob", BAD, graph("Gather", ("X", "i"), inits=[ints("i", 99)]), "99", "4")
refuse("dim_4_and_5", BAD, graph("Add", ("X", "B"), shape=("n", 4), others=[value("B", shape=("n", 5))]), "4", "5")
refuse("reshape_two", BAD, graph("Reshape", ("X", "s"), inits=[ints("s", -1, -1)]), "-1")
refuse("reshape_count", BAD, graph("Reshape", ("X", "s"), inits=[ints("s", 3, 5)]), "[3,5]")
refuse("slice_step", BAD,
       graph("Slice", ("X", "a", "b", "d", "s"), inits=[ints("a", 0), ints("b", 2), ints("d", 0), ints("s", 0)]),
       "step")
refuse("split_sum", BAD, graph("Split", ("X", "s"), inits=[ints("s", 1, 2)], results=("r", "q")), "3", "4")
refuse("concat_rank", BAD, graph("Concat", ("X", "B"), dict(axis=0), others=[value("B", shape=(4, 4, 1))]), "rank")
refuse("conv_group", BAD,
       graph("Conv", ("X", "W"), dict(group=0), [const("W", np.zeros((4, 4, 1, 1), np.float32))], (1, 4, 8, 8)),
       "group")
scale = [const("s", np.ones(4, np.float32))]
refuse("norm_axis", BAD, graph("LayerNormalization", ("X", "s"), dict(axis=5), scale), "axis")
refuse("norm_epsilon", BAD, graph("LayerNormalization", ("X", "s"), dict(epsilon=-1.0), scale), "epsilon")
for ratio in (1.5, float("nan"), -0.5):
    refuse(f"dropout_{ratio}", BAD,
           graph("Dropout", ("X", "p", "t"), inits=[const("p", np.float32(ratio)), const("t", np.bool_(True))]),
           "ratio")

# No fold, no shape and no plan may touch 4 TiB: compiled or refused, but at once and in little memory.
for name, m in (("f08_fold_bomb", graph("ConstantOfShape", ("s",), inits=[ints("s", 2**20, 2**20)])),
                ("expand_bomb", graph("Expand", ("X", "s"), inits=[ints("s", 2**40)], shape=(1,))),
                ("tile_bomb", graph("Tile", ("X", "s"), inits=[ints("s", 2**40, 1)])),
                ("tile_overflow", graph("Tile", ("X", "s"), inits=[ints("s", 2**62, 2**62)]))):
    r = compile_(m)
    check(r.code in (0, 2, 4) and r.seconds < MAX_SECONDS and r.peak < MAX_BYTES, name, r.code, r.seconds,
          r.peak >> 20, r.err)
refuse("shape_overflow", LIMIT, graph("ConstantOfShape", ("s",), inits=[ints("s", 2**40, 2**40)]))
finish()
