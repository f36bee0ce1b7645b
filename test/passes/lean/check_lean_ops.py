#!/usr/bin/env python3
"""The ops of ai.tempo that the lean recipes work with, as ONNX Runtime runs their function bodies and as tempo-run runs
them, against numpy.

usage: check_lean_ops.py TEMPOC TEMPO_RUN [OP...]       only cases of these ops
Each case is a model of one node. tempoc attaches the body; the result passes onnx.checker, and both runtimes give what
the formulas here say, which are written from the ops' definitions (compiler/ir/ops.def) in double precision. Random
bits are compared one by one with a Philox4x32-7 of its own, itself held against the known answers published with
Random123. The gradients that tempoc makes of these ops are compared with central differences of the formulas. The last
line is 'N passed, N failed'.
"""

import glob
import itertools
import os
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import linear_loss_cases, optimizer_definitions, philox_draws, recurrent_cases, resize_cases, small_cases
from compare import by_onnxruntime, load, max_error, near
from programs import case as run_case, check as holds, finish, path, run
from tolerances import GRADCHECK, GRADCHECK_STEP, LEAN

HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(11)


# --- definitions ------------------------------------------------------------------------------------------------------
def drop(x, keep, ratio):
    """In the type of x: a division by 1 - ratio, as the op says."""
    return np.where(keep, x / x.dtype.type(1 - np.float64(ratio)), x.dtype.type(0))


def swap(x):
    return np.swapaxes(x, -1, -2)


def bits_of(mask):
    return np.packbits(mask, bitorder="little")


def mask_of(mask, shape):
    """Bools, or the bits of so many elements."""
    if mask.dtype != np.uint8:
        return mask
    return np.unpackbits(mask, bitorder="little", count=int(np.prod(shape))).reshape(shape) != 0


def dropout(x, ratio, seed, node=0, packed=0):
    keep = philox_draws.keep_mask(x.shape, ratio, seed, node)
    return drop(x, keep, ratio), bits_of(keep) if packed else keep


def attention(q, kt, v, bias=None, mask=None, ratio=None, seed=None, scale=1.0, fill=-np.inf, guard=0, signed=0, node=0,
              packed=0):
    s = scale * (q @ kt)
    if mask is not None:
        s = np.where(mask, s, fill)
    if bias is not None:
        s = s + bias
    most = s.max(-1, keepdims=True)
    e = np.exp(s - most)
    total = e.sum(-1, keepdims=True)
    p, statistics = e / total, np.concatenate([most, total], -1)
    if guard:
        p = np.where(np.isnan(p), 0.0, p)
    if ratio is None:
        return p @ v, p, p, None, statistics
    keep = philox_draws.keep_mask(p.shape, ratio, seed, node)
    dropped = np.where(keep, p / (1 - np.float64(np.float32(ratio))), 0)
    return dropped @ v, np.where(keep, p, -p) if signed else p, dropped, bits_of(keep) if packed else keep, statistics


def attention_grad(dy, q, kt, v, p, dropped=None, keep=None, ratio=None, mask=None, scale=1.0, signed=0):
    keep = p > 0 if signed else keep if ratio is None else mask_of(keep, p.shape)
    p = np.abs(p)
    share = 1 if ratio is None else 1 - np.float64(np.float32(ratio))
    dropped = p if ratio is None else np.where(keep, p / share, 0)
    dp = dy @ swap(v)
    if ratio is not None:
        dp = np.where(keep, dp / share, 0)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    reached = ds if mask is None else np.where(mask, ds, 0)
    return scale * reached @ swap(kt), scale * swap(q) @ reached, swap(dropped) @ dy, ds


def attention_tiled_grad(dy, q, kt, v, bias=None, mask=None, ratio=None, seed=None, statistics=None, y=None,
                         sum_axes=None, **attributes):
    scale, fill = attributes.get("scale", 1.0), attributes.get("fill", -np.inf)
    _, p, dropped, keep, _ = attention(q, kt, v, bias, mask, ratio, seed, **attributes)
    reach = None if mask is None or np.isinf(fill) else mask
    *products, ds = attention_grad(dy, q, kt, v, p, dropped, keep, ratio, reach, scale)
    if sum_axes is not None:
        ds = ds.sum(tuple(sum_axes), keepdims=True)
    return *products, ds


def axes_of(x, axis):
    return tuple(range(axis % x.ndim, x.ndim))


def normal(x, axis, epsilon, center):
    axes = axes_of(x, axis)
    centered = x - x.mean(axes, keepdims=True) if center else x
    inv = 1 / np.sqrt((centered**2).mean(axes, keepdims=True) + epsilon)
    return centered * inv, inv


def layer_norm_xhat(x, scale, bias=None, axis=-1, epsilon=1e-5, stash_type=1):
    xhat, inv = normal(x, axis, epsilon, True)
    return xhat * scale + (0 if bias is None else bias), xhat, inv


def rms_norm_xhat(x, scale, axis=-1, epsilon=1e-5, stash_type=1):
    xhat, inv = normal(x, axis, epsilon, False)
    return xhat * scale, xhat, inv


def rms_norm(x, scale, **attributes):
    y, _, inv = rms_norm_xhat(x, scale, **attributes)
    return y, inv


def xhat_grad(dy, xhat, scale, inv, axis, center):
    axes, rows = axes_of(xhat, axis), tuple(range(axis % xhat.ndim))
    g = dy * scale
    dx = inv * (g - (g.mean(axes, keepdims=True) if center else 0) - xhat * (g * xhat).mean(axes, keepdims=True))
    return dx, (dy * xhat).sum(rows), dy.sum(rows)


def from_y(x, scale, bias, axis, epsilon, center, capacity, least=2.0**-126, limit=2.0):
    """The sides are found by sorting, as nothing else here or in tempoc does it."""
    xhat, inv = normal(x, axis, epsilon, center)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(0 if bias is None else bias) / np.abs(scale)
    ratio = np.where(np.abs(scale) < least, np.inf, ratio).ravel()
    worst = np.argsort(-ratio, kind="stable")[:capacity]
    sides = np.sort(worst[ratio[worst] > limit])
    channels = np.full(capacity, -1, np.int64)
    channels[: sides.size] = sides
    lead = x.shape[: axis % x.ndim]
    kept = np.zeros((*lead, capacity))
    kept[..., : sides.size] = xhat.reshape(*lead, -1)[..., sides]
    return xhat * scale + (0 if bias is None else bias), inv, channels, kept


def from_y_grad(dy, y, scale, inv, channels, kept, bias=None, *, axis, center):
    """Channel by channel."""
    lead = y.shape[: axis % y.ndim]
    rows, gamma, xhat = y.reshape(*lead, -1), np.ravel(scale), np.zeros((*lead, scale.size))
    beta = np.zeros(scale.size) if bias is None else np.ravel(bias)
    for c in range(scale.size):
        named = [k for k in range(len(channels)) if channels[k] == c]
        xhat[..., c] = kept[..., named[0]] if named else (rows[..., c] - beta[c]) / gamma[c]
    return xhat_grad(dy, xhat.reshape(y.shape), scale, inv, axis, center)


DEFINITIONS = {
    **small_cases.DEFINITIONS,
    "GlobalNorm": optimizer_definitions.global_norm,
    "Accumulate": optimizer_definitions.accumulate,
    "Adagrad": optimizer_definitions.adagrad,
    "Adam": optimizer_definitions.adam,
    "AdamW": optimizer_definitions.adamw,
    "Lamb": optimizer_definitions.lamb,
    "Momentum": optimizer_definitions.momentum,
    "Sgd": optimizer_definitions.sgd,
    "Dropout": dropout,
    "DropoutGrad": lambda dy, mask, ratio: (drop(dy, mask_of(mask, dy.shape), ratio),),
    "DotProductAttention": attention,
    "DotProductAttentionGrad": attention_grad,
    "DotProductAttentionTiledGrad": attention_tiled_grad,
    "LayerNormalizationFromY": lambda x, scale, bias=None, axis=-1, epsilon=1e-5, stash_type=1, **sides: from_y(
        x, scale, bias, axis, epsilon, True, **sides),
    "LayerNormalizationFromYGrad": lambda *operands, axis=-1: from_y_grad(*operands, axis=axis, center=True),
    "LayerNormalizationXhat": layer_norm_xhat,
    "LayerNormalizationXhatGrad": lambda dy, xhat, scale, inv, axis=-1: xhat_grad(dy, xhat, scale, inv, axis, True),
    "LinearCrossEntropy": linear_loss_cases.linear_loss,
    "ScoresCrossEntropy": linear_loss_cases.scores_loss,
    "RecurrenceGrad": recurrent_cases.recurrence_grad,
    "RMSNormalization": rms_norm,
    "RMSNormalizationGrad": lambda dy, x, scale, inv, axis=-1: xhat_grad(dy, x * inv, scale, inv, axis, False)[:2],
    "RMSNormalizationFromY": lambda x, scale, axis=-1, epsilon=1e-5, stash_type=1, **sides: from_y(
        x, scale, None, axis, epsilon, False, **sides),
    "RMSNormalizationFromYGrad": lambda *operands, axis=-1: from_y_grad(*operands, axis=axis, center=False)[:2],
    "RMSNormalizationXhat": rms_norm_xhat,
    "RMSNormalizationXhatGrad": lambda dy, xhat, scale, inv, axis=-1: xhat_grad(dy, xhat, scale, inv, axis, False)[:2],
    "ResizeGrad": resize_cases.resize_grad,
    "RandomNormal": philox_draws.random_normal,
    "RandomUniform": philox_draws.random_uniform,
    "ScaleBias": lambda xhat, scale, bias=None, axis=-1: (xhat * scale + (0 if bias is None else bias),),
}
EXACT = ("Dropout", "DropoutGrad", "RandomUniform")  # every bit is defined


# --- cases ------------------------------------------------------------------------------------------------------------
CASES = []


def case(op, *operands, outputs=1, absent=(), dynamic=False, types=(np.float32,), **attributes):
    """operands: float64 arrays stand for the case's float type; None is absent. outputs: results asked for, less those
    in `absent`."""
    for dtype in types:
        CASES.append((op, operands, outputs, absent, dynamic, dtype, attributes))


def f(*shape):
    return random.standard_normal(shape)


RATIO, SEED = np.float32(0.3), np.array([7, 3], np.int64)
FLOATS = (np.float32, np.float64)


def dropout_cases():
    for shape in (3, 5), (257,), (), (0, 3), (2, 3, 7):
        case("Dropout", f(*shape), RATIO, SEED, outputs=2, node=1, types=FLOATS)
    for seed in [0, 0], [2**40 + 123, 2**33 + 5], [-1, -1], [2**63 - 1, 1]:
        case("Dropout", f(4, 9), np.float32(0.1), np.array(seed, np.int64), outputs=2, node=2**31 + 5)
    # Halves of 65536ths, the next ones to them, and both ends, of a float and of a double.
    tie, last = np.float32(2.5 / 65536), np.float32(65534.5 / 65536)
    for ratio in tie, np.nextafter(tie, 1), np.float32(3.5 / 65536), 1e-9, last, 1 - 2.0**-24:
        case("Dropout", f(300, 1000), np.float32(ratio), SEED, outputs=2)
    for ratio in 1e-300, np.nextafter(2.5 / 65536, 1), 1 - 1e-9:
        for x in f(300, 1000), f(300, 1000).astype(np.float32):
            case("Dropout", x, np.float64(ratio), SEED, outputs=2, types=(np.float64,))
    case("Dropout", f(4, 9), RATIO, SEED)
    case("Dropout", f(4, 9), np.float32([0.5]), SEED, outputs=2, dynamic=True)
    case("Dropout", f(4, 9), np.float32(0), SEED, outputs=2, dynamic=True)
    case("Dropout", f(4, 9), np.float32(0.1), SEED, outputs=2, absent=(0,))
    case("Dropout", f(4, 9), np.float16(0.5), SEED, outputs=2, types=(np.float16,))
    for shape in (3, 5), (2, 8), (), (0, 3), (257,):
        case("Dropout", f(*shape), RATIO, SEED, outputs=2, node=1, packed=1, types=FLOATS, dynamic=len(shape) == 2)
        bits = bits_of(random.random(shape) < 0.6)
        case("DropoutGrad", f(*shape), bits, RATIO, types=FLOATS, dynamic=len(shape) == 2)
    case("DropoutGrad", f(4, 9), random.random((4, 9)) < 0.6, RATIO, types=FLOATS)
    case("DropoutGrad", f(4, 9), random.random((4, 9)) < 0.6, np.float32([0.1]), dynamic=True)


def attention_cases():
    q, kt, v, dy = f(2, 3, 5, 4), f(2, 3, 4, 6), f(2, 3, 6, 8), f(2, 3, 5, 8)
    bias, mask = f(3, 5, 6), random.random((2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    for with_bias, with_mask, drops, signed in itertools.product((0, 1), (0, 1), (0, 1), (0, 1)):
        if signed and not drops:
            continue
        results = 4 if drops and not signed else 2
        operands = bias if with_bias else None, mask if with_mask else None, *((RATIO, SEED) if drops else ())
        case("DotProductAttention", q, kt, v, *operands, outputs=results, scale=0.5, node=4, signed=signed,
             types=FLOATS, dynamic=bool(with_bias))
        _, p, dropped, keep, _ = attention(q, kt, v, *operands, scale=0.5, node=4, signed=signed)
        if results == 2:
            dropped, keep = None, None
        case("DotProductAttentionGrad", dy, q, kt, v, p, dropped, keep, RATIO if drops else None, outputs=4, scale=0.5,
             signed=signed, types=FLOATS, dynamic=bool(with_mask))
        if keep is not None:
            case("DotProductAttentionGrad", dy, q, kt, v, p, dropped, keep, RATIO, outputs=3, absent=(0, 1), scale=0.5)
            again = dict(outputs=4, scale=0.5, types=FLOATS, dynamic=bool(with_mask))
            case("DotProductAttentionGrad", dy, q, kt, v, p, None, keep, RATIO, **again)
            case("DotProductAttentionGrad", dy, q, kt, v, p, None, bits_of(keep), RATIO, **again)
            case("DotProductAttentionGrad", dy, q, kt, v, p, dropped, bits_of(keep), RATIO, mask, **again)
            bits = dict(outputs=4, scale=0.5, node=4, packed=1)
            case("DotProductAttention", q, kt, v, *operands, types=FLOATS, **bits)
            case("DotProductAttention", q, kt, v, *operands, absent=(2,), dynamic=bool(with_bias), **bits)
        parts = (2, 3) if results == 2 else ()
        common = dict(outputs=5, scale=0.5, node=4, signed=signed)
        case("DotProductAttention", q, kt, v, *operands, absent=parts, types=FLOATS, **common)
        case("DotProductAttention", q, kt, v, *operands, absent=(1, 2, 3), dynamic=True, **common)
    nothing = mask.copy()
    nothing[0, 0, 2] = False
    case("DotProductAttention", q, kt, v, None, nothing, outputs=5, absent=(1, 2, 3), fill=-1e4, types=FLOATS)
    case("DotProductAttention", q, kt[:, :1], v[1:], outputs=5, absent=(1, 2, 3), types=(np.float16,))
    case("DotProductAttention", q, kt, v, None, nothing, outputs=2, guard=1)
    case("DotProductAttention", q, kt, v, np.where(nothing, 0, -np.inf), outputs=2, guard=1, types=FLOATS)
    case("DotProductAttention", q, kt, v, None, nothing, RATIO, SEED, outputs=2, guard=1, signed=1)
    case("DotProductAttention", q, kt, v, None, nothing, outputs=2, fill=-1e4)
    case("DotProductAttention", q, kt, v, bias, nothing, outputs=2, fill=-10.0)
    case("DotProductAttention", q, kt, v)
    case("DotProductAttention", q[0, 0], kt[0, 0], v[0, 0], outputs=2)
    case("DotProductAttention", q, kt[:, :1], v[1:], outputs=2, dynamic=True)  # broadcast as MatMul does
    case("DotProductAttention", q[0], kt, v[0, :1], None, None, RATIO, SEED, outputs=4)
    p = attention(q[0], kt, v)[1]
    case("DotProductAttentionGrad", dy, q[0], kt, v, p, outputs=4)
    p = attention(q, kt, v, mask=nothing, fill=-3.0)[1]
    case("DotProductAttentionGrad", dy, q, kt, v, p, None, None, None, nothing, outputs=4, types=FLOATS)
    case("DotProductAttentionGrad", dy, q, kt, v, p, None, None, None, nothing, outputs=3, scale=0.5)
    case("DotProductAttentionGrad", dy, q, kt, v, p, None, None, RATIO, nothing[:1], outputs=4, signed=1)


def tiled_cases():
    q, kt, v, dy = f(2, 3, 5, 4), f(2, 3, 4, 6), f(2, 3, 6, 8), f(2, 3, 5, 8)
    bias, mask, nothing = f(3, 5, 6), random.random((2, 1, 5, 6)) < 0.7, random.random((5, 6)) < 0.7
    mask[..., 0], nothing[2] = True, False
    op, common = "DotProductAttentionTiledGrad", dict(outputs=4, types=FLOATS, scale=0.5, node=4)
    for with_bias, with_mask, drops in itertools.product((0, 1), (0, 1), (0, 1)):
        draw = (RATIO, SEED) if drops else (None, None)
        operands = (bias if with_bias else None, mask if with_mask else None, *draw)
        case(op, dy, q, kt, v, *operands, dynamic=bool(with_bias), **common)
        case(op, dy, q, kt, v, *operands, fill=-2.0, **common)
        y, *_, statistics = attention(q, kt, v, *operands, scale=0.5, node=4, fill=-2.0)
        case(op, dy, q, kt, v, *operands, statistics, y, fill=-2.0, **common)
        case(op, dy, q, kt, v, *operands, statistics, fill=-2.0, dynamic=True, **common)
        if with_bias:
            case(op, dy, q, kt, v, *operands, sum_axes=[0], dynamic=bool(drops), **common)
            case(op, dy, q, kt, v, bias[:1, None], *operands[1:], sum_axes=[0, 1], fill=-1.0, **common)
    case(op, dy, q, kt, v, None, nothing, guard=1, **common)
    case(op, dy, q, kt, v, bias[:, :1], nothing, np.float32(0), SEED, guard=1, **common)
    case(op, dy, q[0], kt, v[:, :1], f(2, 1, 5, 6), None, sum_axes=[1], **common)
    case(op, dy, q, kt, v, f(2, 3, 1, 6), mask, RATIO, SEED, sum_axes=[1], **common)
    case(op, dy, q, kt, v, sum_axes=[0], **common)
    case(op, dy[0, 0], q[0, 0], kt[0, 0], v[0, 0], outputs=3, absent=(0,), scale=0.5)
    many = [np.concatenate([x] * 20) for x in (dy, q, kt, v)]  # 40 items share a bias
    case(op, *many, bias, outputs=4, absent=(0, 1, 2), types=FLOATS, sum_axes=[0])


def norm_cases():
    x, dy, scale, bias = f(3, 4, 6), f(3, 4, 6), f(6), f(6)
    wide = f(4, 6)
    for axis, s, b in (-1, scale, bias), (2, scale, bias), (1, wide, f(4, 6)), (-2, wide, f(4, 6)):
        for dynamic in (False, True):
            attributes = dict(axis=axis, dynamic=dynamic, types=FLOATS)
            case("LayerNormalizationXhat", x, s, outputs=3, epsilon=1e-3, **attributes)
            case("LayerNormalizationXhat", x, s, b, outputs=3, **attributes)
            case("RMSNormalizationXhat", x, s, outputs=3, epsilon=1e-3, **attributes)
            case("RMSNormalization", x, s, outputs=2, epsilon=1e-3, **attributes)
            for center, name in (True, "LayerNormalization"), (False, "RMSNormalization"):
                xhat, inv = normal(x, axis, 1e-5, center)
                statistics = (xhat, s, inv.astype(np.float32))
                case(name + "XhatGrad", dy, *statistics, outputs=3 if center else 2, **attributes)
                case(name + "XhatGrad", dy, *statistics, **attributes)
                if not center:
                    case(name + "Grad", dy, x, s, inv.astype(np.float32), outputs=2, **attributes)
    case("LayerNormalizationXhat", x, scale, bias, outputs=3, types=(np.float16,))
    case("LayerNormalizationXhat", x, np.zeros(6), bias, outputs=3)
    case("LayerNormalizationXhat", x, scale, bias)
    case("RMSNormalization", x, scale, epsilon=1e-6)
    case("ScaleBias", x, scale, types=FLOATS)
    case("ScaleBias", x, scale, bias, types=FLOATS, dynamic=True)
    case("ScaleBias", x, wide, f(4, 6), axis=1)


def from_y_cases():
    """Scales of 0 and next to nothing, biases of up to 1024 times a scale: those channels are sides; room to spare, or
    just enough."""
    x, dy = f(3, 4, 6), f(3, 4, 6)
    for axis, shape, capacity, dynamic in (-1, (6,), 3, False), (2, (6,), 5, True), (-2, (4, 6), 4, True):
        scale, bias = np.abs(f(*shape)) + 0.5, f(*shape) * 0.1
        scale.flat[[1, 3]], bias.flat[[1, 4]] = [0, 1e-40], [0.5, 1024]
        common = dict(axis=axis, dynamic=dynamic, types=FLOATS)
        room = dict(capacity=capacity, limit=4.0, epsilon=1e-3)
        case("LayerNormalizationFromY", x, scale, bias, outputs=4, **room, **common)
        case("LayerNormalizationFromY", x, scale, outputs=4, **room, **common)
        case("RMSNormalizationFromY", x, scale, outputs=4, least=0.6, **room | dict(capacity=6), **common)
        for op, center, b in ("Layer", True, bias), ("Layer", True, None), ("RMS", False, None):
            y, inv, channels, kept = from_y(x, scale, b, axis, 1e-5, center, capacity)
            saved = (y, scale, inv.astype(np.float32), channels.astype(np.int32), kept, b)
            case(op + "NormalizationFromYGrad", dy, *saved, outputs=3 if center else 2, **common)
    scale, bias = np.array([1.0, 0, 2, 1e-6, 1, 1]), np.array([0.5, 1, 8, 0, -1, 3])
    case("LayerNormalizationFromY", x, scale, bias, outputs=4, capacity=4, least=2.0**-14, types=(np.float16,))
    y, inv, channels, kept = from_y(x, scale, bias, -1, 1e-5, True, 4, least=2.0**-14)
    saved = (y, scale, inv.astype(np.float32), channels.astype(np.int32), kept, bias)
    case("LayerNormalizationFromYGrad", dy, *saved, outputs=3, types=FLOATS)


def other_cases():
    small_cases.add(case, f, FLOATS)


def optimizer_cases():
    for t in (0, 1, 2, 1000, -1):
        two = dict(types=FLOATS, dynamic=t == 2, waits=int(t < 0))
        moved = [f(3, 5), f(7), f(3, 5), f(7)]  # X, G of two tensors
        once, twice = [f(3, 5), f(7)], [f(3, 5) ** 2, f(7) ** 2]
        rate, step = np.float32(0.01 * (1 + t % 2)), np.array(t)
        case("Adam", rate, step, *moved, *once, *twice, outputs=6, **two)
        case("Adam", rate, step, *moved, *once, *twice, outputs=6, norm_coefficient=0.1, norm_coefficient_post=0.02,
             **two)
        case("AdamW", rate, step, *moved, *once, *twice, outputs=6, **two)
        case("AdamW", rate, step, *moved, *once, *twice, outputs=6, alpha=0.8, beta=0.95, weight_decay=0.1, **two)
        case("AdamW", rate, step, *moved, *once, *twice, outputs=6, norm_coefficient=0.1, weight_decay=0.0, **two)
        case("Sgd", rate, step, *moved, outputs=2, **two)
        case("Accumulate", rate, step, *moved, outputs=2, types=FLOATS)
        case("Lamb", rate, step, *moved, *once, *twice, outputs=6, weight_decay=0.1, **two)
        case("AdamW", rate.reshape(1), step.reshape(1), *moved[::2], *once[:1], *twice[:1], outputs=3, weight_decay=0.0)
        for mode, norm in ("standard", 0.0), ("nesterov", 0.01):
            case("Momentum", rate, step, *moved, *once, outputs=4, alpha=0.9, beta=0.8, mode=mode,
                 norm_coefficient=norm, **two)
        scale, half = np.float32(0.3), [g.astype(np.float16) for g in moved[2:]]
        mixed = [*moved[:2], *half]
        case("Accumulate", rate, step, *mixed, outputs=2, types=(np.float32,))
        copied = dict(types=(np.float32,), copy_type=int(TensorProto.FLOAT16), waits=int(t < 0))
        case("AdamW", rate, step, *moved, *once, *twice, scale, outputs=6, **two)
        case("AdamW", rate, step, *mixed, *once, *twice, scale.reshape(1), outputs=8, weight_decay=0.1, **copied)
        case("AdamW", rate, step, *mixed[:3], moved[3], *once, *twice, outputs=8, absent=(4, 6), **copied)
        case("Adam", rate, step, *mixed, *once, *twice, scale, outputs=8, norm_coefficient=0.1, **copied)
        case("Adagrad", rate, step, *mixed, *twice, np.float64(0.3), outputs=6, **copied)
        case("Sgd", rate, step, *mixed, scale, outputs=4, norm_coefficient=0.1, **copied)
        case("Momentum", rate, step, *mixed, *once, scale, outputs=6, alpha=0.9, beta=0.8, mode="nesterov",
             norm_coefficient=0.0, **copied)
        case("Adagrad", rate, step, *moved, *twice, outputs=4, decay_factor=0.1, norm_coefficient=0.01, **two)
        case("Adagrad", rate, step, *moved[::2], *twice[:1], outputs=2, epsilon=1e-3)
    case("AdamW", rate, step, np.float32(moved[0]), *moved[1:2], np.float32(moved[2]), moved[3], np.float32(once[0]),
         once[1], np.float32(twice[0]), twice[1], outputs=6, types=(np.float64,))  # weights of two types
    for limit in (0.5, 100.0):
        case("GlobalNorm", f(3, 5), f(7), f(), outputs=2, max_norm=limit, types=FLOATS, dynamic=True)
    case("GlobalNorm", f(300, 170), f(7), outputs=1, types=FLOATS)
    case("GlobalNorm", f(3, 5).astype(np.float16), f(7), outputs=2, max_norm=1.0, types=(np.float32,))


# --- running ----------------------------------------------------------------------------------------------------------
def typed(operands, dtype):
    return [
        None if o is None else np.asarray(o, dtype if np.asarray(o).dtype == np.float64 else None) for o in operands]


def info(name, value, dynamic):
    dims = [f"{name}_{i}" if dynamic else d for i, d in enumerate(value.shape)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims)


def one_node(op, operands, outputs, absent, dynamic, attributes):
    names = ["" if o is None else f"x{i}" for i, o in enumerate(operands)]
    while names and not names[-1]:
        names.pop()
    results = ["" if i in absent else f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, domain="ai.tempo", name="node", **attributes)
    small = [
        i for i, o in enumerate(operands) if o is not None and o.size <= 2 and o.dtype == np.int64
    ]  # seeds: int64[2] always
    inputs = [info(n, o, dynamic and i not in small) for i, (n, o) in enumerate(zip(names, operands)) if n]
    given = [helper.make_tensor_value_info(r, 0, None) for r in results if r]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=g.name) for g in given])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), [r for r in results if r]


def compare(op, dtype, got, want):
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype == bool or op in EXACT:
        want = want if want.dtype == bool else want.astype(got.dtype)
        return (
            None
            if got.dtype == want.dtype and got.tobytes() == want.tobytes()
            else f"{np.mean(got != want):.2%} differ"
        )
    if (
        want.size
        and not np.array_equal(np.signbit(got[got == 0]), np.signbit(want.astype(got.dtype)[got == 0]))
        and op == "DotProductAttention"
    ):
        return "signs of zeros differ"
    bad = max_error(got, want)
    return None if bad <= LEAN["float16" if got.dtype == np.float16 else np.dtype(dtype).name] else f"off by {bad:.1e}"


def check(tools, entry):
    op, operands, outputs, absent, dynamic, dtype, attributes = entry
    source, target = path("in.onnx"), path("out.onnx")
    operands = typed(operands, dtype)
    model, results = one_node(op, operands, outputs, absent, dynamic, attributes)
    onnx.save(model, source)
    run(tools[0], source, "-o", target, "--passes=shapes,bodies", "--verify-each", "-q")
    onnx.checker.check_model(target, full_check=True)
    exact = (
        operands
        if op in EXACT
        else [o.astype(np.float64) if o is not None and o.dtype in (np.float16, np.float32) else o for o in operands]
    )
    if op.startswith("DotProductAttention"):  # ratio is what its type holds
        exact = [o if o is None or o.ndim else np.float32(o) for o in exact]
    with np.errstate(all="ignore"):
        want = DEFINITIONS[op](*exact, **attributes)
    feeds = {f"x{i}": o for i, o in enumerate(operands) if o is not None}
    runs = {"ONNX Runtime": by_onnxruntime(target, feeds)}
    if dtype is not np.float16:
        np.savez(path("in.npz"), **feeds)
        run(tools[1], target, "--inputs", path("in.npz"), "--outputs", path("out.npz"))
        runs["tempo-run"] = load(path("out.npz"))
    for runtime, got in runs.items():
        for name in results:
            why = compare(op, dtype, got[name], np.asarray(want[int(name[1:])]))
            if why:
                return f"{runtime}: {name}: {why}"
    return None


# --- gradients --------------------------------------------------------------------------------------------------------
def differences(forward, values, at):
    """d forward / d values[at] by central differences."""
    result, x, eps = np.zeros(values[at].shape), values[at].copy(), GRADCHECK_STEP
    for index in np.ndindex(x.shape):
        loss = []
        for step in (eps, -eps):
            moved = x.copy()
            moved[index] += step
            loss.append(forward([moved if i == at else v for i, v in enumerate(values)]))
        result[index] = (loss[0] - loss[1]) / (2 * eps)
    return result


def check_gradient(tools, op, operands, attributes, frozen=()):
    """Every float operand of two elements or more is trained but `frozen`; the loss is sum(y * weights)."""
    source, target = path("in.onnx"), path("out.onnx")
    operands = typed(operands, np.float64)
    y = DEFINITIONS[op](*operands, **attributes)[0]
    weights = f(*y.shape)
    names = ["" if o is None else f"x{i}" for i, o in enumerate(operands)]
    trained = [i for i, o in enumerate(operands)
               if o is not None and o.dtype == np.float64 and o.size > 1 and i not in frozen]
    nodes = [helper.make_node(op, names, ["y"], domain="ai.tempo", name="node", **attributes),
             helper.make_node("Mul", ["y", "weights"], ["weighted"]),
             helper.make_node("ReduceSum", ["weighted"], ["loss"], keepdims=0)]
    constants = [numpy_helper.from_array(o, n) for n, o in zip(names, operands) if n] + [
        numpy_helper.from_array(weights, "weights")]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("loss", TensorProto.DOUBLE, [])],
                              constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.tempo", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), source)
    flags = [f"--train=x{i}" for i in trained] + [f"--freeze=x{i}" for i in frozen] + ["--freeze=weights"]
    run(tools[0], source, "-o", target, "--passes=shapes,autodiff,bodies", "--verify-each", "-q", *flags)
    onnx.checker.check_model(target, full_check=True)
    if op == "Atan2":  # ONNX Runtime has no Atan of doubles
        run(tools[1], target, "--outputs", path("out.npz"))
    got = load(path("out.npz")) if op == "Atan2" else by_onnxruntime(target, {})
    if sorted(got) != sorted(["loss"] + [f"x{i}_grad" for i in trained]):
        return "outputs are " + " ".join(got)
    for i in trained:
        want = differences(lambda values: float((DEFINITIONS[op](*values, **attributes)[0] * weights).sum()), operands,
                           i)
        if not near(got[f"x{i}_grad"], want, GRADCHECK):
            return f"x{i}_grad is wrong: {np.max(np.abs(got[f'x{i}_grad'] - want)):.1e}"
    return None


def gradient_cases():
    q, kt, v, bias = f(2, 3, 4), f(2, 4, 5), f(2, 5, 3), f(3, 5)
    mask = random.random((2, 3, 5)) < 0.7
    mask[..., 0] = True
    for drops in (False, True):
        draw = [RATIO, SEED] if drops else []
        yield "DotProductAttention", [q, kt, v, bias, mask] + draw, dict(scale=0.5, node=2), ()
        yield "DotProductAttention", [q, kt, v, None, mask] + draw, dict(scale=0.5, fill=-5.0), ()
        yield "DotProductAttention", [q, kt[:1], v, bias, None] + draw, dict(node=1), (0, 3)
        yield "DotProductAttention", [q[:1], kt, v[:1], f(2, 1, 5), None] + draw, dict(scale=0.5), ()
    yield "DotProductAttention", [q, kt, v, bias], dict(), (0, 1, 2)
    yield "DotProductAttention", [q, kt, v], dict(), (0, 1)
    yield "Atan2", [f(3, 1), f(4)], {}, ()
    yield "Sinc", [np.append(f(5), 0.0)], {}, ()
    yield "MulOrZero", [np.array([[0.0], [1.5]]), f(4)], {}, ()
    yield "BernoulliLog", [random.uniform(0.1, 0.9, (3, 4))], dict(outcome=0), ()
    yield "Dropout", [f(3, 4), RATIO, SEED], dict(node=3), ()
    yield "RMSNormalization", [f(2, 3, 4), f(4)], dict(stash_type=11), ()
    yield "RMSNormalization", [f(2, 3, 4), f(3, 4)], dict(axis=1, stash_type=11), (0,)
    yield "RMSNormalization", [f(2, 3, 4), f(4)], dict(axis=1, stash_type=11), ()
    yield "Swish", [f(3, 4)], dict(alpha=1.702), ()
    yield from linear_loss_cases.gradient_cases(f, random)


# --- all --------------------------------------------------------------------------------------------------------------
def rows(paths, pattern):
    found = {row for path in glob.glob(os.path.join(HERE, "../../../passes", paths))
             for row in re.findall(pattern, open(path).read(), re.M)}
    holds(found, f"no row in {paths}")
    return found


def uncovered(gradients):
    """Ops of ai.tempo with a gradient and no case here, nor a row of pointwise.def (check_pointwise.py)."""
    known = rows("gradients/gradients.def", r'^GRADIENT\("ai.tempo",\s*(\w+)')
    known |= rows("rules/texts/*.rules", r"^gradient ai.tempo.(\w+)")
    pointwise = rows("../kernels/pointwise/pointwise.def", r'^POINTWISE\(\w+, "ai.tempo", (\w+)')
    return sorted(known - pointwise - {g[0] for g in gradients})


def main():
    tools, only = [os.path.abspath(t) for t in sys.argv[1:3]], set(sys.argv[3:])
    philox_draws.known_answers()
    dropout_cases(), attention_cases(), tiled_cases(), norm_cases(), from_y_cases(), other_cases(), optimizer_cases()
    resize_cases.cases(case, f)
    recurrent_cases.cases(case, f, random)
    linear_loss_cases.cases(case, f, random), philox_draws.cases(case, SEED)
    gradients = list(gradient_cases())
    for op in uncovered(gradients):
        holds(False, "no gradient case for", op)
    for c in CASES:
        if not only or c[0] in only:
            run_case(f"{c[0]} {[*map(np.shape, c[1])]} {c[2:]}", check, tools, c)
    for g in gradients:
        if not only or g[0] in only:
            run_case(f"{g[0]} gradient {[*map(np.shape, g[1])]} {g[2:]}", check_gradient, tools, *g)
    finish()


if __name__ == "__main__":
    main()
