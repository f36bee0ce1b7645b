"""Einsum against numpy: equations that become products with and without packing, and those left to the plain loop.

usage: einsum.py TEMPO_RUN
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

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
]
BAD = [("ij,jk->iij", (2, 3), (3, 4)), ("ij,jk->ik", (2, 3), (4, 5)), ("ijk,jk->ik", (2, 3), (3, 4)),
       ("i1,jk->ik", (2, 3), (3, 4))]


def run(tempo_run, folder, equation, operands):
    names = [f"x{i}" for i in range(len(operands))]
    node = helper.make_node("Einsum", names, ["y"], name="sum", equation=equation)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in zip(names, operands)]
    output = helper.make_tensor_value_info("y", inputs[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "einsum", inputs, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
              f"{folder}/model.onnx")
    np.savez(f"{folder}/in.npz", **dict(zip(names, operands)))
    return subprocess.run([tempo_run, f"{folder}/model.onnx", "--inputs", f"{folder}/in.npz", "--outputs",
                           f"{folder}/out.npz"],
                          capture_output=True, text=True)


def main():
    tempo_run, bad, random = sys.argv[1], 0, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for equation, *shapes in CASES:
            for dtype in (np.float32, np.float64, np.int64):
                operands = [random.integers(-4, 5, s).astype(dtype) for s in shapes]
                expected = np.einsum(equation, *operands)
                if os.path.exists(f"{folder}/out.npz"):
                    os.remove(f"{folder}/out.npz")
                done = run(tempo_run, folder, equation, operands)
                if done.returncode != 0 or not np.array_equal(np.load(f"{folder}/out.npz")["y"], expected):
                    print("FAIL", equation, dtype.__name__, done.stderr.strip())
                    bad += 1
        for equation, *shapes in BAD:
            done = run(tempo_run, folder, equation, [np.zeros(s, np.float32) for s in shapes])
            if done.returncode not in (2, 3) or '"sum"' not in done.stderr:
                print("FAIL", equation, "is not refused:", done.returncode, done.stderr.strip())
                bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
