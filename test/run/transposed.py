"""Products whose right operand is a transposed weight, an input that has a default or not, in float and in 16 bits,
against ONNX Runtime; a weight that somebody else reads turned; and that no copy of it is in the arena.

usage: transposed.py TEMPO_RUN
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compare import by_onnxruntime, load, max_error
from programs import check, finish, path
from tolerances import PRODUCT
from tool import run

random = np.random.default_rng(5)


def model(shape, columns, dtype, extra):
    """y = MatMul(x, Transpose(w)); with `extra`, z = Abs(Transpose(w)), too."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    w = random.standard_normal((columns, shape[-1])).astype(dtype)
    nodes = [helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", kind, None)]
    if extra:
        nodes.append(helper.make_node("Abs", ["t"], ["z"]))
        outputs.append(helper.make_tensor_value_info("z", kind, None))
    graph = helper.make_graph(nodes, "transposed", [helper.make_tensor_value_info("x", kind, shape)], outputs,
                              [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path("model.onnx"))


for dtype, tolerance in PRODUCT.items():
    for shape, columns in (((7, 33), 20), ((2, 3, 64), 512), ((5, 600), 1024), ((64,), 3), ((2, 2, 2, 16), 1)):
        for extra in (False, True):
            model(shape, columns, dtype, extra)
            x = random.standard_normal(shape).astype(dtype)
            np.savez(path("in.npz"), x=x)
            run(path("model.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"))
            got = load(path("out.npz"))
            for name, value in by_onnxruntime(path("model.onnx"), {"x": x}).items():
                worst = max_error(got[name], value)
                check(worst <= tolerance, f"{dtype} {shape} by {columns}, {name}: off by {worst}")

model((4, 1000), 1000, np.float32, False)
np.savez(path("in.npz"), x=np.ones((4, 1000), np.float32))
memory = run(path("model.onnx"), "--inputs", path("in.npz"), "--memory")
arena = [int(line.split()[0]) for line in memory.splitlines() if " arena" in line]
check(arena and arena[0] < 1000 * 1000, f"a copy of the weight: {memory}")
finish()
