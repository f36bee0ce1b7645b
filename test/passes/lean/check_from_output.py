#!/usr/bin/env python3
"""Slopes of activations from their results and a bit (ai.tempo.ActivationMasked, ActivationFromOutputGrad), against
formulas of x in double precision.

usage: check_from_output.py TEMPOC TEMPO_RUN [CASE...]       only these cases, by their first word
For each activation: the bits, y, and the slope over dense sweeps of x, tails and extremes among them, in float and
double, and over all numbers of 16 bits; the kernels, and in float the bodies as ONNX Runtime runs them; the same bits
at each place of a vector. A test of the test: polynomials in y as Tempo published them, of its pieces and degrees, with
its mistaken sign and without it, must be found out. The last line is 'N passed, N failed'.
"""

import math
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

import check_pointwise
from compare import by_onnxruntime, load
from programs import case, finish, path, run

# The largest errors of the slope: elsewhere, and where |x - x*| < NEAR, where y's rounding shows as its square root.
NEAR = 0.05
LIMITS = {TensorProto.FLOAT: (5e-6, 1e-4), TensorProto.DOUBLE: (1e-10, 1e-8)}
TAIL = 5e-5  # of itself, left of x = -3, in float down to where y has few bits
# In 16 bits: of the slope of the x that y stands for, beside half a unit in the last place; and of the slope itself.
DECODED = 1e-5
LARGEST = 1e25  # with alpha = 0, of which 1e-37 is made
HALVES = {TensorProto.FLOAT16: (2.0**-11, 8e-3), TensorProto.BFLOAT16: (2.0**-8, 2e-2)}


# --- definitions ------------------------------------------------------------------------------------------------------
def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def normal(x):
    return 0.5 * np.array([math.erfc(-v * math.sqrt(0.5)) for v in x.ravel()]).reshape(x.shape)


def gelu(x):
    bell = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * normal(x), normal(x) + x * bell


def gelu_tanh(x):
    z = math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)
    s, rest = sigmoid(z), sigmoid(-z)
    return x * s, s + x * s * rest * math.sqrt(8 / math.pi) * (1 + 3 * 0.044715 * x * x)


def swish(x, alpha=1.0):
    s, rest = sigmoid(alpha * x), sigmoid(-alpha * x)
    return x * s, s + alpha * x * s * rest


def mish(x):
    e = np.exp(-np.abs(x))
    above = np.where(x < 0, e * e + 2 * e, 1 + 2 * e)
    gate = above / (above + 2 * np.where(x < 0, 1, e * e))
    return x * gate, gate + x * sigmoid(x) * (1 - gate * gate)


class Activation:
    def __init__(self, name, both, function, **attributes):
        self.name, self.attributes = name, {"function": function, **attributes}
        self.alpha = float(np.float32(attributes.get("alpha", 1.0)))
        alpha = {"alpha": self.alpha} if "alpha" in attributes else {}
        self.both = lambda x: both(x, **alpha)
        low, high = sorted((-4 / self.alpha, 0)) if self.alpha else (-1.0, 1.0)
        for _ in range(200):  # where the slope crosses 0
            middle = (low + high) / 2
            beyond = (self.both(np.array([middle]))[1][0] >= 0) == (self.alpha > 0)
            low, high = (low, middle) if beyond else (middle, high)
        self.least = low if self.alpha else -math.inf

    def is_right(self, x):
        return (np.asarray(x, np.float64) >= self.least) == (self.alpha >= 0)

    def sides_from(self, y, right):
        """The slope where the function is y, by halving."""
        v = self.alpha * y
        unit = Activation.unit(self)
        low = np.where(right, unit.least, -800.0)
        high = np.where(right, np.maximum(v, 0) + 1, unit.least)
        for _ in range(80):
            middle = (low + high) / 2
            value = unit.both(middle)[0]
            beyond = np.where(right, value >= v, value <= v)
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return unit.both(high)[1]

    @staticmethod
    def unit(a):
        return a if a.alpha == 1 else Activation("unit", swish, "Swish", alpha=1.0)


ACTIVATIONS = [
    Activation("gelu", gelu, "Gelu"), Activation("gelu_tanh", gelu_tanh, "Gelu", approximate="tanh"),
    Activation("mish", mish, "Mish"), Activation("silu", swish, "Swish"),
    Activation("quick_gelu", swish, "Swish", alpha=1.702), Activation("swish_flat", swish, "Swish", alpha=0.375),
    Activation("swish_mirrored", swish, "Swish", alpha=-1.75), Activation("swish_0", swish, "Swish", alpha=0.0)]


# --- running ----------------------------------------------------------------------------------------------------------
class Runner(check_pointwise.Tool):
    def model(self, activation, dtype):
        wide = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
        own = {"domain": "ai.tempo", **activation.attributes}
        nodes = [
            helper.make_node("Cast", ["x"], ["x_t"], to=dtype), helper.make_node("Cast", ["dy"], ["dy_t"], to=dtype),
            helper.make_node("ActivationMasked", ["x_t"], ["y_t", "right"], name="forward", **own),
            helper.make_node("ActivationFromOutputGrad", ["dy_t", "y_t", "right"], ["dx_t"], name="backward", **own),
            helper.make_node("Cast", ["y_t"], ["y"], to=wide), helper.make_node("Cast", ["dx_t"], ["dx"], to=wide)]
        inputs = [helper.make_tensor_value_info(n, wide, ["N", 1]) for n in ("x", "dy")]
        outputs = [helper.make_tensor_value_info(n, wide, ["N", 1]) for n in ("y", "dx")]
        outputs.append(helper.make_tensor_value_info("right", TensorProto.UINT8, ["bytes"]))
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)]
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path("in.onnx"))
        return wide

    def run(self, activation, x, dtype=TensorProto.FLOAT, ort=False, body=False):
        """y, dx for dy = 1, and the packed bits."""
        kind = np.float64 if self.model(activation, dtype) == TensorProto.DOUBLE else np.float32
        feeds = {"x": np.asarray(x, kind).reshape(-1, 1), "dy": np.ones((len(x), 1), kind)}
        model = path("in.onnx")
        if ort or body:
            model, passes = path("low.onnx"), "shapes,bodies" if ort else "shapes,lower"
            run(self.tempoc, path("in.onnx"), "-o", model, "--passes=" + passes, "-q")
        if ort:
            onnx.checker.check_model(model)
            out = by_onnxruntime(model, feeds)
        else:
            np.savez(path("in.npz"), **feeds)
            run(self.tempo_run, model, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
            out = load(path("out.npz"))
        return out["y"].ravel(), out["dx"].ravel(), out["right"]


# --- what must hold ---------------------------------------------------------------------------------------------------
def sweep(activation):
    """Floats: everywhere, closer by the minimum, and of all sizes."""
    least = activation.least if math.isfinite(activation.least) else 0.0
    spread = np.concatenate([np.linspace(-45, 45, 90001), least + np.linspace(-0.5, 0.5, 60001)])
    ends = np.ldexp(1.0, np.arange(-149, 64))
    return np.concatenate([spread, np.linspace(-6, 6, 48001), ends, -ends]).astype(np.float32)


def off_slope(activation, x, dx, limits):
    """What is wrong with slopes at x; None."""
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(dx - activation.both(np.clip(x, -1e3 / max(1, abs(activation.alpha)), 1e3))[1])
    near = np.abs(x - activation.least) < NEAR
    for where, limit, name in (near, limits[1], "near the minimum"), (~near, limits[0], "elsewhere"):
        if where.any() and not error[where].max() <= limit:
            at = np.argmax(np.where(where, np.nan_to_num(error, nan=np.inf), -1))
            return f"{name} off by {error[at]:.1e} at x = {x[at]:.9g}, more than {limit:.0e}"
    return None


def off_tail(activation, x, dx):
    z = activation.alpha * x.astype(np.float64)
    exact = activation.both(x.astype(np.float64))[1]
    tail = (z < -3) & (np.abs(exact) > 1e-33)
    worst = np.max(np.abs(dx - exact)[tail] / np.abs(exact[tail]), initial=0)
    return None if worst <= TAIL else f"in the tail off by {worst:.1e} of itself"


def off_bits(activation, x, right):
    if right.dtype != np.uint8 or right.size != (x.size + 7) // 8:
        return f"{right.size} bytes of {right.dtype} for {x.size} elements"
    bits = np.unpackbits(right, bitorder="little")
    return None if np.array_equal(bits[: x.size], activation.is_right(x)) and not bits[x.size :].any() else "wrong bits"


def off_value(activation, x, y, dtype):
    """y is f(x), and rounded once near the minimum."""
    exact = activation.both(x.astype(np.float64))[0]
    near = np.abs(x - activation.least) < (0.2 / abs(activation.alpha) if activation.alpha else 0)
    limit = np.where(near & (dtype == TensorProto.FLOAT), 0.6, 12) * np.spacing(np.abs(exact).astype(y.dtype)) + 1e-37
    part = 1e-12 if dtype == TensorProto.DOUBLE else 1e-5
    limit = np.where(activation.alpha * x < -2, np.abs(exact) * part + 1e-37, limit)
    worst = np.argmax(np.abs(y - exact) - limit)
    if np.abs(y - exact)[worst] > limit[worst]:
        return f"y is off by {abs(y[worst] - exact[worst]):.2e} at x = {x[worst]:.9g}"
    return None


def check_sweep(tool, activation, dtype):
    x = sweep(activation)
    inside = np.abs(x) < 80
    y, dx, right = tool.run(activation, x, dtype)
    why = off_bits(activation, x, right) or off_slope(activation, x, dx, LIMITS[dtype])
    why = why or off_tail(activation, x[inside], dx[inside]) or off_value(activation, x[inside], y[inside], dtype)
    return why


def check_bodies(tool, activation):
    """ONNX Runtime's own GELU is not as exact as ours in the tails."""
    x = sweep(activation)
    _, dx, right = tool.run(activation, x, ort=True)
    why = off_bits(activation, x, right) or off_slope(activation, x, dx, LIMITS[TensorProto.FLOAT])
    if why:
        return "ONNX Runtime: " + why
    _, dx, right = tool.run(activation, x, TensorProto.DOUBLE, body=True)
    why = off_bits(activation, x, right) or off_slope(activation, x, dx, LIMITS[TensorProto.DOUBLE])
    return "body in double: " + why if why else None


def check_extremes(tool, activation):
    x = np.array([np.inf, np.nan, 1e30, 3e38])
    for dtype in TensorProto.FLOAT, TensorProto.DOUBLE:
        dx = tool.run(activation, x, dtype)[1]
        if activation.alpha > 0 and not np.array_equal(dx, [1, np.nan, 1, 1], equal_nan=True):
            return f"at {x} the slopes are {dx}"
        dx = tool.run(activation, -x[2:], dtype)[1]
        if activation.alpha > 0 and dx.any():
            return f"at {-x[2:]} the slopes are {dx}"
    return None


def check_places(tool, activation):
    """Each element at other places of the vectors and bytes that it is computed in."""
    x = np.linspace(-9, 9, 1300).astype(np.float32)
    for dtype in TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16:
        whole = tool.run(activation, x, dtype)
        for begin, end in (1, 1300), (3, 10), (500, 517), (8, 9):
            y, dx, right = tool.run(activation, x[begin:end], dtype)
            bits = np.unpackbits(whole[2], bitorder="little")[begin:end]
            if not (np.array_equal(y, whole[0][begin:end]) and np.array_equal(dx, whole[1][begin:end])):
                return f"elements {begin} to {end} have other bits alone"
            if not np.array_equal(right, np.packbits(bits, bitorder="little")):
                return f"elements {begin} to {end} lie on other sides alone"
    return None


def check_half(tool, activation, dtype):
    x = check_pointwise.halves(dtype)
    y, dx, right = tool.run(activation, x, dtype)
    unit, limit = HALVES[dtype]
    kept = (np.abs(x) < LARGEST) & np.isfinite(y)
    sides = np.unpackbits(right, bitorder="little")[: x.size].astype(bool)
    x, y, dx, sides = x[kept].astype(np.float64), y[kept].astype(np.float64), dx[kept], sides[kept]
    if not np.array_equal(sides, activation.is_right(x)):
        return "wrong bits"
    ideal = activation.sides_from(np.clip(y, -1e4, 1e4), sides)
    worst = np.argmax(np.abs(dx - ideal) - unit * np.abs(ideal))
    if np.abs(dx - ideal)[worst] > unit * abs(ideal[worst]) + DECODED:
        return f"of y = {y[worst]:.9g} it makes {dx[worst]:.9g}, not {ideal[worst]:.9g}"
    off = np.max(np.abs(dx - activation.both(np.clip(x, -700, 700))[1]))
    return None if off <= limit else f"off by {off:.1e}, more than {limit:.0e}"


# --- Tempo's polynomials ----------------------------------------------------------------------------------------------
def fitted(low, high, degree, right):
    """GELU's slope as a polynomial in y - low, by least squares over the piece."""
    y = np.linspace(low, high, 4001)[1:-1]
    slopes = ACTIVATIONS[0].sides_from(y, np.full(y.shape, right))
    return np.polynomial.polynomial.Polynomial.fit(y - low, slopes, degree, domain=[]).coef


def published(y, right, sign):
    """In float, as its kernel evaluates them; sign: with which the third piece takes its beginning off."""
    least, y = -0.16997120747990366, y.astype(np.float32)
    slope = np.ones_like(y)
    pieces = (0.97743, 3.0, 12, sign), (0.1068, 0.97743, 12, 1), (least, 0.1068, 12, 1)
    for low, high, degree, side in pieces:
        inside = right & (y > low) & (y <= high)
        slope[inside] = horner(fitted(low, high, degree, True), y[inside] - np.float32(side * low))
    slope[~right] = horner(fitted(least, 0.0, 13, False), y[~right] - np.float32(least))
    return slope


def horner(terms, s):
    total = np.zeros_like(s)
    for term in terms[::-1]:
        total = total * s + np.float32(term)
    return total


def check_published(sign):
    gelu_ = ACTIVATIONS[0]
    x = np.linspace(-10, 10, 100001)
    dx = published(gelu_.both(x)[0], gelu_.is_right(x), sign)
    return None if off_slope(gelu_, x, dx, LIMITS[TensorProto.FLOAT]) else "Tempo's polynomials pass"


def cases(tool):
    for a in ACTIVATIONS:
        yield f"{a.name} float", lambda: check_sweep(tool, a, TensorProto.FLOAT)
        yield f"{a.name} double", lambda: check_sweep(tool, a, TensorProto.DOUBLE)
        yield f"{a.name} bodies", lambda: check_bodies(tool, a)
        yield f"{a.name} extremes", lambda: check_extremes(tool, a)
        yield f"{a.name} places", lambda: check_places(tool, a)
        yield f"{a.name} float16", lambda: check_half(tool, a, TensorProto.FLOAT16)
        yield f"{a.name} bfloat16", lambda: check_half(tool, a, TensorProto.BFLOAT16)
    yield "published, with its sign", lambda: check_published(-1)
    yield "published, with the right sign", lambda: check_published(1)


def main():
    for name, check in cases(Runner(*sys.argv[1:3])):
        if not sys.argv[3:] or name.split()[0] in sys.argv[3:]:
            case(name, check)
    finish()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
