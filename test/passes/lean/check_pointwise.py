#!/usr/bin/env python3
"""The kernels of every row of kernels/pointwise/pointwise.def against what the rules files say that the op computes.

usage: check_pointwise.py TEMPOC TEMPO_RUN [OP...]       only rows of these ops
For each row, the op and its gradient, each float type: in double, tempo-run's kernel against the function body in
standard ops, which `lower` puts in the op's place, and which ONNX Runtime runs as well; the op also against the
integral of its gradient's body. In float, against the kernel in double over floats of all sizes: relative errors, also
in tails that fall by 40 orders of magnitude. In 16 bits all numbers there are: the bits of float, rounded once. A
kernel's vector body and its tail give the same bits. The last line is 'N passed, N failed'.
"""

import os
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from compare import by_onnxruntime, load, near
from programs import case, finish, path, run
from tolerances import (
    ALPHA_TAIL, BODY_BY_ORT, BODY_OF_KERNEL, FAR, FAR_BY_ORT, FAR_LIMIT, FORWARD, INTEGRAL, SLOPE)

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../kernels/pointwise/pointwise.def")
ROW = re.compile(r'^POINTWISE(?:_FORM)?\((\w+), "([\w.]*)", (\w+), "(\w*)", (\S+),', re.M)
STEP = 9973  # between the bits of the floats of the sweep
NEAR = 4.0  # in alpha x: up to here a slope may cross 0, where its error is relative to its terms, not to itself
TERMS = 0.2
ALPHAS = (1.75, -0.5)


def rows(only):
    """(name, op node's domain, op, attributes) of each row: one with each alpha where the op has the attribute."""
    for name, domain, op, form, alpha in ROW.findall(open(TABLE).read()):
        if only and op not in only:
            continue
        attributes = {"approximate": form} if form else {}
        yield name, domain, op, attributes
        for value in ALPHAS if alpha != "NONE" else ():
            yield f"{name}, alpha {value}", domain, op, {**attributes, "alpha": value}


class Tool:
    def __init__(self, tempoc, tempo_run):
        self.tempoc, self.tempo_run = os.path.abspath(tempoc), os.path.abspath(tempo_run)

    def run(self, domain, op, attributes, operands, dtype, body=False, ort=False):
        """The op, or its body, on operands cast to `dtype`, an element type of ONNX; the result as float or double."""
        wide = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
        names = [f"x{i}" for i in range(len(operands))]
        nodes = [helper.make_node("Cast", [n], [n + "_t"], to=dtype) for n in names]
        nodes.append(helper.make_node(op, [n + "_t" for n in names], ["y_t"], domain=domain, name="node", **attributes))
        nodes.append(helper.make_node("Cast", ["y_t"], ["y"], to=wide))
        inputs = [helper.make_tensor_value_info(n, wide, ["N"]) for n in names]
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", wide, ["N"])])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path("in.onnx"))
        model = path("in.onnx")
        if body:
            model = path("low.onnx")
            run(self.tempoc, path("in.onnx"), "-o", model, "--passes=shapes,lower", "-q")
        kind = np.float64 if wide == TensorProto.DOUBLE else np.float32
        feeds = {n: np.asarray(o, kind) for n, o in zip(names, operands)}
        if ort:
            return by_onnxruntime(model, feeds)["y"]
        np.savez(path("in.npz"), **feeds)
        run(self.tempo_run, model, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
        return load(path("out.npz"))["y"]


def integral(slope, x):
    """The integral of slope from 0 to each x, which rise and hold 0, by Gauss and Legendre's rule between them."""
    node, weight = np.polynomial.legendre.leggauss(12)
    half = np.diff(x) / 2
    at = (x[:-1] + half)[:, None] + half[:, None] * node
    pieces = (slope(at.reshape(-1)).reshape(at.shape) * weight).sum(1) * half
    sums, zero = np.concatenate([[0], np.cumsum(pieces)]), np.searchsorted(x, 0)
    return sums - sums[zero]


def floats():
    """Finite floats of all sizes, odd in number, and the extremes."""
    x = np.arange(0, 2**32, STEP, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    largest, tiny = np.finfo(np.float32).max, np.float32(1.4e-45)
    return np.concatenate([x, np.float32([0.0, -0.0, largest, -largest, tiny, -tiny])])[: x.size // 2 * 2 + 5]


def halves(dtype):
    """Every number of a 16-bit type, infinities among them, as floats."""
    bits = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    x = (
        bits.view(np.float16).astype(np.float32)
        if dtype == TensorProto.FLOAT16
        else (bits.astype(np.uint32) << 16).view(np.float32)
    )
    return x[~np.isnan(x)]


def rounded(x, dtype):
    """float to a 16-bit type and back, to nearest even."""
    if dtype == TensorProto.FLOAT16:
        return x.astype(np.float16).astype(np.float32)
    bits = x.view(np.uint32).astype(np.uint64)
    short = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, short)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.all(
        (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | (np.isnan(a) & np.isnan(b)))


def off(got, exact):
    return np.max(np.abs(got - exact) / (1 + np.abs(exact)))


def check_meaning(run, domain, op, slope):
    """The kernel in double, and the body as ONNX Runtime runs it."""
    x, kernel = np.linspace(-40, 40, 8001), lambda x: run(x, TensorProto.DOUBLE)
    body = lambda x: run(x, TensorProto.DOUBLE, "ai.tempo", op, body=True)
    if not slope:
        slope_body = lambda x: run(x, TensorProto.DOUBLE, "ai.tempo", op + "Grad", body=True)
        risen = integral(slope_body, x) + (body(np.zeros(1)) if domain else 0)
        if off(kernel(x), risen) > INTEGRAL:
            return f"in double: off by {off(kernel(x), risen):.1e} from the integral of its slope"
    if domain and off(kernel(x), body(x)) > BODY_OF_KERNEL:
        return f"in double: off by {off(kernel(x), body(x)):.1e}"
    by_ort = run(x, TensorProto.FLOAT, body=True, ort=True) if domain else kernel(x)  # float: it has no Erf of doubles
    if domain and off(by_ort, body(x)) > BODY_BY_ORT:
        return f"ONNX Runtime's result of the body is off by {off(by_ort, body(x)):.1e}"
    return None


def check_float(run, slope, alpha):
    x = floats()
    with np.errstate(all="ignore"):
        got, exact = run(x, TensorProto.FLOAT).astype(np.float64), run(x.astype(np.float64), TensorProto.DOUBLE)
        floor = np.where(slope & (np.abs(alpha * x) < NEAR), TERMS, 1e-36)
        inside = np.abs(exact) <= np.finfo(np.float32).max
        worst = np.max((np.abs(got - exact) / (np.abs(exact) + floor))[inside])
    limit = (SLOPE if slope else FORWARD) + (0 if np.log2(abs(alpha)) % 1 == 0 else ALPHA_TAIL)
    if not worst <= limit:
        return f"in float: off by {worst:.1e}"
    return None if np.all(np.isnan(run(np.float32([np.nan] * 9), TensorProto.FLOAT))) else "NaN in, a number out"


def check_tails(run, dtype):
    """Each element at other places of the vectors that it is computed in."""
    x = np.linspace(-9, 9, 131).astype(np.float32)
    whole = run(x, dtype)
    for begin, end in (1, 131), (3, 130), (0, 7), (124, 131), (64, 65):
        if not same_bits(run(x[begin:end], dtype), whole[begin:end]):
            return f"elements {begin} to {end} have other bits alone"
    return None


def check_far(run, op):
    """Far off and at infinities, where formulas meet 0 * inf: the body says what the kernel says, and slopes of ops
    whose tails are straight lines are finite."""
    x = np.array([np.inf, -np.inf, np.nan, 1e18, -1e18, 300, -300, 60, -60])
    for dtype, ort in (TensorProto.DOUBLE, False), (TensorProto.FLOAT, False), (TensorProto.FLOAT, True):
        kernel, body = run(x, dtype), run(x, dtype, "ai.tempo", op, body=True, ort=ort)
        if not near(kernel, body, FAR_BY_ORT if ort else FAR, nan=True):
            return f"far off it is {kernel}, by its body {body}"
    limits = sorted(run(x, TensorProto.DOUBLE)[:2])
    if op in ("GeluGrad", "SwishGrad") and not near(limits, [0, 1], FAR_LIMIT):
        return f"at infinities it is {limits}, not 0 and 1"
    return None


def check_half(run, dtype):
    x = halves(dtype)
    if not same_bits(run(x, dtype), rounded(run(x, TensorProto.FLOAT), dtype)):
        return f"{TensorProto.DataType.Name(dtype)} is not float, rounded once"
    return None


def check_row(tool, domain, op, attributes, slope):
    if slope:
        domain, op = "ai.tempo", op + "Grad"

    def run(x, dtype, domain=domain, op=op, **how):
        operands = [np.ones_like(x), x] if op.endswith("Grad") else [x]
        return tool.run(domain, op, attributes, operands, dtype, **how)

    why = check_meaning(run, domain, op, slope) or check_float(run, slope, attributes.get("alpha", 1.0))
    why = why or (slope and check_far(run, op))
    for dtype in TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16:
        why = why or check_tails(run, dtype)
    for dtype in TensorProto.FLOAT16, TensorProto.BFLOAT16:
        why = why or check_half(run, dtype)
    return why


def main():
    tool = Tool(*sys.argv[1:3])
    for name, domain, op, attributes in rows(set(sys.argv[3:])):
        for slope in False, True:
            case(f"{name}{', slope' if slope else ''}", check_row, tool, domain, op, attributes, slope)
    finish()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
