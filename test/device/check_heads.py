#!/usr/bin/env python3
"""Attention in 16 bits between Transposes on the emulated CUDA device, where its tiles read and write the heads of a
token side by side and the Transposes are gone; and graphs that differ in one point, where they are not. Beside the CPU.

usage: check_heads.py TEMPO_RUN TEMPO_RUN_EMULATED
"""
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import parser

from compare import load, near
from programs import case, finish, path, run, text_of
from tolerances import HEAD_SUMS

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
BATCH, TOKENS, KEYS, HEADS, WIDTH = 2, 20, 24, 3, 16
DIMS = {"x": [BATCH, TOKENS, HEADS, WIDTH], "k": [BATCH, KEYS, HEADS, WIDTH], "v": [BATCH, KEYS, HEADS, WIDTH],
        "g": [BATCH, TOKENS, HEADS, WIDTH]}
FRONT = ("q = Transpose<perm=[0,2,1,3]>(x) kt = Transpose<perm=[0,2,3,1]>(k) w = Transpose<perm=[0,2,1,3]>(v) ")
BACK = "z = Transpose<perm=[0,2,1,3]>(y) "
FORWARD = FRONT + "y = ai.tempo.DotProductAttention<scale=0.25>(q, kt, w) " + BACK
KEPT = FRONT + 'y, "", "", "", s = ai.tempo.DotProductAttention<scale=0.25>(q, kt, w) ' + BACK
GRAD = ("gt = Transpose<perm=[0,2,1,3]>(g) "
        'dq, dkt, dv = ai.tempo.DotProductAttentionTiledGrad<scale=0.25>(gt, q, kt, w, "", "", "", "", s, y) ')
DQ, DK, DV = ("a = Transpose<perm=[0,2,1,3]>(dq) ", "b = Transpose<perm=[0,3,1,2]>(dkt) ",
              "c = Transpose<perm=[0,2,1,3]>(dv) ")

# Name, nodes, outputs, how many Transposes are left.
CASES = [
    ("forward", FORWARD, "z", 0),
    ("forward and back", KEPT + GRAD + DQ + DK + DV, "z, a, b, c", 0),
    ("y is made again from what goes on", KEPT + "n = Transpose<perm=[0,2,1,3]>(y) e = Neg(n) " + GRAD + DQ + DK + DV,
     "z, e, a, b, c", 0),
    ("without the gradient of K", KEPT + GRAD.replace("dq, dkt, dv", 'dq, "", dv') + DQ + DV, "z, a, c", 0),
    ("y as the op makes it is wanted, too", FORWARD + "e = Neg(y) ", "z, e", 1),
    ("Q is read by another", FORWARD + "e = Neg(q) ", "z, e", 1),
    ("the gradient of K^T is not turned back", KEPT + GRAD + DQ + DV + "b = Neg(dkt) ", "z, a, b, c", 1),
    ("another order of dims", FORWARD.replace(BACK, "z = Transpose<perm=[0,2,3,1]>(y) "), "z", 1),
    ("the map is wanted", FORWARD.replace("y = ai", "y, p = ai"), "z, p", 4),
]


def computed(tool):
    run(tool, path("g.onnx"), "--inputs", path("in.npz"), "--outputs", path("out.npz"), "--profile", path("out.csv"),
        "--repeat", 3)
    return load(path("out.npz")), text_of(path("out.csv")).count(",Transpose,")


def check(tools, kind, name, text, outputs, expected):
    used = [x for x in DIMS if f"({x})" in text]
    inputs = ", ".join(f"{kind}[{','.join(map(str, DIMS[x]))}] {x}" for x in used)
    outs = ", ".join(f"{kind}[p{i},q{i},r{i},s{i}] {out}" for i, out in enumerate(outputs.split(", ")))
    onnx.save(parser.parse_model(f'<ir_version: 10, opset_import: ["": 22, "ai.tempo": 1]> graph ({inputs}) => '
                                 f"({outs}) {{ {text} }}"), path("g.onnx"))
    draw = np.random.RandomState(len(name))
    np.savez(path("in.npz"), **{x: draw.uniform(-1, 1, DIMS[x]).astype(TYPES[kind]) for x in used})
    (want, _), (got, left) = computed(tools[0]), computed(tools[1])
    if left != expected:
        return f"{left} Transposes are left, not {expected}"
    off = [key for key, value in want.items() if not near(got[key], value.astype(np.float64), HEAD_SUMS[kind])]
    return f"{', '.join(off)} off" if off else None


for row in CASES:
    for element in TYPES:
        case(f"{row[0]}, {element}", check, sys.argv[1:], element, *row)
finish()
