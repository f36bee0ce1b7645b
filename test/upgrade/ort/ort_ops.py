#!/usr/bin/env python3
"""Ops of ONNX Runtime's training tools (passes/upgrade/ort.def), one by one: what tempoc makes of a node gives the
numbers that ONNX Runtime's own kernel gives, or, where only its training build had one, those of the formula in numpy.
usage: ort_ops.py tempoc"""
import math
import re
import sys

import numpy as np
import onnx
import onnx.parser

from compare import by_onnxruntime, near
from programs import case, finish, path, run
from tolerances import TRAINING_OP

rng = np.random.default_rng(11)
HEADER = '<ir_version: 8, opset_import: ["" : %d, "com.microsoft" : 1]>\n'
NAMES = {"float32": "float", "float64": "double", "int32": "int32", "int64": "int64", "bool": "bool"}
INTEGERS = {"n": onnx.TensorProto.INT64, "o": onnx.TensorProto.INT32}  # results that are no floats


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def erf(x):
    return np.vectorize(math.erf)(x.astype(np.float64))


def gelu_slope(x):
    x = x.astype(np.float64)
    return 0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def tanh_gelu_slope(x):
    x = x.astype(np.float64)
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)
    return 0.5 * (1 + np.tanh(u)) + 0.5 * x * (1 - np.tanh(u) ** 2) * math.sqrt(2 / math.pi) * (1 +
                                                                                                3 * 0.044715 * x ** 2)


def swish_slope(x, alpha):
    s = 1 / (1 + np.exp(-alpha * x.astype(np.float64)))
    return s + alpha * x * s * (1 - s)


def norm_grad(dy, x, scale, mean, inv_std):
    hat = (x - mean) * inv_std
    b = dy * scale * inv_std
    sums = tuple(range(x.ndim - 1))
    dx = b - b.mean(-1, keepdims=True) - hat * (b * hat).mean(-1, keepdims=True)
    return dx, (dy * hat).sum(sums), dy.sum(sums)


def rms_grad(dy, x, scale, inv_std):
    hat, b = x * inv_std, dy * scale * inv_std
    return b - hat * (b * hat).mean(-1, keepdims=True), (dy * hat).sum((0, 1))


def loss_grad(dl, log_prob, labels, weights=None, ignored=None):
    kept = labels != ignored if ignored is not None else np.ones(labels.shape, bool)
    own = np.where(kept, 1.0 if weights is None else weights[np.where(kept, labels, 0)], 0.0)
    hot = np.eye(log_prob.shape[1])[np.where(kept, labels, 0)]
    return dl * own[:, None] / own.sum() * (np.exp(log_prob) - hot)


def gather_grad(shape, indices, dy, axis):
    out = np.zeros(shape, np.float32)
    where = (slice(None),) * axis + (indices,)
    np.add.at(out, where, dy)
    return out


def places_of(y, kernel, stride):
    """(place in y, window in the padded input) for 2-D windows."""
    for i in range(y.shape[2]):
        for j in range(y.shape[3]):
            yield i, j, slice(i * stride, i * stride + kernel), slice(j * stride, j * stride + kernel)


def conv_grad(dy, x, w, stride=1, pad=0, groups=1):
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    dx, dw, c, m = np.zeros_like(wide), np.zeros(w.shape), x.shape[1] // groups, w.shape[0] // groups
    for i, j, rows, columns in places_of(dy, w.shape[2], stride):
        for g in range(groups):
            read, made = slice(g * c, (g + 1) * c), slice(g * m, (g + 1) * m)
            dx[:, read, rows, columns] += np.einsum("nm,mchw->nchw", dy[:, made, i, j], w[made])
            dw[made] += np.einsum("nm,nchw->mchw", dy[:, made, i, j], wide[:, read, rows, columns])
    return dx[:, :, pad:dx.shape[2] - pad, pad:dx.shape[3] - pad], dw, dy.sum((0, 2, 3))


def conv(x, w, stride):
    size = (x.shape[2] - w.shape[2]) // stride + 1
    y = np.zeros((x.shape[0], w.shape[0], size, size))
    for i, j, rows, columns in places_of(y, w.shape[2], stride):
        y[:, :, i, j] = np.einsum("nchw,mchw->nm", x[:, :, rows, columns], w)
    return y


def max_pool_grad(dy, x):
    dx = np.zeros_like(x)
    for i, j, rows, columns in places_of(dy, 3, 2):
        for n, c in np.ndindex(x.shape[:2]):
            r, k = np.unravel_index(x[n, c, rows, columns].argmax(), (3, 3))
            dx[n, c, rows.start + r, columns.start + k] += dy[n, c, i, j]
    return dx


def average_pool_grad(dy, x):
    dx = np.zeros_like(x)
    for i, j, rows, columns in places_of(dy, 3, 2):
        dx[:, :, rows, columns] += dy[:, :, i:i + 1, j:j + 1] / 9
    return dx


def batch_norm(x, s, b):
    axes, w = (0, 2, 3), (1, -1, 1, 1)
    hat = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return hat * s.reshape(w) + b.reshape(w)


def batch_norm_grad(dy, x, s):
    axes, w = (0, 2, 3), (1, -1, 1, 1)
    inv = 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    hat = (x - x.mean(axes, keepdims=True)) * inv
    d = dy * s.reshape(w)
    dx = inv * (d - d.mean(axes, keepdims=True) - hat * (d * hat).mean(axes, keepdims=True))
    return dx, (dy * hat).sum(axes), dy.sum(axes)


def placed(shape, where, dy):
    """Zeros of the shape, and dy added where an index says."""
    out = np.zeros(shape, np.float32)
    np.add.at(out, where, dy)
    return out


def softmax_of(x, axes):
    e = np.exp(x)
    return e / e.sum(axes, keepdims=True)


def statistics(x):
    return x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


A, B, X, DY, BIAS = floats(2, 3, 4), floats(2, 3, 4), floats(2, 3, 8), floats(2, 3, 8), floats(8)
MEAN, INV = statistics(X)
SCALE = floats(8) + 2
HAT = (X - MEAN) * INV
Y = HAT * SCALE + BIAS
P = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
LOGITS = floats(5, 7)
LOG_PROB = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
LABELS, SOME = np.array([0, 6, 2, 3, 3]), np.array([0, -100, 2, -100, 3])
WEIGHTS = np.abs(floats(7)) + 0.1
MASK = rng.random((2, 3, 8)) < 0.7
ROWS = np.array([[1, 4, 1], [0, 3, 3]])
IMAGE, FILTER, PATCHES = floats(2, 4, 7, 7), floats(6, 2, 3, 3), floats(6, 4, 3, 3)
ZERO_SCALE = SCALE * (np.arange(8) != 3)
FLAT = softmax_of(X, (1, 2))
BATCH_MEAN, BATCH_VAR = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))

# name, nodes, {operand: value}, results in numpy (None: ONNX Runtime runs it), opset if not 17. Behind the name of an
# operand ` makes its dims symbols, ! makes it a constant.
CASES = [
    ("gelu", "y = com.microsoft.Gelu (x)", {"x": X}, None),
    ("fast_gelu", "y = com.microsoft.FastGelu (x)", {"x": X}, None),
    ("fast_gelu_bias", "y = com.microsoft.FastGelu (x, b)", {"x": X, "b": BIAS}, None),
    ("bias_gelu", "y = com.microsoft.BiasGelu (x, b)", {"x": X, "b": BIAS}, None),
    ("quick_gelu", "y = com.microsoft.QuickGelu (x)", {"x": X}, None),
    ("quick_gelu_silu", "y = com.microsoft.QuickGelu <alpha = 1.0> (x)", {"x": X}, None),
    ("gelu_grad", "y = com.microsoft.GeluGrad (dy, x)", {"dy": DY, "x": X}, lambda dy, x: dy * gelu_slope(x)),
    ("fast_gelu_grad", "y = com.microsoft.FastGeluGrad (dy, x)", {"dy": DY, "x": X},
     lambda dy, x: dy * tanh_gelu_slope(x)),
    ("fast_gelu_grad_bias", "y = com.microsoft.FastGeluGrad (dy, x, b)", {"dy": DY, "x": X, "b": BIAS},
     lambda dy, x, b: dy * tanh_gelu_slope(x + b)),
    ("bias_gelu_grad", "y = com.microsoft.BiasGeluGrad_dX (dy, x, b)", {"dy": DY, "x": X, "b": BIAS},
     lambda dy, x, b: dy * gelu_slope(x + b)),
    ("quick_gelu_grad", "y = com.microsoft.QuickGeluGrad (dy, x)", {"dy": DY, "x": X},
     lambda dy, x: dy * swish_slope(x, 1.702)),
    ("silu_grad", "y = com.microsoft.QuickGeluGrad <alpha = 1.0> (dy, x)", {"dy": DY, "x": X},
     lambda dy, x: dy * swish_slope(x, 1)),
    ("tanh_grad", "y = com.microsoft.TanhGrad (dy, t)", {"dy": DY, "t": np.tanh(X)}, lambda dy, t: dy * (1 - t * t)),
    ("sigmoid_grad", "y = com.microsoft.SigmoidGrad (dy, s)", {"dy": DY, "s": P}, lambda dy, s: dy * s * (1 - s)),
    ("relu_grad", "y = com.microsoft.ReluGrad (dy, r)", {"dy": DY, "r": np.maximum(X, 0)}, lambda dy, r: dy * (r > 0)),
    ("relu_grad_infinite", "y = com.microsoft.ReluGrad (dy, r)", {"dy": DY * np.inf, "r": X},
     lambda dy, r: np.where(r > 0, dy, 0)),
    ("matmul_ta", "y = com.microsoft.FusedMatMul <transA = 1> (a, b)", {"a": A, "b": B}, None),
    ("matmul_tb", "y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.25> (a, b)", {"a": A, "b": B}, None),
    ("matmul_wide", "y = com.microsoft.FusedMatMul <transB = 1, transA = 1, alpha = -2.0> (a, b)",
     {"a": A, "b": floats(2, 5, 3)}, None),
    ("matmul_symbolic", "y = com.microsoft.FusedMatMul <transB = 1> (a, b)", {"a`": A, "b": B}, None),
    ("gemm_relu", 'y = com.microsoft.FusedGemm <activation = "Relu", transA = 1, alpha = 0.5, beta = 2.0> (a, b, c)',
     {"a": floats(3, 4), "b": floats(3, 5), "c": floats(5)}, None),
    ("gemm_tanh", 'y = com.microsoft.FusedGemm <activation = "Tanh", transB = 1> (a, b, c)',
     {"a": floats(3, 4), "b": floats(5, 4), "c": floats(5)}, None),
    ("rms_norm", "y, i = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-5> (x, s)", {"x": X, "s": SCALE}, None),
    ("rms_norm_grad", "y, ds = com.microsoft.SimplifiedLayerNormalizationGrad <axis = -1, epsilon = 1e-5> (dy, x, s, "
                      "i)",
     {"dy": DY, "x": X, "s": SCALE, "i": 1 / np.sqrt((X * X).mean(-1, keepdims=True))}, rms_grad),
    ("layer_norm_grad", "y, ds, db = com.microsoft.LayerNormalizationGrad <axis = -1, epsilon = 1e-5, stash_type = 1> "
                        "(dy, x, s, m, i)",
     {"dy": DY, "x": X, "s": SCALE, "m": MEAN, "i": INV}, norm_grad),
    ("layer_norm_grad_from_y", "y, ds, db = com.microsoft.InvertibleLayerNormalizationGrad <axis = -1> (dy, o, s, b, "
                               "i)",
     {"dy": DY, "o": Y, "s": SCALE, "b": BIAS, "i": INV}, lambda dy, o, s, b, i: norm_grad(dy, X, s, MEAN, i)),
    ("softmax_grad", "y = com.microsoft.SoftmaxGrad_13 <axis = -1> (dy, p)", {"dy": DY, "p": P},
     lambda dy, p: p * (dy - (dy * p).sum(-1, keepdims=True))),
    ("softmax_grad_middle", "y = com.microsoft.SoftmaxGrad_13 <axis = 1> (dy, p)", {"dy": DY, "p": P},
     lambda dy, p: p * (dy - (dy * p).sum(1, keepdims=True))),
    ("log_softmax_grad", "y = com.microsoft.LogSoftmaxGrad_13 <axis = -1> (dy, l)", {"dy": DY, "l": np.log(P)},
     lambda dy, l: dy - np.exp(l) * dy.sum(-1, keepdims=True)),
    ("dropout_grad", "y = com.microsoft.DropoutGrad (dy, m, r, t)",
     {"dy": DY, "m": MASK, "r": np.float32(0.3), "t": np.True_},
     lambda dy, m, r, t: dy * m / (1 - r)),
    ("dropout_grad_half", "y = com.microsoft.DropoutGrad (dy, m)", {"dy": DY, "m": MASK}, lambda dy, m: dy * m * 2),
    ("gather_grad", "y = com.microsoft.GatherGrad <axis = 0> (s, i, dy)",
     {"s!": np.array([5, 8]), "i": ROWS, "dy": floats(2, 3, 8)},
     lambda s, i, dy: gather_grad(s, i, dy, 0)),
    ("gather_grad_1", "y = com.microsoft.GatherGrad <axis = 1> (s, i, dy)",
     {"s!": np.array([2, 5, 8]), "i": np.array([4, 4]), "dy": floats(2, 2, 8)},
     lambda s, i, dy: gather_grad(s, i, dy, 1)),
    ("loss_grad", 'y = com.microsoft.SoftmaxCrossEntropyLossGrad <reduction = "mean"> (d, l, t)',
     {"d": np.float32(1.5), "l": LOG_PROB, "t": LABELS}, loss_grad),
    ("loss_grad_ignored", 'y = com.microsoft.SoftmaxCrossEntropyLossGrad <reduction = "mean", ignore_index = -100> (d, '
                          'l, t, w)',
     {"d": np.float32(1.5), "l": LOG_PROB, "t": SOME, "w": WEIGHTS}, lambda d, l, t, w: loss_grad(d, l, t, w, -100)),
    ("loss_internal", 'y, p = com.microsoft.SoftmaxCrossEntropyLossInternal <reduction = "mean"> (l, t, w, i)',
     {"l": LOGITS, "t": SOME, "w": WEIGHTS, "i!": np.int64(-100)},
     lambda l, t, w, i: (-(LOG_PROB[[0, 2, 4], [0, 2, 3]] * w[[0, 2, 3]]).sum() / w[[0, 2, 3]].sum(), LOG_PROB)),
    ("loss_internal_grad", 'y = com.microsoft.SoftmaxCrossEntropyLossInternalGrad <reduction = "mean"> (d, l, t, , i)',
     {"d": np.float32(1.5), "l": LOG_PROB, "t": SOME, "i!": np.int64(-100)},
     lambda d, l, t, i: loss_grad(d, l, t, None, -100)),
    ("concat", "y, n = com.microsoft.ConcatTraining <axis = 1> (a, b)", {"a": A, "b": floats(2, 5, 4)},
     lambda a, b: (np.concatenate([a, b], 1), np.array([3, 5]))),
    ("concat_last", "y, n = com.microsoft.ConcatTraining <axis = -1> (a, b)", {"a": A, "b": B},
     lambda a, b: (np.concatenate([a, b], -1), np.array([4, 4]))),
    ("split", "y, z = com.microsoft.SplitTraining <axis = 1> (a, s)", {"a": A, "s!": np.array([1, 2])},
     lambda a, s: (a[:, :1], a[:, 1:])),
    ("reduce_sum", "y = com.microsoft.ReduceSumTraining <keepdims = 0> (a, s)", {"a": A, "s!": np.array([0, 2])},
     lambda a, s: a.sum((0, 2))),
    ("relu_grad_leaky", "y = com.microsoft.LeakyReluGrad <alpha = 0.2> (dy, r)", {"dy": DY, "r": X},
     lambda dy, r: np.where(r > 0, dy, 0.2 * dy)),
    ("fast_gelu_grad_dx", "y = com.microsoft.BiasFastGeluGrad_dX (dy, x, b)", {"dy": DY, "x": X, "b": BIAS},
     lambda dy, x, b: dy * tanh_gelu_slope(x + b)),
    ("gelu_grad_of_tanh", 'g = Gelu <approximate = "tanh"> (x)\ny = com.microsoft.GeluGrad (dy, x)',
     {"dy": DY, "x": X}, lambda dy, x: dy * tanh_gelu_slope(x), 20),
    ("gelu_grad_of_exact", "g = Gelu (x)\ny = com.microsoft.GeluGrad (dy, x)",
     {"dy": DY, "x": X}, lambda dy, x: dy * gelu_slope(x), 20),
    ("gather_grad_positions", "y = com.microsoft.GatherGrad <axis = 0> (s, i, dy)",
     {"s!": np.array([5, 8]), "i": np.array([[1, 0, 4]]), "dy`": floats(2, 3, 8)},
     lambda s, i, dy: gather_grad(s, i[0], dy.sum(0), 0)),
    ("gather_grad_positions_last", "y = com.microsoft.GatherGrad <axis = -1> (s, i, dy)",
     {"s!": np.array([8, 5]), "i": np.array([[1, 0, 4]]), "dy`": floats(8, 2, 3)},
     lambda s, i, dy: gather_grad(s, i[0], dy.sum(1), 1)),
    ("gather_elements_grad", "y = com.microsoft.GatherElementsGrad <axis = 1> (dy, s, i)",
     {"dy": floats(2, 3), "s!": np.array([2, 5]), "i": ROWS},
     lambda dy, s, i: placed(s, (np.array([[0], [1]]), i), dy)),
    ("gather_elements_grad_open", "y = com.microsoft.GatherElementsGrad <axis = -1> (dy, s, i)",
     {"dy`": floats(2, 3), "s": np.array([2, 5]), "i`": ROWS},
     lambda dy, s, i: placed(s, (np.array([[0], [1]]), i), dy)),
    ("gather_nd_grad", "y = com.microsoft.GatherNDGrad <batch_dims = 0> (s, i, dy)",
     {"s!": np.array([5, 4, 6]), "i": np.array([[1, 3], [1, 3], [0, 2]]), "dy": floats(3, 6)},
     lambda s, i, dy: placed(s, (i[:, 0], i[:, 1]), dy)),
    ("gather_nd_grad_batch", "y = com.microsoft.GatherNDGrad <batch_dims = 1> (s, i, dy)",
     {"s!": np.array([2, 5, 6]), "i": np.array([[[1], [1]], [[4], [0]]]), "dy": floats(2, 2, 6)},
     lambda s, i, dy: placed(s, (np.array([[0], [1]]), i[..., 0]), dy)),
    ("slice_grad", "y = com.microsoft.SliceGrad (dy, s, b, e, a, t)",
     {"dy": floats(4, 2, 6), "s!": np.array([4, 6, 8]), "b!": np.array([1, -6]), "e!": np.array([3, 100]),
      "a!": np.array([1, -1]), "t!": np.array([1, 1])},
     lambda dy, s, *_: placed(s, np.s_[:, 1:3, 2:8], dy)),
    ("slice_grad_steps", "y = com.microsoft.SliceGrad (dy, s, b, e, a, t)",
     {"dy": floats(4, 3), "s!": np.array([4, 6]), "b!": np.array([-1]), "e!": np.array([-1000]),
      "a!": np.array([1]), "t!": np.array([-2])},
     lambda dy, s, *_: placed(s, np.s_[:, ::-2], dy)),
    ("slice_grad_short", "y = com.microsoft.SliceGrad (dy, s, b, e)",
     {"dy`": floats(2, 3), "s": np.array([4, 6]), "b!": np.array([1, 2]), "e!": np.array([3, 5])},
     lambda dy, s, *_: placed(s, np.s_[1:3, 2:5], dy)),
    ("trilu", "y = com.microsoft.Trilu <upper = 0> (a)", {"a": A}, lambda a: np.tril(a)),
    ("conv_grad", "y, dw, db = com.microsoft.ConvGrad <group = 2, pads = [1, 1, 1, 1], strides = [2, 2]> (dy, x, w)",
     {"dy": floats(2, 6, 4, 4), "x": IMAGE, "w": FILTER}, lambda dy, x, w: conv_grad(dy, x, w, 2, 1, 2)),
    ("conv_grad_weight", ", y = com.microsoft.ConvGrad <kernel_shape = [3, 3]> (dy, x, w)",
     {"dy": floats(2, 6, 5, 5), "x": IMAGE, "w": PATCHES}, lambda dy, x, w: conv_grad(dy, x, w)[1]),
    ("conv_grad_patches", ", y, db = com.microsoft.ConvGrad <strides = [3, 3]> (dy, x, w)",
     {"dy": floats(2, 6, 2, 2), "x": floats(2, 4, 6, 6), "w": PATCHES},
     lambda dy, x, w: conv_grad(dy, x, w, 3)[1:]),
    ("conv_transpose_grad", "y, dw, db = com.microsoft.ConvTransposeGrad <strides = [2, 2]> (dy, x, w)",
     {"dy": IMAGE, "x": floats(2, 6, 3, 3), "w": PATCHES},
     lambda dy, x, w: (conv(dy, w, 2), conv_grad(x, dy, w, 2)[1], dy.sum((0, 2, 3)))),
    ("max_pool_grad", "p, i = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (x)\n"
                      "y = MaxPoolGrad <kernel_shape = [3, 3], strides = [2, 2]> (dy, i)",
     {"dy": floats(2, 4, 3, 3), "x": IMAGE}, max_pool_grad),
    ("average_pool_grad", "p = AveragePool <kernel_shape = [3, 3], strides = [2, 2]> (x)\n"
                          "y = AveragePoolGrad <kernel_shape = [3, 3], strides = [2, 2]> (dy)",
     {"dy": floats(2, 4, 3, 3), "x": IMAGE}, average_pool_grad),
    ("batch_norm", "y, rm, rv, m, i = com.microsoft.BatchNormInternal <training_mode = 1> (x, s, b, a, v)",
     {"x": IMAGE, "s": floats(4), "b": floats(4), "a": floats(4), "v": np.abs(floats(4))},
     lambda x, s, b, a, v: (batch_norm(x, s, b), 0.9 * a + 0.1 * BATCH_MEAN, 0.9 * v + 0.1 * BATCH_VAR, BATCH_MEAN,
                            1 / np.sqrt(BATCH_VAR + 1e-5))),
    ("batch_norm_grad", "y, ds, db = com.microsoft.BatchNormalizationGrad <epsilon = 1e-5> (dy, x, s, m, i)",
     {"dy": floats(2, 4, 7, 7), "x": IMAGE, "s": floats(4), "m": BATCH_MEAN, "i": 1 / np.sqrt(BATCH_VAR + 1e-5)},
     lambda dy, x, s, m, i: batch_norm_grad(dy, x, s)),
    ("layer_norm_grad_of_norm", "o, , i = LayerNormalization (x, s, b)\n"
                                "y, ds, db = com.microsoft.InvertibleLayerNormalizationGrad <axis = -1> (dy, o, s, b, "
                                "i)",
     {"dy": DY, "x": X, "s": ZERO_SCALE, "b": BIAS}, lambda dy, x, s, b: norm_grad(dy, x, s, MEAN, INV)),
    ("softmax_grad_flat", "y = com.microsoft.SoftmaxGrad <axis = 1> (dy, p)", {"dy": DY, "p": FLAT},
     lambda dy, p: p * (dy - (dy * p).sum((1, 2), keepdims=True))),
    ("softmax_grad_flat_last", "y = com.microsoft.SoftmaxGrad <axis = 2> (dy, p)", {"dy": DY, "p": P},
     lambda dy, p: p * (dy - (dy * p).sum(-1, keepdims=True))),
    ("log_softmax_grad_flat", "y = com.microsoft.LogSoftmaxGrad (dy, l)", {"dy`": DY, "l`": np.log(FLAT)},
     lambda dy, l: dy - np.exp(l) * dy.sum((1, 2), keepdims=True)),
    ("dropout_grad_seeded", "y = com.microsoft.DropoutGrad <seed = 7> (dy, m, r)",
     {"dy": DY, "m": MASK, "r": np.float32(0.3)}, lambda dy, m, r: dy * m / (1 - r)),
    ("matmul_batch_a", "y = com.microsoft.FusedMatMul <transBatchA = 1> (a, b)", {"a": floats(3, 2, 5, 4),
     "b": floats(2, 5, 4, 6)}, None),
    ("matmul_batch_b", "y = com.microsoft.FusedMatMul <transBatchB = 1, transB = 1, alpha = 0.5> (a, b)",
     {"a": floats(2, 5, 3, 4), "b": floats(6, 2, 5, 4)}, None),
    ("matmul_batches", "y = com.microsoft.FusedMatMul <transBatchA = 1, transA = 1, transBatchB = 1> (a, b)",
     {"a": floats(4, 2, 3), "b": floats(4, 2, 6)}, None),
    ("gemm_leaky", 'y = com.microsoft.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.3> (a, b, c)',
     {"a": floats(3, 4), "b": floats(4, 5), "c": floats(5)}, None),
    ("gemm_hard_sigmoid", 'y = com.microsoft.FusedGemm <activation = "HardSigmoid", activation_alpha = 0.3, '
                          "activation_beta = 0.4, alpha = 2.0> (a, b, c)",
     {"a": floats(3, 4), "b": floats(4, 5), "c": floats(5)}, None),
    ("conv_relu", 'y = com.microsoft.FusedConv <activation = "Relu", strides = [2, 2], pads = [1, 1, 1, 1]> (x, w, b)',
     {"x": IMAGE, "w": PATCHES, "b": floats(6)}, None),
    ("conv_leaky", 'y = com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.3]> (x, w)',
     {"x": IMAGE, "w": PATCHES}, None),
    ("conv_added", 'y = com.microsoft.FusedConv <activation = "HardSigmoid", activation_params = [0.3, 0.4]> (x, w, b, '
                   "z)",
     {"x": IMAGE, "w": PATCHES, "b": floats(6), "z": floats(2, 6, 5, 5)},
     lambda x, w, b, z: np.clip(0.3 * (conv(x, w, 1) + b.reshape(6, 1, 1) + z) + 0.4, 0, 1)),
    ("loss_internal_grad_other", 'y = com.microsoft.SoftmaxCrossEntropyLossInternalGrad <reduction = "mean"> (d, l, '
                                 "t, w, i, o)",
     {"d": np.float32(1.5), "l": LOG_PROB, "t": SOME, "w": WEIGHTS, "i!": np.int64(-100), "o": floats(35)},
     lambda d, l, t, w, i, o: loss_grad(d, l, t, w, -100) + o.reshape(5, 7)),
    ("skip_layer_norm", "y, , , q = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, k, s, b, c)",
     {"x": X, "k": DY, "s": SCALE, "b": BIAS, "c": floats(8)}, None),
    ("skip_layer_norm_plain", "y = com.microsoft.SkipLayerNormalization (x, k, s)",
     {"x": X, "k": floats(1, 3, 8), "s": SCALE}, None),
    ("skip_rms_norm", "y, , , q = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-5> (x, k, s, c)",
     {"x": X, "k": DY, "s": SCALE, "c": floats(8)}, None),
    ("bias_softmax", "y = com.microsoft.BiasSoftmax <axis = 2, is_inner_broadcast = 1> (x, b)",
     {"x": X, "b": floats(2, 1, 8)}, lambda x, b: softmax_of(x + b, -1)),
    ("bias_softmax_flat", "y = com.microsoft.BiasSoftmax <axis = 1, is_inner_broadcast = 0> (x, b)",
     {"x": X, "b": floats(3, 8)}, lambda x, b: softmax_of(x + b, (1, 2))),
    ("bias_softmax_dropout", "y, m, p = com.microsoft.BiasSoftmaxDropout <axis = -1, is_inner_broadcast = 0, seed = "
                             "3> (x, b, r)",
     {"x": X, "b": floats(3, 8), "r": np.float32(0)},
     lambda x, b, r: (softmax_of(x + b, -1), np.ones(x.shape), softmax_of(x + b, -1))),
    ("softmax_dropout_grad", "y = com.microsoft.SoftmaxDropoutGrad <axis = 2> (dy, m, p)",
     {"dy": DY, "m": MASK, "p": P}, lambda dy, m, p: p * (2 * dy * m - (2 * dy * m * p).sum(-1, keepdims=True))),
    ("bias_dropout", "y = com.microsoft.BiasDropout (x, b, e, r, t)",
     {"x": X, "b": BIAS, "e": DY, "r": np.float32(0.5), "t": np.False_}, lambda x, b, e, r, t: x + b + e),
    ("scale_down", "y = com.microsoft.Scale <scale_down = 1> (a, s)", {"a": A, "s": np.int64(12)}, lambda a, s: a / 12),
    ("scale_up", "y = com.microsoft.Scale <scale_down = 0> (a, s)", {"a": A, "s": np.float32(12)}, lambda a, s: a * 12),
]
# Attention: heads of 8 or 16 elements, 6 tokens, batch 2; tables for 16, 8 and 4 elements of a head.
Q, K2, V2, QKV = floats(2, 6, 32), floats(2, 6, 16), floats(2, 6, 16), floats(2, 6, 64)
PLACES = np.array([[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]])
ANGLES = rng.random((16, 8)) * 3
WIDE = {"c!": np.cos(ANGLES).astype(np.float32), "s!": np.sin(ANGLES).astype(np.float32)}
TABLES, NARROW = ({name: table[:, :n].copy() for name, table in WIDE.items()} for n in (4, 2))
FULL = {"l!": np.array([5, 5], np.int32), "n!": np.array(6, np.int32)}
GROUPED = "com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2"
TURNED = "com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1, do_rotary = 1"
HEADS = "com.microsoft.MultiHeadAttention <num_heads = 4"
MERGED = {"x": floats(2, 6, 16), "w": floats(16, 96) / 4, "b": floats(96)}
KEEP, LENGTHS = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]], np.int32), np.array([4, 6], np.int32)
EMBED = {"i": np.array([[1, 4, 1, 0], [3, 3, 2, 1]], np.int32), "t": np.array([[0, 0, 1, 1], [1, 0, 0, 1]], np.int32),
         "w": floats(5, 8), "p": floats(9, 8), "u": floats(2, 8), "s": SCALE, "b": BIAS}
ATTENTIONS = [
    ("gqa", f"y = {GROUPED}> (q, k, v, , , l, n)", {"q`": Q, "k`": K2, "v`": floats(2, 6, 16), **FULL}),
    ("gqa_present", f"y, a, b = {GROUPED}, scale = 0.2> (q, k, v, , , l, n)", {"q": Q, "k": K2, "v": V2, **FULL}),
    ("gqa_packed_rotary", f"y = {TURNED}> (q, , , , , l, n, c, s)", {"q": QKV, **FULL, **WIDE}),
    ("gqa_interleaved", f"y = {TURNED}, rotary_interleaved = 1> (q, k, v, , , l, n, c, s)",
     {"q": Q, "k": K2, "v": V2, **FULL, **WIDE}),
    ("gqa_partial", f"y = {TURNED.replace('2', '1')}> (q, , , , , l, n, c, s)",
     {"q": floats(2, 6, 96), **FULL, **WIDE}),
    ("gqa_window", f"y = {GROUPED}, local_window_size = 3> (q, , , , , l, n)", {"q": QKV, **FULL}),
    ("gqa_softcap", f"y = {GROUPED}, softcap = 2.0> (q, , , , , l, n)", {"q": QKV, **FULL}),
    ("gqa_bias", f"y = {GROUPED}> (q, , , , , l, n, , , , m)", {"q": QKV, **FULL, "m": floats(1, 4, 6, 6)}),
    ("mha", f"y = {HEADS}> (q, k, v)", {"q": Q, "k": floats(2, 5, 32), "v": floats(2, 5, 16)}),
    ("mha_causal_scale", f"y = {HEADS}, unidirectional = 1, scale = 0.2> (q, k, v)",
     {"q`": Q, "k`": floats(2, 6, 32), "v`": floats(2, 6, 32)}),
    ("mha_bias_mask", f"y = {HEADS}> (q, k, v, b, m)",
     {"q": Q, "k": floats(2, 6, 32), "v": floats(2, 6, 32), "b": floats(96), "m": KEEP}),
    ("mha_bias_added", f"y = {HEADS}, mask_filter_value = -5.0> (q, k, v, , m, e)",
     {"q": Q, "k": floats(2, 6, 32), "v": floats(2, 6, 32), "m": KEEP, "e": floats(1, 4, 6, 6)}),
    ("mha_cross", f"y = {HEADS}> (q, k, v)", {"q": Q, "k": floats(2, 4, 5, 8), "v": floats(2, 4, 5, 8)}),
    ("mha_past", f"y, a, b = {HEADS}, unidirectional = 1> (q, k, v, , , , j, u)",
     {"q": Q, "k": floats(2, 6, 32), "v": floats(2, 6, 32), "j": floats(2, 4, 3, 8), "u": floats(2, 4, 3, 8)}),
    ("attention", "y = com.microsoft.Attention <num_heads = 4> (x, w, b)", MERGED),
    ("attention_mask", "y = com.microsoft.Attention <num_heads = 4> (x, w, b, m)", {**MERGED, "m": KEEP}),
    ("attention_rows", "y = com.microsoft.Attention <num_heads = 4, unidirectional = 1> (x, w, b, m)",
     {**MERGED, "m": np.repeat(KEEP[:, None], 6, 1)}),
    ("attention_lengths", "y = com.microsoft.Attention <num_heads = 4> (x, w, b, m, , e)",
     {**MERGED, "m": LENGTHS, "e": floats(2, 1, 6, 6)}),
    ("attention_sizes", "y = com.microsoft.Attention <num_heads = 4, qkv_hidden_sizes = [32, 32, 16]> (x, w, b)",
     {**MERGED, "w": MERGED["w"][:, :80], "b": MERGED["b"][:80]}),
    ("rotary", "y = com.microsoft.RotaryEmbedding (q, p, c, s)", {"q": Q, "p": PLACES, **TABLES}),
    ("rotary_offset", "y = com.microsoft.RotaryEmbedding <interleaved = 1> (q, p, c, s)",
     {"q": floats(2, 4, 6, 8), "p": np.array([3]), **TABLES}),
    ("rotary_partial", "y = com.microsoft.RotaryEmbedding <num_heads = 4, rotary_embedding_dim = 4> (q, p, c, s)",
     {"q": Q, "p": PLACES, **NARROW}),
    ("embed_layer_norm", "y, , z = com.microsoft.EmbedLayerNormalization <epsilon = 1e-5> (i, t, w, p, u, s, b)",
     EMBED),
    ("embed_places", "y, o = com.microsoft.EmbedLayerNormalization <epsilon = 1e-5> (i, , w, p, , s, b, m, k)",
     {**EMBED, "m": KEEP[:, :4].copy(), "k": np.array([[5, 4, 3, 2]], np.int32)}),
]
# Dropouts of all kinds, and their gradient of what they read: where the mask is the right one it is what they gave.
DROPPED = {"x": X, "b": BIAS, "e": DY, "r!": np.float32(0.4), "t!": np.True_}
DROPOUTS = {
    "bias": "q = Add (x, b)\nd, m = com.microsoft.BiasDropout <seed = 5> (x, b, e, r, t)\nw = Sub (d, e)\n"
            "g = com.microsoft.DropoutGrad (q, m, r, t)",
    "bitmask": "q = Add (x, b)\nw, m = com.microsoft.BitmaskDropout (q, r, t)\n"
               "g = com.microsoft.BitmaskDropoutGrad (q, m, r, t)\n",
    "bitmask_bias": "q = Add (x, b)\nw, m = com.microsoft.BitmaskBiasDropout (x, b, , r, t)\n"
                    "g = com.microsoft.BitmaskDropoutGrad (q, m, r, t)\n",
    "softmax": "w, m, q = com.microsoft.BiasSoftmaxDropout <axis = 2> (x, b, r)\n"
               "g = com.microsoft.DropoutGrad (q, m, r, t)\n",
}


def dropouts():
    for name, nodes in DROPOUTS.items():
        yield (f"dropout_{name}", nodes + "\ny = Sub (w, g)", DROPPED, lambda x, *_: np.zeros(x.shape))
        yield (f"dropout_{name}_drops", nodes + """
v = Constant <value_float = 0.0> ()
c = Equal (w, v)
k = Cast <to = 1> (c)
h = ReduceMean <keepdims = 0> (k)
u = Constant <value_float = 0.15> ()
f = Greater (h, u)
y = Cast <to = 1> (f)""", DROPPED, lambda *_: np.ones(()))


# Gradients of a o b by way of BroadcastGradientArgs or DivGrad, for shapes of a and b; dims are numbers and then
# symbols.
BROADCASTS = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((2, 3, 1), (2, 3, 4)), ((1, 4), (1, 4)),
              ((), (2, 3)), ((2, 1), (1,))]
ADD_GRAD = """sa = Shape (a)
sb = Shape (b)
ia, ib = com.microsoft.BroadcastGradientArgs (sa, sb)
ra = ReduceSum <keepdims = 1, noop_with_empty_axes = 1> (dy, ia)
y = Reshape (ra, sa)
rb = ReduceSum <keepdims = 1, noop_with_empty_axes = 1> (dy, ib)
z = Reshape (rb, sb)"""


def sum_to(gradient, like):
    gradient = gradient.sum(tuple(range(gradient.ndim - like.ndim)))
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1)
    return gradient.sum(axes, keepdims=True)


def broadcasts():
    for k, (sa, sb) in enumerate(BROADCASTS):
        a, b = floats(*sa), floats(*sb) + 3
        dy = floats(*np.broadcast_shapes(sa, sb))
        for mark in "", "`":
            operands = {"a" + mark: a, "b" + mark: b, "dy" + mark: dy}
            yield f"add_grad_{k}{mark}", ADD_GRAD, operands, lambda a, b, dy: (sum_to(dy, a), sum_to(dy, b))
            yield (f"div_grad_{k}{mark}", "y, z = com.microsoft.DivGrad (dy, a, b)", operands,
                   lambda a, b, dy: (sum_to(dy / b, a), sum_to(-dy * a / b / b, b)))


def model_of(nodes, operands, opset):
    def declared(name, array):
        dims = [f"d{name[0]}{i}" if "`" in name else str(n) for i, n in enumerate(array.shape)]
        shape = f"[{','.join(dims)}]" if array.ndim else ""
        return f"{NAMES[array.dtype.name]}{shape} {name.removesuffix('`')}"

    inputs = ", ".join(declared(n, v) for n, v in operands.items() if "!" not in n)
    constants = [onnx.numpy_helper.from_array(v, n[:-1]) for n, v in operands.items() if "!" in n]
    results = re.findall(r"\w+", nodes.splitlines()[-1].split("=")[0])
    results = ["y", "z"] if "y = Reshape" in nodes else results
    model = onnx.parser.parse_model(HEADER % opset +
                                    f"g ({inputs}) => ({', '.join('float ' + r for r in results)}) {{ {nodes} }}")
    model.graph.initializer.extend(constants)
    for output in model.graph.output:
        output.ClearField("type")
        output.type.tensor_type.elem_type = INTEGERS.get(output.name, onnx.TensorProto.FLOAT)
    return model, results


def computed(model, operands):
    feeds = {n.rstrip("`"): np.asarray(v) for n, v in operands.items() if "!" not in n}
    return list(by_onnxruntime(model, feeds).values())


def check(tempoc, nodes, operands, meaning, opset=17):
    model, results = model_of(nodes, operands, opset)
    before, after = path("before.onnx"), path("after.onnx")
    onnx.save(model, before)
    want = meaning(*operands.values()) if meaning else computed(before, operands)
    want = want if isinstance(want, (list, tuple)) else [want]
    run(tempoc, before, "-o", after, "--passes=upgrade,shapes,bodies", "--verify-each", "-q")
    if any(n.domain not in ("", "ai.tempo") for n in onnx.load(after).graph.node):
        return "an op of another domain is left"
    for name, got, expected in zip(results, computed(after, operands), want):
        if not near(got, expected, TRAINING_OP, nan=True):
            return f"{name}: expected {np.ravel(expected)[:4]}, got {np.ravel(got)[:4]} of shape {got.shape}"
    return None


for title, *row in CASES + [(*row, None) for row in ATTENTIONS] + list(dropouts()) + list(broadcasts()):
    case(title, check, sys.argv[1], *row)
finish()
