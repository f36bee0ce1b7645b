"""Einsum against numpy: equations that become products with and without packing, and those left to the plain loop.

usage: einsum.py TEMPO_RUN
"""
import sys

import numpy as np
import onnx
from onnx import helper

from compare import load
from programs import case, finish, path, run

CASES = [
    ("bshd,bthd->bhst", (2, 5, 3, 4), (2, 6, 3, 4)), ("bhst,bthd->bshd", (2, 3, 5, 6), (2, 6, 3, 4)),
    ("ij,jk->ik", (70, 80), (80, 90)),
    ("ij,jk->ki", (7, 8), (8, 9)), ("ij,kj->ik", (7, 8), (9, 8)), ("ji,jk", (8, 7), (8, 9)),
    ("...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 6)),
    ("ii,ij->ij", (4, 4), (4, 3)), ("ii->i", (4, 4)), ("ij->", (4, 5)), ("ij->ji", (4, 5)), ("i,j->ij", (4,), (5,)),
    ("i,i->", (7,), (7,)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 6)), ("ab,abc->c", (3, 4), (3, 4, 5)), ("b...,b->...b", (3, 4, 5), (3,)),
    ("ij,j->i", (0, 3), (3,)), ("ij,jk->ik", (3, 0), (0, 4)), ("aij,jk->aik", (1, 3, 4), (4, 5)),
    ("ijk,ljm->ilkm", (3, 4, 5), (6, 4, 7)),
    ("acbd,efcb->abedf", (3, 4, 5, 2), (6, 7, 4, 5)), ("i...j,j...k->...", (2, 3, 4), (4, 3, 5)),
    ("a,b,c,d,a,b,c,d->dcba", (2,), (3,), (1,), (2,), (2,), (3,), (1,), (2,)),  # as many operands as a kernel takes
]
BAD = [("ij,jk->iij", (2, 3), (3, 4)), ("ij,jk->ik", (2, 3), (4, 5)), ("ijk,jk->ik", (2, 3), (3, 4)),
       ("i1,jk->ik", (2, 3), (3, 4))]


def ended(equation, operands):
    names = [f"x{i}" for i in range(len(operands))]
    node = helper.make_node("Einsum", names, ["y"], name="sum", equation=equation)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in zip(names, operands)]
    output = helper.make_tensor_value_info("y", inputs[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "einsum", inputs, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path("model.onnx"))
    np.savez(path("in.npz"), **dict(zip(names, operands)))
    return run(sys.argv[1], path("model.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), code=None)


def good(equation, operands):
    done = ended(equation, operands)
    right = done.code == 0 and np.array_equal(load(path("out.npz"))["y"], np.einsum(equation, *operands))
    return None if right else done.err.strip() or "other numbers"


def refused(equation, shapes):
    done = ended(equation, [np.zeros(s, np.float32) for s in shapes])
    return None if done.code in (2, 3) and '"sum"' in done.err else f"{done.code} {done.err}"


random = np.random.default_rng(0)
for sums, *sizes in CASES:
    for dtype in (np.float32, np.float64, np.int64):
        case(f"{sums} {dtype.__name__}", good, sums, [random.integers(-4, 5, s).astype(dtype) for s in sizes])
for sums, *sizes in BAD:
    case(f"{sums} is refused", refused, sums, sizes)
finish()
